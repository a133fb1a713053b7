"""The elastic beam with variable stiffness, clamped at both ends, by two formulas that share no integral.

    (μ q̈)̈ + ρ = 0 on [0, 1],  q = q̇ = 0 at 0 and 1,  μ = 1 + t,  ρ = cos 3t:   μ q̈ = M = cos(3t)/9 + a + b t

of L = ½ μ(t) q̈² + ρ(t) q: Colombo, Martín de Diego and Zuccalli, "Higher-order discrete variational problems with
constraints", example 4.1, whose μ and ρ are left open. q(t) = ∫_0^t (t - s) M(s)/μ(s) ds vanishes with its slope at 1, which
gives a and b.
"""

from __future__ import annotations

import numpy as np
from scipy.special import sici

FREQUENCY = 3.0


def stiffness(t):
    """μ."""
    return 1 + t


def load(t):
    """ρ."""
    return np.cos(FREQUENCY * t)


def by_quadrature(t: np.ndarray) -> np.ndarray:
    """q (…,) at times (…,) in [0, 1]: the double integral by Gauss's rule with 40 points, exact to rounding."""
    return _clamped(lambda end: np.array([_rule(end, part) for part in PARTS]), np.asarray(t, float))


def closed_form(t: np.ndarray) -> np.ndarray:
    """q (…,): the same integrals by cosine and sine integrals, with s = 1 + t."""
    return _clamped(lambda end: np.array([_cosine(end), _one(end), _linear(end)]), np.asarray(t, float))


def objective(q=closed_form) -> float:
    """∫½μq̈² + ρq dt, which is ½∫ρq dt as the ends are clamped."""
    times, weights = _gauss(1.0)
    return float(weights @ (load(times) * q(times)) / 2)


PARTS = (lambda s: np.cos(FREQUENCY * s) / FREQUENCY**2, np.ones_like, lambda s: s)


def _gauss(end: float) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    return end * (nodes + 1) / 2, end * weights / 2


def _rule(end: float, part) -> np.ndarray:
    """(2,): ∫_0^end (end - s) part/μ ds and its derivative by end, ∫_0^end part/μ ds."""
    s, weights = _gauss(end)
    slope = weights * part(s) / stiffness(s)
    return np.array([slope @ (end - s), slope.sum()])


def _cosine(end: float) -> np.ndarray:
    """(2,) for cos(3t)/9: with s = 1 + t, cos 3t = cos 3s cos 3 + sin 3s sin 3, and ∫ cos(3s)/s ds = Ci(3s)."""
    k, upper = FREQUENCY, 1 + end
    (si_upper, ci_upper), (si_lower, ci_lower) = sici(k * upper), sici(k)
    slope = np.cos(k) * (ci_upper - ci_lower) + np.sin(k) * (si_upper - si_lower)
    return np.array([upper * slope - np.sin(k * end) / k, slope]) / k**2


def _one(end: float) -> np.ndarray:
    upper = 1 + end
    return np.array([upper * np.log(upper) - end, np.log(upper)])


def _linear(end: float) -> np.ndarray:
    """∫ t/(1 + t) dt = t - log(1 + t), once more for q."""
    upper = 1 + end
    return np.array([end**2 / 2 + end - upper * np.log(upper), end - np.log(upper)])


def _clamped(integrals, t: np.ndarray) -> np.ndarray:
    """The combination of the three parts of M whose value and slope vanish at 1."""
    whole = integrals(1.0)  # (3, 2)
    a, b = np.linalg.solve(whole[1:].T, -whole[0])
    flat = [np.array([1.0, a, b]) @ integrals(float(end))[:, 0] for end in t.ravel()]
    return np.reshape(flat, t.shape)
