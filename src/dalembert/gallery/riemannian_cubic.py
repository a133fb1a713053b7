"""Riemannian cubic on the sphere: L = ½|Dq̇/dt|², k = 2. The circle (cos ωt, sin ωt, 1)/√2 is one: L = ω⁴/8 along it.

Great circles whose arc length is a cubic polynomial of t are others. Source: L. Noakes, G. Heinzinger, B. Paden, Cubic
splines on curved spaces, IMA J. Math. Control Inf. 6 (1989); Colombo, Martín de Diego, Zuccalli, section 2.2.
"""

import numpy as np

from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import VariationalProblem
from dalembert.systems.manifolds import riemannian_spline, sphere

OMEGA = 1.0


def riemannian_cubic() -> VariationalProblem:
    return riemannian_spline(sphere())


def exact(t):
    """(cos ωt, sin ωt, 1)/√2."""
    s = OMEGA * np.asarray(t, dtype=float)
    return np.stack([np.cos(s), np.sin(s), np.ones_like(s)], axis=-1) / np.sqrt(2.0)


def velocity(t):
    """ω(-sin ωt, cos ωt, 0)/√2."""
    s = OMEGA * np.asarray(t, dtype=float)
    return OMEGA * np.stack([-np.sin(s), np.cos(s), np.zeros_like(s)], axis=-1) / np.sqrt(2.0)


entry = BoundaryEntry(
    name="riemannian_cubic",
    title="Riemannian cubic on the sphere",
    formula="L = ½|Dq̇/dt|², |q|² = 1",
    source="Noakes, Heinzinger, Paden 1989; closed form: a parallel at 45°",
    problem=riemannian_cubic(),
    boundary={"initial": (exact(0.0), velocity(0.0)), "final": (exact(1.5), velocity(1.5)), "T": 1.5},
    steps=40,
    exact=exact,
)
