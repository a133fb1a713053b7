"""The nonholonomic particle: L = ½|v|² - ½c(x²+y²),  ż = y ẋ.

Free, c = 0: y is linear in time and v̇_x = -y v_x v_y/(1+y²), so that v_x √(1+y²) is constant; λ = v_x v_y/(1+y²) with the
force λ(-y, 0, 1).
With the potential, c > 0: y is harmonic, y = A sin(√c t + δ), and p = √(1+y²) ẋ satisfies ṗ = -c x/√(1+y²). In the time s
with ds = dt/√(1+y²) that is d²x/ds² = -c x: x is harmonic in s, and s is an elliptic integral of the first kind,
√c s = F(√c t + δ | -A²) - F(δ | -A²). Both energies, ½(ẏ²+cy²) and ½(p²+cx²), are conserved.
z = ∫ y ẋ dt is left as a quadrature, by Gauss's rule to round-off.
Jiménez, Scheurle, Section 6.4, eq. (90); the solution with potential is not in the paper.
"""

import numpy as np
from scipy.special import ellipkinc

from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System

START = ((0.0, 1.0, 0.0), (1.0, 0.5, 1.0))


def lagrangian(q, v, p):
    return 0.5 * (v @ v) - 0.5 * p["c"] * (q[0] ** 2 + q[1] ** 2)


def constraint(q, v, p):
    return v[2] - q[1] * v[0]


def nonholonomic_particle(c: float = 0.0) -> System:
    return System(lagrangian, Nonholonomic(constraint), coordinates=("x", "y", "z"), parameters={"c": c})


def exact(t, c: float = 0.0, q0=START[0], v0=START[1]):
    """(q, v) at t, (…, 3) each, from consistent (q0, v0): closed form, z for c > 0 by quadrature.

    Raises ValueError for c < 0, and for c = 0 with v_y = 0, where y does not move.
    """
    t, c = np.asarray(t, dtype=float), float(c)
    if not c >= 0:
        raise ValueError(f"c: found {c:g}; the closed form is for c ≥ 0")
    if c == 0:
        return _free(t, q0, v0)
    start = (*q0[:2], *v0[:2])
    x, y, vx, vy = _oscillating(t, c, *start)
    # ẋ has poles at y = ±i, which are about 1/|ẏ| away from the real times, and both factors oscillate with √c.
    width = 0.25 / max(1.0, np.sqrt(c), np.hypot(v0[1], np.sqrt(c) * q0[1]))
    z = q0[2] + _integral(lambda s: _height_rate(s, c, *start), t, width)
    return np.stack([x, y, z], axis=-1), np.stack([vx, vy, y * vx], axis=-1)


def _free(t, q0, v0):
    (x0, y0, z0), (vx, vy, _) = q0, v0
    if vy == 0:
        raise ValueError("v0: found v_y = 0; the closed form for c = 0 divides by it")
    y = y0 + vy * t
    constant, root = vx * np.sqrt(1 + y0**2), np.sqrt(1 + y**2)
    x = x0 + constant / vy * (np.arcsinh(y) - np.arcsinh(y0))
    z = z0 + constant / vy * (root - np.sqrt(1 + y0**2))
    v = np.stack([constant / root, vy * np.ones_like(t), y * constant / root], axis=-1)
    return np.stack([x, y, z], axis=-1), v


def _oscillating(t, c, x0, y0, vx, vy):
    """x, y, ẋ, ẏ for c > 0."""
    w = np.sqrt(c)
    amplitude, phase = np.hypot(y0, vy / w), np.arctan2(y0, vy / w)
    y, rate = amplitude * np.sin(w * t + phase), amplitude * w * np.cos(w * t + phase)
    angle = ellipkinc(w * t + phase, -(amplitude**2)) - ellipkinc(phase, -(amplitude**2))
    p0 = vx * np.sqrt(1 + y0**2)
    x, p = x0 * np.cos(angle) + p0 / w * np.sin(angle), p0 * np.cos(angle) - w * x0 * np.sin(angle)
    return x, y, p / np.sqrt(1 + y**2), rate


def _height_rate(t, c, *start):
    """ż = y ẋ."""
    _, y, vx, _ = _oscillating(t, c, *start)
    return y * vx


def _integral(rate, t, width: float) -> np.ndarray:
    """∫₀ᵗ rate, for any shape of t: Gauss's rule with 16 points on panels of the given width and on what remains."""
    points, weights = np.polynomial.legendre.leggauss(16)
    panels = np.floor(t / width).astype(int)
    first, last = min(0, panels.min()), max(0, panels.max())
    middles = (np.arange(first, last) + 0.5) * width
    pieces = 0.5 * width * rate(middles[:, None] + 0.5 * width * points) @ weights
    sums = np.concatenate([[0.0], np.cumsum(pieces)])
    rest = 0.5 * (t - panels * width)
    return sums[panels - first] - sums[-first] + rest * (rate(t[..., None] - rest[..., None] * (1 - points)) @ weights)


entry = Entry(
    name="nonholonomic_particle",
    title="Nonholonomic particle",
    formula="L = ½|v|² - ½c(x²+y²),  ż = y ẋ",
    source="Jiménez, Scheurle, Section 6.4",
    system=nonholonomic_particle(),
    q0=START[0],
    v0=START[1],
    h=0.05,
    time=20.0,
    exact=exact,
)
