"""Steps of varying length: the step of any one step program, whose length comes from a density that moves with the state."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dalembert.step.programs.base import Outputs, StepProgram
from dalembert.step.programs.density import Density, opened

OWN = 5  # numbers of the state besides those of the base
STAGE, DENSITY, TIME = -4, -3, -2  # where they are among them
ASTRAY = 1.25  # factor by which ρ/σ, a constant of the motion, may change: it stays below where the density is resolved
STRAIGHT, EVEN = 0.95, 0.2  # cosine between velocities, and change of ρ over itself, in steps that are short


class BegunStep(NamedTuple):
    """A step, or a stage of it. s: the state of the base; t, h: when it begins and its length."""

    s: Float[Array, "k"]
    t: Float[Array, ""]
    h: Float[Array, ""]


@final
class VaryingSteps(StepProgram):
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

    @property
    def system(self) -> Any:
        return self.base.system

    @property
    def weights(self) -> tuple[float, ...]:
        return self.base.weights

    @property
    def multiplier_time(self) -> float:
        return self.base.multiplier_time

    @property
    def levels(self) -> tuple[str, str]:
        return self.base.levels

    @property
    def starting_nodes(self) -> int:
        return self.base.starting_nodes

    def begun(self, s, h) -> BegunStep:
        """NaN for a length where the density is not positive, or so large that the time would stand still."""
        own = h / s[-3]
        moves = (s[-3] > 0) & (s[-2] + own != s[-2])
        return BegunStep(s[:-OWN], s[-2], jnp.where(moves, own, jnp.nan))

    def length(self, s, h) -> Float[Array, ""]:
        """Of the step, or the stage, that begins at s."""
        return self.begun(s, h).h

    def residual(self, z, q, s, t, h, held_force):
        now = self.begun(s, h)
        return self.base.residual(z, q, now.s, now.t, now.h, held_force)

    def guess(self, q, s, t, h):
        now = self.begun(s, h)
        return self.base.guess(q, now.s, now.t, now.h)

    def scale(self, z, q, s, h):
        now = self.begun(s, h)
        return self.base.scale(z, q, now.s, now.h)

    def advance(self, z, q, s, t, h):
        now, stage, density = self.begun(s, h), s[-4], s[-3]
        increment, new = self.base.advance(z, q, now.s, now.t, now.h)
        end, number = now.t + now.h, len(self.weights)

        def following() -> tuple[Float[Array, ""], Float[Array, ""]]:
            """What is added to ρ, and whether it is astray; from the last stage, whose h is that part of ε."""
            value, rate = self.density.value_and_rate(self.system, q + increment, self.base.velocity(new), end)
            more = h / self.weights[-1] * rate
            return more, jnp.where(agree((density + 0.5 * more) * self.unit, value), 0.0, 1.0)

        if number == 1:
            more, astray = following()
            return increment, jnp.concatenate([new, jnp.stack([astray, stage, density + more, end, now.h])])
        last = stage == number - 1
        more, astray = lax.cond(last, following, lambda: (jnp.zeros_like(density), s[-OWN]))
        stage = jnp.where(last, 0.0, stage + 1.0)
        return increment, jnp.concatenate([new, jnp.stack([astray, stage, density + more, end, now.h])])

    def output_state(self, z, q, s, h):
        now = self.begun(s, h)
        return self.base.output_state(z, q, now.s, now.h)

    def outputs(self, z, q, s, t, h, held_force) -> Outputs:
        now = self.begun(s, h)
        return self.base.outputs(z, q, now.s, now.t, now.h, held_force)

    def constraint_point(self, z, q, s, t, h):
        now = self.begun(s, h)
        return self.base.constraint_point(z, q, now.s, now.t, now.h)

    def factor(self, z, q, s, t, h):
        now = self.begun(s, h)
        return self.base.factor(z, q, now.s, now.t, now.h)

    def overlap(self, z, q, s, t, h):
        now = self.begun(s, h)
        return self.base.overlap(z, q, now.s, now.t, now.h)

    def constrained_row(self, n):
        return self.base.constrained_row(n)

    def velocity(self, s):
        return self.base.velocity(s[..., :-OWN])

    def astray(self, q0, s0, q1, s1) -> Any:
        """Whether ρ/σ was off at the end of the whole step from (q0, s0) to (q1, s1), or in its middle, on the cubic through
        both ends: ρ is the density there, and nothing else in a step sees a σ that is large between two nodes alone.
        There it is looked at in long steps, whose velocity turns or whose density changes: it may cost as much as a step."""
        h, v0, v1 = s1[-1] / self.weights[-1], self.velocity(s0), self.velocity(s1)
        q = 0.5 * (q0 + q1) + 0.125 * h * (v0 - v1)
        v = 1.5 / h * (q1 - q0) - 0.25 * (v0 + v1)
        off = lambda: ~agree(s0[-3] * self.unit, self.density.value(self.system, q, v, s0[-2] + 0.5 * h))  # noqa: E731
        turned = opened(self.system, q1, v1, s1[-2], v0) < STRAIGHT
        long = turned | (jnp.abs(s1[-3] - s0[-3]) > EVEN * s0[-3])
        return (s1[-OWN] > 0.5) | lax.cond(long, off, lambda: jnp.zeros((), dtype=bool))

    def clock(self, s) -> Float[Array, "2"]:
        """(t, length of the last step, or of the last stage of it)."""
        return s[..., -2:]


def agree(here, wanted) -> Any:
    """Whether two densities are the same up to the factor ASTRAY."""
    return (here <= ASTRAY * wanted) & (wanted <= ASTRAY * here)


def clock_of(program: StepProgram, s) -> Float[Array, "clock"]:
    """What a row needs to tell its time besides its index: nothing where all steps are equal."""
    return program.clock(s) if isinstance(program, VaryingSteps) else s[..., :0]


def time_of(program: StepProgram, s, t) -> Any:
    """The time of a state s that a run counts as t = t0 + k h."""
    return program.clock(s)[..., 0] if isinstance(program, VaryingSteps) else t


def last_length(program: StepProgram, s) -> Any:
    """Of the last whole step; None where all steps are equal."""
    return program.clock(s)[..., 1] / program.weights[-1] if isinstance(program, VaryingSteps) else None


def has_ended(program: StepProgram, t) -> Any:
    """Whether the run has come to its last time; None where its number of steps alone decides."""
    return t * program.limit[1] >= program.limit[0] if isinstance(program, VaryingSteps) else None
