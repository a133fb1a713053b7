"""Whether the steps of a solution resolve the motion: the plant, integrated over single steps, ends near the next nodes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.algebra import inverse, value_and_jacobian
from dalembert.control.problem import OptimalControl, actuation
from dalembert.control.rows import RowFunction
from dalembert.solution import ControlSolution
from dalembert.systems.equations import kkt_residual

UNRESOLVED = 0.25  # of the path, by which an integrated step may end off the next node
PARTS = 4  # of a step that is integrated
SUSPICIOUS = 0.05  # of the path: where a step integrated in one part ends nearer the next node, it is resolved


def unresolved(accelerations: RowFunction, found: ControlSolution, sizes: Float[np.ndarray, "n"]) -> str:
    """What to say where the plant, integrated over single steps, ends far from the nodes; otherwise "". See
    `step/run/assemble`."""
    h, space = np.diff(found.t), accelerations.problem.system.space
    moves = np.maximum(sizes, space.extent(found.q)[1])

    def distances(parts: int) -> np.ndarray:
        ends = integrate_steps(accelerations, found.q[:-1], found.v[:-1], found.u[:-1], found.u[1:], found.t[:-1], h, parts)
        return np.abs(space.differences(found.q[1:], ends)) / moves

    if np.all(distances(1) < SUSPICIOUS):  # a quarter of the time of all parts
        return ""
    off = distances(PARTS).max(axis=1)
    if not np.any(off > UNRESOLVED):
        return ""
    k = int(np.nanargmax(off))
    return (
        f"steps: found {len(h)}; the plant, integrated over step {k} with the controls of its ends, is off by "
        f"{100 * off[k]:.0f} % of the path. The solution solves the discrete equations, but its steps do not "
        "resolve the motion: use more steps"
    )


def integrate_steps(accelerations: RowFunction, q, v, u0, u1, t, h, parts: int) -> Float[np.ndarray, "steps n"]:
    """q at the ends of steps, by Runge and Kutta's method over parts of each, with u linear."""
    size, space = q.shape[1], accelerations.problem.system.space
    state, part = np.concatenate([q, v], axis=1), h[:, None] / parts
    width = state.shape[1]
    rows = np.empty((len(q), width + u0.shape[1] + 1))

    def slope(y: np.ndarray, s: float) -> np.ndarray:
        """ẏ at the share s of the step."""
        rows[:, :width], rows[:, width:-1], rows[:, -1] = y, u0 + s * (u1 - u0), t + s * h
        return np.concatenate([space.rates(y[:, :size], y[:, size:]), accelerations(rows)], axis=1)

    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(parts):
            k1 = slope(state, i / parts)
            k2 = slope(state + 0.5 * part * k1, (i + 0.5) / parts)
            k3 = slope(state + 0.5 * part * k2, (i + 0.5) / parts)
            state = state + part / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(state + part * k3, (i + 1.0) / parts))
    return state[:, :size]


def acceleration(problem: OptimalControl, n: int, row):
    """a of a row (q, v, u, t)."""
    system, t = problem.system, row[-1]
    q, v, u = jnp.split(row[:-1], np.cumsum([system.space.stored_size(n), n]))
    push = actuation(problem, q, t) @ u
    balance = lambda z: kkt_residual(system, q, v, t, z).at[:n].add(-push)  # noqa: E731, linear in z
    zero = jnp.zeros(n + sum(c.residual(system, q, v, v, t).shape[0] for c in system.constraints))
    left, matrix = value_and_jacobian(balance, zero)
    return -(inverse(matrix) @ left)[:n]
