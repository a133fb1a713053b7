"""A disk that stays upright and rolls on the plane: L = ½m(ẋ²+ẏ²) + ½Iθ̇² + ½Jφ̇²,  ẋ = R θ̇ cos φ,  ẏ = R θ̇ sin φ.

q = (x, y, θ, φ): point of contact, angle of rolling, heading. θ̇ = Ω and φ̇ = ω are constant; the path is a circle of
radius RΩ/ω, and the multipliers are the contact force λ = mRΩω (-sin φ, cos φ).
The default scheme keeps Ω and ω exactly: its path is a polygon whose corners lie on a circle of radius
RΩ (h/2) cot(hω/2), with λ = mRΩ (2/h) sin(hω/2) (-sin φ, cos φ) at the middle of each step.
Bloch, Nonholonomic Mechanics and Control, Section 1.4.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Dots, Wheel
from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System

OMEGA, TURN = 1.0, 0.5  # θ̇ and φ̇ of the typical run


def lagrangian(q, v, p):
    return 0.5 * (p["m"] * (v[0] ** 2 + v[1] ** 2) + p["I"] * v[2] ** 2 + p["J"] * v[3] ** 2)


def rolling(q, v, p):
    return jnp.array([v[0] - p["R"] * v[2] * jnp.cos(q[3]), v[1] - p["R"] * v[2] * jnp.sin(q[3])])


def draw(q, p):
    """The disk in space and the way of its point of contact."""
    axle = jnp.array([-jnp.sin(q[3]), jnp.cos(q[3]), 0.0])
    contact = jnp.array([q[0], q[1], 0.0])
    return [Dots(contact, trail=True), Wheel(contact + jnp.array([0.0, 0.0, p["R"]]), p["R"], q[2], axle)]


def vertical_rolling_disk() -> System:
    """With the moments of inertia of a uniform disk, I = ½mR² and J = ¼mR², for m = R = 1."""
    parameters = {"m": 1.0, "I": 0.5, "J": 0.25, "R": 1.0}
    return System(lagrangian, Nonholonomic(rolling), coordinates=("x", "y", "θ", "φ"), parameters=parameters, draw=draw)


def exact(t, R: float = 1.0, m: float = 1.0, I: float = 0.5, J: float = 0.25):
    """The circle from q = 0 with θ̇ = 1, φ̇ = ½, whatever the masses."""
    t = np.asarray(t, dtype=float)
    heading, one = TURN * t, np.ones_like(t)
    radius, speed = R * OMEGA / TURN, R * OMEGA
    q = np.stack([radius * np.sin(heading), radius * (1 - np.cos(heading)), OMEGA * t, heading], axis=-1)
    return q, np.stack([speed * np.cos(heading), speed * np.sin(heading), OMEGA * one, TURN * one], axis=-1)


def contact_force(t, R: float = 1.0, m: float = 1.0) -> np.ndarray:
    """λ = mRΩω (-sin φ, cos φ) at the times t of `exact`, (…, 2)."""
    heading = TURN * np.asarray(t, dtype=float)
    return m * R * OMEGA * TURN * np.stack([-np.sin(heading), np.cos(heading)], axis=-1)


entry = Entry(
    name="vertical_rolling_disk",
    title="Vertical rolling disk",
    formula="L = ½m(ẋ²+ẏ²) + ½Iθ̇² + ½Jφ̇²,  ẋ = Rθ̇ cos φ,  ẏ = Rθ̇ sin φ",
    source="Bloch, Nonholonomic Mechanics and Control, Section 1.4",
    system=vertical_rolling_disk(),
    q0=(0.0, 0.0, 0.0, 0.0),
    v0=(1.0, 0.0, OMEGA, TURN),
    h=0.05,
    time=20.0,
    exact=exact,
)
