"""Cart with a pole on a platform that moves up and down, y(t) = a cos ωt: an underactuated system that depends on time.

L = ½(M+m)ẋ² + mlẋθ̇ cos θ + ½ml²θ̇² + mlẏ(t)θ̇ sin θ + mgl cos θ, θ = 0 hanging; one force u on the cart. Source: the class
of systems of Colombo, Martín de Diego, Zuccalli, section 4.3, which has no example.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.control import OptimalControl
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System

REST = (0.0, 0.0)


def lagrangian(q, v, t, p):
    lift = -p["a"] * p["omega"] * jnp.sin(p["omega"] * t)  # ẏ
    kinetic = 0.5 * (p["M"] + p["m"]) * v[0] ** 2 + 0.5 * p["m"] * (p["l"] * v[1]) ** 2
    coupled = jnp.cos(q[1]) * (v[0] * v[1] + p["g"]) + jnp.sin(q[1]) * lift * v[1]
    return kinetic + p["m"] * p["l"] * coupled


def effort(q, v, u, t, p):
    return u @ u


def moving_support(
    M: float = 1.0, m: float = 0.3, l: float = 0.5, g: float = 9.81, a: float = 0.1, omega: float = 6.0
) -> OptimalControl:
    """Masses of cart and pole, its length, gravity, and the platform's amplitude and angular frequency."""
    parameters = {"M": M, "m": m, "l": l, "g": g, "a": a, "omega": omega}
    plant = System(lagrangian, coordinates=("x", "theta"), parameters=parameters, time_dependent=True)
    return OptimalControl(plant, cost=effort, actuated=0)


entry = BoundaryEntry(
    name="moving_support",
    title="Swing-up of a cart with a pole on a moving platform",
    formula="L = ½(M+m)ẋ² + ml cos θ (ẋθ̇+g) + ½ml²θ̇² + mlẏ(t)θ̇ sin θ,  min ∫u² dt",
    source="Colombo, Martín de Diego, Zuccalli, section 4.3",
    problem=moving_support(),
    boundary={"initial": (REST, REST), "final": ((1.0, np.pi), REST), "T": 2.0},
    steps=160,
    cost=39.398017254,
)
