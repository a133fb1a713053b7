"""Data of the spline on the unit sphere that every solver of this folder gets: points, nodes, end velocities, first guess.

Minimise Σ_{i=0}^{N-2} (h/2) |(q_{i+2} - 2q_{i+1} + q_i)/h²|² over q_i in R³ with |q_i|² = 1, h = T/N, where the nodes 0, 1,
N - 1 and N and five nodes between are given: Colombo, Martín de Diego and Zuccalli, "Higher-order discrete variational
problems with constraints", section 4.4, with r = 1. The paper gives no data; these are generic points, 0.83 to 1.14 apart.
"""

from __future__ import annotations

import numpy as np

T = 1.0

# Longitude and latitude of q(0), of the five points between and of q(T).
ANGLES = np.array([[0.0, 0.0], [0.7, 0.5], [1.6, 0.1], [2.2, -0.7], [3.0, -0.2], [3.6, 0.8], [4.6, 0.3]])

# The velocities of the ends in the directions of growing longitude and latitude.
END_RATES = np.array([[3.0, 4.0], [5.0, -2.0]])


def _on_sphere(angles: np.ndarray) -> np.ndarray:
    """(…, 2) → (…, 3)."""
    longitude, latitude = angles[..., 0], angles[..., 1]
    return np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=-1)


def _tangent(angles: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The vector with the components `rates` (east, north) at a point."""
    longitude, latitude = angles
    east = np.array([-np.sin(longitude), np.cos(longitude), 0.0])
    north = np.array([-np.sin(latitude) * np.cos(longitude), -np.sin(latitude) * np.sin(longitude), np.cos(latitude)])
    return rates[0] * east + rates[1] * north


POINTS = _on_sphere(ANGLES)
START_VELOCITY = _tangent(ANGLES[0], END_RATES[0])
END_VELOCITY = _tangent(ANGLES[-1], END_RATES[1])


def point_nodes(points: np.ndarray, steps: int) -> np.ndarray:
    """The nodes of the points: evenly spaced, and the nearest node where N is no multiple of their number less one."""
    return np.rint(np.linspace(0, steps, len(points))).astype(int)


def exponential(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """exp_q(v) = cos|v| q + sin|v| v/|v|."""
    speed = np.linalg.norm(v)
    return np.cos(speed) * q + np.sinc(speed / np.pi) * v


def fixed_nodes(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices (9,) in growing order and positions (9, 3) of the given nodes; 1 and N - 1 lie on geodesics from the ends."""
    h = T / steps
    nodes = point_nodes(POINTS, steps)
    second, last_but_one = exponential(POINTS[0], h * START_VELOCITY), exponential(POINTS[-1], -h * END_VELOCITY)
    indices = np.concatenate([[0, 1], nodes[1:-1], [steps - 1, steps]])
    return indices, np.concatenate([POINTS[:1], second[None], POINTS[1:-1], last_but_one[None], POINTS[-1:]])


def spline_guess(points: np.ndarray, steps: int) -> np.ndarray:
    """(N+1, 3): from point to point on great circles, with constant speed on each; |q| = 1 to rounding.

    The nodes 1 and N - 1 lie on these great circles too, not where `fixed_nodes` has them: a solver writes the given nodes
    over this guess.
    """
    points, nodes = np.asarray(points), point_nodes(points, steps)
    path = np.empty((steps + 1, points.shape[1]))
    for a, b, first, last in zip(points[:-1], points[1:], nodes[:-1], nodes[1:], strict=True):
        angle = np.arccos(np.clip(a @ b, -1.0, 1.0))
        part = np.linspace(0.0, 1.0, last - first + 1)[:, None]
        path[first : last + 1] = (np.sin((1 - part) * angle) * a + np.sin(part * angle) * b) / np.sin(angle)
    return path / np.linalg.norm(path, axis=1, keepdims=True)


def objective(path: np.ndarray) -> float:
    """Σ (h/2) |(q_{i+2} - 2q_{i+1} + q_i)/h²|² of a path (N+1, 3)."""
    h = T / (len(path) - 1)
    return float(np.sum(np.diff(path, 2, axis=0) ** 2) / (2 * h**3))
