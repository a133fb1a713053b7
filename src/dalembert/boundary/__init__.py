"""Boundary problems: windows stacked into a KKT system, its KKT equations solved by a globalised Newton method."""

from dalembert.boundary.batch import solve_batch
from dalembert.boundary.data.end_sets import On, Periodic
from dalembert.boundary.data.ends import Nodes
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.solver import solve
from dalembert.boundary.splines import spline
from dalembert.boundary.starts import Extremals, multistart

__all__ = ["Extremals", "Free", "Nodes", "On", "Periodic", "multistart", "solve", "solve_batch", "spline"]
