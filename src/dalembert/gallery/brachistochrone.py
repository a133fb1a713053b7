"""Brachistochrone: the curve along which a bead slides to (x, y) in the least time; y points down, s is its speed.

The time ∫|dq|/s is that of a geodesic: L = ½(1 + |q̇|²/s²) with s² = 2gy and free T. T + τ²/T, τ the time of a curve, is
least where T = τ, and then ∫L = T. As a coordinate the speed is linear where the bead starts, so that free fall is exact:
with √(2gy) in its place T would have order 1. The curve is a cycloid, x = R(φ - sin φ), y = R(1 - cos φ), φ = t√(g/R).
"""

import numpy as np

from dalembert.boundary import Free
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import Holonomic, VariationalProblem

GRAVITY = 9.81
RADIUS = 0.5729170375317504  # of the cycloid from (0, 0) to (1, 1)


def lagrangian(q, v):
    return 0.5 * (1.0 + (v[0] ** 2 + v[1] ** 2) / q[2] ** 2)


def conserved(q):
    return q[2] ** 2 - 2.0 * GRAVITY * q[1]


def brachistochrone() -> VariationalProblem:
    """From rest, along a curve without friction."""
    return VariationalProblem(lagrangian, Holonomic(conserved), coordinates=("x", "y", "s"))


def exact(t):
    """The cycloid, (x, y, s)."""
    angle = np.sqrt(GRAVITY / RADIUS) * np.asarray(t, dtype=float)
    x, y = RADIUS * (angle - np.sin(angle)), RADIUS * (1.0 - np.cos(angle))
    return np.stack([x, y, np.sqrt(2.0 * GRAVITY * y)], axis=-1)


entry = BoundaryEntry(
    name="brachistochrone",
    title="Brachistochrone from (0, 0) to (1, 1 down)",
    formula="L = ½(1 + (ẋ²+ẏ²)/s²),  s² = 2gy,  T free",
    source="Johann Bernoulli 1696; closed form: a cycloid",
    problem=brachistochrone(),
    boundary={
        "initial": ((0.0, 0.0, 0.0),),
        "final": ((1.0, 1.0, float(np.sqrt(2.0 * GRAVITY))),),
        "T": Free(1.0),
    },
    steps=80,
    exact=exact,
    cost=0.582895463155,
)
