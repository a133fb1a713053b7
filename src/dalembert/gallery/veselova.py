"""Veselova's problem on SO(3): ℓ = ½ω·Iω with no turn about the vertical of space, e₃·Rω = 0.

Energy and the part of the momentum along D are kept, and the motion has an invariant measure.
Veselov, Veselova, Integrable nonholonomic systems on Lie groups, Math. Notes 44 (1988), 810-819.
"""

import jax.numpy as jnp

from dalembert.drawing import Body, Dots
from dalembert.gallery.entry import Entry
from dalembert.groups import SO3
from dalembert.systems import Nonholonomic, System


def lagrangian(q, v, p):
    return 0.5 * v.R @ (p["I"] * v.R)


def no_turn_about_the_vertical(q, v, p):
    return q.R[2] @ v.R


def draw(q, p):
    """The body, and the way of the end of its first axis."""
    return [Body(q.R, jnp.zeros(3)), Dots(0.7 * q.R[:, 0], trail=True)]


def veselova() -> System:
    constraint = Nonholonomic(no_turn_about_the_vertical)
    return System(lagrangian, constraint, coordinates={"R": SO3()}, parameters={"I": [1.0, 2.0, 3.5]}, draw=draw)


entry = Entry(
    name="veselova",
    title="Veselova's problem",
    formula="ℓ = ½ω·Iω,  e₃·Rω = 0",
    source="Veselov, Veselova, Math. Notes 44 (1988); energy is kept",
    system=veselova(),
    q0=(1.0, 0.0, 0.0, 0.0),
    v0=(0.9, -0.7, 0.0),
    h=0.02,
    time=20.0,
)
