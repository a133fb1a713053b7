"""A satellite with three wheels on SO(3) × R³, which turn it to the axes of space: a law of second order, as a constraint.

ℓ = ½ω·Iω + ½j|ψ̇ + ω|²,  ω̇ = -dω - k e(R), with e the axial vector of ½(R - Rᵀ), and reactions along the wheels' angles ψ
alone: the multipliers are the torques of the motors. The momentum R(Iω + j(ω + ψ̇)) in space is kept, whatever the motors do:
the wheels end with all of it. For k = 0 the axis of the turn is fixed in space, and ω = e^(-dt) ω₀.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Body, Rod
from dalembert.gallery.entry import Entry
from dalembert.groups import SO3
from dalembert.systems import SecondOrder, System

ANGLE, OMEGA, WHEELS = 2.4, (0.5, -0.3, 0.4), (3.0, -2.0, 5.0)
AXIS = np.array([2.0, 1.0, 2.0]) / 3.0


def lagrangian(q, v, p):
    wheels = v.psi + v.R
    return 0.5 * v.R @ (p["I"] * v.R) + 0.5 * p["j"] * wheels @ wheels


def turning(q, v, a, p):
    """ω̇ + dω + k e(R) = 0: a damped pendulum, if the body turns about a fixed axis."""
    S = 0.5 * (q.R - q.R.T)
    return a.R + p["d"] * v.R + p["k"] * jnp.array([S[2, 1], S[0, 2], S[1, 0]])


def motors(q, v, a, p):
    return {"psi": jnp.eye(3)}


def draw(q, p):
    """The body with its two panels."""
    panels = [Body.box(side * q.R[:, 0], [1.2, 0.6, 0.04], rotation=q.R) for side in (-1.0, 1.0)]
    return [Body.box(jnp.zeros(3), [0.6, 0.6, 0.8], rotation=q.R), *panels, Rod([jnp.zeros(3), 0.9 * q.R[:, 2]])]


def satellite(stiffness: float = 1.0, damping: float = 1.2) -> System:
    parameters = {"I": [1.0, 1.5, 2.2], "j": 0.1, "d": damping, "k": stiffness}
    law = SecondOrder(turning, reactions=motors)
    return System(lagrangian, law, coordinates={"R": SO3(), "psi": 3}, parameters=parameters, draw=draw)


entry = Entry(
    name="satellite",
    title="Satellite turned by three wheels",
    formula="ℓ = ½ω·Iω + ½j|ψ̇ + ω|²,  ω̇ = -dω - k e(R),  reactions along ψ",
    source="momentum in space is kept; closed form for k = 0",
    system=satellite(),
    q0=(float(np.cos(ANGLE / 2)), *map(float, np.sin(ANGLE / 2) * AXIS), 0.0, 0.0, 0.0),
    v0=(*OMEGA, *WHEELS),
    h=0.02,
    time=15.0,
)
