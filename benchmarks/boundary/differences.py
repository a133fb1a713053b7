"""Linear boundary problems on a grid, each in two ways: the discrete beam and the discrete minimum of jerk.

    minimise Σ_i h (½ μ_i |Δ^k q_i/h^k|² + ρ_i q̄_i),    k outer nodes given at either end

with Δ^k the k-th difference of the window (q_i, …, q_{i+k}), q̄ its mean, μ and ρ at its mean time: Colombo, Martín de
Diego and Zuccalli, "Higher-order discrete variational problems with constraints", section 4.2 on a uniform grid. `minimised`
solves the dense linear system of it. The beam (k = 2) follows from two sums as well, since M_i = μ_i Δ²q_i/h² has given
second differences; the least jerk (k = 3) is the polynomial of degree 5, at its nodes, when the outer nodes lie on it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from benchmarks.boundary import beam

JERK_START, JERK_END = (0.0, 1.0, -2.0), (1.0, -0.5, 3.0)  # position, velocity and acceleration at 0 and 1


def minimised(path: np.ndarray, order: int, stiffness: np.ndarray, load: np.ndarray) -> tuple[np.ndarray, float]:
    """Nodes (N+1,) from a path that holds the given nodes, and the sum; μ and ρ of all windows, (N+1-k,)."""
    steps = len(path) - 1
    h, free = 1.0 / steps, np.arange(order, steps + 1 - order)
    bend, mean = np.diff(np.eye(steps + 1), order, axis=0), windows_mean(np.eye(steps + 1), order)
    matrix, right = bend.T @ (stiffness[:, None] * bend), -(h ** (2 * order)) * (mean.T @ load)
    given = np.setdiff1d(np.arange(steps + 1), free)
    q = path.copy()
    q[free] = np.linalg.solve(matrix[np.ix_(free, free)], right[free] - matrix[np.ix_(free, given)] @ path[given])
    return q, action(q, order, stiffness, load)


def windows_mean(path: np.ndarray, order: int) -> np.ndarray:
    count = len(path) - order
    return np.mean([path[j : j + count] for j in range(order + 1)], axis=0)


def action(q: np.ndarray, order: int, stiffness: np.ndarray, load: np.ndarray) -> float:
    h = 1.0 / (len(q) - 1)
    return float(h * np.sum(stiffness * (np.diff(q, order) / h**order) ** 2 / 2 + load * windows_mean(q, order)))


def beam_data(steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two outer nodes of either end from the closed form, zero between; μ and ρ at the middle nodes of the windows."""
    t = np.linspace(0.0, 1.0, steps + 1)
    path, outer = np.zeros(steps + 1), [0, 1, steps - 1, steps]
    path[outer] = beam.closed_form(t[outer])
    return path, beam.stiffness(t[1:-1]), beam.load(t[1:-1])


def beam_by_sums(path: np.ndarray, stiffness: np.ndarray, load: np.ndarray) -> np.ndarray:
    """q (N+1,): Δ²M = -h² (mean of ρ over three windows) gives M up to a + bi, Δ²q = h² M/μ gives q from q_0 and q_1."""
    h = 1.0 / (len(path) - 1)
    particular = _twice(-(h**2) * windows_mean(load, 2), 0.0, 0.0)
    parts = [particular, np.ones_like(load), np.arange(len(load)) * h]
    q = [_twice(h**2 * part / stiffness, 0.0, 0.0) for part in parts]
    given = _twice(np.zeros_like(load), path[0], path[1])
    ends = np.array([[part[-2], part[-1]] for part in q])
    a, b = np.linalg.solve(ends[1:].T, path[-2:] - given[-2:] - ends[0])
    return given + q[0] + a * q[1] + b * q[2]


def _twice(second: np.ndarray, first: float, next_one: float) -> np.ndarray:
    """The sequence with these second differences and first two terms."""
    slopes = np.concatenate([[next_one - first], next_one - first + np.cumsum(second)])
    return np.concatenate([[first], first + np.cumsum(slopes)])


def quintic() -> list[Fraction]:
    """Coefficients c_0 … c_5 of the polynomial with the end values, exactly."""
    (p0, v0, a0), (p1, v1, a1) = (map(Fraction, ends) for ends in (JERK_START, JERK_END))
    p, v, a = p1 - p0 - v0 - a0 / 2, v1 - v0 - a0, a1 - a0
    return [p0, v0, a0 / 2, 10 * p - 4 * v + a / 2, -15 * p + 7 * v - a, 6 * p - 3 * v + a / 2]


def jerk_at(t: Fraction) -> Fraction:
    return sum((c * t**k for k, c in enumerate(quintic())), Fraction(0))


def jerk_cost() -> Fraction:
    """½∫|d³q/dt³|² dt."""
    third = [k * (k - 1) * (k - 2) * c for k, c in enumerate(quintic())][3:]
    return sum((a * b / (i + j + 1) for i, a in enumerate(third) for j, b in enumerate(third)), Fraction(0)) / 2


def jerk_data(steps: int) -> np.ndarray:
    """Three outer nodes of either end on the quintic, zero between."""
    path = np.array([float(jerk_at(Fraction(k, steps))) for k in range(steps + 1)])
    path[3 : steps - 2] = 0.0
    return path
