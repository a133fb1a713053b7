"""A pendulum sets the ratio of two shafts: L = ½|v|² - ½(x²+z²) + cos y + b (ẏ sin z + x y ż),  ẋ + ż sin y = 0.

A continuously variable transmission: x and z are the angles of the shafts, which have springs, y that of the pendulum. For
b = 0 no force acts on the pendulum, and the motion is reversible and integrable. The terms with b are linear in v and no
derivative of a function: a magnetic force, which does no work, and no (q, v) → (Sq, -Sv) reverses the motion any more.
Schemes that owe their energy to reversibility then drift. After the pendulum-driven transmission of Modin, Verdier, What
makes nonholonomic integrators work?, Numer. Math. 145 (2020); the magnetic term is ours.
"""

import jax.numpy as jnp

from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System


def lagrangian(q, v, p):
    x, y, z = q
    magnetic = p["b"] * (jnp.sin(z) * v[1] + x * y * v[2])
    return 0.5 * (v @ v) - 0.5 * (x * x + z * z) + jnp.cos(y) + magnetic


def ratio(q, v, p):
    return v[0] + jnp.sin(q[1]) * v[2]


def pendulum_transmission(b: float = 0.0) -> System:
    return System(lagrangian, Nonholonomic(ratio), coordinates=("x", "y", "z"), parameters={"b": b})


entry = Entry(
    name="pendulum_transmission",
    title="Transmission driven by a pendulum",
    formula="L = ½|v|² - ½(x²+z²) + cos y + b (ẏ sin z + x y ż),  ẋ + ż sin y = 0",
    source="after Modin, Verdier, Numer. Math. 145 (2020)",
    system=pendulum_transmission(),
    q0=(1.2, 0.9, -0.4),
    v0=(0.0, -0.4, 0.0),
    h=0.05,
    time=100.0,
)
