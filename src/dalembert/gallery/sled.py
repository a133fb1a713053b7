"""The Chaplygin sleigh on SE(2): ℓ = ½m(v₁² + (v₂ + aω)²) + ½Jω², with a blade along the first axis, v₂ = 0.

Velocities are those of the body, so that neither angle nor sine stands in the equations: the reduced motion is
u̇ = aω², ω̇ = -m a u ω/(J + m a²), and its solution is a hyperbolic secant. In coordinates it is `chaplygin_sleigh`.
"""

import jax.numpy as jnp

from dalembert.drawing import Body, Dots
from dalembert.gallery.entry import Entry
from dalembert.groups import SE2
from dalembert.systems import Nonholonomic, System


def lagrangian(q, v, p):
    w, u, across = v.g
    return 0.5 * p["m"] * (u**2 + (across + p["a"] * w) ** 2) + 0.5 * p["J"] * w**2


def blade(q, v, p):
    return v.g[2]


def draw(q, p):
    """The sled, and the way of its blade."""
    shape = jnp.array([[-0.3, -0.25], [0.7, -0.25], [0.9, 0.0], [0.7, 0.25], [-0.3, 0.25]])
    return [Body(q.g.R, q.g.x, shape=shape), Dots(q.g.x, trail=True)]


def sled() -> System:
    parameters = {"m": 1.0, "a": 0.3, "J": 0.5}
    return System(lagrangian, Nonholonomic(blade), coordinates={"g": SE2()}, parameters=parameters, draw=draw)


entry = Entry(
    name="sled",
    title="Sled on SE(2)",
    formula="ℓ = ½m(v₁² + (v₂ + aω)²) + ½Jω²,  v₂ = 0",
    source="Chaplygin 1911; it ends by sliding straight",
    system=sled(),
    q0=(1.0, 0.0, 0.0, 0.0),
    v0=(1.5, 0.4, 0.0),
    h=0.02,
    time=15.0,
)
