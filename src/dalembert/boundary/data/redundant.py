"""What is given at one end and follows from the other: constraints that fix a function of the ends.

Their equations are dependent: with the multipliers y of the function Aᵀy = 0 on all that is free, exactly or to the order of
the scheme. Of what is given as many components are left out as there are such functions, and the solution has to meet them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.integrals import Curve, find_integrals
from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.transcription import Transcription, slot_jets
from dalembert.systems import InconsistentDataError
from dalembert.systems.higher.variational import (
    VariationalProblem,
    differential_constraints,
    holonomic_constraints,
    orders_of,
)
from dalembert.tracing import seldom

KEPT = 0.05  # Aᵀy on what is free, relative to what is given; what is less is an error of the discretization
RELAX, ITERATIONS = 1e-12, 4
MET = 1e-6  # distance of a component from what is given, relative to its size


def redundant(
    problem: VariationalProblem, made: Transcription, q: Float[np.ndarray, "N+1 n"]
) -> Bool[np.ndarray, "slots n"] | None:
    """Components of what is given that follow from the others, or None; q: a path, for its size."""
    w, slots, size = made.windows, made.layout.part("slots"), made.positions
    order = max(orders_of(problem, made.layout.n))
    found = find_integrals(w.t, q / size, order, linearised(problem, size))
    if found is None:
        return None
    z = _on_curve(made, found.curve)
    inner = np.count_nonzero(made.kkt.fixed[:, slots].reshape(len(w.orders), -1)[w.nodes[1:-1]].all(axis=1))
    weights = made.kkt.units.copy()
    weights[~made.kkt.fixed] *= np.sqrt(len(z))  # forces, per time; what is given has momenta
    plain, primal = made.kkt.raw_gradient(z), made.kkt.primal
    columns = [
        ((made.kkt.raw_gradient(z + y) - plain) * weights * primal).ravel()
        for y in _dependent(made, z, found.multipliers.shape[1] * (1 + inner))
    ]
    left_out = _left_out(np.stack(columns, axis=1), made.kkt.fixed.ravel())
    return None if left_out is None else left_out.reshape(z.shape)[:, slots].reshape(len(w.orders), -1)


def _left_out(matrix: np.ndarray, fixed: np.ndarray) -> np.ndarray | None:
    """Rows of what is fixed, as many as combinations of columns vanish on what is free."""
    from scipy.linalg import qr  # slow to load

    _, upper = np.linalg.qr(matrix)
    scaled = np.linalg.solve(upper.T, matrix.T).T
    _, values, right = np.linalg.svd(scaled[~fixed], full_matrices=False)
    null = right[values < KEPT]
    if not len(null):
        return None
    given = np.flatnonzero(fixed)
    later = 1.0 + np.arange(len(given)) / len(given)  # of two components that do as well the one at the end
    pivots = qr((scaled[given] @ null.T * later[:, None]).T, pivoting=True, mode="economic")[-1]
    out = np.zeros(len(fixed), dtype=bool)
    out[given[pivots[: len(null)]]] = True
    return out


def check_met(
    made: Transcription, left_out: Bool[np.ndarray, "slots n"], z: np.ndarray, given: Float[np.ndarray, "slots n"]
) -> None:
    """InconsistentDataError naming a component that was left out and that the solution z does not meet."""
    w = made.windows
    slots, size = (x[:, made.layout.part("slots")].reshape(given.shape) for x in (z, made.kkt.units))
    for slot, i in np.argwhere(left_out):
        if not abs(slots[slot, i] - given[slot, i]) <= MET * (size[slot, i] + abs(slots[slot, i])):
            node = int(w.owners[slot])
            where = {0: "initial", len(w.t) - 1: "final"}.get(node, f"through: the point at t = {w.t[node]:g}")
            raise InconsistentDataError(
                f"{where}: component {i} of derivative {w.orders[slot]} is {given[slot, i]:.9g}, where the constraints and "
                f"the other given data lead to {slots[slot, i]:.9g}: a constraint fixes a function of what both ends give. "
                "Correct the data, or leave a component free. If they agree, the discrete constraint keeps the function to "
                "the order of the scheme only: give the function itself, as Holonomic(…) or a constraint of lower order"
            )


def linearised(problem: VariationalProblem, size: Float[np.ndarray, "n"]) -> Callable:
    """φ and its slopes, for positions in units of their sizes."""

    def call(jets, times):
        values, slopes = _slopes(problem, jnp.asarray(jets * size), jnp.asarray(times))
        return np.asarray(values), np.asarray(slopes) * size

    return call


@seldom
def _slopes(problem: VariationalProblem, jets, times):
    """φ of all constraints and its derivatives by the jet."""

    def one(jet, t):
        def phi(x):
            return jnp.concatenate([holonomic_constraints(problem, x[0], t), differential_constraints(problem, tuple(x), t)])

        return phi(jet), jax.jacfwd(phi)(jet)

    return jax.vmap(one)(jets, times)


def _dependent(made: Transcription, z: np.ndarray, count: int) -> list[np.ndarray]:
    """Multipliers y (blocks, b) with the smallest Aᵀy: inverse iteration with A W⁻¹ Aᵀ + δ."""
    kkt = made.kkt
    multipliers = (~kkt.fixed & ~kkt.primal).ravel()
    factors = LinearSolver(kkt, z).factor(z, 1.0, RELAX, plain=True)
    found, units = np.random.default_rng(0).standard_normal((z.size, count)) * multipliers[:, None], kkt.units
    for _ in range(ITERATIONS):
        solved = [(factors.solve(column.reshape(z.shape) / units) / units).ravel() * multipliers for column in found.T]
        found, _ = np.linalg.qr(np.stack(solved, axis=1))
    return [column.reshape(z.shape) * units for column in found.T]


def _on_curve(made: Transcription, curve: Curve) -> np.ndarray:
    """The slots of a curve, and the highest derivatives as these have them; all multipliers zero."""
    w, layout = made.windows, made.layout
    z, rates = np.zeros(made.kkt.fixed.shape), [curve.jets[:, 0]]
    for _ in range(int(w.orders.max())):
        rates.append(curve.derive @ rates[-1])
    slots = made.positions * curve.at(w.t, np.stack(rates, axis=1))[w.owners, w.orders]
    z[:, layout.part("slots")] = slots.reshape(len(z), -1)
    if layout.carried:
        jets = slot_jets(w, slots)
        z[made.carriers, layout.part("highest")] = jets[:, -1].reshape(len(w.times), -1)
    return z
