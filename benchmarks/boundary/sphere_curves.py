"""Curves on the unit sphere between two states (q, v), as solutions of differential equations in R¹², by shooting.

Two Lagrangians: L = ½|D q̇/dt|², whose extremals are the Riemannian cubics, and L = ½|q̈|² = ½(|Dq̇/dt|² + |q̇|⁴), the
acceleration in space. The first with v = q̇, a = Dv/dt, j = Da/dt and D j/dt + R(a, v)v = 0, R(a, v)v = |v|²a - (a·v)v:

    q̇ = v,   v̇ = a - |v|² q,   ȧ = j - (a·v) q,   dj/dt = -|v|² a + (a·v) v - (j·v) q.

The second with the multiplier of |q|² = 1: d⁴q/dt⁴ + 2λq = 0, and four derivatives of q·q = 1 give 2λ = 4 q̇·q⃛ +
3|q̈|². Two ends give twelve conditions for twelve unknowns; |q|² = 1 need not be one of them, as s = |q|² - 1 solves
the linear d⁴s/dt⁴ + 4λs = 0 with s and ṡ zero at both ends. Colombo, Martín de Diego and Zuccalli, "Higher-order
discrete variational problems with constraints", sections 2.2 and 4.4; the paper's λ_k is hλ here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from benchmarks.boundary.sphere import T, on_sphere, tangent
from scipy.integrate import solve_ivp

# Longitude and latitude of both ends, and the velocities there to the east and to the north: generic, no symmetry.
START_ANGLES, START_SPEEDS = np.array([0.0, 0.2]), np.array([1.0, 1.5])
END_ANGLES, END_SPEEDS = np.array([1.5, -0.4]), np.array([0.6, 2.0])
START = on_sphere(START_ANGLES), tangent(START_ANGLES, START_SPEEDS)
END = on_sphere(END_ANGLES), tangent(END_ANGLES, END_SPEEDS)

State = np.ndarray
Slope = Callable[[float, State], State]


def multiplier(q1: np.ndarray, q2: np.ndarray, q3: np.ndarray) -> np.ndarray:
    """λ from the first three derivatives of q, each (3, …)."""
    return 2 * np.sum(q1 * q3, axis=0) + 1.5 * np.sum(q2 * q2, axis=0)


def ambient(t, y: State) -> State:
    """Of (q, q̇, q̈, q⃛), (12,) or (12, m)."""
    q, q1, q2, q3 = np.split(y, 4)
    return np.concatenate([q1, q2, q3, -2 * multiplier(q1, q2, q3) * q])


def riemannian(t, y: State) -> State:
    """Of (q, v, a, j), (12,) or (12, m)."""
    q, v, a, j = np.split(y, 4)
    square, mixed = np.sum(v * v, axis=0), np.sum(a * v, axis=0)
    return np.concatenate([v, a - square * q, j - mixed * q, -square * a + mixed * v - np.sum(j * v, axis=0) * q])


@dataclasses.dataclass(frozen=True)
class Curve:
    """State at 0, ∫L dt, at(t) → states (12, m), and how far the other end is missed."""

    start: State
    cost: float
    at: Callable[[np.ndarray], np.ndarray]
    defect: float


def follow(slope: Slope, start: State, tolerance: float):
    """States from one end to the other with ½|third part|² integrated beside them: L for both kinds."""

    def with_cost(t: float, y: State) -> State:
        return np.append(slope(t, y[:12]), 0.5 * y[6:9] @ y[6:9])

    found = solve_ivp(
        with_cost, (0.0, T), np.append(start, 0.0), method="DOP853", rtol=tolerance, atol=tolerance, dense_output=True,
        max_step=T / 200,
    )  # fmt: skip
    if not found.success:
        raise RuntimeError(found.message)
    return found


def shoot(slope: Slope, second: np.ndarray, third: np.ndarray, tolerance: float = 1e-13, most: int = 20) -> Curve:
    """From guesses of the third and fourth part of the state at 0, by Newton's method with differences.

    Raises RuntimeError where the other end is missed by more than 1e-11.
    """
    free = np.concatenate([second, third])

    def miss(unknowns: np.ndarray) -> np.ndarray:
        found = follow(slope, np.concatenate([*START, unknowns]), tolerance)
        return found.y[:6, -1] - np.concatenate(END)

    for _ in range(most):
        step = 1e-6 * np.maximum(1.0, np.abs(free))
        columns = [(miss(free + part) - miss(free - part)) / (2 * part.sum()) for part in np.diag(step)]
        change = np.linalg.solve(np.array(columns).T, -miss(free))
        free = free + change
        if np.max(np.abs(change)) < 1e-11 * np.max(np.abs(free)):
            break
    defect = float(np.max(np.abs(miss(free))))
    if defect > 1e-11:
        raise RuntimeError(f"shooting misses the end by {defect:.1e}")
    start = np.concatenate([*START, free])
    found = follow(slope, start, tolerance)
    return Curve(start, float(found.y[12, -1]), lambda t: found.sol(t)[:12], defect)
