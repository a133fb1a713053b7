"""Quotients a / b that are continued through the zeros of b, where the division leaves no remainder.

    a = Σ_f f P_f(x),   b = c (x - r),   P_f(x) = (x - r) Q_f(x) + P_f(r),   a / b = Σ_f f Q_f(x) / c if P_f(r) = 0

in one component x of the state; f: functions that are no polynomials in x. Near b = 0 a quotient of two small numbers has
lost its digits, and takes longer: both sides of a choice are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import operands

DEGREE = 6  # of a polynomial, at most
FACTORS = 8  # functions that are no polynomials, at most
REST = 1e-12  # a remainder, of the sizes of its terms, that is taken as rounding

POLYNOMIAL = frozenset(["add", "sub", "neg", "mul"])

Terms = dict[int, list[int]]  # function, or 1 → coefficients of its polynomial


class Quotient(NamedTuple):
    """value: by division of polynomials; holds: whether there is no remainder. x, root: where the denominator is 0."""

    value: int
    holds: int
    x: int
    root: int


def without_remainder(
    g: Graph, outputs: Sequence[int], state: Sequence[int], value: Callable[[int], float]
) -> dict[int, Quotient]:
    """Choices, by their nodes, of which the first side is a quotient, and both are promised to agree where they meet.

    state: nodes of its components. value: of a node that does not depend on the state.
    """
    found = {}
    for i in reached(g, outputs):
        if g.nodes[i][0] == "pick":
            _, condition, yes, _ = g.nodes[g.nodes[i][1]]
            side, negative = yes[g.nodes[i][2]], False
            if g.nodes[side][0] == "neg":
                side, negative = g.nodes[side][1], True
            if g.nodes[condition][0] == "agree" and g.nodes[side][0] == "div":
                _, a, b = g.nodes[side]
                quotient = _divided(g, g.apply("neg", a) if negative else a, b, state, value)
                if quotient is not None:
                    found[i] = quotient
    return found


def _divided(g: Graph, a: int, b: int, state: Sequence[int], value: Callable[[int], float]) -> Quotient | None:
    """By that component of the state by which b changes most."""
    moving = _dependent(g, [a, b], state)
    best, slope = None, 0.0
    for x in state:
        below = _terms(g, b, x)
        if list(below) == [g.one] and len(below[g.one]) == 2 and below[g.one][1] not in moving:
            size = abs(value(below[g.one][1]))
            if size > slope:
                best, slope = (x, below[g.one]), size
    if best is None:
        return None
    x, (c0, c1) = best
    root = g.apply("neg", g.apply("div", c0, c1))
    total, holds = g.zero, g.true
    for f, coefficients in _terms(g, a, x).items():
        *higher, rest = _synthetic(g, coefficients, root)
        size = _size(g, coefficients, root)
        small = g.apply("le", g.apply("abs", rest), g.apply("mul", g.constant(REST), size))
        holds = g.apply("and", holds, small)
        part = g.zero
        for c in higher:
            part = g.apply("add", g.apply("mul", part, x), c)
        total = g.apply("add", total, g.apply("mul", f, part))
    return Quotient(g.apply("div", total, c1), holds, x, root)


def _synthetic(g: Graph, coefficients: Sequence[int], root: int) -> list[int]:
    """The coefficients of the quotient by x - root, the highest first, and the remainder."""
    found = [coefficients[-1]]
    for c in coefficients[-2::-1]:
        found.append(g.apply("add", c, g.apply("mul", root, found[-1])))
    return found


def _size(g: Graph, coefficients: Sequence[int], root: int) -> int:
    """Σ |p_k| |root|ᵏ."""
    total, root = g.zero, g.apply("abs", root)
    for c in reversed(coefficients):
        total = g.apply("add", g.apply("mul", total, root), g.apply("abs", c))
    return total


def _dependent(g: Graph, outputs: Sequence[int], inputs: Sequence[int]) -> set[int]:
    """Of what the outputs need, what depends on the inputs."""
    found = set(inputs)
    for i in reached(g, outputs):
        if any(j in found for j in operands(g.nodes[i])):
            found.add(i)
    return found


def _terms(g: Graph, output: int, x: int) -> Terms:
    """The output as polynomials in x, times functions that are none."""
    depends, found = _dependent(g, [output], [x]), dict[int, Terms]()
    for i in reached(g, [output]):
        op, *parts = g.nodes[i]
        if i not in depends:
            found[i] = {g.one: [i]}
        elif i == x:
            found[i] = {g.one: [g.zero, g.one]}
        else:
            whole = op in POLYNOMIAL or (op == "div" and parts[1] not in depends)
            terms = _combined(g, op, [found[j] for j in parts]) if whole else {}
            short = 0 < len(terms) <= FACTORS and all(len(c) <= DEGREE + 1 for c in terms.values())
            found[i] = terms if short else {i: [g.one]}
    return found[output]


def _combined(g: Graph, op: str, parts: Sequence[Terms]) -> Terms:
    """A sum, difference, product, or quotient by what does not depend on x."""
    total: Terms = {}
    if op in ("mul", "div"):
        for f, p in parts[0].items():
            for e, q in parts[1].items():
                product = [g.zero] * (len(p) + len(q) - 1)
                for i, a in enumerate(p):
                    for j, b in enumerate(q):
                        product[i + j] = g.apply("add", product[i + j], g.apply(op, a, b))
                _add(g, total, "add", g.apply("mul", f, e), product)
        return total
    _add_all(g, total, "sub" if op == "neg" else "add", parts[0])
    for terms in parts[1:]:
        _add_all(g, total, op, terms)
    return total


def _add_all(g: Graph, total: Terms, op: str, terms: Terms) -> None:
    for f, p in terms.items():
        _add(g, total, op, f, p)


def _add(g: Graph, total: Terms, op: str, f: int, p: Sequence[int]) -> None:
    """f p to the terms, or from them."""
    mine = total.setdefault(f, [])
    mine.extend([g.zero] * (len(p) - len(mine)))
    for i, c in enumerate(p):
        mine[i] = g.apply(op, mine[i], c)
