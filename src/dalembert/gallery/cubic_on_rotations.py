"""Riemannian cubic on SO(3): L = ½|dω/dt|², from one attitude and angular velocity to another.

The turn between two attitudes with the least angular acceleration, as the camera of a spacecraft is pointed: without ends
its equation is d³ω/dt³ = d²ω/dt² × ω. Source: L. Noakes, G. Heinzinger, B. Paden, Cubic splines on curved spaces, IMA J.
Math. Control Inf. 6 (1989). The least ½∫|dω/dt|² of these ends is known from shooting with costates in the body's axes and
from collocation in modified Rodrigues parameters.
"""

import numpy as np

from dalembert.drawing import Body, Dots
from dalembert.gallery.entry import BoundaryEntry
from dalembert.groups import SO3
from dalembert.systems import VariationalProblem

AXIS, ANGLE = np.array([1.0, 2.0, 2.0]) / 3.0, 2.0
LAST = (float(np.cos(0.5 * ANGLE)), *(np.sin(0.5 * ANGLE) * AXIS).tolist())


def lagrangian(q, v, a):
    return 0.5 * a.R @ a.R


def draw(q):
    """A box, and the way of the point at which it looks."""
    return [Body(q.R, 0.0 * q.R[0]), Dots(q.R[:, 0], trail=True)]


def cubic_on_rotations() -> VariationalProblem:
    return VariationalProblem(lagrangian, derivatives=2, coordinates={"R": SO3()}, draw=draw)


entry = BoundaryEntry(
    name="cubic_on_rotations",
    title="Riemannian cubic on SO(3)",
    formula="L = ½|dω/dt|²",
    source="Noakes, Heinzinger, Paden 1989",
    problem=cubic_on_rotations(),
    boundary={"initial": ((1.0, 0.0, 0.0, 0.0), (0.5, -0.3, 0.2)), "final": (LAST, (-0.2, 0.4, 0.6)), "T": 1.0},
    steps=40,
    cost=17.677608262,
)
