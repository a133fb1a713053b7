"""A x = b for banded A, as machine code made for one bandwidth: LU with partial pivoting."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dalembert.native.band import factor as band_factor
from dalembert.native.band import single as band_single
from dalembert.native.band import solve as band_solve
from dalembert.native.band.shape import ORDER, PANEL, Shape
from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.builder import module
from dalembert.native.llvm.cache import CACHE

TURNS = 5  # of the estimate of a condition number
LARGEST = 2**17  # numbers in the window, which stands on the stack and should stay in the cache


@dataclass(frozen=True)
class BandedLU:
    """P S A = L U of a batch of banded matrices, by rows scaled with powers of two, S.

    singular: the first row whose pivot is zero or not a number, −1 if there is none; solutions of a singular matrix are
    NaN. pivots: smallest |pivot| by largest, 0 for a singular matrix. scales: the diagonal of S, then that of rows below.
    matrix, blocks, order, tail: L, U and interchanges as band_factor.factor leaves them.
    """

    matrix: Float[np.ndarray, "batch n width"]
    scales: Float[np.ndarray, "batch n+rest"]
    singular: Int[np.ndarray, " batch"]
    pivots: Float[np.ndarray, " batch"]
    blocks: Float[np.ndarray, "batch panels 4 4"]
    order: Int[np.ndarray, "batch panels 8"]
    tail: Float[np.ndarray, "batch 4 width"]

    def addresses(self, i: int) -> list[int]:
        """Of the factors of matrix i, in the order in which machine code takes them."""
        return [x[i:].ctypes.data for x in (self.matrix, self.scales, self.blocks, self.order, self.tail)]


class BandedCode:
    """LU factorizations with partial pivoting of matrices with A[i, j] = 0 for j < i − lower and for j > i + upper.

    A is stored by rows, (batch, n, width): row i holds the columns i − lower … i + upper + lower. The last `lower` places
    are room for what pivoting fills in and are not read; entries of columns outside 0 … n−1 are zero.
    """

    def __init__(self, lower: int, upper: int):
        self.lower, self.upper = lower, upper
        self._shape = Shape(lower, upper)
        self._code = CACHE.load(text(self._shape), plain=True)
        counts = {"factor": (7, 1), "solve": (7, 2), "transposed": (7, 2)}
        self._calls = {
            name: ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arrays, *[ctypes.c_int64] * numbers)(self._code.address(name))
            for name, (arrays, numbers) in counts.items()
        }

    @property
    def width(self) -> int:
        return self._shape.width

    def factor(self, matrix: Float[np.ndarray, "batch n width"]) -> BandedLU:
        """L and U, in the place of `matrix`: float64, in one piece by rows.

        Every row is divided by the power of two next to its largest entry, so that rows in different units compete fairly
        and nothing is rounded.
        """
        self._check(matrix)
        batch, n, _ = matrix.shape
        panels = -(-n // PANEL)
        factors = BandedLU(
            matrix,
            np.empty((batch, PANEL * panels + self._shape.rows + PANEL)),
            np.empty(batch, np.int64),
            np.empty(batch),
            np.empty((batch, panels + 1, PANEL, PANEL)),
            np.empty((batch, panels, ORDER), np.int32),
            np.empty((batch, PANEL, self.width)),
        )
        for i in range(batch):
            self._calls["factor"](*factors.addresses(i), factors.singular[i:].ctypes.data, factors.pivots[i:].ctypes.data, n)
        return factors

    def solve(self, factors: BandedLU, rhs: np.ndarray, transposed: bool = False) -> np.ndarray:
        """x of A x = b, or of Aᵀ x = b, in the place of b = rhs, which is (batch, n) or (batch, n, r)."""
        batch, n, _ = factors.matrix.shape
        if rhs.shape[:2] != (batch, n) or rhs.ndim > 3 or rhs.dtype != np.float64 or not rhs.flags.c_contiguous:
            raise ValueError(
                f"rhs: expected float64 in one piece of shape {(batch, n)} or {(batch, n, 'r')}, got {rhs.shape}"
            )
        columns = rhs.shape[2] if rhs.ndim == 3 else 1
        work = np.empty(factors.order.shape[1] * PANEL + band_solve.margin(self._shape))
        call = self._calls["transposed" if transposed else "solve"]
        for i in range(batch):
            if factors.singular[i] >= 0:
                rhs[i] = np.nan
                continue
            for column in range(columns):
                place = rhs[i:].ctypes.data + 8 * column
                call(*factors.addresses(i), place, work.ctypes.data, n, columns)
        return rhs

    def norm(self, matrix: Float[np.ndarray, "batch n width"]) -> Float[np.ndarray, " batch"]:
        """|A|₁, the largest sum of a column; before `factor`, which overwrites the matrix."""
        batch, n, _ = matrix.shape
        sums = np.zeros((batch, self.lower + n + self.upper))
        for place in range(self.lower + self.upper + 1):
            sums[:, place : place + n] += np.abs(matrix[..., place])
        return sums[:, self.lower : self.lower + n].max(axis=1)

    def condition(self, factors: BandedLU, norm: Float[np.ndarray, " batch"]) -> Float[np.ndarray, " batch"]:
        """An estimate of |A|₁ |A⁻¹|₁ from below, seldom by more than a factor of three; infinite for a singular matrix.

        norm: |A|₁ of each matrix. Source: N. Higham, ACM Trans. Math. Softw. 14 (1988), algorithm 4.1, all matrices at once.
        """
        batch, n, _ = factors.matrix.shape
        each = np.arange(batch)
        x = np.full((batch, n), 1 / n)
        found = np.zeros(batch)
        for _ in range(TURNS):
            y = self.solve(factors, x)
            sizes = np.abs(y).sum(axis=1)
            if not np.any(sizes > found):
                break
            found = np.fmax(found, sizes)
            slopes = self.solve(factors, np.where(y < 0, -1.0, 1.0), transposed=True)
            x = np.zeros((batch, n))
            x[each, np.abs(slopes).argmax(axis=1)] = 1.0
        steps = np.arange(n)
        x = np.tile(np.where(steps % 2, -1.0, 1.0) * (1 + steps / max(n - 1, 1)), (batch, 1))
        found = np.fmax(found, 2 / (3 * n) * np.abs(self.solve(factors, x)).sum(axis=1))
        return np.where(factors.singular < 0, norm * found, np.inf)

    def _check(self, matrix: np.ndarray) -> None:
        right = matrix.ndim == 3 and matrix.shape[1] > 0 and matrix.shape[2] == self.width
        if not right or matrix.dtype != np.float64 or not matrix.flags.c_contiguous:
            raise ValueError(
                f"matrix: expected float64 in one piece by rows of shape (batch, n, {self.width}), got {matrix.shape}"
            )


@functools.lru_cache(maxsize=32)
def banded(lower: int, upper: int) -> BandedCode:
    """The factorizations for one bandwidth; compiled once, and kept on disk like all machine code."""
    if lower < 0 or upper < 0:
        raise ValueError(f"lower, upper: expected no negative bandwidths, got {lower} and {upper}")
    shape = Shape(lower, upper)
    if shape.height * shape.stride > LARGEST:
        raise Unsupported("bandwidths", f"of {lower} and {upper} are too large for the window of the factorization")
    return BandedCode(lower, upper)


def text(shape: Shape) -> str:
    """The LLVM module of one bandwidth."""
    factor, declared = band_factor.factor(shape)
    parts = [factor]
    for name, code in (("solve", band_single.solve(shape)), ("transposed", band_solve.solve_transposed(shape))):
        parts.append(code.function(f"define void @{name}({band_solve.ARGUMENTS}) nounwind"))
        declared |= code.declared
    return module(*parts, declared=declared)
