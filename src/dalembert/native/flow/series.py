"""Power series of a graph's nodes along a solution: what each coefficient follows from.

    u(t + s) = Σ_k u_k s^k,   (u v)_k = u₀ v_k + u_k v₀ + Σ_{0<i<k} u_i v_{k-i}

Every operation that is not linear is such a product, or a chain c′ = Σ d u′ with d another node. What is summed over
0 < i < k, a convolution, is known before any coefficient of order k is; the rest is linear in those. Conditions keep the
values that they have at the beginning, so that a choice has the coefficients of the side that is taken there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Container, Sequence

from dalembert.native.graph.choices import STEADY, borders, needed, tie
from dalembert.native.graph.dependence import Dependence
from dalembert.native.graph.derivative import SLOPES
from dalembert.native.graph.graph import Graph, Unsupported
from dalembert.native.graph.nodes import operands, paired

FLAT = frozenset(["exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf", "erfc"])  # to rounding, here and there
LINEAR = frozenset(["add", "sub", "neg"])
BY_SLOPE = frozenset(SLOPES) - {"mul", "neg", "abs", "sqrt", "max", "min", "pow", "fmod"}
KNOWN = LINEAR | BY_SLOPE | {"mul", "div", "sqrt", "pow", "select"}


@dataclasses.dataclass(frozen=True)
class Convolution:
    """Σ_{0<i<k} a_i b_{k-i}; weighted: i a_i in place of a_i."""

    a: int
    b: int
    weighted: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """moving: nodes that depend on the state or the time, operands first, without these themselves. sums: of a node that
    needs any, its convolutions. slopes: of a chain, (d, u) for every u that moves. borders: as long as none of the first
    `signs` passes zero, all conditions keep their values; then follow the arguments of functions that are flat in places.
    regular: whether none of the borders is zero, a truth value."""

    graph: Graph
    moving: tuple[int, ...]
    sums: dict[int, tuple[Convolution, ...]]
    slopes: dict[int, tuple[tuple[int, int], ...]]
    borders: tuple[int, ...]
    signs: int
    regular: int

    @functools.cached_property
    def convolutions(self) -> list[Convolution]:
        """Each once."""
        return list(dict.fromkeys(x for found in self.sums.values() for x in found))


def series(g: Graph, outputs: Sequence[int], state: Sequence[str]) -> Series:
    """The recursions of what the outputs need, whose slopes are added to the graph; state: the vectors that move.

    Choices are selections (`selected`). Unsupported where an operation is none of those known here.
    """
    depend, slopes, moves = Dependence(g), dict[int, tuple[tuple[int, int], ...]](), dict[int, bool]()
    pending, at_borders, ties = list(outputs), dict[int, None](), dict[int, None]()
    while pending:
        new = _unknown(g, pending, moves)
        pending = []
        for i in new:
            moves[i] = _moves(g, i, moves, state)
            if g.nodes[i][0] in STEADY:
                at_borders |= dict.fromkeys(d for d in borders(g, i) if depend.on(d, *state))
                ties |= dict.fromkeys(d for d in [tie(g, i)] if d is not None and depend.on(d, *state))
            elif moves[i]:
                slopes[i] = _chain(g, i, moves)
                pending += [d for d, _ in slopes[i]]
        pending += [d for d in at_borders if d not in moves]
    kept = [d for d in at_borders if moves[d]]
    regular = [g.apply("gt", g.apply("abs", d), g.zero) for d in (*kept, *ties)]
    order = [i for i in sorted(moves) if moves[i] and g.nodes[i][0] != "var"]  # operands before what is made of them
    sums = {i: s for i in order if (s := _sums(g, i, slopes[i], moves.__getitem__))}
    flat = dict.fromkeys(g.nodes[i][1] for i in order if g.nodes[i][0] in FLAT)
    holds = paired(lambda a, b: g.apply("and", a, b), regular, g.true)
    return Series(g, tuple(order), sums, slopes, (*kept, *flat), len(kept), holds)


def _unknown(g: Graph, pending: Sequence[int], known: Container[int]) -> list[int]:
    """What these nodes need and is not known, operands first."""
    new, stack = set[int](), list(pending)
    while stack:
        i = stack.pop()
        if i not in new and i not in known:
            new.add(i)
            stack.extend(needed(g, i))
    return sorted(new)


def _moves(g: Graph, i: int, moves: dict[int, bool], state: Sequence[str]) -> bool:
    """Whether a node changes along a step."""
    op, *x = g.nodes[i]
    if op in ("const", "var"):
        return op == "var" and x[0] in state
    if op in STEADY or g.kind[i] == "b":
        return False
    found = any(moves[j] for j in (x[1:] if op == "select" else operands(g.nodes[i])))
    if found and op not in KNOWN:
        raise Unsupported(op, "has no power series")
    return found


def _chain(g: Graph, i: int, moves: dict[int, bool]) -> tuple[tuple[int, int], ...]:
    op, *x = g.nodes[i]
    if op not in BY_SLOPE and op != "pow":
        return ()
    rates = _slopes(g, op, i, x, moves.__getitem__)
    return tuple((d, u) for d, u in zip(rates, x, strict=True) if moves[u])


def _slopes(g: Graph, op: str, i: int, x: list[int], moves) -> Sequence[int]:
    """∂op/∂operand, of powers with a constant exponent e x^e / x."""
    if op != "pow":
        return SLOPES[op](g, i, tuple(x))
    if moves(x[1]):
        raise Unsupported(op, "has no power series where the exponent changes")
    return [g.apply("mul", x[1], g.apply("div", i, x[0])), g.zero]


def _sums(g: Graph, i: int, slopes: Sequence[tuple[int, int]], moves) -> tuple[Convolution, ...]:
    op, *x = g.nodes[i]
    if op == "mul" and all(map(moves, x)):
        return (Convolution(x[0], x[1]),)
    if op == "div" and moves(x[1]):
        return (Convolution(x[1], i),)
    if op == "sqrt":
        return (Convolution(i, i),)
    return tuple(Convolution(u, d, True) for d, u in slopes if moves(d))
