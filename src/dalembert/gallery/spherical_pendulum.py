"""The spherical pendulum in Cartesian coordinates: L = ½|v|² - g z on the sphere |q|² = l².

A holonomic constraint with reactions ∂φ/∂q = 2q, so that the tension is 2l|λ|. Energy and the vertical angular momentum
xẏ - yẋ are invariants of the motion. On the cone of angle α from the downward vertical it is a steady rotation with
ω² = g/(l cos α): the closed form from the default data.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Ball, Dots, Rod
from dalembert.gallery.entry import Entry
from dalembert.systems import Holonomic, System

ALPHA = np.pi / 3
SPEED = np.sin(ALPHA) / np.sqrt(np.cos(ALPHA))


def lagrangian(q, v, p):
    return 0.5 * (v @ v) - p["g"] * q[2]


def sphere(q, p):
    return q @ q - p["l"] ** 2


def draw(q, p):
    """The sphere, the rod from its centre, and the way of the mass."""
    return [Ball(jnp.zeros(3), p["l"]), Rod([jnp.zeros(3), q]), Dots(q, trail=True)]


def spherical_pendulum() -> System:
    parameters = {"g": 1.0, "l": 1.0}
    return System(lagrangian, Holonomic(sphere), coordinates=("x", "y", "z"), parameters=parameters, draw=draw)


def exact(t, g: float = 1.0, l: float = 1.0):
    """Steady rotation on the cone of angle π/3 for g = l = 1."""
    if g != 1.0 or l != 1.0:
        raise ValueError(f"g, l: found {g}, {l}; the closed form is that of the default data, g = l = 1")
    angle = np.asarray(t, dtype=float) / np.sqrt(np.cos(ALPHA))
    rho = np.sin(ALPHA)
    q = np.stack([rho * np.cos(angle), rho * np.sin(angle), np.full_like(angle, -np.cos(ALPHA))], axis=-1)
    v = SPEED * np.stack([-np.sin(angle), np.cos(angle), np.zeros_like(angle)], axis=-1)
    return q, v


entry = Entry(
    name="spherical_pendulum",
    title="Spherical pendulum",
    formula="L = ½|v|² - g z,  |q|² = l²",
    source="steady rotation on a cone; energy and vertical angular momentum",
    system=spherical_pendulum(),
    q0=(float(np.sin(ALPHA)), 0.0, float(-np.cos(ALPHA))),
    v0=(0.0, float(SPEED), 0.0),
    h=0.05,
    time=50.0,
    exact=exact,
)
