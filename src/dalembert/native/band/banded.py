"""A x = b for banded A, as machine code made for one bandwidth: LU with partial pivoting, for one matrix or many."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dalembert.native.band import factor as band_factor
from dalembert.native.band import single as band_single
from dalembert.native.band import solve as band_solve
from dalembert.native.band.shape import BLOCK, ORDER, PANEL, Shape
from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.builder import Code, module, real
from dalembert.native.llvm.cache import CACHE
from dalembert.native.llvm.threads import shared

TURNS = 5  # of the estimate of a condition number
LARGEST = 2**17  # numbers in the window, which stands on the stack and should stay in the cache
LANES = 4  # right-hand sides that are solved for at once
# The words of a job: a counter, the number of matrices, sizes, then arrays, one after the other for each matrix.
FIELDS = (
    *("next", "number", "n", "columns", "room"),
    *("a", "scales", "blocks", "order", "tail", "singular", "pivots", "rhs", "work"),
)


@dataclass(frozen=True)
class Factors:
    """P S A = L U of a batch of banded matrices, by rows scaled with powers of two, S.

    singular: the first row whose pivot is zero or not a number, −1 if there is none; solutions of a singular matrix are
    NaN. pivots: smallest |pivot| by largest, 0 for a singular matrix. scales: the diagonal of S, then that of rows below.
    matrix, blocks, order, tail: L, U and interchanges as band_factor.factor leaves them.
    """

    matrix: Float[np.ndarray, "batch n width"]
    scales: Float[np.ndarray, "batch n+room"]
    singular: Int[np.ndarray, " batch"]
    pivots: Float[np.ndarray, " batch"]
    blocks: Float[np.ndarray, "batch panels 4 4"]
    order: Int[np.ndarray, "batch panels 8"]
    tail: Float[np.ndarray, "batch 4 width"]


class Banded:
    """LU factorizations with partial pivoting of matrices with A[i, j] = 0 for j < i − lower and for j > i + upper.

    A is stored by rows, (batch, n, width): row i holds the columns i − lower … i + upper + lower. The last `lower` places
    are room for what pivoting fills in and are not read; entries of columns outside 0 … n−1 are zero.
    """

    def __init__(self, lower: int, upper: int):
        self.lower, self.upper = lower, upper
        self._shape = Shape(lower, upper)
        self._code = CACHE.load(text(self._shape), plain=True)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self._calls = {name: kind(self._code.address(name)) for name in ("factor", "solve", "transposed")}

    @property
    def width(self) -> int:
        return self._shape.width

    def factor(self, matrix: Float[np.ndarray, "batch n width"], threads: int = 1) -> Factors:
        """L and U, in the place of `matrix`: float64, in one piece by rows. threads: matrices that are done at once.

        Every row is divided by the power of two next to its largest entry, so that rows in different units compete fairly
        and nothing is rounded.
        """
        self._check(matrix)
        batch, n, _ = matrix.shape
        panels = -(-n // PANEL)
        factors = Factors(
            matrix,
            np.empty((batch, PANEL * panels + self._shape.rows + PANEL)),
            np.empty(batch, np.int64),
            np.empty(batch),
            np.empty((batch, panels + 1, PANEL, PANEL)),
            np.empty((batch, panels, ORDER), np.int32),
            np.empty((batch, PANEL, self.width)),
        )
        self._run("factor", factors, threads)
        return factors

    def solve(self, factors: Factors, rhs: np.ndarray, threads: int = 1, transposed: bool = False) -> np.ndarray:
        """x of A x = b, or of Aᵀ x = b, in the place of b = rhs, which is (batch, n) or (batch, n, r)."""
        batch, n, _ = factors.matrix.shape
        if rhs.shape[:2] != (batch, n) or rhs.ndim > 3 or rhs.dtype != np.float64 or not rhs.flags.c_contiguous:
            raise ValueError(
                f"rhs: expected float64 in one piece of shape {(batch, n)} or {(batch, n, 'r')}, got {rhs.shape}"
            )
        columns = rhs.shape[2] if rhs.ndim == 3 else 1
        room = LANES * (factors.order.shape[1] * PANEL + band_solve.margin(self._shape))
        work = np.empty((batch, room))
        self._run("transposed" if transposed else "solve", factors, threads, columns=columns, room=room, rhs=rhs, work=work)
        return rhs

    def norm(self, matrix: Float[np.ndarray, "batch n width"]) -> Float[np.ndarray, " batch"]:
        """|A|₁, the largest sum of a column; before `factor`, which overwrites the matrix."""
        batch, n, _ = matrix.shape
        sums = np.zeros((batch, self.lower + n + self.upper))
        for place in range(self.lower + self.upper + 1):
            sums[:, place : place + n] += np.abs(matrix[..., place])
        return sums[:, self.lower : self.lower + n].max(axis=1)

    def condition(self, factors: Factors, norm: Float[np.ndarray, " batch"]) -> Float[np.ndarray, " batch"]:
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

    def _run(self, name: str, factors: Factors, threads: int, **others: int | np.ndarray) -> None:
        values = {
            "number": len(factors.matrix),
            "n": factors.matrix.shape[1],
            "a": factors.matrix,
            **vars(factors),
            **others,
        }
        words = (values.get(key, 0) for key in FIELDS)
        job = (ctypes.c_int64 * len(FIELDS))(*(x.ctypes.data if isinstance(x, np.ndarray) else x for x in words))
        self._calls[name](job, threads)


@functools.lru_cache(maxsize=32)
def banded(lower: int, upper: int) -> Banded:
    """The factorizations for one bandwidth; compiled once, and kept on disk like all machine code."""
    if lower < 0 or upper < 0:
        raise ValueError(f"lower, upper: expected no negative bandwidths, got {lower} and {upper}")
    shape = Shape(lower, upper)
    if shape.height * shape.stride > LARGEST:
        raise Unsupported("bandwidths", f"of {lower} and {upper} are too large for the window of the factorization")
    return Banded(lower, upper)


def text(shape: Shape) -> str:
    """The LLVM module of one bandwidth."""
    factor, declared = band_factor.factor(shape)
    parts = [factor]
    solvers = {
        "solve.1": band_single.solve_single(shape),
        f"solve.{LANES}": band_solve.solve(shape, LANES),
        "transposed.1": band_solve.solve_transposed(shape, 1),
        f"transposed.{LANES}": band_solve.solve_transposed(shape, LANES),
    }
    for name, code in solvers.items():
        parts.append(code.function(f"define internal void @{name}({band_solve.ARGUMENTS}) nounwind"))
        declared |= code.declared
    for name in ("factor", "solve", "transposed"):
        code = _piece(shape, name)
        parts.append(code.function(f"define internal void @{name}.piece(ptr %job, i64 %i) nounwind"))
        threads, more = shared(name, f"{name}.piece")
        parts.append(threads)
        declared |= code.declared | more
    return module(*parts, declared=declared)


def _piece(shape: Shape, name: str) -> Code:
    """One matrix of a job."""
    c = Code()
    n, columns, room = (c.load(c.at("%job", FIELDS.index(x), "i64"), "i64") for x in ("n", "columns", "room"))
    panels = c.let(f"sdiv i64 {c.let(f'add i64 {n}, {PANEL - 1}')}, {PANEL}")
    more = c.let(f"add i64 {panels}, 1")
    longer = c.let(f"add i64 {c.let(f'mul i64 {panels}, {PANEL}')}, {shape.rows + PANEL}")
    sizes = {"a": (n, shape.width), "scales": (longer, 1), "blocks": (more, BLOCK), "order": (panels, ORDER)}
    sizes |= {"tail": ("1", PANEL * shape.width), "singular": ("1", 1), "pivots": ("1", 1)}
    sizes |= {"rhs": (n, columns), "work": (room, 1)}
    at = {}
    for key, (count, each) in sizes.items():
        base = c.load(c.at("%job", FIELDS.index(key), "i64"), "ptr")
        start = c.let(f"mul i64 %i, {c.let(f'mul i64 {count}, {each}')}")
        at[key] = c.at(base, start, {"order": "i32", "singular": "i64"}.get(key, "double"))
    factors = ", ".join(f"ptr {at[x]}" for x in ("a", "scales", "blocks", "order", "tail"))
    if name == "factor":
        c.line(f"call void @factor.one({factors}, ptr {at['singular']}, ptr {at['pivots']}, i64 {n})")
    else:
        _each_column(c, name, factors, at, n, columns)
    c.line("ret void")
    return c


def _each_column(c: Code, name: str, factors: str, at: dict[str, str], n: str, columns: str) -> None:
    """Right-hand sides in fours, the others one by one; NaN if the matrix is singular."""
    c.fork(c.let(f"icmp slt i64 {c.load(at['singular'], 'i64')}, 0"), "sound", "bad")
    c.label("bad")
    with c.loop(0, c.let(f"mul i64 {n}, {columns}")) as i:
        c.store(real(float("nan")), c.at(at["rhs"], i))
    c.go("done")
    c.label("sound")
    rest = f"ptr {at['work']}, i64 {n}, i64 {columns}"
    groups = c.let(f"sdiv i64 {columns}, {LANES}")
    with c.loop(0, groups) as g:
        first = c.at(at["rhs"], c.let(f"mul i64 {g}, {LANES}"))
        c.line(f"call void @{name}.{LANES}({factors}, ptr {first}, {rest})")
    with c.loop(c.let(f"mul i64 {groups}, {LANES}"), columns) as i:
        c.line(f"call void @{name}.1({factors}, ptr {c.at(at['rhs'], i)}, {rest})")
    c.label("done")
