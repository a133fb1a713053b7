"""Newton's method, the numerical rank, banded systems and their inertia. Knows no mechanics."""

from dalembert.algebra.banded import Inertia, inertia
from dalembert.algebra.dense import Rank, numerical_rank
from dalembert.algebra.roots import Newton, Solve, agree, depends, may_jump, newton, root

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
