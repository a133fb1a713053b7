"""Given points and first paths against holonomic constraints φ(q) = 0."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra.least_norm import least_norm
from dalembert.boundary.data.boundary_data import FilledSlots
from dalembert.boundary.data.sizes import Sizes
from dalembert.discretize.windows import Windows
from dalembert.systems import InconsistentDataError
from dalembert.systems.higher.variational import VariationalProblem, holonomic_constraints
from dalembert.systems.sizes import allowed
from dalembert.tracing import seldom

PROJECTIONS = 20


def check_points(
    problem: VariationalProblem, w: Windows, slots: FilledSlots, points: np.ndarray, sizes: Sizes, origin: np.ndarray
) -> None:
    """φ(q) = 0 at given positions, ∂φ/∂q v + ∂φ/∂t = 0 at given velocities; InconsistentDataError naming what is off.

    slots: values (batch, slots, n), of which those that are fixed are given, positions counted from the origin.
    """
    if not problem.holonomic:
        return
    fixed, values = slots
    names = {0: "initial", len(w.t) - 1: "final"} | {int(i): f"through: the point at t = {w.t[i]:g}" for i in points}
    for slot in np.flatnonzero(fixed & (w.orders <= 1)):
        node, positions = int(w.owners[slot]), values[:, w.nodes[w.owners[slot]]]
        velocities = np.zeros_like(positions) if w.orders[slot] == 0 else values[:, slot]
        (position, rate), slopes = jax.tree.map(np.asarray, _values(problem, positions, velocities, w.t[node]))
        if w.orders[slot] == 0:
            offs, what, limits = position, "φ(q)", allowed(slopes, sizes.positions, origin + positions)
        else:
            speeds = np.maximum(np.abs(velocities), sizes.of(1))
            offs, what, limits = rate, "dφ/dt = ∂φ/∂q v", allowed(slopes, speeds, velocities)
        for off, limit in zip(offs, limits, strict=True):
            if not np.all(np.abs(off) <= limit):
                raise InconsistentDataError(
                    f"{names.get(node, f'node {node}')}: {what} = {off} there, and not 0: it does not satisfy the holonomic "
                    "constraints"
                )


def onto_constraints(problem: VariationalProblem, w: Windows, fixed: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The slots (batch, slots, n) with every free position moved to a near point of φ = 0, and free velocities tangent."""
    if not problem.holonomic:
        return values
    values = values.copy()
    moved = np.asarray(_project(problem, values[:, w.nodes], w.t))
    good = ~fixed[w.nodes] & np.all(np.isfinite(moved), axis=2)
    values[:, w.nodes] = np.where(good[:, :, None], moved, values[:, w.nodes])
    slots = np.flatnonzero((w.orders == 1) & ~fixed)
    if len(slots):
        owners = w.owners[slots]
        tangent = np.asarray(_tangent(problem, values[:, w.nodes[owners]], values[:, slots], w.t[owners]))
        good = np.all(np.isfinite(tangent), axis=2)  # dependent constraints are named later
        values[:, slots] = np.where(good[:, :, None], tangent, values[:, slots])
    return values


@seldom
def _values(problem, q, v, t):
    """φ and its rate, and ∂φ/∂q, for a batch of positions and velocities."""
    phi = lambda y, s: holonomic_constraints(problem, y, s)  # noqa: E731
    return jax.vmap(lambda x, u: (jax.jvp(phi, (x, t), (u, 1.0)), jax.jacfwd(phi)(x, t)))(q, v)


@seldom
def _project(problem, q, t):
    def one(x, s):
        def step(_, y):
            phi, jac = holonomic_constraints(problem, y, s), jax.jacfwd(lambda z: holonomic_constraints(problem, z, s))(y)
            return y - least_norm(jac, phi)

        return jax.lax.fori_loop(0, PROJECTIONS, step, x)

    return jax.vmap(lambda batch: jax.vmap(one)(batch, t))(jnp.asarray(q))


@seldom
def _tangent(problem, q, v, t):
    def one(x, u, s):
        _, off = jax.jvp(lambda y, r: holonomic_constraints(problem, y, r), (x, s), (u, jnp.ones(())))
        jac = jax.jacfwd(lambda z: holonomic_constraints(problem, z, s))(x)
        return u - least_norm(jac, off)

    return jax.vmap(lambda x, u: jax.vmap(one)(x, u, t))(jnp.asarray(q), jnp.asarray(v))
