"""Two uniform rods in the plane of motion without gravity, with motors at base and joint: absolute angles φ₁, φ₂.

L = ½((m₁/3+m₂)l₁²φ̇₁² + (m₂/3)l₂²φ̇₂² + m₂l₁l₂φ̇₁φ̇₂ cos(φ₁-φ₂)). The motor of the joint turns the second rod and, the
other way, the first: forces (τ₁-τ₂, τ₂).
"""

import jax.numpy as jnp
import numpy as np

from dalembert.control import OptimalControl
from dalembert.drawing import Dots, Rod
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System

REST = (0.0, 0.0)


def lagrangian(q, v, p):
    m, l = p["m"], p["l"]
    own = (m[0] / 3.0 + m[1]) * (l[0] * v[0]) ** 2 + m[1] / 3.0 * (l[1] * v[1]) ** 2
    return 0.5 * (own + m[1] * l[0] * l[1] * v[0] * v[1] * jnp.cos(q[0] - q[1]))


def motors(q, p):
    return jnp.array([[1.0, -1.0], [0.0, 1.0]])


def effort(q, v, u, p):
    return u @ u


def draw(q, p):
    """Both rods, their joint, and the way of the end."""
    along = lambda angle: jnp.array([jnp.cos(angle), jnp.sin(angle)])  # noqa: E731
    joint = p["l"][0] * along(q[0])
    end = joint + p["l"][1] * along(q[1])
    return [Rod([jnp.zeros(2), joint, end]), Dots(jnp.stack([jnp.zeros(2), joint])), Dots(end, trail=True)]


def two_rods(m=(1.0, 1.0), l=(1.0, 1.0)) -> OptimalControl:
    """Masses and lengths of the two rods."""
    plant = System(lagrangian, coordinates=("phi1", "phi2"), parameters={"m": m, "l": l}, draw=draw)
    return OptimalControl(plant, cost=effort, actuated=motors)


entry = BoundaryEntry(
    name="two_rods",
    title="Two rods with motors at base and joint",
    formula="L = ½((m₁/3+m₂)l₁²φ̇₁² + (m₂/3)l₂²φ̇₂²) + ½m₂l₁l₂φ̇₁φ̇₂ cos(φ₁-φ₂)",
    source="motors at base and joint, min ∫τ² dt",
    problem=two_rods(),
    boundary={"initial": (REST, REST), "final": ((0.5 * np.pi, np.pi), REST), "T": 1.0},
    steps=160,
    cost=73.131089009877,
)
