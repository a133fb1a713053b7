"""Newton's method and the numerical rank. Knows no mechanics."""

from dalembert.algebra.newton import Newton, Solve, newton, root
from dalembert.algebra.rank import Rank, numerical_rank

__all__ = ["Newton", "Rank", "Solve", "newton", "numerical_rank", "root"]
