"""Typical sizes of an optimal control problem: of positions, forces, controls, reactions, constraints and the cost.

With sizes s of positions and the time T forces have the size φ = max(|L_q + f|, |∂²L/∂v²| s/T²), a control the size that
makes such forces, u = min_i φ_i/|B_ia|, and the cost the size σ = max |∂²C/∂u²| u². What is small is small against these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.control.problem import OptimalControl, actuation
from dalembert.systems.equations import all_reactions, force, value
from dalembert.systems.sizes import with_inertia
from dalembert.tracing import seldom

SAMPLES = 7
APART = 0.1  # how far from the first path the other sample points are, in typical sizes
SINGULAR = 1e-10


class Sampled(NamedTuple):
    """At sample points of the first path: ∂²L/∂v², L_q + f, B, R, ∂²C/∂u², |∂φ/∂q|, |∂φ/∂v| of the constraints, and
    C."""

    mass: Any
    forces: Any
    actuation: Any
    reactions: Any
    curvature: Any
    by_position: Any
    by_velocity: Any
    cost: Any


class ControlSizes(NamedTuple):
    """positions: s (n,). inertia: |∂²L/∂v²| (n,). time: T. forces: φ (n,). controls: u (r,). reactions: ν (m,).
    constraints: γ (m,). cost: σ. values: those of path inequalities."""

    positions: Float[np.ndarray, "n"]
    inertia: Float[np.ndarray, "n"]
    time: float
    forces: Float[np.ndarray, "n"]
    controls: Float[np.ndarray, "r"]
    reactions: Float[np.ndarray, "m"]
    constraints: Float[np.ndarray, "m"]
    cost: float
    values: Float[np.ndarray, "watched"]


@seldom
def _sampled(problem: OptimalControl, q, v, u, t) -> Sampled:
    system = problem.system

    def one(q, v, u, t):
        call = lambda x, w: system.call(system.lagrangian, x, w, t=t)  # noqa: E731
        phi = lambda x, w: jnp.concatenate(  # noqa: E731
            [jnp.zeros(0), *(value(system, c, x, w, w, t) for c in system.constraints)]
        )
        cost = lambda x: system.call(problem.cost, q, v, x, t=t)  # noqa: E731
        return Sampled(
            jax.hessian(call, 1)(q, v), jax.grad(call)(q, v) + force(system, q, v, t), actuation(problem, q, t),
            all_reactions(system, q, v, jnp.zeros_like(v), t), jax.hessian(cost)(u),
            jax.jacfwd(phi, 0)(q, v), jax.jacfwd(phi, 1)(q, v), cost(jnp.zeros_like(u)),
        )  # fmt: skip

    return jax.vmap(one)(q, v, u, t)


def sampled(problem: OptimalControl, q, v, r: int, t) -> Sampled:
    """At some nodes of a path q, v (N+1, n), and a little beside it."""
    chosen = np.unique(np.linspace(0, len(t) - 1, SAMPLES).astype(int))
    random, shape = np.random.default_rng(0), (len(chosen), q.shape[1])
    spread = APART * np.ptp(q, axis=0)
    apart = random.standard_normal(shape) * spread, random.standard_normal(shape) * spread / np.ptp(t)
    u = random.standard_normal((len(chosen), r))
    found = _sampled(problem, q[chosen] + apart[0], v[chosen] + apart[1], u, t[chosen])
    return jax.tree.map(np.asarray, found)


def control_sizes(
    found: Sampled, extents: Float[np.ndarray, "n"], told: Bool[np.ndarray, "n"], time: float, timed: bool
) -> ControlSizes:
    """From medians over the sample points; 1 where nothing tells. told: which extents are known; of the others the least is
    that of equal energy, s_j = max_i(s_i √M_i)/√M_j. timed: with a free T the cost is at least that without controls."""
    middle = Sampled(*(_median(x) for x in found))
    inertia = np.diagonal(middle.mass)
    s = _positive(with_inertia(np.where(told, extents, with_inertia(extents, inertia, 1.0)), inertia))
    forces = np.maximum(middle.forces, inertia * s / time**2)
    forces = np.where(forces > 0.0, forces, _positive(np.max(forces)))
    u, reactions = (_reach(forces, x) for x in (middle.actuation, middle.reactions.T))
    constraints = _positive(np.max(np.maximum(middle.by_position * s, middle.by_velocity * s / time), axis=1, initial=0.0))
    cost = float(_positive(np.max(np.diagonal(middle.curvature) * u**2, initial=middle.cost if timed else 0.0)))
    return ControlSizes(s, inertia, time, forces, u, reactions, constraints, cost, np.zeros(0))


def check_controls(found: Sampled, bounded: Bool[np.ndarray, "r"], minimum: bool) -> None:
    """ValueError where nothing determines a control: ∂²C/∂u² singular at every sample point along one without bounds on both
    sides; or negative, where a minimum is sought."""
    curvature = found.curvature
    if not np.all(np.isfinite(curvature)):
        raise ValueError("cost: its second derivatives by u are not finite near the first path; write u @ u and not a norm")
    scale = np.sqrt(np.abs(np.diagonal(curvature, axis1=1, axis2=2)))
    scaled = curvature / np.where(scale > 0.0, scale, 1.0)[:, :, None] / np.where(scale > 0.0, scale, 1.0)[:, None, :]
    own = np.ix_(*[np.flatnonzero(~bounded)] * 2)
    if minimum and not bounded.all() and all(np.linalg.eigvalsh(x[own]).min() < -SINGULAR for x in scaled):
        values, directions = np.linalg.eigh(scaled[0][own])
        falling = np.abs(directions[:, values < -SINGULAR]).max(axis=1) > 0.1
        which = ", ".join(f"u[{i}]" for i in np.flatnonzero(~bounded)[falling])
        raise ValueError(
            f"cost: has no minimum: ∂²C/∂u² is negative along {which}, so that it falls without end. Look at its sign, give "
            "bounds on both sides, or seek='extremal'"
        )
    smallest = np.abs(np.linalg.eigvalsh(scaled)).min(axis=1)
    if smallest.max() < SINGULAR:
        flat = np.linalg.eigh(scaled[0])[1][:, np.argmin(np.abs(np.linalg.eigvalsh(scaled[0])))]
        free = [i for i, w in enumerate(flat) if abs(w) > 0.1 and not bounded[i]]
        if not free:
            return
        which = ", ".join(f"u[{i}]" for i in free)
        raise ValueError(
            f"cost: is singular: ∂²C/∂u² vanishes along {which}, so that nothing determines it. Add a small cost of it, "
            "such as 1e-3 * u @ u, or bounds on both sides"
        )


def _median(x: np.ndarray) -> np.ndarray:
    ordered = np.sort(np.where(np.isfinite(x), np.abs(x), 0.0), axis=0)
    return ordered[len(ordered) // 2]


def _reach(forces: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """How large what acts through every column (n, r) is when it makes the forces (n,)."""
    with np.errstate(divide="ignore"):
        found = np.min(np.where(columns > 0.0, forces[:, None] / columns, np.inf), axis=0, initial=np.inf)
    return _positive(found)


def _positive(x):
    return np.where(np.isfinite(x) & (np.asarray(x) > 0.0), x, 1.0)[()]
