"""Interpolation on the sphere by the acceleration in R³: L = ½|q̈|², |q|² = r², k = 2, through five points, ends free.

Source: Colombo, Martín de Diego, Zuccalli, section 4.4. |q̈|² = |Dq̇/dt|² + |q̇|⁴/r²: it is no Riemannian cubic.
"""

import numpy as np

from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import VariationalProblem
from dalembert.systems.manifolds import ambient_spline, sphere

TIMES = (0.0, 1.0, 2.0, 3.0, 4.0)
ANGLES = ((0.3, 0.0), (0.9, 0.8), (0.2, 1.7), (-0.5, 2.6), (0.1, 3.8))  # latitude and longitude of the points


def points(radius: float = 1.0) -> dict[float, np.ndarray]:
    """{t: q}."""
    unit = [np.array([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)]) for a, b in ANGLES]
    return dict(zip(TIMES, [radius * q for q in unit], strict=True))


def sphere_spline(radius: float = 1.0) -> VariationalProblem:
    return ambient_spline(sphere(radius))


_POINTS = points()

entry = BoundaryEntry(
    name="sphere_spline",
    title="Spline on the sphere by the acceleration in R³",
    formula="L = ½|q̈|², |q|² = 1",
    source="Colombo, Martín de Diego, Zuccalli, section 4.4",
    problem=sphere_spline(),
    boundary={
        "initial": (_POINTS[0.0],),
        "final": (_POINTS[4.0],),
        "through": {t: _POINTS[t] for t in TIMES[1:-1]},
        "T": 4.0,
    },
    steps=80,
)
