"""A rigid body turned from rest to rest by torques: unit quaternions q = (w, x, y, z), |q|² = 1.

    q̇ = ½ Q(q) ω,   L = ½ Σ I_i ω_i²,  ω = 2 Q(q)ᵀ q̇,   forces 2 Q(q) τ,   min ½∫|τ|² dt

ω and τ in the axes of the body. L alone is degenerate along q; the constraint makes it regular.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.control import OptimalControl
from dalembert.drawing import Body, Dots
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import Holonomic, System
from dalembert.systems.manifolds import rotation

ANGLE, AXIS = 2.5, np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
REST = (0.0, 0.0, 0.0, 0.0)


def rates(q):
    """Q(q), (4, 3): q̇ = ½Qω."""
    w, x, y, z = q
    return jnp.array([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]])


def lagrangian(q, v, p):
    omega = 2.0 * rates(q).T @ v
    return 0.5 * p["inertia"] @ omega**2


def sphere(q, p):
    return q @ q - 1.0


def torques(q, p):
    return 2.0 * rates(q)


def effort(q, v, u, p):
    return 0.5 * u @ u


def draw(q, p):
    """A box with these moments of inertia, and the way of the end of its longest axis."""
    turn = rotation(q)
    inertia = p["inertia"]
    squares = 0.5 * jnp.sum(inertia) - inertia  # m s²/12 of each side s
    size = jnp.sqrt(jnp.maximum(squares, 0.02 * jnp.sum(inertia)))
    return [Body.box(jnp.zeros(3), size, rotation=turn), Dots(0.5 * size[0] * turn[:, 0], trail=True)]


def rigid_body(inertia: tuple[float, float, float] = (1.0, 2.0, 3.0)) -> OptimalControl:
    """Principal moments of inertia."""
    plant = System(
        lagrangian,
        Holonomic(sphere),
        coordinates=("w", "x", "y", "z"),
        parameters={"inertia": np.asarray(inertia, dtype=float)},
        draw=draw,
    )
    return OptimalControl(plant, cost=effort, actuated=torques)


def turned(angle, axis) -> np.ndarray:
    """The quaternion of a rotation about a unit vector, (…, 4)."""
    half = 0.5 * np.asarray(angle, dtype=float)[..., None]
    return np.concatenate([np.cos(half), np.sin(half) * axis], axis=-1)


def guess(t):
    """A turn about the axis of the whole rotation."""
    s = np.asarray(t, dtype=float)
    return turned(ANGLE * (3.0 * s**2 - 2.0 * s**3), AXIS)


entry = BoundaryEntry(
    name="rigid_body",
    title="Rigid body turned by torques",
    formula="L = ½ Σ Iω²,  |q|² = 1 (quaternion),  min ½∫|τ|² dt",
    source="rest to rest, 2.5 rad about (1, 2, 3)",
    problem=rigid_body(),
    boundary={"initial": (tuple(turned(0.0, AXIS)), REST), "final": (tuple(turned(ANGLE, AXIS)), REST), "T": 1.0},
    steps=100,
    guess=guess,
    cost=198.044863002648,
)
