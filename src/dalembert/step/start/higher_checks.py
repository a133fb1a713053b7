"""Errors in the initial data of the flow of a variational problem, and problems that have no flow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import numerical_rank
from dalembert.discretize.higher import node_defects
from dalembert.discretize.window_maps import WindowMap
from dalembert.numbers import as_array
from dalembert.step.programs.higher import HigherProgram
from dalembert.systems import VariationalProblem
from dalembert.systems.checks import InconsistentDataError, RankDeficientError
from dalembert.systems.consistency import STEPS, STILL
from dalembert.systems.higher.ostrogradsky import constraint_rates, highest_matrix
from dalembert.systems.sizes import allowed, units_of, with_inertia
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
    sizes = _sizes(np.asarray(given), jets, STEPS * abs(float(h)))
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


def _sizes(given: np.ndarray, jets: bool, time: float) -> np.ndarray:
    """Of each number given: how far positions move in `time`, over powers of it for derivatives; |q| where nothing moves."""
    orders = np.arange(len(given))[:, None] if jets else np.zeros((len(given), 1))
    moves = np.abs(given[1:]) * time ** orders[1:] if jets else STEPS * np.abs(np.diff(given, axis=0))
    reach = moves.max(axis=0, initial=0.0)
    still = np.max(reach) <= STILL * np.max(np.abs(given[0]))
    return with_inertia(np.abs(given[0]) if still else reach, np.ones(given.shape[1])) / time**orders


def check_regular(problem: VariationalProblem, derivatives, multipliers, t0) -> None:
    """[[∂²L̃/∂q⁽ᵏ⁾², φ_highestᵀ], [φ_highest, 0]] is regular: L̃ and the constraints determine q⁽ᵏ⁾ and the multipliers."""
    n, k = derivatives.shape[1], problem.derivatives
    matrix = np.asarray(highest_matrix(problem, derivatives, multipliers, t0))
    rows = matrix[n:, :n]
    if rows.shape[0] and not (found := numerical_rank(rows)).full:
        raise RankDeficientError(
            f"constraints: the {rows.shape[0]} gradients with respect to the highest derivatives have rank "
            f"{found.rank} at t0: equations "
            f"{list(found.dependent_rows)} depend on the others"
        )
    if not np.all(np.isfinite(matrix)):
        raise RankDeficientError(f"jets: ∂²L/∂q⁽ᵏ⁾² is not finite at t0: {matrix[:n, :n]}")
    if (found := numerical_rank(matrix * units_of(matrix, n))).full:
        return
    if not np.any(matrix[:n, :n]):
        raise RankDeficientError(
            f"lagrangian: singular Lagrangian: ∂²L/∂q⁽ᵏ⁾² = 0 for k = {k}, L does not depend on its highest "
            f"derivative or is linear "
            f"in it, and the constraints do not determine it. Lower derivatives={k}, or use a regular L"
        )
    raise RankDeficientError(
        f"lagrangian: singular Lagrangian: ∂²L/∂q⁽ᵏ⁾² with the constraints' gradients, {matrix.shape[0]} rows, has rank "
        f"{found.rank} at t0, so that q⁽{k}⁾ is not determined"
    )


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
