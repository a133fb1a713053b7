"""The choices of an equation, kept along a step, and the borders at which they change.

Every choice is written as a selection. A condition a < b keeps its value until a - b passes zero; a rounded number until it
passes to the next one. So the field of a step is smooth, also beyond a border, and the step can end just behind it.

Exponentials and the like are flat to rounding in places, and may hide a wall from every error estimate: how fast their
arguments change limits a step, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.assembly.function import CompiledFunction, GraphFunction
from dalembert.native.graph.dependence import Dependence, needed_nodes
from dalembert.native.graph.derivative import directional_derivative
from dalembert.native.graph.graph import COMPARISONS, Expression, Graph, Unsupported, combine_pairs, express, operands
from dalembert.native.graph.simplify import replace_nodes, rewrite

MOVING = ("x0", "x1")  # the state and the time
FLAT = frozenset(["exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf", "erfc"])
EQUALITIES = frozenset(["eq", "ne"])
ROUNDED = frozenset(["floor", "ceil", "round", "nearest"])
CHOOSING = COMPARISONS | ROUNDED | {"sign"}  # of numbers: they keep their values along a step


def write_selections(g: Graph, outputs: Sequence[int]) -> list[int]:
    """The outputs with |x|, maxima, minima, remainders and branches as selections."""

    def selection(i: int, new: Mapping[int, int]) -> int | None:
        op, *x = g.nodes[i]
        if op in SELECTIONS and g.kind[x[0]] == "f":
            return SELECTIONS[op](*express(g, (new[j] for j in x))).node
        if op not in ("branch", "pick") or _agrees(g, i if op == "branch" else x[0]):
            return None
        if op == "branch":
            return i
        _, condition, *sides = g.nodes[x[0]]
        return g.apply("select", new[condition], *(new[side[x[1]]] for side in sides))

    return rewrite(g, outputs, selection)


def _agrees(g: Graph, branch: int) -> bool:
    """True if both sides are promised to agree where they meet."""
    return g.nodes[g.nodes[branch][1]][0] == "agree"


def _absolute_value(x: Expression) -> Expression:
    return (x < 0.0).apply("select", -x, x)


def _without_fraction(x: Expression) -> Expression:
    return (x < 0.0).apply("select", x.apply("ceil"), x.apply("floor"))


def _remainder(a: Expression, b: Expression) -> Expression:
    ratio = a / b
    return a - b * (ratio.apply("sign") * _absolute_value(ratio).apply("floor"))


def _equal(a: Expression, b: Expression) -> Expression:
    """a = b, by the conditions of a selection among whose numbers the other one is, as in the derivative of a maximum."""
    g = a.graph
    for one, other in ((a, b), (b, a)):
        if g.nodes[other.node][0] == "select" and one.node in _selectable(g, other.node):
            condition, *sides = express(g, g.nodes[other.node][1:])
            return condition.apply("select", *(True if x.node == one.node else _equal(one, x) for x in sides))
    return a.apply("eq", b)


SELECTIONS: dict[str, Callable[..., Expression]] = {
    "abs": _absolute_value, "int": lambda x: _without_fraction(x).apply("int"), "fmod": _remainder,
    "max": lambda a, b: (a > b).apply("select", a, b), "min": lambda a, b: (a < b).apply("select", a, b),
    "eq": _equal, "ne": lambda a, b: _equal(a, b).apply("not"),
}  # fmt: skip


def _selectable(g: Graph, i: int) -> set[int]:
    """The numbers among which a selection selects."""
    if g.nodes[i][0] != "select":
        return {i}
    return _selectable(g, g.nodes[i][2]) | _selectable(g, g.nodes[i][3])


def borders(g: Graph, i: int) -> list[int]:
    """Nodes that are not zero as long as node i keeps its value; an equality keeps it beyond a zero."""
    op, *x = g.nodes[i]
    if op == "sign":
        return x
    if op in COMPARISONS - EQUALITIES and g.kind[x[0]] == "f":
        return [g.apply("sub", *x)]
    if op not in ROUNDED:
        return []
    number, rounded = express(g, (x[0], i))
    up, down = number - rounded, rounded - number
    if op == "floor":
        ends = up, 1.0 + down
    elif op == "ceil":
        ends = down, 1.0 + up
    else:
        ends = 0.5 + up, 0.5 + down
    return [end.node for end in ends]


def tie(g: Graph, i: int) -> int | None:
    """Of an equality, the difference of its two numbers: where this is zero, no side may be followed."""
    op, *x = g.nodes[i]
    return g.apply("sub", *x) if op in EQUALITIES and g.kind[x[0]] == "f" and x[0] != x[1] else None


class Choices(NamedTuple):
    """A field (y, t, *given, sides) → (ẏ, whether it holds, whether no border is at zero, borders and arguments, their
    rates, sides). sides: whether to choose as the state says, 0 or 1, and else the values of the choices, which come back as
    the state says. signs: how many borders there are, flat: how many arguments, sides: how many choices."""

    code: CompiledFunction
    signs: int
    flat: int
    sides: int

    @classmethod
    def of(cls, made: GraphFunction) -> Choices | None:
        """made: results (ẏ, whether it holds), or ẏ alone; None where nothing is chosen and nothing is flat."""
        try:
            found = _choices(dataclasses.replace(made, graph=made.graph.copy()))
        except Unsupported:  # a border has no derivative
            return None
        return found and cls(found[0].compile(), *found[1:])


def _choices(made: GraphFunction) -> tuple[GraphFunction, int, int, int] | None:
    g, slope = made.graph, made.results[0].ravel().tolist()
    holds = int(made.results[1].item()) if len(made.results) > 1 else g.true
    slope, depend = write_selections(g, slope), Dependence(g)
    chosen, at_borders, ties = _find_choices(g, slope, depend)
    flat = dict.fromkeys(g.nodes[i][1] for i in needed_nodes(g, [*slope, *at_borders]) if g.nodes[i][0] in FLAT)
    flat = [i for i in flat if depend.on(i, *MOVING)]
    if not chosen and not flat:
        return None
    sides = g.vector(f"x{len(made.sizes)}", len(chosen) + 1).tolist()
    as_is, half = g.apply("gt", sides[0], g.constant(0.5)), g.constant(0.5)
    kept: dict[int, int] = {}
    for i, side in zip(chosen, sides[1:], strict=True):
        kept[i] = g.apply("select", as_is, i, side if g.kind[i] == "f" else g.apply("gt", side, half))
    smooth = replace_nodes(g, [*slope, *at_borders, *flat], kept)
    slope, numbers = smooth[: len(slope)], smooth[len(slope) :]
    state = [*g.vector("x0", len(slope)).tolist(), g.variable("x1", 0)]
    rates = directional_derivative(g, numbers, state, [*slope, g.one])
    regular = [g.apply("gt", g.apply("abs", d), g.zero) for d in (*at_borders, *ties)]
    whole = combine_pairs(lambda a, b: g.apply("and", a, b), regular, g.true)
    results = [*slope, holds, whole, *numbers, *rates, *chosen]
    found = dataclasses.replace(made, sizes=(*made.sizes, len(sides)), results=(np.array(results),))
    return found, len(at_borders), len(flat), len(sides)


def _find_choices(g: Graph, outputs: Sequence[int], depend: Dependence) -> tuple[list[int], list[int], list[int]]:
    """The choices that the outputs need, and those that their borders need; borders and ties."""
    seen, pending = set[int](), list(outputs)
    chosen, at_borders, ties = dict[int, None](), dict[int, None](), dict[int, None]()
    while pending:
        i = pending.pop()
        if i in seen or not depend.on(i, *MOVING):
            continue
        seen.add(i)
        op, *x = g.nodes[i]
        if op in ("agree", "finite", "var"):
            continue
        if op in CHOOSING and g.kind[x[0]] == "f":
            chosen[i] = None
            at_borders |= dict.fromkeys(d for d in borders(g, i) if depend.on(d, *MOVING))
            ties |= dict.fromkeys(d for d in [tie(g, i)] if d is not None)
            pending += [*at_borders]
        else:
            pending += operands(g.nodes[i])
    return [*chosen], [*at_borders], [*ties]
