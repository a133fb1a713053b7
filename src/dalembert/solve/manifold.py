"""Given points and first paths against holonomic constraints φ(q) = 0."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert.discretize.windows import Windows
from dalembert.solve.ends import Given
from dalembert.systems import InconsistentDataError
from dalembert.systems.variational import VariationalProblem, constraint_numbers, holonomic_constraints

ON = 1e-8  # largest |φ| of a given point that is taken as zero
PROJECTIONS = 20


def check_points(problem: VariationalProblem, w: Windows, given: Given, points: np.ndarray) -> None:
    """φ(q) = 0 at given positions, ∂φ/∂q v + ∂φ/∂t = 0 at given velocities; InconsistentDataError naming what is off."""
    if not constraint_numbers(problem, given.values.shape[1])[1]:
        return
    names = {0: "initial", len(w.t) - 1: "final"} | {int(i): f"through: the point at t = {w.t[i]:g}" for i in points}
    for slot in np.flatnonzero(given.fixed & (w.orders <= 1)):
        node, t = int(w.owners[slot]), w.t[w.owners[slot]]
        q = jnp.asarray(given.values[w.nodes[node]])
        name = names.get(node, f"node {node}")
        if w.orders[slot] == 0:
            off, what = holonomic_constraints(problem, q, t), "φ(q)"
        else:
            _, off = jax.jvp(
                lambda x, s: holonomic_constraints(problem, x, s), (q, t), (jnp.asarray(given.values[slot]), 1.0)
            )
            what = "dφ/dt = ∂φ/∂q v"
        if float(jnp.max(jnp.abs(off))) > ON * (1.0 + float(jnp.max(jnp.abs(q)))):
            raise InconsistentDataError(
                f"{name}: {what} = {np.asarray(off)} there, and not 0: it does not satisfy the holonomic constraints"
            )


def onto_constraints(problem: VariationalProblem, w: Windows, given: Given) -> np.ndarray:
    """The slots (slots, n) with every free position moved to a near point of φ = 0, and free velocities made tangent."""
    if not constraint_numbers(problem, given.values.shape[1])[1]:
        return given.values
    values = given.values.copy()
    free = ~given.fixed[w.nodes]
    moved = np.asarray(_project(problem, jnp.asarray(values[w.nodes]), jnp.asarray(w.t)))
    good = free & np.all(np.isfinite(moved), axis=1)
    values[w.nodes[good]] = moved[good]
    slots = np.flatnonzero((w.orders == 1) & ~given.fixed)
    if len(slots):
        owners = w.owners[slots]
        tangent = np.asarray(
            _tangent(problem, jnp.asarray(values[w.nodes[owners]]), jnp.asarray(values[slots]), jnp.asarray(w.t[owners]))
        )
        good = np.all(np.isfinite(tangent), axis=1)  # dependent constraints are named later
        values[slots[good]] = tangent[good]
    return values


@eqx.filter_jit
def _project(problem, q, t):
    def one(x, s):
        def step(_, y):
            phi, jac = holonomic_constraints(problem, y, s), jax.jacfwd(lambda z: holonomic_constraints(problem, z, s))(y)
            return y - jac.T @ jnp.linalg.solve(jac @ jac.T, phi)

        return jax.lax.fori_loop(0, PROJECTIONS, step, x)

    return jax.vmap(one)(q, t)


@eqx.filter_jit
def _tangent(problem, q, v, t):
    def one(x, u, s):
        _, off = jax.jvp(lambda y, r: holonomic_constraints(problem, y, r), (x, s), (u, jnp.ones(())))
        jac = jax.jacfwd(lambda z: holonomic_constraints(problem, z, s))(x)
        return u - jac.T @ jnp.linalg.solve(jac @ jac.T, off)

    return jax.vmap(one)(q, v, t)
