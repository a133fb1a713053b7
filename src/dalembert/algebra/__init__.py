"""Newton's method, the numerical rank, banded systems and their inertia. Knows no mechanics."""

from dalembert.algebra.banded import BandedLU, EntrySizes, Inertia, condition, inertia, one_blas_thread
from dalembert.algebra.dense import SINGULAR_PIVOT, Pivots, Rank, choose_pivots, inverse, least_norm, numerical_rank
from dalembert.algebra.jacobian import left_to_the_reader, spelled_out, value_and_jacobian
from dalembert.algebra.ode import GAUSS_NODES, GAUSS_WEIGHTS, integrate
from dalembert.algebra.roots import DIVERGING, Newton, Solve, agree, depends, implicit, may_jump, newton, root

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
