"""Cart with a pole: L = ½(M+m)ẋ² + mlẋθ̇ cos θ + ½ml²θ̇² + mgl cos θ, θ = 0 hanging; one force u on the cart.

The swing-up from rest at (0, 0) to rest at (1, π) in two seconds with the least ∫u² dt has several extremals: the one near
the straight line costs 58.8077.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.control import OptimalControl
from dalembert.drawing import Body, Dots, Rod, Wheel
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System

REST = (0.0, 0.0)


def lagrangian(q, v, p):
    kinetic = 0.5 * (p["M"] + p["m"]) * v[0] ** 2 + 0.5 * p["m"] * (p["l"] * v[1]) ** 2
    return kinetic + p["m"] * p["l"] * jnp.cos(q[1]) * (v[0] * v[1] + p["g"])


def effort(q, v, u, p):
    return u @ u


def draw(q, p):
    """The cart on its wheels, the pole, and the way of its end."""
    size, radius = 0.8 * p["l"], 0.12 * p["l"]
    cart, end = jnp.array([q[0], 0.0]), jnp.array([q[0] + p["l"] * jnp.sin(q[1]), -p["l"] * jnp.cos(q[1])])
    below = [cart + jnp.array([side * 0.28 * size, -0.26 * size]) for side in (-1.0, 1.0)]
    wheels = [Wheel(at, radius, -q[0] / radius) for at in below]
    return [*wheels, Body.box(cart, [size, 0.4 * size]), Rod([cart, end]), Dots(end, trail=True)]


def cart_pole(M: float = 1.0, m: float = 0.3, l: float = 0.5, g: float = 9.81) -> OptimalControl:
    """Masses of cart and pole, its length, and gravity."""
    plant = System(lagrangian, coordinates=("x", "theta"), parameters={"M": M, "m": m, "l": l, "g": g}, draw=draw)
    return OptimalControl(plant, cost=effort, actuated=0)


entry = BoundaryEntry(
    name="cart_pole",
    title="Swing-up of a cart with a pole",
    formula="L = ½(M+m)ẋ² + ml cos θ (ẋθ̇+g) + ½ml²θ̇²,  min ∫u² dt, u on x",
    source="Kelly, SIAM Review 59 (2017), section 6",
    problem=cart_pole(),
    boundary={"initial": (REST, REST), "final": ((1.0, np.pi), REST), "T": 2.0},
    steps=160,
    cost=58.807667458167,
)
