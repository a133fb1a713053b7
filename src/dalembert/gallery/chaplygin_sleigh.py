"""The Chaplygin sleigh: a body on the plane, on a blade at (x, y) with heading θ, its centre of mass the length a ahead.

    L = ½m[(ẋ - aθ̇ sin θ)² + (ẏ + aθ̇ cos θ)²] + ½Iθ̇²,   -sin θ ẋ + cos θ ẏ = 0

Along the blade u, about the vertical ω: u̇ = aω², (I + ma²)ω̇ = -m a u ω, so that u² + b²ω² = U² is constant,
b² = (I + ma²)/m, and u = U tanh σ, bω = U sech σ with σ̇ = aU/b²: whatever it begins with, in the end it glides straight on
with its centre of mass in front. A mechanical system without friction, and attracted to some of its motions.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Body, Dots, Rod
from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System

SPEED, TURN = 0.5, 1.5  # u and ω of the typical run


def lagrangian(q, v, p):
    along = jnp.array([-jnp.sin(q[2]), jnp.cos(q[2])])
    centre = v[:2] + p["a"] * v[2] * along
    return 0.5 * p["m"] * (centre @ centre) + 0.5 * p["I"] * v[2] ** 2


def blade(q, v, p):
    return -jnp.sin(q[2]) * v[0] + jnp.cos(q[2]) * v[1]


def draw(q, p):
    """From above: the body about its centre of mass, the blade under its rear end, and the way of the blade."""
    along, across = jnp.array([jnp.cos(q[2]), jnp.sin(q[2])]), jnp.array([-jnp.sin(q[2]), jnp.cos(q[2])])
    nose, side = p["a"] * along, 0.7 * p["a"] * across
    centre = q[:2] + nose
    body = Body([q[:2] - side, centre + side * -1.0, centre + 1.2 * nose, centre + side, q[:2] + side])
    return [body, Rod([q[:2] - 0.9 * nose, q[:2] + 0.9 * nose]), Dots(centre), Dots(q[:2], trail=True)]


def chaplygin_sleigh() -> System:
    """With m = I = 1 and a = ½."""
    parameters = {"m": 1.0, "I": 1.0, "a": 0.5}
    return System(lagrangian, Nonholonomic(blade), coordinates=("x", "y", "θ"), parameters=parameters, draw=draw)


def rates(t, m: float = 1.0, I: float = 1.0, a: float = 0.5, u: float = SPEED, omega: float = TURN):
    """(u, ω, θ - θ₀) at the times t, from u and ω at t = 0."""
    b = np.sqrt(I / m + a * a)
    speed = np.hypot(u, b * omega)
    first = np.arctanh(u / speed)
    sigma = first + a * speed / b**2 * np.asarray(t, dtype=float)
    turned = np.sign(omega) * b / a * (np.arctan(np.sinh(sigma)) - np.arctan(np.sinh(first)))
    return speed * np.tanh(sigma), np.sign(omega) * speed / b / np.cosh(sigma), turned


entry = Entry(
    name="chaplygin_sleigh",
    title="Chaplygin sleigh",
    formula="L = ½m|ċ|² + ½Iθ̇², c = r + a e(θ),  -sin θ ẋ + cos θ ẏ = 0",
    source="Bloch, Nonholonomic Mechanics and Control, Section 1.7",
    system=chaplygin_sleigh(),
    q0=(0.0, 0.0, 0.0),
    v0=(SPEED, 0.0, TURN),
    h=0.05,
    time=10.0,
)
