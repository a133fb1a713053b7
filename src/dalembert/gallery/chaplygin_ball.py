"""Chaplygin's ball on SO(3) × R²: a ball of uneven inertia, with its centre of mass in the middle, rolls on a plane.

ℓ = ½ω·Iω + ½m|ẋ|² + m g sin(slope) x₁, with ẋ = r (Rω) × e₃: the point that touches does not slide. On a level plane energy
and the momentum about the point of contact are kept. Chaplygin, On a ball's rolling on a horizontal plane, 1903.
"""

import jax.numpy as jnp

from dalembert.drawing import Ball, Dots, Rod
from dalembert.gallery.entry import Entry
from dalembert.groups import SO3
from dalembert.systems import Nonholonomic, System

RADIUS, OMEGA = 0.7, (1.0, -0.6, 0.8)


def lagrangian(q, v, p):
    return 0.5 * v.R @ (p["I"] * v.R) + 0.5 * p["m"] * v.x @ v.x + p["m"] * p["pull"] * q.x[0]


def rolling(q, v, p):
    spin = q.R @ v.R
    return v.x - p["r"] * jnp.array([spin[1], -spin[0]])


def draw(q, p):
    """The ball with its three axes, and the way of the point of contact."""
    centre, contact = (jnp.append(q.x, height) for height in (p["r"], 0.0))
    axes = [Rod([centre, centre + p["r"] * q.R[:, i]]) for i in range(3)]
    return [Ball(centre, p["r"]), *axes, Dots(contact, trail=True)]


def chaplygin_ball(pull: float = 0.0) -> System:
    """pull: g sin(slope), along x₁."""
    parameters = {"I": [0.3, 0.45, 0.6], "m": 1.3, "r": RADIUS, "pull": pull}
    return System(lagrangian, Nonholonomic(rolling), coordinates={"R": SO3(), "x": 2}, parameters=parameters, draw=draw)


entry = Entry(
    name="chaplygin_ball",
    title="Chaplygin's ball",
    formula="ℓ = ½ω·Iω + ½m|ẋ|² + m g sin(slope) x₁,  ẋ = r (Rω) × e₃",
    source="Chaplygin 1903; energy is kept",
    system=chaplygin_ball(),
    q0=(1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    v0=(*OMEGA, RADIUS * OMEGA[1], -RADIUS * OMEGA[0]),
    h=0.02,
    time=20.0,
)
