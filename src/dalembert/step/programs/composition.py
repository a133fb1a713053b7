"""A step composed of stages, each with the equations of another step and a step of its own."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp

from dalembert.step.programs.base import Outputs, StepProgram
from dalembert.step.programs.motion import motion_from
from dalembert.step.programs.node import KickDriftKick, NodeProgram
from dalembert.systems import System
from dalembert.systems.equations import all_reactions


@final
class Composed(StepProgram):
    """φ_{γ_s h} ∘ … ∘ φ_{γ₁ h} of a self-adjoint step φ; multipliers are λ(q, v) of the continuous equations after the step.

    Source of the multipliers: Jiménez, Scheurle, Remark 4.3, eq. (23), here for constraints of every order. The equations
    of (a, λ) are affine but where φ(q, v, a) or R(q, v, a) is not, and solved from the last stage's mean a and its λ.
    """

    base: NodeProgram | KickDriftKick
    gammas: tuple[float, ...] = eqx.field(static=True)

    @property
    def weights(self) -> tuple[float, ...]:
        return self.gammas

    @property
    def system(self) -> System:
        """That of the step which is composed."""
        return self.base.system

    @property
    def multiplier_time(self) -> float:
        return 1.0

    @property
    def levels(self) -> tuple[str, str]:
        return ("node", "node")

    @property
    def starting_nodes(self) -> int:
        return 0

    def residual(self, z, q, s, t, h, held_force):
        return self.base.residual(z, q, s, t, h, held_force)

    def guess(self, q, s, t, h):
        return self.base.guess(q, s, t, h)

    def initial_guess(self, s, h, a, multipliers):
        """z of the first stage from the continuous (a, λ) at the start."""
        kind: Any = type(self.base)  # of a bound method equinox makes a module, which takes long
        return kind.initial_guess(self.base, s, self.weights[0] * h, a, multipliers)

    def scale(self, z, q, s, h):
        return self.base.scale(z, q, s, h)

    def advance(self, z, q, s, t, h):
        return self.base.advance(z, q, s, t, h)

    def output_state(self, z, q, s, h):
        return self.base.output_state(z, q, s, h)

    def constraint_point(self, z, q, s, t, h):
        return self.base.constraint_point(z, q, s, t, h)

    def factor(self, z, q, s, t, h):
        return self.base.factor(z, q, s, t, h)

    def overlap(self, z, q, s, t, h):
        return self.base.overlap(z, q, s, t, h)

    def constrained_row(self, n):
        return self.base.constrained_row(n)

    def velocity(self, s):
        return self.base.velocity(s)

    def outputs(self, z, q, s, t, h, held_force):
        if not self.system.constraints:
            return self.base.outputs(z, q, s, t, h, held_force)
        increment, v = self.base.advance(z, q, s, t, h)
        x, n = q + increment, q.shape[0]
        start = jnp.concatenate([(v - s) / h, self.base.outputs(z, q, s, t, h, held_force).multipliers])
        start = motion_from(self.system, x, v, t + h, start, held_force)
        rows = all_reactions(self.system, x, v, start[:n], t + h)
        return Outputs(start[n:], rows.T @ start[n:])
