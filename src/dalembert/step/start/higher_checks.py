"""Errors in the initial data of the flow of a variational problem, and problems that have no flow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import numerical_rank
from dalembert.discretize.higher import node_defects
from dalembert.discretize.windows import WindowMap
from dalembert.numbers import as_array
from dalembert.step.programs.higher import HigherProgram
from dalembert.systems import VariationalProblem
from dalembert.systems.checks import InconsistentDataError, RankDeficientError
from dalembert.systems.consistency import STEPS
from dalembert.systems.higher.data import sizes_of
from dalembert.systems.higher.euler_lagrange import constraint_rates
from dalembert.systems.sizes import allowed, units_of
from dalembert.tracing import seldom


def as_rows(value, name: str, rows: int) -> Float[Array, "rows n"]:
    """`value` as a float array (rows, n), finite."""
    array = as_array(value, name)
    if array.ndim != 2 or array.shape[0] != rows or array.shape[1] == 0:
        what = f"q and its first {rows - 1} derivatives" if name == "jets" else f"the first {rows} nodes"
        raise ValueError(f"{name}: found shape {array.shape}; give {what}, shape ({rows}, n)")
    return array


def as_multipliers(value, order: int, m: int) -> Float[Array, "r m"]:
    """The multipliers that are initial data, finite; order: r, of the constraints."""
    if value is None and m:
        raise ValueError(
            f"multipliers: are missing; with {m} differential constraints of order {order} λ is free initial data: give "
            f"({order}, {m}), λ and its first {order - 1} derivatives with jets, λ of the {order} windows that lie across "
            "the middle of the nodes with nodes"
        )
    array = jnp.zeros((order, 0)) if value is None else as_array(value, "multipliers")
    if array.shape != (order, m):
        raise ValueError(
            f"multipliers: found shape {array.shape}; {order} rows of m = {m} numbers, shape {(order, m)}, are needed: the "
            f"constraints have the order {order}, and further derivatives of λ follow from the equations"
        )
    return array


def check_consistent(problem: VariationalProblem, scheme: WindowMap, given, jets: bool, h, t0) -> None:
    """φ and the derivatives of it which jets determine are zero; φ at all nodes and Φ_d at their windows, M̃_d."""
    what = "φ and its time derivatives must vanish" if jets else "φ at the nodes and Φ_d at their windows must vanish"
    values, slopes = (np.asarray(x) for x in _restrictions(problem, scheme, given, jets, h, t0))
    sizes = sizes_of(np.asarray(given), jets, STEPS * abs(float(h)))
    limits = allowed(slopes.reshape(len(values), given.size), sizes.ravel(), np.asarray(given).ravel())
    if not np.all(np.abs(values) <= limits):
        raise InconsistentDataError(f"{'jets' if jets else 'nodes'}: {what}; they are {values}")


@seldom
def _restrictions(problem: VariationalProblem, scheme: WindowMap, given, jets: bool, h, t0):
    """The values (m,) and their derivatives (m, 2k, n) by what is given."""

    def values(x):
        left = constraint_rates(problem, x, t0) if jets else node_defects(problem, scheme, x, h, t0)
        return jnp.concatenate([jnp.zeros(0), *(jnp.ravel(y) for y in jax.tree.leaves(left))])

    return values(given), jax.jacfwd(values)(given)


def first_matrix(program: HigherProgram, q, s, z, t, h) -> np.ndarray:
    """The matrix of Proposition 3.2 at the first window, regular."""
    if not np.all(np.isfinite(np.asarray(z))):
        raise RankDeficientError("jets: the first windows could not be solved from these derivatives; reduce h")
    matrix = np.asarray(_matrix(program, q, s, z, t, h))
    if not (found := numerical_rank(matrix * units_of(matrix, len(q)), 1e-13)).full:
        raise RankDeficientError(
            f"lagrangian: the matrix [[D₁D_{{k+1}}L̃_d, D₁Φᵀ], [D_{{k+1}}Φ, 0]] of the first step, "
            f"{matrix.shape[0]} rows, has rank "
            f"{found.rank}: the flow does not exist at these data"
        )
    return matrix


@seldom
def _matrix(program: HigherProgram, q, s, z, t, h):
    return jax.jacfwd(lambda x: program.residual(x, q, s, t, h, jnp.zeros_like(q)))(z)
