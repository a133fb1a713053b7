"""Suslov's problem on SO(3): ℓ = ½ω·Iω with ω₃ = 0 in the body's axes, I not diagonal.

The constraint belongs to the body, and the force that keeps it up acts about its axis 3. Energy is kept, momentum is not:
every motion goes from a turn about one axis to the opposite turn about it. Suslov, Theoretical Mechanics, 1946; the run is
that of row 5 of the reference values, with ω in closed form.
"""

import jax.numpy as jnp

from dalembert.drawing import Body, Rod
from dalembert.gallery.entry import Entry
from dalembert.groups import SO3
from dalembert.systems import Nonholonomic, System


def lagrangian(q, v, p):
    return 0.5 * v.R @ (p["I"] @ v.R)


def no_third_turn(q, v, p):
    return v.R[2]


def draw(q, p):
    """The body, and the axis about which it does not turn."""
    return [Body(q.R, jnp.zeros(3)), Rod([jnp.zeros(3), 0.8 * q.R[:, 2]])]


def suslov() -> System:
    inertia = [[2.0, 0.0, 0.35], [0.0, 1.3, -0.2], [0.35, -0.2, 1.1]]
    return System(lagrangian, Nonholonomic(no_third_turn), coordinates={"R": SO3()}, parameters={"I": inertia}, draw=draw)


entry = Entry(
    name="suslov",
    title="Suslov's problem",
    formula="ℓ = ½ω·Iω,  ω₃ = 0",
    source="Suslov 1946; energy is kept",
    system=suslov(),
    q0=(1.0, 0.0, 0.0, 0.0),
    v0=(0.5, -0.8, 0.0),
    h=0.02,
    time=20.0,
)
