"""The nearest (q, v) on φ(q, t) = 0, dφ/dt = 0, φ(q, v, t) = 0, for steps of an integration, which end near there.

    q ← q - M⁻¹J₀ᵀ(J₀M⁻¹J₀ᵀ)⁻¹φ(q, t),   then   v ← v - M⁻¹Jᵀ(JM⁻¹Jᵀ)⁻¹ψ(q, v, t),

J₀ the rows ∂φ/∂q of holonomic constraints, J those and ∂φ/∂v of nonholonomic ones, ψ their dφ/dt and φ. M is the mass matrix
∂²L/∂v²: the change of v is an impulse along the rows, so that it changes neither the momentum of a symmetry that the
constraints have nor, where they are linear in v, the energy but by the square of the change; and it is the same in all
coordinates. Where M is not positive definite its diagonal |∂²L/∂v_j²| takes its place. So JM⁻¹Jᵀ is regular wherever (a, λ)
are determined, and a change is at most as large, in that measure, as the error of the step.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.systems.equations import first_derivative, value
from dalembert.systems.system import System


def restricts(system: System, orders: tuple[int, ...] = (0, 1)) -> bool:
    """Whether some constraint is of these orders: those of accelerations do not restrict (q, v)."""
    return any(c.order in orders for c in system.constraints)


def restriction(system: System, q, v, t) -> tuple[Array, Array, Array, Array]:
    """M (n, n), J (m, n), φ(q, t) of holonomic constraints, and ψ, as `compile_projection` wants them."""
    holonomic, others = ([c for c in system.constraints if c.order == order] for order in (0, 1))
    stacked = lambda rows: jnp.concatenate([jnp.zeros(0), *rows])  # noqa: E731

    def positions(x):
        return stacked(value(system, c, x, v, v, t) for c in holonomic)

    def velocities(w):
        return stacked(value(system, c, q, w, w, t) for c in others)

    mass = value_and_jacobian(jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t)), v)[1]
    (first, by_q), (second, by_v) = value_and_jacobian(positions, q), value_and_jacobian(velocities, v)
    rates = stacked(first_derivative(system, c, q, v, t) for c in holonomic)
    return mass, jnp.concatenate([by_q, by_v]), first, jnp.concatenate([rates, second])
