"""Linear algebra primitives on arrays of graph nodes: small systems, written out, and larger ones.

A pivot of a small system is chosen at run time by comparisons, as LAPACK does, but only among entries that are not zeros of
the structure.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dalembert.native.graph.elimination import GROWTH, choose_order, eliminate
from dalembert.native.graph.graph import Graph, Unsupported
from dalembert.native.trace.elementwise import Nodes, constants, elementwise
from dalembert.native.trace.partition import cycles

LARGEST = 12  # rows of a matrix inside the user's functions that is factored by written-out operations
LARGEST_DENSE = 100  # rows of one that LAPACK factors
SPARSE = 0.5  # of the operations of a dense elimination: with fewer, pivots that a sample chose are written out
Samples = Callable[[Nodes], np.ndarray] | None  # (…) nodes → (s, …) numbers


def _bring_largest(g: Graph, k: int, matrix: Nodes, *others: Nodes) -> int:
    """Swap the row below k with the largest entry of column k into row k; the same rows of `others`. Returns its index.

    Which row it is makes no difference to what is solved.
    """
    best, largest = g.constant(k), g.apply("abs", int(matrix[k, k]))
    rows = [i for i in range(k + 1, matrix.shape[0]) if matrix[i, k] != g.zero]
    for i in rows:
        size = g.apply("abs", int(matrix[i, k]))
        larger = g.apply("agree", g.apply("gt", size, largest))
        best = g.apply("select", larger, g.constant(i), best)
        largest = g.apply("select", larger, size, largest)
    for i in rows:
        here = np.asarray(g.apply("eq", best, g.constant(i)))
        for x in (matrix, *others):
            x[k], x[i] = elementwise(g, "select", here, x[i], x[k]), elementwise(g, "select", here, x[k], x[i])
    return best


def lu(g: Graph, matrix: Nodes) -> tuple[Nodes, list[int], Nodes]:
    """P A = L U by partial pivoting: L (below the diagonal) and U in one array, row swaps, rows of A in their new order."""
    n = matrix.shape[0]
    if matrix.shape != (n, n) or n > LARGEST:
        raise Unsupported("lu", f"of a matrix of shape {matrix.shape}")
    work, order = matrix.copy(), constants(g, np.arange(n))
    return work, _factor_lu(g, work, order), order


def _factor_lu(g: Graph, work: Nodes, *others: Nodes) -> list[int]:
    """Write L and U into an array with as many rows, or more columns; the row swaps, which are those of `others`, too."""
    swaps, n = [], len(work)
    for k in range(n):
        swaps.append(_bring_largest(g, k, work, *others))
        inverse = g.apply("div", g.one, int(work[k, k]))
        for i in range(k + 1, n):
            if work[i, k] == g.zero:
                continue
            work[i, k] = factor = g.apply("mul", int(work[i, k]), inverse)
            product = elementwise(g, "mul", np.asarray(factor), work[k, k + 1 :])
            work[i, k + 1 :] = elementwise(g, "sub", work[i, k + 1 :], product)
    return swaps


def solve(g: Graph, matrix: Nodes, right: Nodes) -> Nodes:
    """x with A x = b, b (n,), by elimination with pivots chosen at run time."""
    work = np.column_stack([matrix, right])
    _factor_lu(g, work)
    return _back_substitute(g, work[:, :-1], work[:, -1])


def _back_substitute(g: Graph, upper: Nodes, b: Nodes) -> Nodes:
    x = b.copy()
    for k in reversed(range(len(b))):
        for j in range(k + 1, len(b)):
            x[k] = g.apply("sub", int(x[k]), g.apply("mul", int(upper[k, j]), int(x[j])))
        x[k] = g.apply("div", int(x[k]), int(upper[k, k]))
    return x


def solve_large(g: Graph, matrix: Nodes, right: Nodes, samples: Samples) -> list[int]:
    """x with A x = b: where A is sparse, by pivots that are chosen from a sample and checked at run time; by LAPACK where
    the check fails, and where A is dense."""
    n = len(right)
    if n > LARGEST_DENSE:
        raise Unsupported("custom_linear_solve", f"of {n} equations inside a function")
    system = g.raw("solve", *matrix.T.ravel().tolist(), *right.tolist())
    dense = [g.entry(system, k) for k in range(n)]
    pattern, order = matrix != g.zero, None
    if samples is not None:
        with contextlib.suppress(KeyError):  # an input that the sample does not know
            order = choose_order(pattern, np.ones(pattern.shape, int), samples(matrix))
    if order is None or order.operations > SPARSE * 2.0 / 3.0 * n**3:
        return dense
    found = eliminate(g, right.tolist(), matrix, order, lambda _: 1, GROWTH["linear"])
    good = g.apply("agree", g.apply("le", found.check, g.constant(GROWTH["linear"])))
    return g.choose(good, [found.update[j] for j in range(n)], dense)


def linear_solve(
    g: Graph, matvec: Callable[[list[Nodes]], list[Nodes]], right: list[Nodes], samples: Samples = None
) -> list[Nodes]:
    """x with matvec(x) = b: the matrix is read off from its columns, and solved in independent blocks."""
    sizes = [r.size for r in right]
    total, columns = sum(sizes), []
    for j in range(total):
        unit = constants(g, np.eye(1, total, j)[0])
        parts = np.split(unit, np.cumsum(sizes)[:-1])
        image = matvec([p.reshape(r.shape) for p, r in zip(parts, right, strict=True)])
        columns.append(np.concatenate([y.ravel() for y in image]))
    matrix, b = np.stack(columns, axis=1), np.concatenate([r.ravel() for r in right])
    x = np.empty_like(b)
    linked = matrix != g.zero
    number, part = cycles(linked | linked.T)
    for block in (np.flatnonzero(part == i) for i in range(number)):
        way = solve if len(block) <= LARGEST else functools.partial(solve_large, samples=samples)
        x[block] = way(g, matrix[np.ix_(block, block)], b[block])
    parts = np.split(x, np.cumsum(sizes)[:-1])
    return [p.reshape(r.shape) for p, r in zip(parts, right, strict=True)]


def _lu(g: Graph, eqn, a: Nodes) -> list[Nodes]:
    batch = a.shape[:-2]
    parts = zip(*(lu(g, a[i]) for i in np.ndindex(*batch)), strict=True)
    return [np.array(list(p)).reshape(v.aval.shape) for p, v in zip(parts, eqn.outvars, strict=True)]


def _triangular_solve(g: Graph, eqn, a: Nodes, b: Nodes) -> Nodes:
    p = eqn.params
    result = np.empty_like(b)
    for i in np.ndindex(*a.shape[:-2]):
        matrix, lower = a[i], p["lower"]
        right = b[i] if p["left_side"] else b[i].T
        if p["transpose_a"] == p["left_side"]:  # x A = b is Aᵀxᵀ = bᵀ
            matrix, lower = matrix.T, not lower
        if lower:
            matrix, right = matrix[::-1, ::-1], right[::-1]
        matrix = np.where(np.triu(np.ones(matrix.shape, bool)), matrix, g.zero)
        if p["unit_diagonal"]:
            matrix = np.where(np.eye(len(matrix), dtype=bool), g.one, matrix)
        x = np.stack([_back_substitute(g, matrix, column) for column in right.T], axis=1)
        x = x[::-1] if lower else x
        result[i] = x if p["left_side"] else x.T
    return result


def _cholesky(g: Graph, eqn, a: Nodes) -> Nodes:
    """L with A = L Lᵀ; NaN where A is not positive definite."""
    result = np.full_like(a, g.zero)
    for batch in np.ndindex(*a.shape[:-2]):
        work, low, definite = a[batch], result[batch], g.true
        for j in range(len(work)):
            rest = [g.apply("mul", int(x), int(x)) for x in low[j, :j]]
            square = g.apply("sub", int(work[j, j]), g.total(rest))
            definite = g.apply("and", definite, g.apply("gt", square, g.zero))
            low[j, j] = g.apply("sqrt", square)
            for i in range(j + 1, len(work)):
                dot = g.total(g.apply("mul", int(x), int(y)) for x, y in zip(low[i, :j], low[j, :j], strict=True))
                low[i, j] = g.apply("div", g.apply("sub", int(work[i, j]), dot), int(low[j, j]))
        lower = np.tril_indices(len(work))
        low[lower] = elementwise(g, "select", np.asarray(definite), low[lower], np.asarray(g.constant(math.nan)))
    return result


LINEAR: dict[str, Callable[..., Any]] = {
    "lu": _lu,
    "triangular_solve": _triangular_solve,
    "cholesky": _cholesky,
}
