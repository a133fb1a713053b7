"""Newton's method, the numerical rank, banded systems and their inertia. Knows no mechanics."""

from dalembert.algebra.inertia import Inertia, inertia
from dalembert.algebra.jumps import agree, may_jump
from dalembert.algebra.least_norm import inverse, least_norm
from dalembert.algebra.newton import Newton, Solve, newton, root
from dalembert.algebra.rank import Rank, numerical_rank

__all__ = [
    "Inertia",
    "Newton",
    "Rank",
    "Solve",
    "agree",
    "inertia",
    "inverse",
    "least_norm",
    "may_jump",
    "newton",
    "numerical_rank",
    "root",
]
