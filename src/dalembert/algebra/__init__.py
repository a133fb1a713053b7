"""Newton's method, the numerical rank, banded systems and their inertia. Knows no mechanics."""

from dalembert.algebra.inertia import Inertia, inertia
from dalembert.algebra.jumps import agree, depends, may_jump
from dalembert.algebra.newton import Newton, Solve, newton, root
from dalembert.algebra.rank import Rank, numerical_rank

__all__ = [
    "Inertia",
    "Newton",
    "Rank",
    "Solve",
    "agree",
    "depends",
    "inertia",
    "may_jump",
    "newton",
    "numerical_rank",
    "root",
]
