"""A neutrally buoyant body in an ideal fluid at rest, on SE(3): Kirchhoff's equations.

ℓ = ½ω·Jω + ½v·Mv + C ω₁v₂ in the body's axes, with the fluid's added mass in J and M: it differs by direction, and the body
does not fly straight. Energy, the impulse Rp and the impulsive moment Rπ + x × Rp in space are kept.
Leonard, Stability of a bottom-heavy underwater vehicle, Automatica 33 (1997), 331-346.
"""

from dalembert.drawing import Body, Dots
from dalembert.gallery.entry import Entry
from dalembert.groups import SE3
from dalembert.systems import System


def lagrangian(q, v, p):
    w, u = v.g[:3], v.g[3:]
    return 0.5 * w @ (p["J"] * w) + 0.5 * u @ (p["M"] * u) + p["C"] * w[0] * u[1]


def draw(q, p):
    """The body and its way."""
    return [Body(q.g.R, q.g.x), Dots(q.g.x, trail=True)]


def underwater_vehicle() -> System:
    parameters = {"J": [1.0, 1.4, 2.0], "M": [2.0, 2.6, 3.5], "C": 0.3}
    return System(lagrangian, coordinates={"g": SE3()}, parameters=parameters, draw=draw)


entry = Entry(
    name="underwater_vehicle",
    title="Body in an ideal fluid on SE(3)",
    formula="ℓ = ½ω·Jω + ½v·Mv + C ω₁v₂",
    source="Leonard 1997; energy and impulse are kept",
    system=underwater_vehicle(),
    q0=(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    v0=(0.4, -0.3, 0.6, 0.5, 0.2, -0.1),
    h=0.02,
    time=20.0,
)
