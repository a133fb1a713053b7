"""Whether the steps of a solution resolve the motion: the plant, integrated over single steps, ends near the next nodes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.algebra import inverse, value_and_jacobian
from dalembert.control.problem import OptimalControl, actuation
from dalembert.control.rows import RowFunction
from dalembert.solution import ControlSolution
from dalembert.systems.equations import kkt_residual, value

UNRESOLVED = 0.25  # of the path, by which an integrated step may end off the next node
PARTS = 4  # of a step that is integrated
SUSPICIOUS = 0.05  # of the path: where a step integrated in one part ends nearer the next node, it is resolved


def unresolved(accelerations: RowFunction, found: ControlSolution, sizes: Float[np.ndarray, "n"]) -> str:
    """What to say where the plant, integrated over single steps, ends far from the nodes; otherwise "". See
    `step/run/assemble`."""
    h = np.diff(found.t)
    moves = np.maximum(sizes, np.ptp(found.q, axis=0))

    def distances(parts: int) -> np.ndarray:
        ends = integrate_steps(accelerations, found.q[:-1], found.v[:-1], found.u[:-1], found.u[1:], found.t[:-1], h, parts)
        return (np.abs(ends - found.q[1:]) / moves).max(axis=1)

    if np.all(distances(1) < SUSPICIOUS):  # a quarter of the time of all parts
        return ""
    off = distances(PARTS)
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
    (steps, n), r = q.shape, u0.shape[1]
    state, part = np.stack([q, v], axis=1), h[:, None, None] / parts
    rows = np.empty((steps, 2 * n + r + 1))

    def slope(y: np.ndarray, s: float) -> np.ndarray:
        """ẏ at the share s of the step."""
        rows[:, : 2 * n], rows[:, 2 * n : -1], rows[:, -1] = y.reshape(steps, -1), u0 + s * (u1 - u0), t + s * h
        return np.stack([y[:, 1], accelerations(rows)], axis=1)

    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(parts):
            k1 = slope(state, i / parts)
            k2 = slope(state + 0.5 * part * k1, (i + 0.5) / parts)
            k3 = slope(state + 0.5 * part * k2, (i + 0.5) / parts)
            state = state + part / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + slope(state + part * k3, (i + 1.0) / parts))
    return state[:, 0]


def acceleration(problem: OptimalControl, n: int, row):
    """a of a row (q, v, u, t)."""
    system, (q, v, u, t) = problem.system, (row[:n], row[n : 2 * n], row[2 * n : -1], row[-1])
    push = actuation(problem, q, t) @ u
    balance = lambda z: kkt_residual(system, q, v, t, z).at[:n].add(-push)  # noqa: E731, linear in z
    zero = jnp.zeros(n + sum(value(system, c, q, v, v, t).shape[0] for c in system.constraints))
    left, matrix = value_and_jacobian(balance, zero)
    return -(inverse(matrix) @ left)[:n]
