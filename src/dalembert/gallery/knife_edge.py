"""Knife edge with thrust and torque: L = ½m(ẋ²+ẏ²) + ½Jθ̇², -sin θ ẋ + cos θ ẏ = 0, forces u₀ along the blade and u₁ on θ.

Parallel parking by one metre in four seconds, from rest to rest. The straight path sideways is no first guess: along it the
equations are singular, as the blade cannot be pushed sideways.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.control import OptimalControl
from dalembert.drawing import Dots, Rod
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import Nonholonomic, System

TIME = 4.0
REST = (0.0, 0.0, 0.0)


def lagrangian(q, v, p):
    return 0.5 * p["m"] * (v[0] ** 2 + v[1] ** 2) + 0.5 * p["J"] * v[2] ** 2


def blade(q, v, p):
    return -jnp.sin(q[2]) * v[0] + jnp.cos(q[2]) * v[1]


def thrust_and_torque(q, p):
    return jnp.array([[jnp.cos(q[2]), 0.0], [jnp.sin(q[2]), 0.0], [0.0, 1.0]])


def effort(q, v, u, p):
    return u @ u


def draw(q, p):
    """The blade from above, a runner with a cross-piece, and the way of its middle."""
    along, across = jnp.array([jnp.cos(q[2]), jnp.sin(q[2])]), jnp.array([-jnp.sin(q[2]), jnp.cos(q[2])])
    blade = Rod([q[:2] - 0.18 * along, q[:2] + 0.18 * along])
    return [blade, Rod([q[:2] - 0.07 * across, q[:2] + 0.07 * across]), Dots(q[:2], trail=True)]


def knife_edge(m: float = 1.0, J: float = 1.0) -> OptimalControl:
    """Mass and moment of inertia about the point of contact, which is the centre."""
    plant = System(lagrangian, Nonholonomic(blade), coordinates=("x", "y", "theta"), parameters={"m": m, "J": J}, draw=draw)
    return OptimalControl(plant, cost=effort, actuated=thrust_and_torque)


def guess(t):
    """Forwards while turning, then back."""
    s = np.asarray(t, dtype=float)[..., None] / TIME
    turn = np.sin(2.0 * np.pi * s)
    return np.concatenate([0.5 * turn, s, 0.8 * turn], axis=-1)


entry = BoundaryEntry(
    name="knife_edge",
    title="Parallel parking of a knife edge",
    formula="L = ½m(ẋ²+ẏ²) + ½Jθ̇²,  -sin θ ẋ + cos θ ẏ = 0,  min ∫|u|² dt",
    source="parallel parking",
    problem=knife_edge(),
    boundary={"initial": (REST, REST), "final": ((0.0, 1.0, 0.0), REST), "T": TIME},
    steps=160,
    guess=guess,
    cost=8.722405864301,
)
