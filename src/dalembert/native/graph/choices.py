"""The choices of an equation: which of its conditions keep their values, and for how long.

Every choice is written as a selection, whose series is that of the side taken. A condition a < b keeps its value until
a - b passes zero; a rounded number until it passes to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import operands
from dalembert.native.graph.operations import COMPARISONS, LOGICAL
from dalembert.native.graph.simplify import rebuilt

EQUALITIES = frozenset(["eq", "ne"])
ROUNDED = frozenset(["floor", "ceil", "round", "nearest"])
STEADY = COMPARISONS | LOGICAL | ROUNDED | {"sign", "float"}  # they keep their values along a step


def selected(g: Graph, outputs: Sequence[int]) -> list[int]:
    """The outputs with |x|, maxima, minima, remainders and branches as selections."""
    new: dict[int, int] = {}
    for i in reached(g, outputs):
        op, *x = node = g.nodes[i]
        if op in ("const", "var", "branch"):
            new[i] = i
        elif op == "pick":
            _, condition, *sides = g.nodes[x[0]]
            new[i] = g.apply("select", new[condition], *(new[side[x[1]]] for side in sides))
        elif op == "abs" and g.kind[i] == "f":
            new[i] = _size(g, new[x[0]])
        elif op in ("max", "min") and g.kind[i] == "f":
            a, b = (new[j] for j in x)
            new[i] = g.apply("select", g.apply("gt" if op == "max" else "lt", a, b), a, b)
        elif op == "fmod" and g.kind[i] == "f":
            a, b = (new[j] for j in x)
            ratio = g.apply("div", a, b)
            whole = g.apply("mul", g.apply("sign", ratio), g.apply("floor", _size(g, ratio)))
            new[i] = g.apply("sub", a, g.apply("mul", b, whole))
        elif op in EQUALITIES and g.kind[x[0]] == "f":
            same = _equal(g, *(new[j] for j in x))
            new[i] = same if op == "eq" else g.apply("not", same)
        else:
            new[i] = rebuilt(g, node, new.__getitem__)
    return [new[o] for o in outputs]


def _size(g: Graph, x: int) -> int:
    return g.apply("select", g.apply("lt", x, g.zero), g.apply("neg", x), x)


def _equal(g: Graph, a: int, b: int) -> int:
    """a = b, by the conditions of a selection among whose numbers the other one is, as in the derivative of a maximum."""
    for one, other in ((a, b), (b, a)):
        if g.nodes[other][0] == "select" and one in _selectable(g, other):
            condition, *sides = g.nodes[other][1:]
            return g.apply("select", condition, *(g.true if x == one else _equal(g, one, x) for x in sides))
    return g.apply("eq", a, b)


def _selectable(g: Graph, i: int) -> set[int]:
    """The numbers among which a selection selects."""
    if g.nodes[i][0] != "select":
        return {i}
    return _selectable(g, g.nodes[i][2]) | _selectable(g, g.nodes[i][3])


def needed(g: Graph, i: int) -> Sequence[int]:
    """The operands of a node whose series, or conditions, matter to it."""
    op = g.nodes[i][0]
    numbers = op in ROUNDED or op == "sign" or (op in COMPARISONS and g.kind[g.nodes[i][1]] == "f")
    return () if numbers or op in ("agree", "finite") else operands(g.nodes[i])


def borders(g: Graph, i: int) -> list[int]:
    """What is not zero as long as node i keeps its value; an equality keeps it beyond a zero, at which it is not looked."""
    op, *x = g.nodes[i]
    if op == "sign":
        return x
    if op in COMPARISONS - EQUALITIES and g.kind[x[0]] == "f":
        return [g.apply("sub", *x)]
    if op not in ROUNDED:
        return []
    up, down = g.apply("sub", x[0], i), g.apply("sub", i, x[0])
    if op == "floor":
        return [up, g.apply("add", g.one, down)]
    if op == "ceil":
        return [down, g.apply("add", g.one, up)]
    half = g.constant(0.5)
    return [g.apply("add", half, up), g.apply("add", half, down)]


def tie(g: Graph, i: int) -> int | None:
    """Of an equality, the difference of its two numbers: where this is zero, no side may be followed."""
    op, *x = g.nodes[i]
    return g.apply("sub", *x) if op in EQUALITIES and g.kind[x[0]] == "f" and x[0] != x[1] else None
