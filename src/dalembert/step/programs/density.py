"""How many steps there are in a unit of time, up to a factor: a function of the state, and its rate along the motion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.step.programs.motion import motion_from
from dalembert.systems import System, momentum
from dalembert.systems.equations import first_guess
from dalembert.systems.system import check_shapes

Vector = Float[Array, "n"]


class Density(eqx.Module):
    """σ(q, v, t) > 0: the given function, or the speed on the curve (q, τv), σ² = |v|² + τ²|a|² in the kinetic metric.

    a is the acceleration of the continuous equations. span: τ; of a given function it is not read.
    Source: Huang, Leimkuhler, The adaptive Verlet method, SIAM J. Sci. Comput. 18 (1997): arc length as a parameter; here
    in the metric ∂²L/∂v², with constraints, and with a time τ that belongs to the motion.
    """

    function: Callable | None = eqx.field(static=True)
    span: Any

    def value(self, system: System, q: Vector, v: Vector, t) -> Float[Array, ""]:
        """σ."""
        if self.function is not None:
            return jnp.asarray(system.call(self.function, q, v, t=t), dtype=float)
        a = acceleration_of(system, q, v, t)
        return jnp.sqrt(squared(system, q, v, t, v) + self.span**2 * squared(system, q, v, t, a))

    def value_and_rate(self, system: System, q: Vector, v: Vector, t) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """σ, and d/dt log σ along the motion: NaN where σ is not positive."""
        now = jnp.asarray(t, dtype=float)
        along = (v, acceleration_of(system, q, v, now), jnp.ones_like(now))
        value, rate = jax.jvp(lambda *x: self.value(system, *x), (q, v, now), along)
        return value, jnp.where(value > 0, rate / value, jnp.nan)


def acceleration_of(system: System, q: Vector, v: Vector, t) -> Vector:
    """a of the continuous equations."""
    n, m = q.shape[0], sum(check_shapes(system, q, v, t))
    return motion_from(system, q, v, t, jnp.asarray(first_guess(n, m)), jnp.zeros(n))[:n]


def squared(system: System, q: Vector, v: Vector, t, w: Vector) -> Float[Array, ""]:
    """wᵀMw, M = ∂²L/∂v² at (q, v, t)."""
    return w @ jax.jvp(lambda x: momentum(system, q, x, t), (v,), (w,))[1]


def opened(system: System, q: Vector, v: Vector, t, w: Vector) -> Float[Array, ""]:
    """The cosine of the angle between v and w in the kinetic metric at (q, v, t); 0 where one of them is 0."""
    mv, mw = (jax.jvp(lambda x: momentum(system, q, x, t), (v,), (x,))[1] for x in (v, w))
    sizes = jnp.abs((v @ mv) * (w @ mw))
    return (w @ mv) / jnp.sqrt(jnp.where(sizes > 0, sizes, 1.0))


def span_of(system: System, q: Vector, v: Vector, t, otherwise) -> Float[Array, ""]:
    """τ with τ⁴ = (|v|² + τ²|a|²) / (|ȧ|² + τ²|ä|²): the time in which (v, τa) changes by its own size, twice over.

    1/ω for an oscillator of frequency ω, wherever it starts. The one positive root: the map on log τ² contracts by half.
    otherwise: where a does not change, so that the motion has no such time.
    """
    now, one = jnp.asarray(t, dtype=float), jnp.ones((), dtype=float)

    def along(function: Callable) -> Callable:
        return lambda q, v, t: jax.jvp(function, (q, v, t), (v, acceleration_of(system, q, v, t), one))[1]

    a = lambda *x: acceleration_of(system, *x)  # noqa: E731
    derivatives = v, a(q, v, now), along(a)(q, v, now), along(along(a))(q, v, now)
    v2, a2, j2, s2 = (jnp.abs(squared(system, q, v, now, w)) for w in derivatives)
    log = jax.lax.fori_loop(0, 60, lambda _, x: 0.5 * jnp.log((v2 + jnp.exp(x) * a2) / (j2 + jnp.exp(x) * s2)), 0.0 * one)
    found = jnp.exp(0.5 * log)
    return jnp.where(jnp.isfinite(found) & (found > 0), found, otherwise)
