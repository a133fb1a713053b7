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


def nearest(system: System, q, v, t) -> tuple[Float[Array, "n"], Float[Array, "n"], Array]:
    """q and v after one update each, and the largest |update_i| / (1 + |x_i|)."""
    holonomic, others = ([c for c in system.constraints if c.order == order] for order in (0, 1))

    def positions(x):
        return jnp.concatenate([jnp.zeros(0), *(value(system, c, x, v, v, t) for c in holonomic)])

    def velocities(x, w):
        return jnp.concatenate([*(first_derivative(system, c, x, w, t) for c in holonomic), given(x, w)])

    def given(x, w):
        return jnp.concatenate([jnp.zeros(0), *(value(system, c, x, w, w, t) for c in others)])

    rows = jnp.concatenate([value_and_jacobian(f, x)[1] for f, x in ((positions, q), (lambda w: given(q, w), v))])
    correction = _corrections(value_and_jacobian(lambda w: momentum(system, q, w, t), v)[1], rows)
    of_q = correction(positions(q)) if holonomic else jnp.zeros_like(q)
    of_v = correction(velocities(q - of_q, v))
    size = jnp.max(jnp.abs(jnp.stack([of_q, of_v])) / (1.0 + jnp.abs(jnp.stack([q, v]))))
    return q - of_q, v - of_v, size


def _corrections(mass: Float[Array, "n n"], rows: Float[Array, "m n"]):
    """r ↦ M⁻¹Jᵀ(JM⁻¹Jᵀ)⁻¹r, J as many of the rows as there are r; NaN where these are dependent."""
    root = _root(mass)
    scaled = jax.lax.linalg.triangular_solve(root, rows.T, left_side=True, lower=True)
    steps = _elimination(scaled.T @ scaled)

    def correction(r):
        multipliers = _solved(steps[: r.shape[0]], r)
        return jax.scipy.linalg.solve_triangular(root, scaled[:, : r.shape[0]] @ multipliers, trans=1, lower=True)

    return correction


def _elimination(a: Float[Array, "m m"]) -> list[tuple[Array, Array]]:
    """1/pivot and the row beside it, pivot after pivot of a definite matrix, which needs no other order, and no roots."""
    found = []
    while a.shape[0]:
        found.append((1.0 / a[0, 0], a[0, 1:]))
        a = a[1:, 1:] - jnp.outer(a[0, 1:] * found[-1][0], a[0, 1:])
    return found


def _solved(steps: list[tuple[Array, Array]], r: Float[Array, "k"]) -> Float[Array, "k"]:
    """a⁻¹r, for the leading k rows and columns of a symmetric a."""
    if not steps:
        return r
    (inverse, row), *later = steps
    row = row[: len(later)]
    rest = _solved(later, r[1:] - row * inverse * r[0])
    return jnp.concatenate([inverse * (r[:1] - row @ rest), rest])


def _root(mass: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L with LLᵀ = M, where M is positive definite; else the diagonal one with LLᵀ = |M_jj|."""
    inertia, low = jnp.abs(jnp.diagonal(mass)), jax.lax.linalg.cholesky(mass, symmetrize_input=False)
    least = jnp.min(jnp.where(inertia > 0.0, inertia, jnp.inf))
    inertia = jnp.where(inertia > 0.0, inertia, jnp.where(jnp.isfinite(least), least, 1.0))
    definite = jnp.all(jnp.diagonal(low) ** 2 > DEFINITE * inertia)  # not so where one is NaN
    return jnp.where(definite, low, jnp.diag(jnp.sqrt(inertia)))
