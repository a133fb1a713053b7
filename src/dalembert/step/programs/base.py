"""StepProgram: one step as data. Every back-end runs it; none knows what it means.

State: position q (n,), summed with compensation, and s (k,), what else the step carries (velocities). A step solves
F(z; q, s, t, h, held_force) = 0 for z and then adds `increment` to q and replaces s.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jaxtyping import Array, Float

from dalembert.systems.sizes import ROUNDING

Vector = Float[Array, "n"]
State = Float[Array, "k"]
Unknowns = Float[Array, "z"]
ONE_STAGE = (1.0,)  # the weights of a step that is not composed of others


class Outputs(NamedTuple):
    """Outputs of a solved step, at t + multiplier_time · h.

    Attributes:
        multipliers: (m,) λ.
        force: (n,) the constraint force Rᵀλ.
    """

    multipliers: Float[Array, "m"]
    force: Vector


class StepProgram(eqx.Module):
    """The equations of one step, as data for both back-ends.

    F(z; q, s, t, h, held_force) = 0;  q ← q + increment,  s ← new: the equations of one step, as data for both
    back-ends.

    Attributes:
        system: the system that is run.
        weights: γᵢ: the step is composed of stages with steps γᵢh, each with these equations; (1,) for most methods.
        multiplier_time: time of the multipliers, in units of h after t.
        levels: levels of velocities and multipliers, as in a Path.
        starting_nodes: number of nodes before the one from which the first step starts.
    """

    system: AbstractVar[Any]

    @property
    def weights(self) -> tuple[float, ...]:
        """(γ₁, …, γ_s) with sum 1: the step is composed of stages with steps γᵢh."""
        return ONE_STAGE

    @property
    def on_groups(self) -> bool:
        """True on groups; the machine code of Rⁿ is as it was before there were any."""
        return False

    @property
    def by_stage(self) -> bool:
        """True if each stage is predicted from its differences in the last steps: on groups, where iterations take long."""
        return len(self.weights) > 1 and self.on_groups

    @property
    @abstractmethod
    def multiplier_time(self) -> float:
        """The time to which the multipliers belong, in units of h after t."""

    @property
    @abstractmethod
    def levels(self) -> tuple[str, str]:
        """The levels of velocities and of multipliers, as in a Path."""

    @property
    def starting_nodes(self) -> int:
        """Number of nodes before the one from which the first step starts."""
        return 0

    @abstractmethod
    def residual(self, z: Unknowns, q: Vector, s: State, t, h, held_force: Vector) -> Unknowns:
        """F(z; q, s, t, h, held_force), (z,): the equations of the step. held_force: an external force, constant over
        the step."""

    @abstractmethod
    def guess(self, q: Vector, s: State, t, h) -> Unknowns:
        """The first guess of z from the state alone, without earlier steps."""

    @abstractmethod
    def scale(self, z: Unknowns, q: Vector, s: State, h) -> Unknowns:
        """(z,) size of each unknown for the test of convergence; infinity if it is not tested."""

    @abstractmethod
    def advance(self, z: Unknowns, q: Vector, s: State, t, h) -> tuple[Vector, State]:
        """From the solution z: the increment (n,) of q, and the new s."""

    @abstractmethod
    def output_state(self, z: Unknowns, q: Vector, s: State, h) -> tuple[Vector, Vector]:
        """(q, v) at the same time, after the step."""

    @abstractmethod
    def outputs(self, z: Unknowns, q: Vector, s: State, t, h, held_force: Vector) -> Outputs:
        """Multipliers and constraint force of the solved step."""

    @abstractmethod
    def constraint_point(self, z: Unknowns, q: Vector, s: State, t, h) -> tuple[Vector, Vector, Float[Array, ""]]:
        """(q, v, t) at which constraints on accelerations are evaluated."""

    def factor(self, z: Unknowns, q: Vector, s: State, t, h) -> Float[Array, ""] | None:
        """A scalar whose change of sign is a crossing of two roots; None to use the sign of the Jacobian
        determinant."""
        return None

    def overlap(self, z: Unknowns, q: Vector, s: State, t, h) -> Float[Array, ""] | None:
        """A scalar that is negative if, within the step, gradients turn back that enter the determinant twice; None if
        there are none."""
        return None

    def constrained_row(self, n: int) -> int | None:
        """The index of the equation of the constraint on accelerations; None if there is not exactly one."""
        return None

    @abstractmethod
    def velocity(self, s: State) -> Vector:
        """The latest velocity in s."""


class DerivedProgram(StepProgram):
    """A step with the equations of another one, `base`, for other arguments."""

    base: AbstractVar[Any]

    def inner(self, z, q, s, t, h) -> tuple[Any, Any, Any, Any, Any]:
        """(z, q, s, t, h) of the base from those of this step."""
        return z, q, s, t, h

    @property
    def system(self) -> Any:
        return self.base.system

    @property
    def weights(self) -> tuple[float, ...]:
        return self.base.weights

    @property
    def on_groups(self) -> bool:
        return self.base.on_groups

    @property
    def multiplier_time(self) -> float:
        return self.base.multiplier_time

    @property
    def levels(self) -> tuple[str, str]:
        return self.base.levels

    @property
    def starting_nodes(self) -> int:
        return self.base.starting_nodes

    def residual(self, z, q, s, t, h, held_force):
        return self.base.residual(*self.inner(z, q, s, t, h), held_force)

    def guess(self, q, s, t, h):
        return self.base.guess(*self.inner(None, q, s, t, h)[1:])

    def scale(self, z, q, s, h):
        z, q, s, _, h = self.inner(z, q, s, None, h)
        return self.base.scale(z, q, s, h)

    def advance(self, z, q, s, t, h):
        return self.base.advance(*self.inner(z, q, s, t, h))

    def output_state(self, z, q, s, h):
        z, q, s, _, h = self.inner(z, q, s, None, h)
        return self.base.output_state(z, q, s, h)

    def outputs(self, z, q, s, t, h, held_force) -> Outputs:
        return self.base.outputs(*self.inner(z, q, s, t, h), held_force)

    def constraint_point(self, z, q, s, t, h):
        return self.base.constraint_point(*self.inner(z, q, s, t, h))

    def factor(self, z, q, s, t, h):
        return self.base.factor(*self.inner(z, q, s, t, h))

    def overlap(self, z, q, s, t, h):
        return self.base.overlap(*self.inner(z, q, s, t, h))

    def constrained_row(self, n):
        return self.base.constrained_row(n)

    def velocity(self, s):
        return self.base.velocity(s)


def join(parts: list[Any]) -> Any:
    """The parts one after the other; of NumPy's where all are, which costs least."""
    xp = np if all(isinstance(x, np.ndarray) for x in parts) else jnp
    return xp.concatenate(parts)


def velocity_scale(v: Vector, others: Float[Array, "..."], q: Vector, h) -> Float[Array, ""]:
    """Size of a velocity, with a floor: an update that moves the position by rounding is small enough.

    A floor is needed at rest, where v is small but the forces that balance are not, and with them their round-off; and in
    short steps, whose displacements are those of constraints, φ(q) = 0 to the rounding of its terms. With the default
    tolerance of 1e-9 the floor is 32 ε|q|/h. The update is applied all the same, so that nothing is lost by it.
    """
    size = jnp.maximum(jnp.max(jnp.abs(v)), jnp.max(jnp.abs(others), initial=0.0))
    return size + 1e9 * ROUNDING * jnp.max(jnp.abs(q)) / jnp.abs(h) + 1e-200
