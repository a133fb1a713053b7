"""From the end of an iteration to a Solution."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.discretize.windows import WindowMap, Windows
from dalembert.path import Outcome
from dalembert.solution import BoundaryStatistics, Solution
from dalembert.solve.certify import inertia_of
from dalembert.solve.linear import Linear
from dalembert.solve.newton import End, Iterate
from dalembert.solve.transcription import Transcription

OUTCOMES = {
    End.CONVERGED: Outcome.SUCCESS, End.SINGULAR: Outcome.SINGULAR, End.NOT_CONVERGED: Outcome.NOT_CONVERGED,
    End.NOT_FINITE: Outcome.NOT_FINITE, End.INFEASIBLE: Outcome.INFEASIBLE,
}  # fmt: skip


def solution_of(made: Transcription, it: Iterate, scheme: WindowMap, linear: Linear, certify: bool) -> Solution:
    """The end of an iteration as a Solution; certify: with its kind and the condition of its equations."""
    chain, layout, w, z = made.chain, made.layout, made.windows, it.z
    band = chain.matrix(z)
    rows = chain.from_rows(np.max(np.abs(band), axis=2))
    negative, flat = inertia_of(chain, band) if certify and it.end is End.CONVERGED else (-1, -1)
    condition = linear.condition(band) if certify else np.nan
    slots = z[:, layout.part("slots")].reshape(-1, layout.n)
    raw = chain.raw_gradient(z)[:, layout.part("slots")].reshape(-1, layout.n)
    own, m, holonomic = made.carriers, layout.m, layout.holonomic
    residual = np.max(np.abs(it.at.gradient) / np.where(rows > 0, rows, 1.0))
    numbers = (
        it.iterations, it.factorizations, it.restorations, it.update, residual, it.at.violation, it.shift, condition,
    )  # fmt: skip
    statistics = BoundaryStatistics(*(jnp.asarray(x) for x in numbers))
    values: Any = {
        "t": w.t, "q": slots[w.nodes], "v": _velocities(w, slots), "t_multipliers": w.times.ravel(), "jets": made.jets(z),
        "multipliers": z[own, layout.part("multipliers")].reshape(w.times.size, m),
        "holonomic_multipliers": _holonomic(w, z[:, layout.part("holonomic")].reshape(len(w.orders), holonomic)),
        "momenta_initial": _momenta(w, raw, 0, -1.0, layout.k),
        "momenta_final": _momenta(w, raw, len(w.t) - 1, 1.0, layout.k),
        "action": it.at.objective, "negative_directions": negative, "flat_directions": flat, "code": int(OUTCOMES[it.end]),
    }  # fmt: skip
    return Solution(**jax.tree.map(jnp.asarray, values), statistics=statistics, scheme=scheme.name)


def _momenta(w: Windows, gradient: np.ndarray, node: int, sign: float, k: int):
    """p⁽ʲ⁾ = ∓ ∂(Σ L̃_d)/∂q⁽ʲ⁾ at an end that holds its derivatives."""
    run = np.flatnonzero(w.owners == node)
    return None if len(run) < k else sign * gradient[run[np.argsort(w.orders[run])]]


def _holonomic(w: Windows, multipliers: np.ndarray) -> np.ndarray:
    """μ of L + μᵀφ at the nodes, (N+1, mh), or of L_d + μᵀφ for `Points`.

    φ enters the iteration with the same weight at all nodes; here it has half of the steps beside it.
    """
    steps = np.diff(w.t)
    own = 0.5 * (np.append(steps, 0.0) + np.append(0.0, steps)) if w.differenced else np.ones(len(w.t))
    return multipliers[w.nodes] * (w.weights.sum() / len(w.nodes) / own)[:, None]


def _velocities(w: Windows, slots: np.ndarray) -> np.ndarray:
    """Velocities at the nodes: the unknowns where they are unknowns, otherwise second order differences."""
    q = slots[w.nodes]
    v = np.gradient(q, w.t, axis=0, edge_order=2) if len(w.t) > 2 else np.gradient(q, w.t, axis=0)
    held = w.orders == 1
    v[w.owners[held]] = slots[held]
    return v
