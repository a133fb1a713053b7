"""StepProgram: one step as data. Every back-end runs it; none knows what it means.

State: position q (n,), summed with compensation, and s (k,), what else the step carries (velocities). A step solves
F(z; q, s, t, h, held) = 0 for z and then adds `increment` to q and replaces s.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.numbers import EPSILON

Vector = Float[Array, "n"]
State = Float[Array, "k"]
Unknowns = Float[Array, "z"]


class Outputs(NamedTuple):
    """What a solved step reports: multipliers λ and the constraint force Rᵀλ, at t + multiplier_time · h."""

    multipliers: Float[Array, "m"]
    force: Vector


class StepProgram(eqx.Module):
    """F(z; q, s, t, h, held) = 0;  q ← q + increment,  s ← new: the equations of one step, as data for every run.

    Attributes:
        residual: the equations (z,).
        guess: z without history.
        expect: z from the continuous (a, λ) at the start.
        scale: (z,) size of each unknown for the test of convergence, infinity where it is not tested.
        advance: (increment (n,), new s).
        after: (q, v) of the same time, after the step.
        outputs: multipliers and force.
        middle: (q, v, t) at which constraints on accelerations are read.
        constrained_row: the index of the one such equation, None if there is not exactly one.
        factor: a scalar whose change of sign is a crossing of two roots, or None to use the sign of the determinant.
        overlap: a scalar that is negative where gradients which the determinant holds twice turn back within the step, None
            if there are none.
        velocity: the latest one in s.
        levels: of velocities and multipliers.
        multiplier_time: in units of h after t.
        lead: nodes before the first step.
        weights: the step is made of stages with steps γᵢh, each with these equations; (1,) for most.
    """

    @property
    def weights(self) -> tuple[float, ...]:
        return (1.0,)

    @property
    def multiplier_time(self) -> float:
        raise NotImplementedError

    @property
    def levels(self) -> tuple[str, str]:
        raise NotImplementedError

    @property
    def lead(self) -> int:
        raise NotImplementedError

    def residual(self, z: Unknowns, q: Vector, s: State, t, h, held: Vector) -> Unknowns:
        raise NotImplementedError

    def guess(self, q: Vector, s: State, t, h) -> Unknowns:
        raise NotImplementedError

    def expect(self, s: State, h, a: Vector, multipliers: Float[Array, "m"]) -> Unknowns:
        raise NotImplementedError

    def scale(self, z: Unknowns, q: Vector, s: State, h) -> Unknowns:
        raise NotImplementedError

    def advance(self, z: Unknowns, q: Vector, s: State, t, h) -> tuple[Vector, State]:
        raise NotImplementedError

    def after(self, z: Unknowns, q: Vector, s: State, h) -> tuple[Vector, Vector]:
        raise NotImplementedError

    def outputs(self, z: Unknowns, q: Vector, s: State, t, h, held: Vector) -> Outputs:
        raise NotImplementedError

    def middle(self, z: Unknowns, q: Vector, s: State, t, h) -> tuple[Vector, Vector, Float[Array, ""]]:
        raise NotImplementedError

    def factor(self, z: Unknowns, q: Vector, s: State, t, h) -> Float[Array, ""] | None:
        return None

    def overlap(self, z: Unknowns, q: Vector, s: State, t, h) -> Float[Array, ""] | None:
        return None

    def constrained_row(self, n: int) -> int | None:
        return None

    def velocity(self, s: State) -> Vector:
        return s


def velocity_scale(v: Vector, others: Float[Array, "..."], q: Vector, h) -> Float[Array, ""]:
    """Size of a velocity, with a floor: an update that cannot move the position by its last digit is small enough.

    A floor is needed at rest, where v is small but the forces that balance are not, and with them their round-off. With
    the default tolerance of 1e-9 the floor is ε|q|/h. The update is applied all the same, so that nothing is lost by it.
    """
    size = jnp.maximum(jnp.max(jnp.abs(v)), jnp.max(jnp.abs(others), initial=0.0))
    return size + 1e9 * EPSILON * jnp.max(jnp.abs(q)) / jnp.abs(h) + 1e-200
