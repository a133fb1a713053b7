"""Minimum jerk: L = ½|d³q/dt³|², k = 3: the way of a hand from rest to rest, q = 10τ³ - 15τ⁴ + 6τ⁵ with τ = t/T.

Source: T. Flash, N. Hogan, The coordination of arm movements, J. Neurosci. 5 (1985).
"""

import numpy as np

from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import VariationalProblem

START, END = ((0.0,), (0.0,), (0.0,)), ((1.0,), (0.0,), (0.0,))  # (q, v, a) at t = 0 and at t = 1


def lagrangian(q, v, a, j):
    return 0.5 * j @ j


def minimum_jerk() -> VariationalProblem:
    return VariationalProblem(lagrangian, derivatives=3, coordinates=("x",))


def exact(t):
    """10τ³ - 15τ⁴ + 6τ⁵."""
    s = np.asarray(t, dtype=float)[..., None]
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


entry = BoundaryEntry(
    name="minimum_jerk",
    title="Minimum jerk from rest to rest",
    formula="L = ½|d³q/dt³|²",
    source="Flash, Hogan 1985",
    problem=minimum_jerk(),
    boundary={"initial": START, "final": END, "T": 1.0},
    steps=40,
    exact=exact,
)
