"""Dubins' car: the shortest curve with curvature |κ| ≤ 1 between two positions with headings; T is its length.

ẋ = cos θ, ẏ = sin θ, θ̇ = κ, L = 1. The shortest ones consist of circles and straight lines (L. E. Dubins 1957); this one
turns left, goes straight, and turns left. κ is a coordinate, given at the ends as the circles there have it. The middle of a
step does not see a κ that alternates from node to node, and where the car goes straight no bound does: the little that its
changes cost, 1e-8 κ̇², sees it and moves T by 1e-6 and less.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.boundary import Free
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import Nonholonomic, VariationalProblem

SMOOTH = 1e-8


def length(q, v):
    return 1.0 + SMOOTH * v[3] ** 2


def unit_speed(q, v):
    return jnp.stack([v[0] - jnp.cos(q[2]), v[1] - jnp.sin(q[2]), v[2] - q[3]])


def dubins() -> VariationalProblem:
    """A car of unit speed, whose curvature has bounds."""
    return VariationalProblem(length, Nonholonomic(unit_speed), coordinates=("x", "y", "theta", "kappa"))


entry = BoundaryEntry(
    name="dubins",
    title="Dubins' car from (0, 0, 0) to (4, 4, π), |κ| ≤ 1",
    formula="L = 1,  ẋ = cos θ, ẏ = sin θ, θ̇ = κ,  |κ| ≤ 1,  T free",
    source="Dubins 1957; closed form: left, straight, left",
    problem=dubins(),
    boundary={
        "initial": ((0.0, 0.0, 0.0, 1.0),),
        "final": ((4.0, 4.0, float(np.pi), 1.0),),
        "T": Free(8.0),
        "bounds": {"q": {"kappa": (-1.0, 1.0)}},
    },
    steps=160,
    cost=7.613728608589,
)
