"""A linear system written out: pivots chosen once, from structure and a numeric sample, then checked at run time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from dalembert.native.graph.graph import Graph, express

Nodes = np.ndarray  # of int64: indices into a Graph

THRESHOLD = 0.1  # a pivot of the sample is at least this part of the largest entry of its column, rows scaled
# Limits of the sum of squares of the scaled multipliers; beyond them the pivoted solver takes over. An iteration corrects
# what one elimination loses, and its last update is small; a linear system is solved once.
GROWTH = {"iterated": 1e12, "linear": 1e6}
SMALLEST = 1e-11  # a pivot smaller than this part of its row is left to the pivoted solver's judgement
SMALLEST_DETERMINANT = 1e-8  # the same of a determinant beside the product of the sizes of its rows
NEGLIGIBLE = 1e-20  # factor that keeps finite pivots out of the sum
WEIGHTS = (0.0, 0.3, 1.0)  # cost of one operation done once per run, once per step, once per iteration
DIVISION = 8.0  # cost of a division in operations


@dataclasses.dataclass(frozen=True)
class PivotOrder:
    """rows[k], columns[k]: the k-th pivot. scale[k]: size of that row in the sample. operations: of the elimination."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    scale: tuple[float, ...]
    operations: int


def parity(orders: Sequence[PivotOrder]) -> int:
    """0 if the rows and columns of all pivots, in their order, are together an even permutation, 1 if odd."""
    rows, columns = ([i for o in orders for i in getattr(o, name)] for name in ("rows", "columns"))
    return (_parity(rows) + _parity(columns)) % 2


def _parity(permutation: list[int]) -> int:
    left, odd = list(permutation), 0
    for k in range(len(left)):
        while left[k] != k:
            at = left[k]
            left[k], left[at] = left[at], left[k]
            odd ^= 1
    return odd


def definite_parts(samples: np.ndarray) -> np.ndarray | None:
    """Of each row 0 or 1, where the matrix is [[M, ±Rᵀ], [R, 0]] in every sample, M and R M⁻¹Rᵀ symmetric and definite.

    Then the diagonal pivots of M, and after them those of what is left of the zeros, are never small beside what they
    eliminate, wherever M stays definite and R of full rank. None where a sample is not such a matrix.
    """
    part = (np.diagonal(samples, axis1=1, axis2=2) == 0).all(axis=0).astype(int)
    inner, outer = np.flatnonzero(part == 0), np.flatnonzero(part)
    if not inner.size or not np.all(np.isfinite(samples)) or np.any(samples[:, outer][:, :, outer]):
        return None
    for a in samples:
        m, b, r = a[np.ix_(inner, inner)], a[np.ix_(inner, outer)], a[np.ix_(outer, inner)]
        if not _definite(m) or (outer.size and not _definite(r @ np.linalg.solve(m, b))):
            return None
    return part


def _definite(a: np.ndarray) -> bool:
    """True if a, or -a, is symmetric to rounding and positive definite, well above singular."""
    size = np.linalg.eigvalsh(a if np.trace(a) > 0 else -a)
    return bool(np.allclose(a, a.T, rtol=0.0, atol=1e-10 * np.abs(a).max()) and size[0] > 1e-10 * size[-1])


def choose_order(
    pattern: np.ndarray, levels: np.ndarray, samples: np.ndarray, parts: np.ndarray | None = None
) -> PivotOrder | None:
    """Pivots with the least work inside the iteration, none of them small in any sample; None if there is no such order.

    pattern: (n, n) of truth values, False for zeros of the structure. levels: (n, n), how often an entry changes (0, 1, 2).
    samples: (s, n, n) numeric Jacobians. parts: if given, pivots are on the diagonal, those of part 0 first. Source:
    Markowitz's rule with threshold pivoting, weighted by how often work is done.
    """
    n = pattern.shape[0]
    size = np.max(np.abs(samples), axis=(0, 2), initial=0.0)
    if not np.all(np.isfinite(samples)) or np.any(size == 0):
        return None
    work = samples / size[:, None]
    pattern, levels = pattern.copy(), np.where(pattern, levels, 0)
    rows, columns, operations = [], [], 0
    free_rows, free_columns = np.ones(n, bool), np.ones(n, bool)
    for _ in range(n):
        live = pattern & free_rows[:, None] & free_columns[None, :]
        magnitude = np.abs(work) * live
        if parts is None:
            allowed = live & np.all(magnitude >= THRESHOLD * magnitude.max(axis=1, keepdims=True), axis=0)
        else:
            allowed = live & np.diag(parts == parts[free_rows].min())
        allowed &= np.all(magnitude > 1e-13, axis=0)
        if not allowed.any():
            return None
        cost = np.where(allowed, _cost(live, levels), np.inf)
        i, j = np.unravel_index(np.argmin(cost), cost.shape)
        below, beside = live[:, j].copy(), live[i].copy()
        below[i], beside[j] = False, False
        operations += int(2 * below.sum() * (beside.sum() + 1) + beside.sum() + 2)
        factors = work[:, below, j] / work[:, i, j][:, None]
        work[:, below] -= factors[:, :, None] * work[:, i][:, None, :]
        block = np.ix_(below, beside)
        level = np.maximum(np.maximum(levels[below, j][:, None], levels[i, beside][None, :]), levels[i, j])
        levels[block] = np.maximum(levels[block], level)
        pattern[block] = True
        free_rows[i] = free_columns[j] = False
        rows.append(int(i))
        columns.append(int(j))
    return PivotOrder(tuple(rows), tuple(columns), tuple(float(size[i]) for i in rows), operations)


def within(order: PivotOrder, rows: Sequence[int], columns: Sequence[int]) -> PivotOrder:
    """The order of a part of a system as one of the whole."""
    moved = tuple(rows[i] for i in order.rows), tuple(columns[j] for j in order.columns)
    return dataclasses.replace(order, rows=moved[0], columns=moved[1])


def _cost(live: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Weighted operations if the entry is the next pivot: products of its row with its column, and its reciprocal."""

    def others(mask: np.ndarray, axis: int) -> np.ndarray:
        return mask.sum(axis=axis, keepdims=True) - mask

    below, beside = others(live, 0), others(live, 1)
    cost = WEIGHTS[0] * below * beside + WEIGHTS[2] * below
    for level in (1, 2):
        low = live & (levels < level)
        cheap = np.where(levels < level, others(low, 0) * others(low, 1), 0)
        cost = cost + (WEIGHTS[level] - WEIGHTS[level - 1]) * (below * beside - cheap)
    return cost + DIVISION * np.asarray(WEIGHTS)[levels] + 1e-3 * (below + beside)


@dataclasses.dataclass(frozen=True)
class Elimination:
    """update: unknown → node of its part of F′⁻¹F. check: must be at most `growth`. pivots: signs make the determinant's."""

    update: dict[int, int]
    check: int
    pivots: list[int]


def eliminate(
    g: Graph, f: Sequence[int], jacobian: Nodes, order: PivotOrder, level: Callable[[int], int], growth: float,
    *, cofactors: bool = False,
) -> Elimination:  # fmt: skip
    """Nodes of the solution of F′ x = F with the given pivots, in the rows and columns these have. cofactors: of three
    equations by Cramer's rule.

    Products are formed so that factors that change seldom come first: they are then computed outside the iteration.
    """
    if cofactors and len(order.rows) == 3:
        return _by_cofactors(g, f, jacobian, order, growth)
    pairs = list(zip(order.rows, order.columns, order.scale, strict=True))
    size = {r: scale for r, _, scale in pairs}
    a = {(i, j): int(jacobian[i, j]) for i in order.rows for j in order.columns if jacobian[i, j] != g.zero}
    b = {i: int(f[i]) for i in order.rows}
    left, squares = set(order.rows), list[tuple[int, int]]()
    inverses, pivots = [], []

    def add_square(x: int, scale: float) -> None:
        squares.append((level(x), _square(g, x, scale)))

    for k, (r, c, scale) in enumerate(pairs):
        left.remove(r)
        inverse = g.apply("div", g.one, a[r, c])
        inverses.append(inverse)
        pivots.append(a[r, c])
        add_square(inverse, scale * SMALLEST * math.sqrt(growth))
        add_square(a[r, c], NEGLIGIBLE / scale)  # an infinite pivot would pass as 1/pivot = 0
        later = [j for j in order.columns[k + 1 :] if (r, j) in a]
        for i in sorted(left):
            if (i, c) not in a:
                continue
            entry = a.pop((i, c))
            factor = g.apply("mul", entry, inverse)
            add_square(factor, scale / size[i])
            for j in later:
                product = _product(g, level, entry, inverse, a[r, j])
                a[i, j] = g.apply("sub", a.get((i, j), g.zero), product)
            b[i] = g.apply("sub", b[i], g.apply("mul", factor, b[r]))
    update: dict[int, int] = {}
    for k, (r, c, _) in reversed(list(enumerate(pairs))):
        rest = b[r]
        for j in order.columns[k + 1 :]:
            if (r, j) in a:
                rest = g.apply("sub", rest, g.apply("mul", a[r, j], update[j]))
        update[c] = g.apply("mul", rest, inverses[k])
    return Elimination(update, g.total(x for _, x in sorted(squares)), pivots)


def _by_cofactors(g: Graph, f: Sequence[int], jacobian: Nodes, order: PivotOrder, growth: float) -> Elimination:
    """With one division, where an elimination has three that wait for each other. The determinant is the one pivot."""
    a = np.array(express(g, jacobian[np.ix_(order.rows, order.columns)].ravel())).reshape(3, 3)
    after, last = np.roll(a, -1, (0, 1)), np.roll(a, 1, (0, 1))
    cofactors = after * last - np.roll(a, (-1, 1), (0, 1)) * np.roll(a, (1, -1), (0, 1))
    determinant, size = a[0] @ cofactors[0], math.prod(order.scale)
    inverse = 1.0 / determinant
    update = np.array(express(g, (f[i] for i in order.rows))) @ cofactors * inverse
    limits = (inverse, size * SMALLEST_DETERMINANT * math.sqrt(growth)), (determinant, NEGLIGIBLE / size)
    check = g.total(_square(g, x.node, scale) for x, scale in limits)
    return Elimination({j: x.node for j, x in zip(order.columns, update, strict=True)}, check, [determinant.node])


def _square(g: Graph, x: int, scale: float) -> int:
    """(scale x)², the scale rounded to a power of 16 so that it does not vary with small changes of the sample."""
    return g.apply("mul", g.constant(256.0 ** round(math.log(scale, 16))), g.apply("mul", x, x))


def _product(g: Graph, level: Callable[[int], int], entry: int, inverse: int, other: int) -> int:
    """entry · inverse · other, the two factors that change least multiplied first."""
    if max(level(inverse), level(other)) < level(entry):
        return g.apply("mul", entry, g.apply("mul", inverse, other))
    return g.apply("mul", g.apply("mul", entry, inverse), other)
