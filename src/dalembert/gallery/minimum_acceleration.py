"""Minimum acceleration: L = ½|q̈|², k = 2, between given positions and velocities. Extremals are cubic polynomials of t.

The discrete equations are fourth differences = 0: for equal steps and ends given as `Nodes` exact at the nodes.
"""

import numpy as np

from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import VariationalProblem

START, END = ((0.0, 0.0), (1.0, 0.0)), ((1.0, 1.0), (0.0, 2.0))  # (q, v) at t = 0 and at t = 1


def lagrangian(q, v, a):
    return 0.5 * a @ a


def minimum_acceleration() -> VariationalProblem:
    return VariationalProblem(lagrangian, derivatives=2, coordinates=("x", "y"))


def exact(t):
    """Hermite's cubic polynomial through START and END."""
    s = np.asarray(t, dtype=float)[..., None]
    (q0, v0), (q1, v1) = np.array(START), np.array(END)
    return q0 + s * v0 + s**2 * (3 * (q1 - q0) - 2 * v0 - v1) + s**3 * (v0 + v1 - 2 * (q1 - q0))


entry = BoundaryEntry(
    name="minimum_acceleration",
    title="Minimum acceleration",
    formula="L = ½|q̈|²",
    source="cubic polynomials",
    problem=minimum_acceleration(),
    boundary={"initial": START, "final": END, "T": 1.0},
    steps=20,
    exact=exact,
)
