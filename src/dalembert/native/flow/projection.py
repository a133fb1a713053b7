"""One update of Newton's method onto r(x) = 0 and then s(x, u) = 0 for y = (x, u), with all eliminations written out.

    x ← x - W⁻¹Aᵀ(AW⁻¹Aᵀ)⁻¹r(x),   u ← u - W⁻¹Bᵀ(BW⁻¹Bᵀ)⁻¹s(x, u),   A = ∂r/∂x,   B = ∂s/∂u, which begins with A

The change is the least one in the metric W. Where W is not positive definite, to rounding, it is the diagonal of |W_jj|. So
no pivot needs a choice: they vanish where the rows of A, or B, are dependent.

The terms of a residual are Σ_j |∂r_i/∂y_j| |y_j|, of which rounding of y makes its part, whatever the units and the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert.native.assembly.function import CompiledFunction, GraphFunction, translate_function
from dalembert.native.graph.derivative import jacobian
from dalembert.native.graph.elimination import GROWTH, PivotOrder, eliminate
from dalembert.native.graph.graph import Expression, Graph, express
from dalembert.native.graph.simplify import replace_nodes
from dalembert.native.trace.elementwise import Nodes, elementwise
from dalembert.native.trace.place import refusing

DEFINITE = 1e-10  # of |W_jj|: a pivot of W that is less may be rounding
LEAST = 1e-300


@refusing
def compile_projection(function: Callable, y: np.ndarray, given: Sequence[Any]) -> CompiledFunction:
    """(y, t, *given) → y after the update, the largest residual before and after it, each as a part of its terms, and the
    one after it as a part of terms in which |y_j| + 1 is in place of |y_j|.

    function: the same → (W, B, r, s), or (W, A, r) where u is not restricted; W is (n, n), for n components of x and of u.
    """
    made = translate_function(function, np.zeros(np.shape(y)), np.zeros(()), *(np.zeros(np.shape(x)) for x in given))
    g, (metric, rows, *residuals) = made.graph, made.results
    n, metric, state = len(metric), _definite(g, metric), g.vector("x0", np.size(y)).tolist()
    moved, sizes = dict[int, int](), express(g, [g.zero] * 3)
    for residual, part in zip((r.tolist() for r in residuals), (state[:n], state[n:]), strict=False):
        slopes = jacobian(g, residual, state)
        there = replace_nodes(g, residual, moved)
        update = _least_update(g, metric, rows[: len(there)], there)
        moved |= {x: g.apply("sub", x, change) for x, change in zip(part, update, strict=True)}
        for i, slope in enumerate(slopes):
            before, after = express(g, (there[i], *replace_nodes(g, residual[i : i + 1], moved)))
            terms, whole = _terms(g, slope, state)
            parts = abs(before) / terms, abs(after) / terms, abs(after) / whole
            sizes = [x.apply("max", part) for x, part in zip(sizes, parts, strict=True)]
    results = np.array([moved.get(x, x) for x in state]), np.array([x.node for x in sizes])
    return GraphFunction(g, made.tracer, made.sizes, results).compile()


def _terms(g: Graph, slope: Nodes, state: list[int]) -> list[Expression]:
    """Σ_j |∂r/∂y_j| |y_j|, so that 0 is 0 of it, too; and with |y_j| + 1 in place of |y_j|."""
    products = [abs(a * y).node for a, y in zip(express(g, slope), express(g, state), strict=True)]
    terms = g.total([g.constant(LEAST), *products])
    return express(g, (terms, g.total([terms, *(abs(a).node for a in express(g, slope))])))


def _definite(g: Graph, metric: Nodes) -> Nodes:
    """W where it is positive definite, else |W_jj|, and where that is 0 the least other one."""
    n = len(metric)
    own = [abs(x) for x in express(g, np.diagonal(metric))]
    least = own[0].like(float("inf"))
    for x in own:
        least = ((x > 0.0) & (x < least)).apply("select", x, least)
    least = (least < float("inf")).apply("select", least, 1.0)
    own = [(x > 0.0).apply("select", x, least) for x in own]
    diagonal = np.where(np.eye(n, dtype=bool), np.array([x.node for x in own]), g.zero)
    if np.any(np.diagonal(metric) == g.zero):
        return diagonal
    good = own[0].like(True)
    for x, pivot in zip(own, express(g, _eliminate_in_order(g, metric, [g.zero] * n).pivots), strict=True):
        good = good & (pivot > DEFINITE * x)
    return elementwise(g, "select", np.asarray(good.node), metric, diagonal)


def _least_update(g: Graph, metric: Nodes, rows: Nodes, residual: list[int]) -> list[int]:
    """The update W⁻¹Aᵀ(AW⁻¹Aᵀ)⁻¹r."""
    n, m = len(metric), len(rows)
    whole = np.full((n + m, n + m), g.zero, np.int64)
    whole[:n, :n], whole[:n, n:], whole[n:, :n] = metric, rows.T, rows
    found = _eliminate_in_order(g, whole, [g.zero] * n + residual)
    return [found.update[j] for j in range(n)]


def _eliminate_in_order(g: Graph, matrix: Nodes, side: list[int]):
    """By the pivots of the diagonal, in order: each is what is left of W, or of -AW⁻¹Aᵀ."""
    order = tuple(range(len(matrix)))
    return eliminate(g, side, matrix, PivotOrder(order, order, (1.0,) * len(order), 0), lambda _: 1, GROWTH["linear"])
