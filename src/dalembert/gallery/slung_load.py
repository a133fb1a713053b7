"""A quadrotor that carries a load on a rod, on SO(3) × R³ × R³, with the thrust of hovering and torques that keep it level.

ℓ = ½ω·Jω + ½M|ẋ|² + ½m|ẏ|² - Mg x₃ - mg y₃,  |x - y| = l;  force (M+m)g Re₃ on x, torque k e₃×γ - dω with γ = Rᵀe₃.
With the body level the centre of mass flies straight, and the load swings as a pendulum in the gravity g(1 + m/M): its angle
is an elliptic function. Lee, Leok, McClamroch, Geometric tracking control of a quadrotor on SE(3), CDC 2010.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Ball, Body, Dots, Rod, Wheel
from dalembert.gallery.entry import Entry
from dalembert.groups import SO3
from dalembert.systems import Holonomic, System

LENGTH, SWING = 1.2, 0.8
UP = jnp.array([0.0, 0.0, 1.0])


def lagrangian(q, v, p):
    turning = 0.5 * v.R @ (p["J"] * v.R)
    moving = 0.5 * p["M"] * v.x @ v.x + 0.5 * p["m"] * v.y @ v.y
    return turning + moving - p["g"] * (p["M"] * q.x[2] + p["m"] * q.y[2])


def rod(q, p):
    away = q.x - q.y
    return away @ away - p["l"] ** 2


def rotors(q, v, p):
    """The weight of both along the body's axis, and a torque back to level."""
    level = p["k"] * jnp.cross(UP, q.R[2])
    return {"R": level - p["d"] * v.R, "x": (p["M"] + p["m"]) * p["g"] * q.R[:, 2]}


def draw(q, p):
    """Two beams with four rotors, the rod and the load with its way."""
    beams = [Body.box(q.x, size, rotation=q.R) for size in ((1.2, 0.08, 0.05), (0.08, 1.2, 0.05))]
    ends = [q.x + 0.6 * sign * q.R[:, i] for i in (0, 1) for sign in (-1.0, 1.0)]
    rotors = [Wheel(end, 0.3, axle=q.R[:, 2]) for end in ends]
    return [*beams, *rotors, Rod([q.x, q.y]), Ball(q.y, 0.15), Dots(q.y, trail=True)]


def slung_load() -> System:
    parameters = {"J": [0.08, 0.08, 0.14], "M": 1.4, "m": 0.5, "l": LENGTH, "g": 9.81, "k": 1.5, "d": 0.4}
    groups = {"R": SO3(), "x": 3, "y": 3}
    return System(lagrangian, Holonomic(rod), forces=rotors, coordinates=groups, parameters=parameters, draw=draw)


entry = Entry(
    name="slung_load",
    title="Quadrotor with a slung load",
    formula="ℓ = ½ω·Jω + ½M|ẋ|² + ½m|ẏ|² - Mg x₃ - mg y₃,  |x - y| = l",
    source="Lee, Leok, McClamroch 2010; hovering level, an elliptic function",
    system=slung_load(),
    q0=(
        *(float(np.cos(0.15)), float(np.sin(0.15)), 0.0, 0.0),
        *(0.0, 0.0, 0.0),
        *(LENGTH * float(np.sin(SWING)), 0.0, -LENGTH * float(np.cos(SWING))),
    ),
    v0=(0.0,) * 9,
    h=0.01,
    time=6.0,
)
