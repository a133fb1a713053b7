"""Starters: the second node of a two step form, from (q₀, v₀)."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.algebra import Newton, newton
from dalembert.discretize import Scheme
from dalembert.systems import System, acceleration, reference
from dalembert.systems.equations import value
from dalembert.systems.sizes import ROUNDING, units_of

Vector = Float[Array, "n"]
Starter = Literal["second_order", "first_order", "reference"]
STARTERS: tuple[str, ...] = ("second_order", "first_order", "reference")


def second_node(system: System, scheme: Scheme, starter: Starter, q0: Vector, v0: Vector, *, t0, h) -> Vector:
    """d = q₁ - q₀ with error O(h²) ("first_order": h v₀), O(h³) ("second_order": h v₀ + h²a₀/2), or none ("reference").

    The point is then moved by the least |δq| onto D_d: φ(q₁) = 0 for holonomic constraints and φ(ρ(q₀,q₁)) = 0 for
    nonholonomic ones (Borda, Fernández, Grillo, Remark 3.4: D_K restricts the first pair as well).
    "first_order" is the paper's start; it makes the whole run first order (Section 4.1.2).
    """
    if starter == "first_order":
        d = h * v0
    elif starter == "second_order":
        d = h * v0 + 0.5 * h * h * acceleration(system, q0, v0, t0)[0]
    else:
        times = jnp.stack([jnp.asarray(t0, dtype=float), t0 + h])
        d = reference(system, q0, v0, times, tolerance=1e-13, max_steps=100_000).q[1] - q0
    return onto_distribution(system, scheme, q0, d, t0=t0, h=h)


def onto_distribution(system: System, scheme: Scheme, q0: Vector, d: Vector, *, t0, h) -> Vector:
    """d moved by the least amount so that the constraints on positions and velocities hold."""
    n, constraints = q0.shape[0], [c for c in system.constraints if c.order < 2]
    if not constraints:
        return d

    def residual(x: Vector):
        rows = []
        for c in constraints:
            if c.order == 0:
                rows.append(value(system, c, q0 + x, x, x, t0 + h) / h)
            else:
                q, v = scheme.distribution(q0, x, h)
                rows.append(value(system, c, q, v, v, t0 + scheme.distribution.weight * h))
        return jnp.concatenate(rows)

    rows = jax.jacfwd(residual)(d)

    def equations(z):
        return jnp.concatenate([(z[:n] - d) / h - rows.T @ z[n:], residual(z[:n])])

    scale = lambda z: jnp.full_like(z, jnp.inf).at[:n].set(jnp.linalg.norm(d) + ROUNDING * jnp.linalg.norm(q0) + 1e-200)  # noqa: E731
    start = jnp.concatenate([d, jnp.zeros(rows.shape[0])])
    z, _ = newton(equations, start, scale, Newton(1e-13, 50), lambda x: units_of(x, n, jnp))
    return z[:n]
