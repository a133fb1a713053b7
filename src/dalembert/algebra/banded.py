"""A x = b for a symmetric banded A, by LAPACK's LU with partial pivoting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.lib.stride_tricks import sliding_window_view

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


def condition(norm: float, n: int, solve: Callable[[np.ndarray], np.ndarray]) -> float:
    """An estimate of |A|₁ |A⁻¹|₁ from below for a symmetric A, (n, n), seldom by more than a factor of three; infinite for a
    singular matrix.

    norm: |A|₁; solve: b ↦ A⁻¹b. Source: N. Higham, F. Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), with one column.
    """
    from scipy.sparse.linalg import LinearOperator, onenormest  # slow to load

    inverse = LinearOperator((n, n), matvec=solve, rmatvec=solve, dtype=float)  # type: ignore[call-arg]
    estimate: Any = onenormest(inverse, t=1)
    return float(norm * estimate) if np.isfinite(estimate) else np.inf


@functools.cache
def _routines():
    from scipy.linalg import get_lapack_funcs  # slow to load

    return get_lapack_funcs(("gbtrf", "gbtrs"))
