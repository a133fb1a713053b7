"""Section 2.2 on the unit sphere: the variation of ½∫|Dᵏ⁻¹q̇/dtᵏ⁻¹|² dt against the printed Euler-Lagrange equations.

Curves are Taylor series in t at the points of a quadrature, arrays (order, points, 3), with coefficients of the powers of t.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Complex

Series = Complex[np.ndarray, "order points 3"]
Scalars = Complex[np.ndarray, "order points 1"]
PLACES, WEIGHTS = np.polynomial.legendre.leggauss(40)
TIMES = 0.5 * (1 + PLACES)
COMPLEX_STEP = 1e-30


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of a series of scalars and one of scalars or vectors."""
    return np.array([sum(a[i] * b[j - i] for i in range(j + 1)) for j in range(min(len(a), len(b)))])


def dot(a: Series, b: Series) -> Scalars:
    return np.array(
        [np.sum(sum(a[i] * b[j - i] for i in range(j + 1)), axis=-1, keepdims=True) for j in range(min(len(a), len(b)))]
    )


def normalized(x: Series) -> Series:
    """x (x·x)^{-1/2}; the power y of s by s ẏ = -½ ṡ y."""
    s = dot(x, x)
    y = [s[0] ** -0.5]
    for j in range(1, len(s)):
        y.append(-sum((i * 0.5 + (j - i)) * s[i] * y[j - i] for i in range(1, j + 1)) / (j * s[0]))
    return product(np.array(y), x)


def rate(x: Series) -> Series:
    return np.arange(1, len(x))[:, None, None] * x[1:]


def covariant(q: Series, x: Series) -> Series:
    """D X/dt = Ẋ - (Ẋ·q) q."""
    slope = rate(x)
    return slope - product(dot(slope, q), q[: len(slope)])


def polynomial(coefficients, order: int) -> Scalars:
    """The Taylor series of Σ c_i tⁱ at the points."""
    p = np.polynomial.Polynomial(coefficients)
    rows, factor = [], 1.0
    for j in range(order):
        factor *= max(j, 1)
        rows.append((p.deriv(j) if j else p)(TIMES) / factor)
    return np.array(rows, dtype=complex)[:, :, None]


def curve(order: int) -> Series:
    """A curve in R³ without symmetries, to be normalized."""
    rows = ([1.0, -0.2, -0.8, 0.3], [0.2, 1.7, -0.3, -0.7], [0.4, 0.1, 0.5, 0.2])
    return np.concatenate([polynomial(c, order) for c in rows], axis=-1)


def bump(k: int, order: int) -> Series:
    """A direction in R³ that has zeros of order 2k at both ends."""
    shape = (np.polynomial.Polynomial([0, 4, -4]) ** (2 * k)).coef
    return polynomial(shape, order) * np.array([0.3, 1.0, -0.7])


def fields(q: Series, number: int) -> list[Series]:
    """q̇, D q̇/dt, …, Dʲq̇/dtʲ."""
    found = [rate(q)]
    for _ in range(number):
        found.append(covariant(q, found[-1]))
    return found


def variation(k: int, sign: float = 1.0) -> tuple[float, float]:
    """(dA·δ, (-1)ᵏ ∫ δ·(D²ᵏ⁻¹q̇ + Σ_{j=2}^k (-1)ʲ R(D²ᵏ⁻ʲ⁻¹q̇, Dʲ⁻²q̇) q̇) dt): equal, if the equations are right.

    R(X, Y)Z = sign · ((Y·Z) X - (X·Z) Y); +1 is the sphere's. dA by a complex step.
    """
    order = 2 * k + 1
    w, x, step = 0.5 * WEIGHTS, curve(order), 1j * COMPLEX_STEP * bump(k, order)
    moved = fields(normalized(x + step), k - 1)[-1][0]
    by_action = np.sum(w * np.sum(0.5 * moved**2, axis=-1)).imag / COMPLEX_STEP
    q = normalized(x)
    d = [field[0].real for field in fields(q, 2 * k - 1)]
    pair = lambda a, b: np.sum(a * b, axis=-1, keepdims=True)  # noqa: E731
    bent = sum(
        (-1) ** j * (pair(d[j - 2], d[0]) * d[2 * k - j - 1] - pair(d[2 * k - j - 1], d[0]) * d[j - 2])
        for j in range(2, k + 1)
    )
    direction = (normalized(x + step)[0]).imag / COMPLEX_STEP
    return float(by_action), float((-1) ** k * np.sum(w * np.sum(direction * (d[2 * k - 1] + sign * bent), axis=-1)))
