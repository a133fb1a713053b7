"""(a, λ) of the continuous equations, as formulas that every back-end can trace: without a loop that ends by itself."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.systems import System
from dalembert.systems.equations import kkt_residual

_ITERATIONS = 3  # for multipliers whose equations are not affine, from an error of O(h) that is squared each time


def motion_from(
    system: System, q: Float[Array, "n"], v: Float[Array, "n"], t, start: Float[Array, "n_plus_m"], held_force
) -> Float[Array, "n_plus_m"]:
    """(a, λ) with d/dt L_v - L_q = f + held_force + Rᵀλ and the constraints reduced to order 2, by Newton's method from
    `start`: exact where the equations are affine, three iterations where φ(q, v, a) or R(q, v, a) is not."""
    equations = lambda y: kkt_residual(system, q, v, t, y).at[: q.shape[0]].add(-held_force)  # noqa: E731
    second = any(c.order == 2 and not c.is_control for c in system.constraints)
    for _ in range(_ITERATIONS if second else 1):
        left, jacobian = value_and_jacobian(equations, start)
        start = start - jnp.linalg.solve(jacobian, left)
    return start
