"""Lagrange's top on SO(3): ℓ = ½ω·Iω - mgl e₃·Re₃, with I₁ = I₂ and a fixed point.

Energy, e₃·RIω of turns about the vertical, and I₃ω₃ of turns about the axis of the top are kept: a symmetry on the left and
one on the right. The height of the axis is an elliptic function.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Body, Dots, Rod
from dalembert.gallery.entry import Entry
from dalembert.groups import SO3
from dalembert.systems import System

TILT = 0.6
ROUND = np.linspace(0.0, 2.0 * np.pi, 9)
RIM = np.stack([0.5 * np.cos(ROUND), 0.5 * np.sin(ROUND), np.full(9, 0.8)], axis=1)
SHAPE = np.stack([np.zeros((8, 3)), RIM[:-1], RIM[1:]], axis=1)  # triangles from the tip to the rim


def lagrangian(q, v, p):
    return 0.5 * v.R @ (p["I"] * v.R) - p["mgl"] * q.R[2, 2]


def draw(q, p):
    """A cone on its tip, its axis, and the way of the axis' end."""
    end = 1.2 * q.R[:, 2]
    return [Body(q.R, jnp.zeros(3), shape=SHAPE), Rod([jnp.zeros(3), end]), Dots(end, trail=True)]


def heavy_top() -> System:
    return System(lagrangian, coordinates={"R": SO3()}, parameters={"I": [1.0, 1.0, 0.4], "mgl": 1.2}, draw=draw)


entry = Entry(
    name="heavy_top",
    title="Lagrange's top on SO(3)",
    formula="ℓ = ½ω·Iω - mgl e₃·Re₃",
    source="energy, e₃·RIω and I₃ω₃ are kept",
    system=heavy_top(),
    q0=(float(np.cos(TILT / 2)), float(np.sin(TILT / 2)), 0.0, 0.0),
    v0=(0.2, 0.1, 4.0),
    h=0.02,
    time=20.0,
)
