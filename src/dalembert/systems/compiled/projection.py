"""The nearest (q, v) on φ(q, t) = 0, dφ/dt = 0, φ(q, v, t) = 0, for steps of an integration, which end near there.

    q ← q - M⁻¹J₀ᵀ(J₀M⁻¹J₀ᵀ)⁻¹φ(q, t),   then   v ← v - M⁻¹Jᵀ(JM⁻¹Jᵀ)⁻¹ψ(q, v, t),   each twice with one matrix,

J₀ the rows ∂φ/∂q of holonomic constraints, J those and ∂φ/∂v of nonholonomic ones, ψ their dφ/dt and φ. M is the mass matrix
∂²L/∂v²: the change of v is an impulse of forces that do no work, so that it changes neither the momentum of a symmetry that
the constraints have, nor, to first order, the energy; and it is the same in all coordinates. Where M is not positive
definite it is the diagonal of |∂²L/∂v_j²|. So the matrix is regular wherever (a, λ) are determined.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.systems.equations import first_derivative, momentum, value
from dalembert.systems.system import System

DEFINITE = 1e-10  # of M_jj: a pivot of M that is less may be rounding


def restricts(system: System, orders: tuple[int, ...] = (0, 1)) -> bool:
    """Whether some constraint is of these orders: those of accelerations do not restrict (q, v)."""
    return any(c.order in orders for c in system.constraints)


def nearest(system: System, q, v, t) -> tuple[Float[Array, "n"], Float[Array, "n"], Array, Array]:
    """q and v after two updates each, and the largest first and second |update_i| / (1 + |x_i|)."""
    holonomic, others = ([c for c in system.constraints if c.order == order] for order in (0, 1))

    def positions(x):
        return jnp.concatenate([jnp.zeros(0), *(value(system, c, x, v, v, t) for c in holonomic)])

    def velocities(x, w):
        return jnp.concatenate([*(first_derivative(system, c, x, w, t) for c in holonomic), given(x, w)])

    def given(x, w):
        return jnp.concatenate([jnp.zeros(0), *(value(system, c, x, w, w, t) for c in others)])

    rows = jnp.concatenate([value_and_jacobian(f, x)[1] for f, x in ((positions, q), (lambda w: given(q, w), v))])
    correction = _corrections(value_and_jacobian(lambda w: momentum(system, q, w, t), v)[1], rows)
    q, of_q = _twice(positions, q, correction) if holonomic else (q, [jnp.zeros(())] * 2)
    v, of_v = _twice(lambda w: velocities(q, w), v, correction)
    return q, v, jnp.maximum(of_q[0], of_v[0]), jnp.maximum(of_q[1], of_v[1])


def _corrections(mass: Float[Array, "n n"], rows: Float[Array, "m n"]):
    """r ↦ M⁻¹Jᵀ(JM⁻¹Jᵀ)⁻¹r, J as many of the rows as there are r; NaN where these are dependent."""
    root = _root(mass)
    scaled = jax.lax.linalg.triangular_solve(root, rows.T, left_side=True, lower=True)
    low = jax.lax.linalg.cholesky(scaled.T @ scaled, symmetrize_input=False)

    def correction(r):
        k = r.shape[0]
        multipliers = jax.scipy.linalg.cho_solve((low[:k, :k], True), r)
        return jax.scipy.linalg.solve_triangular(root, scaled[:, :k] @ multipliers, trans=1, lower=True)

    return correction


def _root(mass: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L with LLᵀ = M, where M is positive definite; else the diagonal one with LLᵀ = |M_jj|."""
    inertia, low = jnp.abs(jnp.diagonal(mass)), jax.lax.linalg.cholesky(mass, symmetrize_input=False)
    least = jnp.min(jnp.where(inertia > 0.0, inertia, jnp.inf))
    inertia = jnp.where(inertia > 0.0, inertia, jnp.where(jnp.isfinite(least), least, 1.0))
    definite = jnp.all(jnp.diagonal(low) ** 2 > DEFINITE * inertia)  # not so where one is NaN
    return jnp.where(definite, low, jnp.diag(jnp.sqrt(inertia)))


def _twice(residuals, x: Float[Array, "n"], correction) -> tuple[Float[Array, "n"], list[Array]]:
    sizes = []
    for _ in range(2):
        update = correction(residuals(x))
        x = x - update
        sizes.append(jnp.max(jnp.abs(update) / (1.0 + jnp.abs(x))))
    return x, sizes
