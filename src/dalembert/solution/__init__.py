"""Solutions of boundary problems: arrays and plain text, and nothing that knows mechanics. Read `critical_point` first."""

from dalembert.solution.bounds import ActiveBounds
from dalembert.solution.controlled import ControlSolution
from dalembert.solution.critical_point import CriticalPoint as CriticalPoint  # for other rooms
from dalembert.solution.error import SolveError
from dalembert.solution.final_time import FAR as FAR
from dalembert.solution.final_time import FinalTime
from dalembert.solution.refinement import Refinement
from dalembert.solution.solution import Solution
from dalembert.solution.statistics import BoundaryStatistics

__all__ = [
    "ActiveBounds", "BoundaryStatistics", "ControlSolution", "FinalTime", "Refinement", "Solution", "SolveError",
]  # fmt: skip
