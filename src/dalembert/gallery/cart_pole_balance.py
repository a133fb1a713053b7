"""The cart-pole of `cart_pole` held upright by a Lyapunov constraint; V in closed form from the matching conditions.

With c = cos θ, θ = π upright, r = (cẋ + lθ̇)/(κc + l), y = x - κ(θ - π):
V = ½ml(κ-l)r² + ½aẏ² + ½ky² + (g m l(κ-l)/κ) ln((κ-l)/(-κc-l)),  F = ρg²,  g = aẏ(κc+l)/(l(M + m sin²θ)).
V solves both matching conditions where -κc > l, which is |θ - π| < arccos(l/κ), and grows without bound towards that angle.
κ, a, k, ρ are near those that `energy_shaping` chooses for Q = diag(10, 10, 1, 1), R = 0.1.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.gallery.cart_pole import draw, lagrangian
from dalembert.gallery.entry import Entry
from dalembert.systems import Lyapunov, System

PARAMETERS = {"M": 1.0, "m": 0.3, "l": 0.5, "g": 9.81, "kappa": 1.3, "a": 0.038, "k": 0.6, "rho": 176.0}


def lyapunov(q, v, p):
    c, excess = jnp.cos(q[1]), p["kappa"] - p["l"]
    left = -(p["kappa"] * c + p["l"])
    weight = p["m"] * p["l"] * excess
    kinetic = 0.5 * weight * ((c * v[0] + p["l"] * v[1]) / left) ** 2 + 0.5 * p["a"] * (v[0] - p["kappa"] * v[1]) ** 2
    across = q[0] - p["kappa"] * (q[1] - np.pi)
    return kinetic + 0.5 * p["k"] * across**2 + p["g"] * weight / p["kappa"] * jnp.log(excess / left)


def factor(q, v, p):
    """g, the coefficient of the control in dV/dt."""
    inertia = p["l"] * (p["M"] + p["m"] * jnp.sin(q[1]) ** 2)
    return p["a"] * (v[0] - p["kappa"] * v[1]) * (p["kappa"] * jnp.cos(q[1]) + p["l"]) / inertia


def dissipation(q, v, p):
    return p["rho"] * factor(q, v, p) ** 2


def cart_pole_balance() -> System:
    return System(
        lagrangian,
        Lyapunov(lyapunov, dissipation, actuated=0),
        coordinates=("x", "theta"),
        parameters=PARAMETERS,
        draw=draw,
    )


entry = Entry(
    name="cart_pole_balance",
    title="Cart with a pole that a Lyapunov constraint keeps upright",
    formula="L = ½(M+m)ẋ² + ml cos θ (ẋθ̇+g) + ½ml²θ̇²,  dV/dt = -F, u on x",
    source="Energy shaping along lines, `energy_shaping`; V in closed form",
    system=cart_pole_balance(),
    q0=(0.0, np.pi - 0.6),
    v0=(0.0, 0.0),
    h=0.01,
    time=10.0,
)
