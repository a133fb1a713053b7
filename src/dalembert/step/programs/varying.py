"""Steps of varying length: the step of any one step program, whose length comes from a density that moves with the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from dalembert.numbers import as_function, as_positive, is_traced
from dalembert.step.programs.base import DerivedProgram, StepProgram
from dalembert.step.run.state import Prepared
from dalembert.systems import System, as_step, check_shapes, momentum
from dalembert.systems.consistency import STEPS
from dalembert.systems.equations import first_guess, motion_from
from dalembert.systems.pickling import reduced
from dalembert.tracing import Jitted

Vector = Float[Array, "n"]

OWN = 5  # numbers of the state besides those of the base
STAGE, DENSITY, TIME = -4, -3, -2  # where they are among them
ASTRAY = 1.25  # factor by which ρ/σ, a constant of the motion, may change: it stays below where the density is resolved
STRAIGHT, EVEN = 0.95, 0.2  # cosine between velocities, and change of ρ over itself, in steps that are short


OF_NODES = (
    "a step of the form 'nodes' is an equation of three nodes, and with two lengths between them it is neither of "
    "order 2 nor its own adjoint. Give a number, or use another form"
)


class Density(eqx.Module):
    """σ(q, v, t) > 0: the given function, or the speed on the curve (q, τv), σ² = |v|² + τ²|a|² in the kinetic metric.

    a is the acceleration of the continuous equations. span: τ; of a given function it is not read.
    Source: Huang, Leimkuhler, The adaptive Verlet method, SIAM J. Sci. Comput. 18 (1997): arc length as a parameter; here
    in the metric ∂²L/∂v², with constraints, and with a time τ that belongs to the motion.
    """

    function: Callable | None = eqx.field(static=True)
    span: Any

    def sigma(self, system: System, q: Vector, v: Vector, t) -> Float[Array, ""]:
        """σ."""
        if self.function is not None:
            return jnp.asarray(system.call(self.function, q, v, t=t), dtype=float)
        a = acceleration_of(system, q, v, t)
        return jnp.sqrt(kinetic_square(system, q, v, t, v) + self.span**2 * kinetic_square(system, q, v, t, a))

    def sigma_and_rate(self, system: System, q: Vector, v: Vector, t) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """σ, and d/dt log σ along the motion: NaN where σ is not positive."""
        now = jnp.asarray(t, dtype=float)
        along = (system.space.rate(q, v), acceleration_of(system, q, v, now), jnp.ones_like(now))
        value, rate = jax.jvp(lambda *x: self.sigma(system, *x), (q, v, now), along)
        return value, jnp.where(value > 0, rate / value, jnp.nan)


def acceleration_of(system: System, q: Vector, v: Vector, t) -> Vector:
    """a of the continuous equations."""
    n, m = v.shape[0], sum(check_shapes(system, q, v, t))
    return motion_from(system, q, v, t, jnp.asarray(first_guess(n, m)), jnp.zeros(n))[:n]


def kinetic_square(system: System, q: Vector, v: Vector, t, w: Vector) -> Float[Array, ""]:
    """wᵀMw, M = ∂²L/∂v² at (q, v, t)."""
    return w @ jax.jvp(lambda x: momentum(system, q, x, t), (v,), (w,))[1]


def kinetic_cosine(system: System, q: Vector, v: Vector, t, w: Vector) -> Float[Array, ""]:
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

    def rate_along(function: Callable) -> Callable:
        return lambda q, v, t: jax.jvp(
            function, (q, v, t), (system.space.rate(q, v), acceleration_of(system, q, v, t), one)
        )[1]

    a = lambda *x: acceleration_of(system, *x)  # noqa: E731
    derivatives = v, a(q, v, now), rate_along(a)(q, v, now), rate_along(rate_along(a))(q, v, now)
    v2, a2, j2, s2 = (jnp.abs(kinetic_square(system, q, v, now, w)) for w in derivatives)
    log = jax.lax.fori_loop(0, 60, lambda _, x: 0.5 * jnp.log((v2 + jnp.exp(x) * a2) / (j2 + jnp.exp(x) * s2)), 0.0 * one)
    found = jnp.exp(0.5 * log)
    return jnp.where(jnp.isfinite(found) & (found > 0), found, otherwise)


class StepPart(NamedTuple):
    """A step, or a stage of it. s: the state of the base; t, h: when it begins and its length."""

    s: Float[Array, "k"]
    t: Float[Array, ""]
    h: Float[Array, ""]


@final
class VaryingSteps(DerivedProgram):
    """y_{k+1} = Φ_{ε/ρ}(y_k),  t_{k+1} = t_k + ε/ρ,  ρ ← ρ + ε G(y_{k+1}),   G = d/dt log σ along the motion.

    ρ belongs to the middle of a step: with ρ = ρ_k + ½ε G(y_k) there, and ρ_{k+1} = ρ + ½ε G(y_{k+1}), a step is its own
    adjoint where Φ is, and ρ_k/σ is constant along the solutions of y′ = f/ρ, ρ′ = G, t′ = 1/ρ. The state is
    s = (s of the base, astray, stage, ρ, t, the last length), and h of a call is ε. The stages of a composed step have one
    ρ: y is of the order of Φ for any lengths, and G costs once in a step. A composition of this map, with a ρ in every
    stage, has the order too; its errors are smaller or larger, by the case, and G would cost in each.
    astray: 1 after a step at whose end ρ_k/σ is not what it was at the start, up to the factor ASTRAY, else 0. The rule sees
    σ at nodes alone: what is fast between them is not followed, and is looked for in the middle of long steps.
    unit: σ/ρ_k at the start.
    limit: (T s, s), s the sign of ε: the run ends with the first node at or after T.
    Source: Hairer, Söderlind, Explicit, time reversible, adaptive step size control, SIAM J. Sci. Comput. 26 (2005),
    the integrated step density, here for any self-adjoint Φ.
    """

    base: StepProgram
    density: Density
    unit: Any
    limit: Float[Array, "2"]

    def part_at(self, s, h) -> StepPart:
        """NaN for a length where the density is not positive, or so large that the time would stand still."""
        own = h / s[-3]
        moves = (s[-3] > 0) & (s[-2] + own != s[-2])
        return StepPart(s[:-OWN], s[-2], jnp.where(moves, own, jnp.nan))

    def length(self, s, h) -> Float[Array, ""]:
        """Of the step, or the stage, that begins at s."""
        return self.part_at(s, h).h

    def inner(self, z, q, s, t, h):
        now = self.part_at(s, h)
        return z, q, now.s, now.t, now.h

    def advance(self, z, q, s, t, h):
        now, stage, density = self.part_at(s, h), s[-4], s[-3]
        increment, new = self.base.advance(z, q, now.s, now.t, now.h)
        end, number = now.t + now.h, len(self.weights)

        def following() -> tuple[Float[Array, ""], Float[Array, ""]]:
            """Increment of ρ, and 1 if ρ is astray, else 0; from the last stage, whose h is that part of ε."""
            value, rate = self.density.sigma_and_rate(self.system, q + increment, self.base.velocity(new), end)
            more = h / self.weights[-1] * rate
            return more, jnp.where(agree((density + 0.5 * more) * self.unit, value), 0.0, 1.0)

        if number == 1:
            more, astray = following()
            return increment, jnp.concatenate([new, jnp.stack([astray, stage, density + more, end, now.h])])
        last = stage == number - 1
        more, astray = lax.cond(last, following, lambda: (jnp.zeros_like(density), s[-OWN]))
        stage = jnp.where(last, 0.0, stage + 1.0)
        return increment, jnp.concatenate([new, jnp.stack([astray, stage, density + more, end, now.h])])

    def velocity(self, s):
        return self.base.velocity(s[..., :-OWN])

    def astray(self, q0, s0, q1, s1) -> Any:
        """True if ρ/σ was off at the end of the whole step from (q0, s0) to (q1, s1), or in its middle, on the cubic through
        both ends: ρ is the density there, and nothing else in a step sees a σ that is large between two nodes alone.
        There it is looked at in long steps, whose velocity turns or whose density changes: it may cost as much as a step."""
        h, v0, v1 = s1[-1] / self.weights[-1], self.velocity(s0), self.velocity(s1)
        q, v = self.system.space.midway(q0, v0, q1, v1, h)
        off = lambda: ~agree(s0[-3] * self.unit, self.density.sigma(self.system, q, v, s0[-2] + 0.5 * h))  # noqa: E731
        turned = kinetic_cosine(self.system, q1, v1, s1[-2], v0) < STRAIGHT
        long = turned | (jnp.abs(s1[-3] - s0[-3]) > EVEN * s0[-3])
        return (s1[-OWN] > 0.5) | lax.cond(long, off, lambda: jnp.zeros((), dtype=bool))

    def clock(self, s) -> Float[Array, "2"]:
        """(t, length of the last step, or of the last stage of it)."""
        return s[..., -2:]


def agree(here, wanted) -> Any:
    """True if two densities are the same up to the factor ASTRAY."""
    return (here <= ASTRAY * wanted) & (wanted <= ASTRAY * here)


def clock_of(program: StepProgram, s) -> Float[Array, "clock"]:
    """Values that a row needs besides its index to tell its time: none where all steps are equal."""
    return program.clock(s) if isinstance(program, VaryingSteps) else s[..., :0]


def time_of(program: StepProgram, s, t) -> Any:
    """The time of a state s that a run counts as t = t0 + k h."""
    return program.clock(s)[..., 0] if isinstance(program, VaryingSteps) else t


def last_length(program: StepProgram, s) -> Any:
    """Of the last whole step; None where all steps are equal."""
    return program.clock(s)[..., 1] / program.weights[-1] if isinstance(program, VaryingSteps) else None


def has_ended(program: StepProgram, t) -> Any:
    """True if the run has come to its last time; None where its number of steps alone decides."""
    return t * program.limit[1] >= program.limit[0] if isinstance(program, VaryingSteps) else None


class Varying(eqx.Module):
    """Steps whose length follows the motion, and which stay reversible.

    1/h_{k+1/2} = 1/h_{k-1/2} + G(q_k, v_k), G = d/dt log σ along the motion: steps whose density is proportional to
    σ, and reversible.

    For `h=` of `simulate`, `ensemble` and `prepare`. If σ and the scheme are reversible, a run back from (q_N, -v_N),
    whose first step has the length `path.h_last`, passes through the same nodes, as with constant steps: energy does not
    drift. Step control by an error estimate would destroy this. The stages of a composed scheme share the length of their
    step, so that its order is kept. `statistics.leaps` counts the steps that do not follow σ, and a warning is given.

    Args:
        first: length of the first step; negative for a run backwards in time. All other steps are proportional to it.
        density: `density(q, v[, t][, p])` → σ > 0, proportional to the number of steps per unit of time. None: the
            speed along the curve (q, τv), σ² = |v|² + τ²|a|² in the kinetic metric, with the acceleration a.
        span: τ, a time, for the default density; None takes the time in which velocity and acceleration change at the
            start, 1/ω for an oscillator.

    Raises:
        ValueError: first is 0 or not finite, span is not positive, or span is given together with a density.
        TypeError: density is not a function, or first or span is not a number.

    Source: Hairer, Söderlind, Explicit, time reversible, adaptive step size control, SIAM J. Sci. Comput. 26 (2005),
    where the density of a step is ε/h. The default σ: Huang, Leimkuhler, SIAM J. Sci. Comput. 18 (1997).

    Example:
        >>> path = da.simulate(pendulum, [1.0], [0.0], h=da.Varying(0.1), until=2.0)
        >>> float(path.t[-1]), path.outcome.name
        (2.0, 'SUCCESS')
    """

    first: Any
    density: Callable | None = eqx.field(static=True)
    span: Any

    __reduce__ = reduced

    def __init__(self, first: Any, density: Callable | None = None, span: float | None = None):
        self.first = as_step(first, "first")
        right = "of (q, v) that returns a positive number"
        self.density = None if density is None else as_function(density, "density", right)
        self.span = None if span is None else as_positive(span, "span", "a positive time")
        if span is not None and density is not None:
            raise ValueError("span: found together with density; it belongs to the default density. Leave one of them out")

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers for the provenance, which has the density among its functions."""
        return {"first": self.first} | ({} if self.span is None else {"span": self.span})


def vary_steps(prepared: Prepared, varying: Varying, h: Any, t0: Any, until: Any = None) -> Prepared:
    """The same start with steps of varying length. h: of the first; until: the time at or after which the run ends, or None.

    h is ε: the first step has the density 1.
    """
    base = prepared.program
    if base.system.why_equal_steps or base.starting_nodes:
        raise ValueError(f"h: found Varying; {base.system.why_equal_steps or OF_NODES}")
    # By NumPy where the values are known: each small operation of JAX takes longer than a short run.
    xp: Any = jnp if is_traced(prepared, h, t0, until, varying.span) else np
    own_span = None if varying.span is None else xp.asarray(varying.span, dtype=float)
    start = (prepared.q, base.velocity(prepared.s), xp.asarray(t0, dtype=float))
    found = _at_start(base.system, Density(varying.density, own_span), *start, STEPS * xp.abs(h))
    if not is_traced(found):
        found = tuple(map(np.asarray, found))
        _check_start(float(found[1]), float(found[2]), varying)
    sign = xp.sign(h)
    limit = xp.stack([xp.inf * xp.ones(()) if until is None else sign * until, sign * xp.ones(())])
    steps: Any = VaryingSteps  # pyright takes `system` for one of its fields
    unit = found[1] / (1.0 - 0.5 * h * found[2])  # over ρ at the start, half a step before 1
    program = steps(base, Density(varying.density, found[0]), unit, xp.asarray(limit, dtype=float))
    own = [0.0, 0.0, 1.0, t0, 0.0]  # no stage is done; the first step has the density 1, and the length ε
    s = xp.concatenate([xp.asarray(prepared.s), xp.stack([xp.asarray(x, dtype=float) for x in own])])
    return prepared._replace(program=program, s=s)


@Jitted
def _at_start(system: System, density: Density, q, v, t, otherwise):
    """(τ, σ, d/dt log σ)."""
    if density.function is not None:
        density = Density(density.function, jnp.zeros(()))
    elif density.span is None:
        density = Density(None, span_of(system, q, v, t, otherwise))
    return density.span, *density.sigma_and_rate(system, q, v, t)


def _check_start(value: float, rate: float, varying: Varying) -> None:
    if value > 0 and np.isfinite(value) and np.isfinite(rate):
        return
    if varying.density is not None:
        raise ValueError(
            f"density: is {value:g} at the start, and its logarithm changes at the rate {rate:g}; it must be positive and "
            "smooth"
        )
    raise ValueError(
        f"h: found Varying without a density; the speed on the curve (q, τv) is {value:g} at the start, where the motion is "
        "at rest in an equilibrium or the kinetic energy is not positive. Give density=, a function of (q, v)"
    )
