"""A step in units of its unknowns, where those of the data are so far apart that rounding would decide."""

from __future__ import annotations

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.step.programs.base import DerivedProgram, StepProgram
from dalembert.step.run.state import Prepared
from dalembert.systems import power_of_two
from dalembert.tracing import seldom

FAR = 2.0**20  # the ratio of units from which on they count: below, an ordinary step has digits enough


class Units(NamedTuple):
    """positions: those of the coordinates, in which the kinetic energy has inertias 1. unknowns: those of z."""

    positions: Float[Array, "n"]
    unknowns: Float[Array, "z"]


@final
class Scaled(DerivedProgram):
    """The step of `base` with z in `units`: F(z·u; q, s, t, h, held_force) = 0. Velocities are small against the largest
    of all in units of their coordinates."""

    base: StepProgram
    units: Units

    def inner(self, z, q, s, t, h):
        return z * self.units.unknowns, q, s, t, h

    def guess(self, q, s, t, h):
        return self.base.guess(q, s, t, h) / self.units.unknowns

    def scale(self, z, q, s, h):
        own = self.units.positions
        return self.base.scale(z, q / own, s / jnp.tile(own, s.shape[0] // own.shape[0]), h)


def in_units(prepared: Prepared, units: Units) -> Prepared:
    """The same start, with the program and its expectation in units."""
    expected = None if prepared.expected is None else prepared.expected / units.unknowns
    scaled = Scaled(prepared.program, units)  # pyright: ignore[reportCallIssue] `system` is no field of it
    return prepared._replace(program=scaled, expected=expected)


def units_for(prepared: Prepared, own: Float[np.ndarray, "k"], t0, h) -> Units | None:
    """The units of a step whose continuous equations have these of (a, λ); None where they are near enough to 1.

    Multipliers are as many as the step has, so that their units are read off the step's own matrix.
    """
    n = prepared.q.shape[0]
    if not np.all(np.isfinite(own)):
        return None
    apart = own[:n].max() / own[:n].min()
    across = np.concatenate([own[n:] / own[:n].max(), own[:n].min() / own[n:]])
    if apart <= FAR and (len(own) == n or np.max(across) <= FAR):
        return None
    z = prepared.expected
    assert z is not None  # a program that starts from numbers expects what follows
    finite = np.isfinite(np.asarray(prepared.program.scale(z, prepared.q, prepared.s, h)))
    found = np.asarray(step_jacobian(prepared.program, z, prepared.q, prepared.s, t0, h))
    velocities = int(finite.sum())
    unknowns = np.concatenate([np.tile(own[:n], velocities // n), np.ones(len(found) - velocities)])
    rows = np.abs(found) * unknowns
    size = rows[:, :velocities].max(axis=1)
    in_rows = (rows[:, velocities:] / np.where(size > 0.0, size, 1.0)[:, None]).max(axis=0, initial=0.0)
    unknowns[velocities:] = power_of_two(1.0 / np.where(in_rows > 0.0, in_rows, 1.0))
    return Units(jnp.asarray(own[:n]), jnp.asarray(unknowns))


@seldom
def step_jacobian(program: StepProgram, z, q, s, t, h):
    """∂F/∂z of the equations of a step."""
    return jax.jacfwd(lambda x: program.residual(x, q, s, t, h, jnp.zeros_like(q)))(z)
