"""A particle in the plane whose path has the prescribed signed curvature k(x, y).

L = ½m|v|²,  (ẋÿ - ẍẏ)/|v|³ = k(x, y),  virtual displacements along v: the force is normal to the velocity.
mẍ = λẏ, mÿ = -λẋ with λ = -mk|v|; the speed is constant.
Borda, Fernández, Grillo, Section 4.1, eq. (5).
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from dalembert.gallery.entry import Entry
from dalembert.systems import SecondOrder, System


def lagrangian(q, v, p):
    return 0.5 * p["m"] * (v @ v)


def normal(q, v, a, p):
    return jnp.array([v[1], -v[0]])


def curvature_particle(k: Callable | None = None, parameters: dict | None = None) -> System:
    """k: function k(q, p) of the position, the constant p["k"] if None; parameters: those of k, besides m."""

    def curvature(q, v, a, p):
        wanted = p["k"] if k is None else k(q, p)
        return (v[0] * a[1] - a[0] * v[1]) / (v @ v) ** 1.5 - wanted

    return System(
        lagrangian,
        SecondOrder(curvature, reactions=normal),
        coordinates=("x", "y"),
        parameters={"m": 1.0, **({"k": 1.0} if k is None else {}), **(parameters or {})},
    )


def exact(t, k: float = 1.0, m: float = 1.0):
    """The circle through the origin with v(0) = (1, 1): radius 1/k, traversed with speed √2."""
    angle = np.sqrt(2.0) * k * np.asarray(t, dtype=float) - np.pi / 4
    q = np.stack([(np.cos(angle) - np.sqrt(0.5)) / k, (np.sin(angle) + np.sqrt(0.5)) / k], axis=-1)
    v = np.sqrt(2.0) * np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    return q, v


entry = Entry(
    name="curvature_particle",
    title="Particle with prescribed curvature",
    formula="L = ½m|v|²,  (ẋÿ - ẍẏ)/|v|³ = k(x, y),  force normal to v",
    source="Borda, Fernández, Grillo, Section 4.1",
    system=curvature_particle(),
    q0=(0.0, 0.0),
    v0=(1.0, 1.0),
    h=0.1,
    time=500.0,
    exact=exact,
)
