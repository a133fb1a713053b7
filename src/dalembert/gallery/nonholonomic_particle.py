"""The nonholonomic particle: L = ½|v|² - V(q),  ż = y ẋ.

Free: y is linear in time and v̇_x = -y v_x v_y/(1+y²), so that v_x √(1+y²) is constant; λ = v_x v_y/(1+y²) with the
force λ(-y, 0, 1). With parameter c the potential is ½c(x²+y²).
Jiménez, Scheurle, Section 6.4, eq. (90).
"""

from __future__ import annotations

import numpy as np

from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System


def lagrangian(q, v, p):
    return 0.5 * (v @ v) - 0.5 * p["c"] * (q[0] ** 2 + q[1] ** 2)


def constraint(q, v, p):
    return v[2] - q[1] * v[0]


def nonholonomic_particle(c: float = 0.0) -> System:
    return System(lagrangian, Nonholonomic(constraint), coordinates=("x", "y", "z"), parameters={"c": c})


def exact(t, c: float = 0.0):
    """Closed form without potential from q = (0, 1, 0), v = (1, ½, 1)."""
    if c != 0.0:
        raise ValueError(f"c: found {c}; the closed form is that of the free particle, c = 0")
    t = np.asarray(t, dtype=float)
    y = 1.0 + 0.5 * t
    constant, root = np.sqrt(2.0), np.sqrt(1 + y**2)
    x = constant / 0.5 * (np.arcsinh(y) - np.arcsinh(1.0))
    z = constant / 0.5 * (root - np.sqrt(2.0))
    v = np.stack([constant / root, 0.5 * np.ones_like(t), y * constant / root], axis=-1)
    return np.stack([x, y, z], axis=-1), v


entry = Entry(
    name="nonholonomic_particle",
    title="Nonholonomic particle",
    formula="L = ½|v|² - ½c(x²+y²),  ż = y ẋ",
    source="Jiménez, Scheurle, Section 6.4",
    system=nonholonomic_particle(),
    q0=(0.0, 1.0, 0.0),
    v0=(1.0, 0.5, 1.0),
    h=0.05,
    time=20.0,
    exact=exact,
)
