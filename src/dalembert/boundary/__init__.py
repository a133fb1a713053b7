"""Boundary problems: windows stacked into a KKT system, its KKT equations solved by a globalised Newton method."""

from dalembert.boundary.batch import solve_batch
from dalembert.boundary.data.end_sets import On, Periodic
from dalembert.boundary.data.ends import Nodes
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.multistart import Extremals, multistart
from dalembert.boundary.solve import solve
from dalembert.boundary.spline import spline

__all__ = ["Extremals", "Free", "Nodes", "On", "Periodic", "multistart", "solve", "solve_batch", "spline"]
