"""A x = b for banded A by LAPACK: native/band/banded.py without a compiler, and the truth it is tested against."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

SMALLEST = np.finfo(float).tiny  # a pivot below it has no finite reciprocal


@dataclass(frozen=True)
class LapackFactors:
    """P S A = L U of a batch of banded matrices, by rows scaled with powers of two, S.

    singular: the first row whose pivot is zero or not a number, −1 if there is none; solutions of a singular matrix are
    NaN. pivots: smallest |pivot| by largest, 0 for a singular matrix. scales: (batch, n), the diagonal of S.
    """

    parts: tuple[tuple[np.ndarray, np.ndarray], ...]  # of each matrix, LAPACK's LU and interchanges
    scales: Float[np.ndarray, "batch n"]
    singular: Int[np.ndarray, " batch"]
    pivots: Float[np.ndarray, " batch"]

    def only(self, i: int) -> LapackFactors:
        """Those of one matrix."""
        part = slice(i, i + 1)
        return LapackFactors(self.parts[part], self.scales[part], self.singular[part], self.pivots[part])


@dataclass(frozen=True)
class BandedLapack:
    """LU factorizations with partial pivoting of matrices with A[i, j] = 0 for j < i − lower and for j > i + upper.

    A is stored by rows, (batch, n, width): row i holds the columns i − lower … i + upper + lower. The last `lower` places
    are room for what pivoting fills in and are not read; entries of columns outside 0 … n−1 are zero.
    """

    lower: int
    upper: int

    @property
    def width(self) -> int:
        return 2 * self.lower + self.upper + 1

    def factor(self, matrix: Float[np.ndarray, "batch n width"]) -> LapackFactors:
        """L and U; what `matrix` holds afterwards is not defined.

        Every row is divided by the power of two next to its largest entry, so that rows in different units compete fairly
        and nothing is rounded.
        """
        held = np.asarray(matrix)[..., : self.lower + self.upper + 1]
        exponents = np.frexp(np.abs(held).max(axis=2, initial=0.0))[1]
        scales = np.ldexp(1.0, np.clip(1 - exponents, -1022, 1023))
        done = [self._factor(rows * scale[:, None]) for rows, scale in zip(held, scales, strict=True)]
        sizes = [np.abs(lu[self.lower + self.upper]) for lu, _ in done]
        faults = [np.flatnonzero(~((size >= SMALLEST) & (size < np.inf))) for size in sizes]
        return LapackFactors(
            tuple(done),
            scales,
            np.array([fault[0] if fault.size else -1 for fault in faults]),
            np.array([0.0 if fault.size else size.min() / size.max() for size, fault in zip(sizes, faults, strict=True)]),
        )

    def _factor(self, rows: Float[np.ndarray, "n lower+upper+1"]) -> tuple[np.ndarray, np.ndarray]:
        """LU and interchanges of one matrix; LAPACK wants entry (i, j) at (lower + upper + i − j, j)."""
        from scipy.linalg import get_lapack_funcs  # slow to load

        n = len(rows)
        columns = np.zeros((self.width, n), order="F")
        for right in range(-min(self.lower, n - 1), min(self.upper, n - 1) + 1):
            first, end = max(right, 0), min(n, n + right)
            columns[self.lower + self.upper - right, first:end] = rows[first - right : end - right, self.lower + right]
        (gbtrf,) = get_lapack_funcs(("gbtrf",), (columns,))
        lu, order, _ = gbtrf(columns, self.lower, self.upper, overwrite_ab=True)
        return lu, order

    def solve(self, factors: LapackFactors, rhs: np.ndarray, transposed: bool = False) -> np.ndarray:
        """x of A x = b, or of Aᵀ x = b, in the place of b = rhs, which is (batch, n) or (batch, n, r)."""
        from scipy.linalg import get_lapack_funcs

        (gbtrs,) = get_lapack_funcs(("gbtrs",), (rhs,))
        scales = factors.scales.reshape(factors.scales.shape + (1,) * (rhs.ndim - 2))
        for x, scale, (lu, order), bad in zip(rhs, scales, factors.parts, factors.singular, strict=True):
            if bad >= 0:
                x[...] = np.nan
                continue
            given = x if transposed else x * scale
            found = gbtrs(lu, self.lower, self.upper, given, order, trans=int(transposed))[0]
            x[...] = found * scale if transposed else found
        return rhs

    def norm(self, matrix: Float[np.ndarray, "batch n width"]) -> Float[np.ndarray, " batch"]:
        """|A|₁, the largest sum of a column; before `factor`, which overwrites the matrix."""
        held = np.abs(np.asarray(matrix)[..., : self.lower + self.upper + 1])
        batch, n = held.shape[:2]
        sums = np.zeros((batch, self.lower + n + self.upper))
        for place in range(held.shape[2]):
            sums[:, place : place + n] += held[..., place]
        return sums[:, self.lower : self.lower + n].max(axis=1)

    def condition(self, factors: LapackFactors, norm: Float[np.ndarray, " batch"]) -> Float[np.ndarray, " batch"]:
        """An estimate of |A|₁ |A⁻¹|₁ from below, seldom by more than a factor of three; infinite for a singular matrix.

        norm: |A|₁ of each matrix. Source: N. Higham, F. Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), with one column.
        """
        sound = factors.singular < 0
        return np.array([size * self._inverse_norm(factors.only(i)) if sound[i] else np.inf for i, size in enumerate(norm)])

    def _inverse_norm(self, factors: LapackFactors) -> float:
        """|A⁻¹|₁ of one matrix, estimated."""
        from scipy.sparse.linalg import LinearOperator, onenormest

        def apply(x: np.ndarray, transposed: bool = False) -> np.ndarray:
            return self.solve(factors, np.array(x)[None], transposed=transposed)[0]

        shape = (factors.scales.shape[1],) * 2
        back = functools.partial(apply, transposed=True)
        return onenormest(LinearOperator(shape, matvec=apply, rmatvec=back, dtype=float), t=1)  # type: ignore[call-arg]


@functools.cache
def banded(lower: int, upper: int) -> BandedLapack:
    """The factorizations for one bandwidth."""
    return BandedLapack(lower, upper)
