"""Boundary problems: windows stacked into a chain, its KKT equations solved by a globalised Newton method."""

from dalembert.solve.boundary import solve
from dalembert.solve.ends import Nodes
from dalembert.solve.many import Extremals, multistart, solve_batch
from dalembert.solve.splines import spline

__all__ = ["Extremals", "Nodes", "multistart", "solve", "solve_batch", "spline"]
