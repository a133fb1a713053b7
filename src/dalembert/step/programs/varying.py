"""Steps of varying length: the step of any one step program, whose length comes from a density that moves with the state."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.step.programs.base import Outputs, StepProgram
from dalembert.step.programs.density import Density

CLOCK = 2  # numbers of a row that tell its time


class BegunStep(NamedTuple):
    """Where a step, or a stage of it, begins. s: of the base; t, h: its time and its length; density: in its middle."""

    s: Float[Array, "k"]
    t: Float[Array, ""]
    h: Float[Array, ""]
    density: Float[Array, ""]


@final
class VaryingSteps(StepProgram):
    """ρ₁ = ρ₀ + ½ε G(y₀),   y₁ = Φ_{ε/ρ₁}(y₀),   t₁ = t₀ + ε/ρ₁,   ρ₂ = ρ₁ + ½ε G(y₁),   G = d/dt log σ along the motion.

    The state is s = (s of the base, ρ, t, the last length, G), and h of a call is ε. ρ/σ is constant along the solutions of
    y′ = f/ρ, ρ′ = G, t′ = 1/ρ, and this step of them is its own adjoint where Φ is: a composition of it has its order, with
    a density of its own in every stage. limit: (T s, s), s the sign of ε: the run ends with the first node at or after T.
    Source: Hairer, Söderlind, Explicit, time reversible, adaptive step size control, SIAM J. Sci. Comput. 26 (2005), eq.
    (12), for any self-adjoint Φ and for compositions.
    """

    base: StepProgram
    density: Density
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
        density = s[-4] + 0.5 * h * s[-1]
        own = h / density
        moves = (density > 0) & (s[-3] + own != s[-3])
        return BegunStep(s[:-4], s[-3], jnp.where(moves, own, jnp.nan), density)

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
        now = self.begun(s, h)
        increment, new = self.base.advance(z, q, now.s, now.t, now.h)
        end = now.t + now.h
        rate = self.density.rate(self.system, q + increment, self.base.velocity(new), end)
        return increment, jnp.concatenate([new, jnp.stack([now.density + 0.5 * h * rate, end, now.h, rate])])

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
        return self.base.velocity(s[:-4])

    def clock(self, s) -> Float[Array, "2"]:
        """(t, length of the last step, or of the last stage of it)."""
        return s[-3:-1]


def clock_of(program: StepProgram, s) -> Float[Array, "clock"]:
    """What a row needs to tell its time besides its index: nothing where all steps are equal."""
    return program.clock(s) if isinstance(program, VaryingSteps) else s[:0]


def time_of(program: StepProgram, s, t) -> Any:
    """The time of a state s that a run counts as t = t0 + k h."""
    return program.clock(s)[0] if isinstance(program, VaryingSteps) else t


def has_ended(program: StepProgram, t) -> Any:
    """Whether the run has come to its last time; None where its number of steps alone decides."""
    return t * program.limit[1] >= program.limit[0] if isinstance(program, VaryingSteps) else None
