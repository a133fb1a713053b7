"""Path and Study, the results of runs: arrays and statistics, and nothing that knows mechanics. Read `path` first."""

from dalembert.path.path import ClosedLoop, Path, Provenance, Statistics, StepError
from dalembert.path.path import check_path as check_path  # for other rooms
from dalembert.path.study import Study
from dalembert.path.study import tree_of_values as tree_of_values

__all__ = ["ClosedLoop", "Path", "Provenance", "Statistics", "StepError", "Study"]
