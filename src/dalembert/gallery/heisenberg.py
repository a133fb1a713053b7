"""The Heisenberg problem: L = ½(ẋ²+ẏ²), ż = yẋ - xẏ, by d'Alembert's principle or as a vakonomic problem.

d'Alembert: the force λ(-y, x, 1) needs p_z = 0, so λ = 0 and (x, y) moves on a straight line. The mass is singular,
∂²L/∂ż² = 0, so that no acceleration can be eliminated; the equations for (a, λ) together are regular.
Vakonomic: L + λ(ż - yẋ + xẏ) with λ constant, ẍ = 2λẏ, ÿ = -2λẋ: (x, y) moves on a circle, with the angular velocity
-2λ; λ(0) is free initial data. From 0 to (0, 0, a) in the time T the minimum of ∫L is π|a|/T, on one circle, |λ| = π/T.
Colombo, Martín de Diego, Zuccalli, eq. (1.3) to (1.5).
"""

from typing import Literal, overload

import numpy as np

from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System, VariationalProblem


def lagrangian(q, v):
    return 0.5 * (v[0] ** 2 + v[1] ** 2)


def constraint(q, v):
    return v[2] - q[1] * v[0] + q[0] * v[1]


@overload
def heisenberg(principle: Literal["dalembert"] = "dalembert") -> System: ...
@overload
def heisenberg(principle: Literal["vakonomic"]) -> VariationalProblem: ...
def heisenberg(principle: str = "dalembert"):
    """The same Lagrangian and constraint, by either principle."""
    if principle not in ("dalembert", "vakonomic"):
        raise ValueError(f"principle: found {principle!r}; it is 'dalembert' or 'vakonomic'")
    kind = System if principle == "dalembert" else VariationalProblem
    return kind(lagrangian, Nonholonomic(constraint), coordinates=("x", "y", "z"))


def exact(t, q0=(0.0, 0.0, 0.0), v0=(1.0, 0.0, 0.0), multiplier: float = 0.0):
    """(q, v) at t, (…, 3) each, from consistent (q0, v0), with the constant multiplier λ; d'Alembert's motion for λ = 0.

    With w = ẋ + iẏ: w = w₀ e^{-2iλt}, x + iy = c + w/(-2iλ), and ż = Im(conj(x + iy)·w)·(-1).
    """
    t = np.asarray(t, dtype=float)
    position, velocity, rate = complex(*q0[:2]), complex(*v0[:2]), -2.0 * multiplier
    turn = np.exp(1j * rate * t)
    w = velocity * turn
    # ∫₀ᵗ e^{irs} ds and ∫₀ᵗ sin(rs)/r ds, without a division by zero
    swept = t * np.sinc(rate * t / (2.0 * np.pi)) * np.exp(0.5j * rate * t)
    r = position + velocity * swept
    # conj(r) w = conj(position) w + |velocity|² conj(swept) turn, whose imaginary part is |velocity|² (1 - cos(rt))/r
    area = np.imag(np.conj(position) * velocity * swept) + abs(velocity) ** 2 * _lag(t, rate)
    rates = np.imag(np.conj(r) * w)
    q = np.stack([r.real, r.imag, q0[2] - area], axis=-1)
    return q, np.stack([w.real, w.imag, -rates], axis=-1)


def _lag(t, rate: float):
    """(rate·t - sin(rate·t))/rate², a series where it would cancel."""
    angle = rate * t
    series = t**2 * angle * (1.0 / 6.0 - angle**2 / 120.0 + angle**4 / 5040.0)
    closed = (angle - np.sin(angle)) / np.where(rate == 0.0, 1.0, rate**2)
    return np.where(np.abs(angle) < 0.05, series, closed)


entry = Entry(
    name="heisenberg",
    title="Heisenberg problem, by d'Alembert's principle",
    formula="L = ½(ẋ²+ẏ²),  ż = yẋ - xẏ",
    source="Colombo, Martín de Diego, Zuccalli, Section 1",
    system=heisenberg(),
    q0=(0.0, 0.0, 0.0),
    v0=(1.0, 0.0, 0.0),
    h=0.05,
    time=10.0,
    exact=exact,
)
