"""Planar vertical take-off vehicle: L = ½(ẋ²+ẏ²+θ̇²) - gy, thrust u₀ along its axis, a moment u₁ that pushes sideways too.

B = [(-sin θ, ε cos θ), (cos θ, ε sin θ), (0, 1)]. From hovering to hovering one metre to the side in two seconds. Source: J.
Hauser, S. Sastry, G. Meyer, Automatica 28 (1992).
"""

import jax.numpy as jnp

from dalembert.control import OptimalControl
from dalembert.drawing import Body, Dots, Rod
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System

REST = (0.0, 0.0, 0.0)


def lagrangian(q, v, p):
    return 0.5 * v @ v - p["g"] * q[1]


def thrust_and_moment(q, p):
    sin, cos = jnp.sin(q[2]), jnp.cos(q[2])
    return jnp.array([[-sin, p["epsilon"] * cos], [cos, p["epsilon"] * sin], [0.0, 1.0]])


def effort(q, v, u, p):
    return u @ u


def draw(q, p):
    """The beam with two rotors, and the way of its centre."""
    along, up = jnp.array([jnp.cos(q[2]), jnp.sin(q[2])]), jnp.array([-jnp.sin(q[2]), jnp.cos(q[2])])
    tips = [q[:2] + side * 0.24 * along + 0.05 * up for side in (-1.0, 1.0)]
    rotors = [Rod([tip - 0.09 * along, tip + 0.09 * along]) for tip in tips]
    return [Body.box(q[:2], [0.5, 0.05], angle=q[2]), *rotors, Dots(q[:2], trail=True)]


def vertical_take_off(epsilon: float = 0.3, g: float = 9.81) -> OptimalControl:
    """ε, how much the moment pushes sideways, and gravity; mass and moment of inertia are 1."""
    plant = System(lagrangian, coordinates=("x", "y", "theta"), parameters={"epsilon": epsilon, "g": g}, draw=draw)
    return OptimalControl(plant, cost=effort, actuated=thrust_and_moment)


entry = BoundaryEntry(
    name="vertical_take_off",
    title="Planar vertical take-off vehicle, one metre sideways",
    formula="L = ½(ẋ²+ẏ²+θ̇²) - gy,  min ∫|u|² dt, thrust and moment",
    source="Hauser, Sastry, Meyer (1992)",
    problem=vertical_take_off(),
    boundary={"initial": (REST, REST), "final": ((1.0, 0.0, 0.0), REST), "T": 2.0},
    steps=160,
    cost=205.415572208078,
)
