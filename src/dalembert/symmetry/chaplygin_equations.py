"""Chaplygin's equations: a nonholonomic system as one in fewer coordinates, without constraints, with gyroscopic forces.

The velocities that the constraints admit are v = B(q)ẋ + c(q), x = (r, s): r the shape, s quasi-coordinates of what the
group still may do. Where B, c, L and the forces do not change along the group, the motion of r and ṡ is that of

    L_c(r, ẋ) = L(q̂(r), Bẋ + c),    f_c = p·[X_ẋ, X_a] + Bᵀf,    p = L_v,   X_w = B w + c,

[X_w, X_a] = (DX_a)X_w - (DX_w)X_a with w held, on a section q̂(r). Without c the bracket's force does no work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from dalembert.symmetry.frames import VelocityFrame
from dalembert.systems import System
from dalembert.systems.equations import force
from dalembert.systems.equations import momentum as momentum_at
from dalembert.systems.higher.variational import with_parameters
from dalembert.systems.pickling import made


def reduced_system(system: System, frame: VelocityFrame, names: Sequence[str] | None) -> System:
    """(L_c, f_c), with the parameters of the system."""
    return System(
        _lagrangian(system, frame), forces=_forces(system, frame), coordinates=names, parameters=system.parameters,
        time_dependent=system.time_dependent,
    )  # fmt: skip


def with_own(system: System, trailing: tuple) -> tuple[System, Any]:
    """The system with the parameters of this call, and the time."""
    t = trailing[0] if system.time_dependent else 0.0
    return (with_parameters(system, trailing[-1]) if system.parameters is not None else system), t


@made
def _lagrangian(system: System, frame: VelocityFrame) -> Callable:
    def lagrangian(x, w, *trailing):
        own, t = with_own(system, trailing)
        q = frame.section(x)
        return own.call(own.lagrangian, q, frame.velocity(own, q, w, t), t=t)

    return lagrangian


@made
def _forces(system: System, frame: VelocityFrame) -> Callable:
    def forces(x, w, *trailing):
        own, t = with_own(system, trailing)
        return reduced_force(own, frame, frame.section(x), w, t)

    return forces


def reduced_force(system: System, frame: VelocityFrame, q, w, t):
    """p·[X_w, X_a] + Bᵀf at q, which may lie beside the section."""
    now = jnp.asarray(t, dtype=float)
    v = frame.velocity(system, q, w, t)
    p = momentum_at(system, q, v, t)
    rate = jax.jvp(lambda y, s: frame.basis(system, y, s).T @ p, (q, now), (v, jnp.ones_like(now)))[1]
    slope = jax.grad(lambda y: p @ frame.velocity(system, y, w, t))(q)
    return rate + frame.basis(system, q, t).T @ (force(system, q, v, t) - slope)
