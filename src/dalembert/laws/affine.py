"""φ + S λ of the constraints that actuators realise: what the motion without them does, and what their forces change."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.algebra.jumps import depends
from dalembert.systems.constraints import Constraint
from dalembert.systems.equations import euler_lagrange, reactions, reduced
from dalembert.systems.system import System


def is_realised(constraint: Constraint) -> bool:
    """Whether an actuator realises it: one on accelerations, or another with forces of the user's own."""
    return constraint.order == 2 or not constraint.chetaev


def split(system: System) -> tuple[list[Constraint], list[Constraint]]:
    """Those that actuators realise, and those of the plant."""
    realised = [c for c in system.constraints if is_realised(c)]
    return realised, [c for c in system.constraints if not is_realised(c)]


class Affine(NamedTuple):
    """φ (m,) and S (m, m) of φ + S λ = 0, with the sizes of the terms they are sums of; a = drift + responses λ."""

    phi: Float[Array, "m"]
    S: Float[Array, "m m"]
    size_phi: Float[Array, "m"]
    size_S: Float[Array, "m m"]
    drift: Float[Array, "n"]
    responses: Float[Array, "n m"]


def affine(system: System, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Affine:
    """The index-reduced constraints along the motion under forces Rᵀλ: C_a(drift + responses λ) + C_0, at a = 0."""
    n, rest = q.shape[0], jnp.zeros_like(v)
    own, others = split(system)
    free = lambda a: jnp.concatenate(  # noqa: E731
        [euler_lagrange(system, q, v, a, t), *(reduced(system, c, q, v, a, t) for c in others)]
    )
    wanted = lambda a: jnp.concatenate([reduced(system, c, q, v, a, t) for c in own])  # noqa: E731
    rows = jnp.concatenate([reactions(system, c, q, v, rest, t) for c in own])
    bound = jnp.concatenate([jnp.zeros((0, n)), *(reactions(system, c, q, v, rest, t) for c in others)])
    k, m = bound.shape[0], rows.shape[0]
    still, inertia = value_and_jacobian(free, rest)
    matrix = jnp.concatenate([inertia, jnp.concatenate([-bound.T, jnp.zeros((k, k))])], axis=1)
    sides = jnp.concatenate([-still[:, None], jnp.concatenate([rows.T, jnp.zeros((k, m))])], axis=1)
    motion = jnp.linalg.solve(matrix, sides)[:n]
    drift, responses = motion[:, 0], motion[:, 1:]
    known, by_a = value_and_jacobian(wanted, rest)
    size = jnp.abs(known) + jnp.abs(by_a) @ jnp.abs(drift)
    return Affine(known + by_a @ drift, by_a @ responses, size, jnp.abs(by_a) @ jnp.abs(responses), drift, responses)


def is_affine(system: System, q: Float[Array, "n"], v: Float[Array, "n"], t) -> bool:
    """Whether no constraint bends in the accelerations and no reaction reads them, from their operations."""
    own, others = split(system)

    def slopes(a):
        by_a = [jax.jacfwd(lambda x, c=c: reduced(system, c, q, v, x, t))(a).ravel() for c in own]
        return jnp.concatenate(by_a + [reactions(system, c, q, v, a, t).ravel() for c in (*own, *others)])

    return not depends(slopes, jnp.zeros_like(v))
