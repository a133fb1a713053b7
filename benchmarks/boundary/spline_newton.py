"""The discrete spline on the sphere by Newton's method, in two forms that share no linear algebra.

    h⁻³(q_{k+2} - 4q_{k+1} + 6q_k - 4q_{k-1} + q_{k-2}) + 2λ_k q_k = 0 and |q_k|² = 1 at every free node k

`dense`: these equations as they stand, times h³, in float64 with a dense matrix. `sparse`: a window's acceleration w_i is an
unknown of its own,

    w_i = (q_{i+2} - 2q_{i+1} + q_i)/h²,    (w_k - 2w_{k-1} + w_{k-2})/h² + 2(λ_k/h) q_k = 0,    |q_k|² = 1,

in which the matrix is no fourth difference, whose condition grows like N⁴. Residuals and sums are in long double (64 bits of
mantissa on x86): Newton's method with a matrix in float64 ends at their rounding, far below that of a solver in float64.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp
from benchmarks.boundary import sphere
from scipy.sparse.linalg import splu

LONG = np.longdouble
MOST = 30  # iterations; from the guess of `sphere.py` both forms need 5


@dataclasses.dataclass(frozen=True)
class Spline:
    """path (N+1, 3); multipliers of the free nodes, λ_k ≈ h λ(t_k), and their indices; update: the last change of q."""

    path: np.ndarray
    multipliers: np.ndarray
    free: np.ndarray
    iterations: int
    update: float


def start(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The guess with the given nodes written over it, (N+1, 3), and the indices of the free nodes."""
    fixed, positions = sphere.fixed_nodes(steps)
    path = sphere.spline_guess(sphere.POINTS, steps)
    path[fixed] = positions
    return path, np.setdiff1d(np.arange(steps + 1), fixed)


def dense(steps: int, tolerance: float = 1e-12) -> Spline:
    """Float64; raises RuntimeError where the updates do not come below the tolerance.

    They end at 2e-14 for N = 100, and grow with the condition of the fourth differences.
    """
    path, free = start(steps)
    fourth = _fourth_differences(steps)[np.ix_(free, free)]
    scaled = np.zeros(len(free))  # h³ λ
    positions, update = 3 * len(free), np.inf
    for iteration in range(1, MOST + 1):
        q = path[free]
        inner = (_fourth_differences(steps) @ path)[free] + 2 * scaled[:, None] * q
        jacobian = np.zeros((positions + len(free),) * 2)
        jacobian[:positions, :positions] = np.kron(fourth + np.diag(2 * scaled), np.eye(3))
        for k in range(len(free)):
            jacobian[3 * k : 3 * k + 3, positions + k] = jacobian[positions + k, 3 * k : 3 * k + 3] = 2 * q[k]
        change = np.linalg.solve(jacobian, -np.concatenate([inner.ravel(), np.sum(q**2, axis=1) - 1]))
        path[free] += change[:positions].reshape(-1, 3)
        scaled += change[positions:]
        update = float(np.max(np.abs(change[:positions])))
        if update < tolerance:
            return Spline(path, scaled * (steps / sphere.T) ** 3, free, iteration, update)
    raise RuntimeError(f"dense Newton: last update {update:.1e}")


def _fourth_differences(steps: int) -> np.ndarray:
    """(N+1, N+1): DᵀD with D the second differences, so that its rows of interior nodes are those of the equations."""
    second = np.diff(np.eye(steps + 1), 2, axis=0)
    return second.T @ second


def sparse(steps: int, tolerance: float = 1e-15) -> Spline:
    """Path and multipliers in long double; raises RuntimeError where the updates do not come below the tolerance."""
    path, free = start(steps)
    q, h = path.astype(LONG), LONG(sphere.T) / LONG(steps)
    w, mu = np.diff(q, 2, axis=0) / h**2, np.zeros(len(free), LONG)
    windows, positions, update = w.size, 3 * len(free), np.inf
    stretched = sp.csc_array(sp.kron(_second_differences(steps)[:, free] / float(h**2), sp.eye_array(3)))
    for iteration in range(1, MOST + 1):
        change = splu(_matrix(stretched, windows, q[free], mu)).solve(-_residual(q, w, mu, free, h).astype(float))
        w += change[:windows].reshape(-1, 3)
        q[free] += change[windows : windows + positions].reshape(-1, 3)
        mu += change[windows + positions :]
        update = float(np.max(np.abs(change[windows : windows + positions])))
        if update < tolerance:
            return Spline(q, mu * h, free, iteration, update)
    raise RuntimeError(f"sparse Newton: last update {update:.1e}")


def _second_differences(steps: int) -> sp.csc_array:
    """(N-1, N+1)."""
    first, second, third = (sp.eye_array(steps - 1, steps + 1, k=k) for k in range(3))
    return sp.csc_array(first - 2 * second + third)


def _residual(q: np.ndarray, w: np.ndarray, mu: np.ndarray, free: np.ndarray, h: np.longdouble) -> np.ndarray:
    """All three kinds of equations, in long double."""
    definition = w - np.diff(q, 2, axis=0) / h**2
    back = np.zeros_like(q)
    back[:-2] += w
    back[1:-1] -= 2 * w
    back[2:] += w
    inner = back[free] / h**2 + 2 * mu[:, None] * q[free]
    return np.concatenate([definition.ravel(), inner.ravel(), np.sum(q[free] ** 2, axis=1) - 1])


def _matrix(stretched: sp.csc_array, windows: int, q: np.ndarray, mu: np.ndarray) -> sp.csc_array:
    """The derivatives by (w, q, λ/h), in float64."""
    rows, columns = np.arange(q.size), np.repeat(np.arange(len(q)), 3)
    normals = sp.csc_array((2 * q.astype(float).ravel(), (rows, columns)), shape=(q.size, len(q)))
    own = sp.diags_array(np.repeat(2 * mu.astype(float), 3))
    blocks = [[sp.eye_array(windows), -stretched, None], [stretched.T, own, normals], [None, normals.T, None]]
    return sp.csc_array(sp.block_array(blocks))
