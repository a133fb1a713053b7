"""Transfer between circular orbits: L = ½(ṙ²+r²φ̇²) + μ/r, radial and tangential thrust, from r = 1 to r = 1.5 in T = 6.

The angle at the end is free: final=({"r": 1.5}, …) gives the radius, and both velocities.
"""

import jax.numpy as jnp

from dalembert.control import OptimalControl
from dalembert.drawing import Dots, Rod
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System


def lagrangian(q, v, p):
    return 0.5 * (v[0] ** 2 + (q[0] * v[1]) ** 2) + p["mu"] / q[0]


def tangential(q, p):
    return jnp.array([0.0, q[0]])


def radial_and_tangential(q, p):
    return jnp.array([[1.0, 0.0], [0.0, q[0]]])


def effort(q, v, u, p):
    return u @ u


def draw(q, p):
    """The centre, the two orbits of the entry, and the satellite with its way."""
    turn = jnp.linspace(0.0, 2.0 * jnp.pi, 97)
    circle = jnp.stack([jnp.cos(turn), jnp.sin(turn)], axis=1)
    place = q[0] * jnp.array([jnp.cos(q[1]), jnp.sin(q[1])])
    return [Dots(jnp.zeros(2)), Rod(circle), Rod(1.5 * circle), Dots(place, trail=True)]


def orbit_transfer(mu: float = 1.0, radial: bool = True) -> OptimalControl:
    """Gravity μ of the centre; radial: with both thrusts, or the tangential one alone."""
    plant = System(lagrangian, coordinates=("r", "phi"), parameters={"mu": mu}, draw=draw)
    return OptimalControl(plant, cost=effort, actuated=radial_and_tangential if radial else tangential)


entry = BoundaryEntry(
    name="orbit_transfer",
    title="Transfer between circular orbits",
    formula="L = ½(ṙ²+r²φ̇²) + μ/r,  min ∫|u|² dt, two thrusts",
    source="circular orbits, angle free",
    problem=orbit_transfer(),
    boundary={"initial": ((1.0, 0.0), (0.0, 1.0)), "final": ({"r": 1.5}, (0.0, 1.5**-1.5)), "T": 6.0},
    steps=160,
    cost=0.007713843832,
)
