"""The systems that are compared, with their data and the hand-written C of the same scheme."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES, chain, curvature_particle, inertia_wheel_pendulum, nonholonomic_particle

GRAVITY = 9.81


@dataclasses.dataclass(frozen=True)
class Case:
    """build: a fresh system. source: a file of benchmarks/c; versions: {label: function}; parameters: of these functions."""

    build: Callable[[], da.System]
    q0: Sequence[float] | np.ndarray
    v0: Sequence[float] | np.ndarray
    h: float
    source: str
    versions: dict[str, str]
    parameters: Sequence[float]


def by_mass_matrix(q, v, p):
    """½ vᵀm(q)v + g Σᵢ wᵢᵢ cos qᵢ, mᵢⱼ = wᵢⱼ cos(qᵢ-qⱼ), wᵢⱼ = N - max(i,j): the chain in angles; m has no zeros."""
    i = np.arange(q.size)
    weights = 1.0 * q.size - np.maximum(i[:, None], i)
    c, s = jnp.cos(q), jnp.sin(q)
    mass = weights * (jnp.outer(c, c) + jnp.outer(s, s))
    return 0.5 * v @ mass @ v + p["g"] * weights.diagonal() @ c


def by_velocities(q, v, p):
    """½ Σᵢ |ṙᵢ|² - g Σᵢ yᵢ, ṙᵢ = Σⱼ (cos qⱼ, sin qⱼ) vⱼ over j ≤ i: the same function of (q, v), written with less."""
    c, s = jnp.cos(q), jnp.sin(q)
    return 0.5 * jnp.sum(jnp.cumsum(c * v) ** 2 + jnp.cumsum(s * v) ** 2) + p["g"] * jnp.sum(jnp.cumsum(c))


def pendulum_case(lagrangian: Callable, rods: int = 8) -> Case:
    """The pendulum of 8 rods in angles, at rest: 8 unknowns, a Jacobian without zeros, no constraint."""
    build = lambda: da.System(lagrangian, parameters={"g": GRAVITY})  # noqa: E731
    angles = np.linspace(0.3, 1.2, rods)
    return Case(build, angles, np.zeros(rods), 0.01, "pendulum.c", {"dense": f"pendulum{rods}"}, (GRAVITY,))


def chain_case(n: int) -> Case:
    """The chain with n coordinates, at rest and slanted. C of version "dense" exists for n = 8 and 20."""
    versions = {"reduced by hand": f"rattle{n}"}
    if n in (8, 20):
        versions = {"dense": f"chain{n}", **versions}
    return Case(lambda: chain.chain(n // 2), chain.slanted(n // 2), np.zeros(n), 0.01, "chain.c", versions, (GRAVITY, 1.0))


WHEEL = ENTRIES["inertia_wheel_pendulum"]
CASES = {
    "curvature particle": Case(
        curvature_particle.curvature_particle, [0.0, 0.0], [1.0, 1.0], 0.1, "curvature.c", {"dense": "curvature"}, (1.0, 1.0)
    ),
    "nonholonomic particle": Case(
        lambda: nonholonomic_particle.nonholonomic_particle(1.0), [1.0, 0.0, 0.0], [0.5, 1.0, 0.0], 0.01,
        "nonholonomic.c", {"dense": "nonholonomic"}, (1.0,),
    ),
    "inertia wheel pendulum": Case(
        inertia_wheel_pendulum.inertia_wheel_pendulum, WHEEL.q0, WHEEL.v0, WHEEL.h,
        "wheel.c", {"dense": "wheel_dense", "reduced by hand": "wheel_reduced"},
        tuple(inertia_wheel_pendulum.PARAMETERS[name] for name in ("I", "J", "M", "d", "e", "chi", "n", "rho")),
    ),
    "8 rods in angles, by mass matrix": pendulum_case(by_mass_matrix),
    "8 rods in angles, by velocities": pendulum_case(by_velocities),
    "chain n = 8": chain_case(8),
    "chain n = 20": chain_case(20),
}  # fmt: skip
