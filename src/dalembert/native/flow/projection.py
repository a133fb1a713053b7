"""One update of Newton's method onto r(x) = 0 and then s(x, u) = 0 for y = (x, u), with all eliminations written out.

    x ← x - W⁻¹Aᵀ(AW⁻¹Aᵀ)⁻¹r(x),   u ← u - W⁻¹Bᵀ(BW⁻¹Bᵀ)⁻¹s(x, u),   A = ∂r/∂x,   B = ∂s/∂u, which begins with A

The change is the least one in the metric W. Where W is not positive definite, to rounding, it is the diagonal of |W_jj|. So no
pivot needs a choice: they vanish where the rows of A, or B, are dependent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert.native.assembly.function import CompiledFunction, GraphFunction, translated
from dalembert.native.graph.elimination import GROWTH, PivotOrder, eliminate
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.simplify import replaced
from dalembert.native.llvm.cache import CACHE, Cache
from dalembert.native.trace.elementwise import Nodes, elementwise
from dalembert.native.trace.place import refusing

DEFINITE = 1e-10  # of |W_jj|: a pivot of W that is less may be rounding


@refusing
def compile_projection(function: Callable, y: np.ndarray, given: Sequence[Any], cache: Cache = CACHE) -> CompiledFunction:
    """(y, t, *given) → y after the update, and the largest |update_i| / (1 + |y_i|).

    function: the same → (W, B, r, s), or (W, A, r) where u is not restricted; W is (n, n), for n components of x and of u.
    """
    made = translated(function, np.zeros(np.shape(y)), np.zeros(()), *(np.zeros(np.shape(x)) for x in given))
    g, (metric, rows, *residuals) = made.graph, made.results
    n, k = len(metric), residuals[0].size
    state = g.vector("x0", np.size(y)).tolist()
    metric = _definite(g, metric)
    updates = _least(g, metric, rows[:k], residuals[0])
    moved = [g.apply("sub", a, b) for a, b in zip(state[:n], updates, strict=True)]
    if len(residuals) > 1:
        known = dict(zip(state[:n], moved, strict=True))
        there = replaced(g, residuals[1].tolist(), known)
        updates += _least(g, metric, rows, np.array(there))
        moved += [g.apply("sub", a, b) for a, b in zip(state[n:], updates[n:], strict=True)]
    size = g.zero
    for a, b in zip(state, updates, strict=False):
        part = g.apply("div", g.apply("abs", b), g.apply("add", g.one, g.apply("abs", a)))
        size = g.apply("max", size, part)
    results = np.array([*moved, *state[len(moved) :]]), np.array(size)
    return GraphFunction(g, made.tracer, made.sizes, results).compiled(cache)


def _definite(g: Graph, metric: Nodes) -> Nodes:
    """W where it is positive definite, else what is diagonal; an entry there that is 0 is as large as the least other one."""
    n = len(metric)
    own = [g.apply("abs", int(x)) for x in np.diagonal(metric)]
    least = g.constant(float("inf"))
    for x in own:
        least = g.apply("select", g.apply("and", g.apply("gt", x, g.zero), g.apply("lt", x, least)), x, least)
    least = g.apply("select", g.apply("lt", least, g.constant(float("inf"))), least, g.one)
    own = [g.apply("select", g.apply("gt", x, g.zero), x, least) for x in own]
    diagonal = np.where(np.eye(n, dtype=bool), np.array(own), g.zero)
    if np.any(np.diagonal(metric) == g.zero):
        return diagonal
    good = g.true
    for x, pivot in zip(own, _eliminated(g, metric, [g.zero] * n).pivots, strict=True):
        good = g.apply("and", good, g.apply("gt", pivot, g.apply("mul", g.constant(DEFINITE), x)))
    return elementwise(g, "select", np.asarray(good), metric, diagonal)


def _least(g: Graph, metric: Nodes, rows: Nodes, residual: Nodes) -> list[int]:
    """The update W⁻¹Aᵀ(AW⁻¹Aᵀ)⁻¹r."""
    n, m = len(metric), len(rows)
    whole = np.full((n + m, n + m), g.zero, np.int64)
    whole[:n, :n], whole[:n, n:], whole[n:, :n] = metric, rows.T, rows
    found = _eliminated(g, whole, [g.zero] * n + residual.tolist())
    return [found.update[j] for j in range(n)]


def _eliminated(g: Graph, matrix: Nodes, side: list[int]):
    """By the pivots of the diagonal, in order: each is what is left of W, or of -AW⁻¹Aᵀ."""
    order = tuple(range(len(matrix)))
    return eliminate(g, side, matrix, PivotOrder(order, order, (1.0,) * len(order), 0), lambda _: 1, GROWTH["linear"])
