"""Symmetric banded matrices: A x = b by LAPACK's LU with partial pivoting, conditions, signs of eigenvalues."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.lib.stride_tricks import as_strided, sliding_window_view

ROWS = 48  # of a block, at least: the calls of a block cost as much as its arithmetic
ROUNDS = 4  # of the scaling
GROWTH = 100.0  # largest entry of S⁻¹ Eᵀ; its square is the factor by which rounding errors are passed on


class Inertia(NamedTuple):
    """n₊, n₋, n₀ of a symmetric matrix.

    Attributes:
        positive: number of positive eigenvalues.
        negative: number of negative eigenvalues.
        zero: number of zero eigenvalues.
    """

    positive: int
    negative: int
    zero: int


def inertia(matrix: Float[np.ndarray, "n width"], lower: int, tolerance: float = 1e-10) -> Inertia:
    """Signs of the eigenvalues of a symmetric A with A[i, j] = 0 for |i − j| > lower, stored as in algebra/banded.py.

    Only the columns i − lower … i of row i are read. Rows and columns are scaled alike, Ã = D A D, so that the largest entry
    of each row is about 1, which keeps the signs. Zero is decided by two counts: A has as many positive eigenvalues as Ã −
    tolerance, and as many negative ones as Ã + tolerance.

    A is cut into blocks with diagonal parts D_i and couplings E_i to the block before, at least `lower` rows each. The
    inertia of A is the sum of those of S_i = D_i − E_i S_{i−1}⁻¹ E_iᵀ (E. Haynsworth, Linear Algebra Appl. 1, 1968).
    Directions in which S_{i−1} is nearly singular compared with E_i are not eliminated but moved to the next block: by
    Cauchy's interlacing theorem there are at most `lower` of them, besides zero eigenvalues of A.

    Args:
        matrix: (n, width), row i holds the columns i − lower … of A.
        lower: number of diagonals below the main one.
        tolerance: an eigenvalue of Ã of at most this counts as zero.

    Returns:
        An Inertia.

    Raises:
        ValueError: the matrix has entries that are not finite.

    Example:
        >>> from dalembert.algebra import inertia
        >>> inertia(np.array([[0.0, 2.0], [1.0, -3.0]]), 1)  # [[2, 1], [1, -3]]
        Inertia(positive=1, negative=1, zero=0)
    """
    half = np.asarray(matrix, dtype=float)[:, : lower + 1]
    if not np.all(np.isfinite(half)):
        raise ValueError("matrix: found NaN or infinity; the signs of its eigenvalues are not defined")
    sizes = EntrySizes.of(half, lower)
    sizes.equilibrate()
    rows = np.copysign(sizes.left.T, half)
    negative = _negative(rows, -tolerance)
    positive = len(rows) - _negative(rows, tolerance)
    return Inertia(positive, negative, len(rows) - positive - negative)


class EntrySizes(NamedTuple):
    """|A| of a symmetric A, stored as above: (lower+1, n) each, diagonals one after the other, because NumPy combines few
    long rows several times sooner than many short ones. left: |A[i, i−lower+k]|; below: |A[i+lower−k, i]|, of the same
    memory. 0 outside of A."""

    left: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "n width"], lower: int) -> EntrySizes:
        n, width = len(matrix), len(matrix) + lower
        whole = np.zeros((lower + 1, width))
        left = np.abs(matrix[:, : lower + 1].T, out=whole[:, :n])
        for i in range(min(lower, n)):
            left[: lower - i, i] = 0.0
        return cls(left, as_strided(whole[0, lower:], left.shape, (8 * (width - 1), 8)))

    @property
    def largest(self) -> Float[np.ndarray, " n"]:
        """The largest entry of every row."""
        return np.maximum(self.left.max(axis=0), self.below.max(axis=0))

    @property
    def sums(self) -> Float[np.ndarray, " n"]:
        """The sum of every row."""
        return self.left.sum(axis=0) + self.below[:-1].sum(axis=0)

    def equilibrate(self) -> Float[np.ndarray, " n"]:
        """|A| ← D |A| D with the largest entry of each row near 1, by D_i ← D_i |row i|^−½ in some rounds (D. Ruiz, 2001);
        D."""
        scale = np.ones(self.left.shape[1])
        for _ in range(ROUNDS):
            largest = self.largest
            factors = 1 / np.sqrt(np.where(largest > 0, largest, 1.0))
            for part in self:
                part *= factors
            scale *= factors
        return scale


class _Rest(NamedTuple):
    """Remainder of a block S with coupling E to the rows that follow, once directions of it are eliminated.

    negative: eigenvalues below zero among the directions that are eliminated. product: their part of E S⁻¹ Eᵀ.
    kept, coupling: S and E of the other directions.
    """

    negative: int
    product: Float[np.ndarray, "w w"]
    kept: Float[np.ndarray, "k k"]
    coupling: Float[np.ndarray, "w k"]


def _negative(rows: Float[np.ndarray, "n lower+1"], shift: float) -> int:
    """Number of negative eigenvalues of A − shift."""
    from scipy.linalg import lapack  # slow to load

    n, lower = len(rows), rows.shape[1] - 1
    size = max(ROWS, 2 * lower)
    work = np.zeros((size, lower + size))  # E in the last columns of the block before, and D
    band = as_strided(work, (size, lower + 1), (work.strides[0] + 8, 8))  # a row of the band is one place further each time
    count, block = 0, np.zeros((0, 0))
    for start in range(0, n, size):
        m = min(size, n - start)
        band[:m] = rows[start : start + m]
        near = min(lower, m) if start else 0
        rest = _eliminate(lapack, block, work[:near, :lower])
        count += rest.negative
        k = len(rest.kept)
        block = np.zeros((k + m, k + m))
        block[k:, k:] = work[:m, lower : lower + m]
        block[k : k + near, k : k + near] -= rest.product
        block.reshape(-1)[k * (k + m + 1) :: k + m + 1] -= shift
        if k:
            block[:k, :k] = rest.kept
            block[k : k + near, :k] = rest.coupling
    return count + int(np.count_nonzero(np.linalg.eigvalsh(block) < 0))


def _eliminate(lapack: Any, block: Float[np.ndarray, "m m"], last: Float[np.ndarray, "w lower"]) -> _Rest:
    """S, of which the lower half is given, by a symmetric factorization with pivoting if S⁻¹ Eᵀ stays small, else direction
    by direction. last: E in the last columns, the others being zero."""
    w = len(last)
    coupling = np.zeros((w, len(block)))
    if w:
        coupling[:, -last.shape[1] :] = last
        factors, order, info = lapack.dsytrf(block.T, lower=0)
        solved, _ = lapack.dsytrs(factors, order, coupling.T, lower=0)
        if info == 0 and max(solved.max(), -solved.min()) <= GROWTH:
            single = order > 0  # a pivot of two rows has one eigenvalue of each sign, and its rows are marked
            negative = np.count_nonzero(factors.diagonal()[single] < 0) + (len(order) - np.count_nonzero(single)) // 2
            return _Rest(int(negative), last @ solved[-last.shape[1] :], np.zeros((0, 0)), np.zeros((w, 0)))
    return _by_directions(block, coupling)


def _by_directions(block: Float[np.ndarray, "m m"], coupling: Float[np.ndarray, "w m"]) -> _Rest:
    """Eigenvectors of S with |E v| ≤ GROWTH |λ| are eliminated, the others kept; of these, at most w that E sees."""
    values, vectors = np.linalg.eigh(block)
    seen = coupling @ vectors
    sound = np.linalg.norm(seen, axis=0) <= GROWTH * np.abs(values)
    divided = seen[:, sound] / np.where(values[sound] == 0, 1.0, values[sound])
    product, negative = divided @ seen[:, sound].T, int(np.count_nonzero(values[sound] < 0))
    kept, left = np.diag(values[~sound]), seen[:, ~sound]
    w = len(coupling)
    if len(kept) <= w:
        return _Rest(negative, product, kept, left)
    turn = np.linalg.qr(left.T, mode="complete")[0]
    kept, left = turn.T @ kept @ turn, left @ turn[:, :w]
    inner = _by_directions(kept[w:, w:], kept[:w, w:])
    kept = np.block([[kept[:w, :w] - inner.product, inner.coupling], [inner.coupling.T, inner.kept]])
    left = np.hstack([left, np.zeros((w, len(inner.kept)))])
    return _Rest(negative + inner.negative, product, kept, left)


SMALLEST = np.finfo(float).tiny  # a pivot below it has no finite reciprocal


class BandedLU:
    """S A = P L U of a symmetric matrix with A[i, j] = 0 for |i − j| > lower, S: powers of two.

    A is stored by rows, (n, 2 lower + 1): row i holds the columns i − lower … i + lower, and entries of columns outside 0 …
    n−1 are not read. S makes the lengths of rows about 1, so that rows in different units compete fairly, and rounds
    nothing. A row of a symmetric matrix is a column of LAPACK's form.

    singular: whether a pivot is zero or not a number; solutions are then NaN.
    """

    def __init__(self, matrix: Float[np.ndarray, "n 2*lower+1"]):
        self.lower = lower = matrix.shape[1] // 2
        exponents = np.frexp(np.einsum("ij,ij->i", matrix, matrix))[1]  # NumPy finds the largest of short rows more slowly
        self._scales = np.ldexp(1.0, -exponents // 2)
        columns = np.empty((len(matrix), 3 * lower + 1))
        np.multiply(matrix, sliding_window_view(np.pad(self._scales, lower), 2 * lower + 1), out=columns[:, lower:])
        factor, self._substitute = _routines()
        self._lu, self._order, _ = factor(columns.T, lower, lower, overwrite_ab=True)
        pivots = np.abs(self._lu[2 * lower])
        self.singular = not bool(np.all((pivots >= SMALLEST) & (pivots < np.inf)))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """x of A x = b for b = rhs, (n,) or (n, r)."""
        if self.singular:
            return np.full_like(rhs, np.nan)
        right = rhs * self._scales.reshape(-1, *[1] * (rhs.ndim - 1))
        return self._substitute(self._lu, self.lower, self.lower, right, self._order, overwrite_b=True)[0]


MOST = 6  # columns of the inverse that are looked at


def condition(norm: float, n: int, solve: Callable[[np.ndarray], np.ndarray]) -> float:
    """An estimate of |A|₁ |A⁻¹|₁ from below for a symmetric A, (n, n), seldom by more than a factor of three; infinite for a
    singular matrix.

    norm: |A|₁; solve: b ↦ A⁻¹b. Source: N. Higham, F. Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), with one column.
    SciPy's `onenormest` gives the same and takes longer than the solutions.
    """
    x, place, largest, sign = np.full(n, 1.0 / n), None, 0.0, np.zeros(n)
    for _ in range(MOST):
        y = solve(x)
        size = float(np.abs(y).sum())
        if not np.isfinite(size):
            return np.inf
        if place is not None and size <= largest:
            break
        largest, before, sign = size, sign, np.where(y < 0.0, -1.0, 1.0)
        if abs(sign @ before) == n:
            break
        slope = np.abs(solve(sign))
        if place is not None and slope[place] == slope.max():
            break
        place = int(np.argmax(slope))
        x = np.zeros(n)
        x[place] = 1.0
    return norm * largest


@functools.cache
def _routines():
    from scipy.linalg import get_lapack_funcs  # slow to load

    return get_lapack_funcs(("gbtrf", "gbtrs"))


def one_blas_thread() -> contextlib.AbstractContextManager[Any]:
    """Inside, NumPy's and SciPy's BLAS compute with one thread; afterwards with as many as before."""
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  loads its BLAS, which is found once
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
