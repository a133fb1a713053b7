"""Initial data of a motion of order k: do they satisfy the constraints, and do the equations determine what follows?"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra import numerical_rank
from dalembert.systems.checks import InconsistentDataError, RankDeficientError
from dalembert.systems.consistency import STEPS, STILL
from dalembert.systems.higher.euler_lagrange import constraint_rates, highest_matrix
from dalembert.systems.higher.variational import VariationalProblem
from dalembert.systems.sizes import allowed, units_of, with_inertia
from dalembert.tracing import seldom


def check_jets(problem: VariationalProblem, derivatives, t0, time: float, name: str) -> None:
    """φ and the derivatives of it which (q, …, q⁽²ᵏ⁻¹⁾) determine are zero. time: in which the motion goes its way."""
    values, slopes = (np.asarray(x) for x in _rates(problem, derivatives, t0))
    given = np.asarray(derivatives)
    limits = allowed(slopes.reshape(len(values), given.size), sizes_of(given, True, time).ravel(), given.ravel())
    if not np.all(np.abs(values) <= limits):
        raise InconsistentDataError(f"{name}: φ and its time derivatives must vanish; they are {values}")


@seldom
def _rates(problem: VariationalProblem, derivatives, t0):
    """The values (m,) and their derivatives (m, 2k, n) by what is given."""

    def values(x):
        return jnp.concatenate([jnp.zeros(0), *(jnp.ravel(y) for y in jax.tree.leaves(constraint_rates(problem, x, t0)))])

    return values(derivatives), jax.jacfwd(values)(derivatives)


def sizes_of(given: np.ndarray, jets: bool, time: float) -> np.ndarray:
    """Of each number given: how far positions move in `time`, over powers of it for derivatives; |q| where nothing moves."""
    orders = np.arange(len(given))[:, None] if jets else np.zeros((len(given), 1))
    moves = np.abs(given[1:]) * time ** orders[1:] if jets else STEPS * np.abs(np.diff(given, axis=0))
    reach = moves.max(axis=0, initial=0.0)
    still = np.max(reach) <= STILL * np.max(np.abs(given[0]))
    return with_inertia(np.abs(given[0]) if still else reach, np.ones(given.shape[1])) / time**orders


def check_regular(problem: VariationalProblem, derivatives, multipliers, t0, name: str = "jets") -> None:
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
        raise RankDeficientError(f"{name}: ∂²L/∂q⁽ᵏ⁾² is not finite at t0: {matrix[:n, :n]}")
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
