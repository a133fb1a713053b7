"""Elastica: L = ½|q̈|², |q̇| = 1, k = 2: a rod of length 1 in the plane, its ends at a distance ½ and free to turn.

The parameter is the length along the rod, |q̈| its curvature. Free ends carry no moment: q̈ = 0 there. Source: L. Euler 1744;
the least energy by elliptic integrals.
"""

import numpy as np

from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import Nonholonomic, VariationalProblem


def bending(q, v, a):
    return 0.5 * (a @ a)


def unit_speed(q, v):
    return v @ v - 1.0


def elastica() -> VariationalProblem:
    """A rod that bends and does not stretch."""
    return VariationalProblem(bending, Nonholonomic(unit_speed), derivatives=2, coordinates=("x", "y"))


def arch(t):
    """A first path: a sine above the chord, a little shorter than the rod."""
    s = np.asarray(t, dtype=float)
    return np.stack([0.5 * s, 0.35 * np.sin(np.pi * s)], axis=-1)


entry = BoundaryEntry(
    name="elastica",
    title="Elastica of length 1 over a chord of ½",
    formula="L = ½(ẍ²+ÿ²),  ẋ²+ẏ² = 1",
    source="Euler 1744; elliptic integrals",
    problem=elastica(),
    boundary={"initial": ((0.0, 0.0),), "final": ((0.5, 0.0),), "T": 1.0},
    steps=80,
    guess=arch,
    cost=5.700591761516,
)
