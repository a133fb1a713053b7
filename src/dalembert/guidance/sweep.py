"""The backward sweep: neighbouring extremals from every node on, a subspace that is carried from the end to the beginning.

    W_i = {(x_i, g_i)}:  x_i = (δw_i, δq_i),  g_i = K(x_i, T_i) δT_i,   T_i: all that follows, at its optimum

Where nothing is given at the end, W_i is the graph g = P x of the cost to go, and the sweep is Riccati's recursion. Where
something is given there, P grows without bound: a subspace does not, and no weight has to stand for what is given. Each
stage is the null space of the rows of y_i; an orthonormal basis keeps all of it in sight.
Source: Bryson, Ho, Applied Optimal Control, chapters 5 and 6; subspaces for P: Laub's method for Riccati's equation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.guidance.linearisation import Linearised

RANK = 1e-10  # singular values of what can be perturbed, relative to the largest one before the end, below which it cannot
DEPENDENT = 1e-6  # singular values of rows of length 1 that count as dependent


class Neighbours(NamedTuple):
    """2n neighbouring extremals at every node, as columns: δq, δv, δu, and by how much x_i leaves the constraints.
    `ControlSolution` says what v is between the ends."""

    q: Float[np.ndarray, "N+1 n 2n"]
    v: Float[np.ndarray, "N+1 n 2n"]
    u: Float[np.ndarray, "N+1 r 2n"]
    left: Float[np.ndarray, "N+1 2m 2n"]


def neighbours(lin: Linearised) -> Neighbours:
    """From the last node to the first."""
    n, nodes = lin.layout.n, len(lin.t)
    found = Neighbours(*(np.zeros((nodes, k, 2 * n)) for k in (n, n, lin.layout.r, lin.before.shape[1])))
    tail = None
    for i in reversed(range(nodes)):
        x, y, tail = _stage(lin, i, tail)
        columns = lin.units[i][:, None] * np.concatenate([x, y])
        found.q[i], found.u[i], found.left[i] = columns[n : 2 * n], columns[3 * n : 3 * n + lin.layout.r], lin.before[i] @ x
        before, after = columns[:n], columns[2 * n : 3 * n]
        if 0 < i < nodes - 1:
            h0, h1 = np.diff(lin.t[i - 1 : i + 2])
            after = lin.units[0][:n, None] * (y[:n] - x[n:]) / lin.spans[i + 1][:, None]
            found.v[i] = (before * h1 + after * h0) / (h0 + h1)
        else:
            found.v[i] = after if i else before
    return found


def _stage(lin: Linearised, i: int, tail: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x_i and y_i of the subspace, and its basis (4n, 2n). tail: that of W_{i+1}; None after the last node."""
    n, rows, fixed = lin.layout.n, lin.rows[i], lin.fixed[i]
    known = 2 * n
    b = rows.shape[0]
    x_of, y_of, force = np.zeros((known, known + b)), np.zeros((b, known + b)), np.zeros((known, known + b))
    if tail is None:  # unknowns: x, y
        x_of[:, :known], y_of[:, known:] = np.eye(known), np.eye(b)
    else:  # unknowns: coefficients of the tail's basis, w_i, and y without q_{i+1}
        span = lin.spans[i + 1][:, None]
        w, q, by_w, by_q = np.split(tail, 4)
        x_of[:n, known : known + n], x_of[n:, :known] = np.eye(n), q - span * w
        y_of[:n, :known], y_of[n:, known + n :] = q, np.eye(b - n)
        force[:n, :known], force[n:, :known] = -by_w / span, by_q + by_w / span  # on q_i and q_{i+1}
    equations = rows @ np.concatenate([x_of, y_of])
    equations[:n] += force[n:]
    equations[fixed] = y_of[fixed]
    kernel = np.linalg.qr((equations / _sizes(equations)).T, mode="complete")[0][:, b:]
    x, y = x_of @ kernel, y_of @ kernel
    g = rows[:, :known].T @ y
    g[n:] += force[:n] @ kernel
    basis, change = np.linalg.qr(np.concatenate([x, g]))
    back = np.linalg.inv(change)
    return x @ back, y @ back, basis


def _sizes(rows: np.ndarray) -> np.ndarray:
    """(k, 1): the norms of rows, 1 where one vanishes."""
    found = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(found > 0.0, found, 1.0)


def gains_of(lin: Linearised, found: Neighbours) -> tuple[Float[np.ndarray, "N+1 r 2n"], Float[np.ndarray, "N+1"]]:
    """K with δu = -K (δq, δv) for what satisfies the constraints, 0 across them; and the smallest singular value of what
    neighbouring extremals of unit size differ by at a node: 0 where some perturbation cannot meet the end any more."""
    n, sizes = lin.layout.n, lin.sizes
    scale = np.concatenate([sizes.positions, sizes.positions / sizes.time])
    gains, smallest = np.zeros((len(lin.t), lin.layout.r, 2 * n)), np.zeros(len(lin.t))
    for i in range(len(lin.t)):
        along = kernel_of(found.left[i])
        x = (np.concatenate([found.q[i], found.v[i]]) / scale[:, None]) @ along
        left, values, right = np.linalg.svd(x, full_matrices=False)
        kept = (values > RANK * values[0]) & (values > 0.0)
        gains[i] = -(found.u[i] @ along @ (right[kept].T / values[kept])) @ left[:, kept].T / scale
        smallest[i] = values[-1]
    return gains, smallest


def kernel_of(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what the rows send to zero; dependent rows count once."""
    _, values, right = np.linalg.svd(rows / _sizes(rows))
    return right[np.count_nonzero(values > DEPENDENT) :].T
