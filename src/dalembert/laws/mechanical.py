"""Simple mechanical systems, L = ½ vᵀM(q)v - U(q), with forces B(q)u: their parts, and what is none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.control.problem import OptimalControl, actuation, counted
from dalembert.systems.system import System, check_system
from dalembert.tracing import seldom

Actuated = int | Sequence[int] | Callable
ROUNDED = 1e-9  # relative to the terms of L


def _no_cost(q, v, u, *_):
    return u @ u


def actuators(plant: System, actuated: Actuated, n: int) -> OptimalControl:
    """Plant and B(q), with the checks that optimal control makes of both."""
    problem = OptimalControl(plant, cost=_no_cost, actuated=actuated)
    counted(problem, n)
    return problem


def mass(plant: System, q: Float[Array, "n"]) -> Float[Array, "n n"]:
    """M = ∂²L/∂v² at v = 0."""
    return jax.hessian(lambda v: plant.call(plant.lagrangian, q, v, t=0.0))(jnp.zeros_like(q))


def potential(plant: System, q: Float[Array, "n"]) -> Float[Array, ""]:
    """U = -L at v = 0."""
    return -plant.call(plant.lagrangian, q, jnp.zeros_like(q), t=0.0)


def columns(problem: OptimalControl, q: Float[Array, "n"]) -> Float[Array, "n r"]:
    """B(q)."""
    return actuation(problem, q, 0.0)


def unactuated(B: Any, xp: Any = jnp) -> Any:
    """b (…, n) with Bᵀb = 0, of B (…, n, n - 1): the minors of B with alternating signs, as smooth as B is."""
    n = B.shape[-2]
    minors = [xp.linalg.det(B[..., np.delete(np.arange(n), i), :]) for i in range(n)]
    return (-1.0) ** np.arange(n) * xp.stack(minors, axis=-1)


def check_plant(plant: Any) -> None:
    """A System without constraints and explicit time."""
    check_system(plant)
    if plant.constraints or plant.time_dependent:
        found = "explicit time" if plant.time_dependent else ", ".join(type(c).__name__ for c in plant.constraints)
        raise ValueError(f"system: has {found}; a plant without constraints and without explicit time is needed")


def check_simple(plant: System, points: Float[np.ndarray, "samples n"]) -> None:
    """L = ½vᵀMv - U with M > 0, and no forces; ValueError that says what else it is."""
    if plant.forces is not None:
        raise ValueError("system: has forces; V and F are constructed for L = ½ vᵀM(q)v - U(q) alone")
    gap, masses = (np.asarray(x) for x in _simple(plant, points, np.random.default_rng(0).normal(size=points.shape)))
    if not np.all(np.isfinite(gap)):
        raise ValueError(f"lagrangian: is not finite near {points[0]}; give another equilibrium, or a smaller reach")
    if gap.max() > ROUNDED:
        raise ValueError(
            f"lagrangian: is not ½ vᵀM(q)v - U(q), by {gap.max():.1e} of its terms at q = {points[gap.argmax()]}; V and F "
            "are constructed for simple mechanical systems"
        )
    least = np.linalg.eigvalsh(masses)[:, 0]
    if least.min() <= 0.0:
        raise ValueError(
            f"lagrangian: the mass matrix is not positive definite at q = {points[least.argmin()]}; correct it, or give a "
            "smaller reach"
        )


@seldom
def _simple(plant: System, points, directions):
    """|L - (½vᵀMv - U)| relative to the sizes of the terms, and M in units of its diagonal, at every point."""

    def one(q, w):
        M, U = mass(plant, q), potential(plant, q)
        unit = 1.0 / jnp.sqrt(jnp.abs(jnp.diagonal(M)))
        v = w * unit * jnp.sqrt(1.0 + jnp.abs(U))  # both terms of a size
        kinetic = 0.5 * v @ M @ v
        gap = jnp.abs(plant.call(plant.lagrangian, q, v, t=0.0) - kinetic + U)
        return gap / (jnp.abs(kinetic) + jnp.abs(U)), M * unit * unit[:, None]

    return eqx.filter_vmap(one)(points, directions)
