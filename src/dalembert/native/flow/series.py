"""Power series of a graph's nodes along a solution: what each coefficient follows from.

    u(t + s) = Σ_k u_k s^k,   (u v)_k = u₀ v_k + u_k v₀ + Σ_{0<i<k} u_i v_{k-i}

Every operation that is not linear is such a product, or a chain c′ = Σ d u′ with d another node. What is summed over
0 < i < k, a convolution, is known before any coefficient of order k is; the rest is linear in those.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dalembert.native.graph.dependence import Dependence, reached
from dalembert.native.graph.derivative import SLOPES
from dalembert.native.graph.graph import Graph, Unsupported

LINEAR = frozenset(["add", "sub", "neg"])
BY_SLOPE = frozenset(SLOPES) - {"mul", "neg", "abs", "sqrt", "max", "min", "pow", "fmod"}


@dataclasses.dataclass(frozen=True)
class Convolution:
    """Σ_{0<i<k} a_i b_{k-i}; weighted: i a_i in place of a_i."""

    a: int
    b: int
    weighted: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """moving: nodes that depend on the state or the time, operands first, without these themselves. sums: of a node that
    needs any, its convolutions. slopes: of a chain, (d, u) for every u that moves."""

    graph: Graph
    moving: tuple[int, ...]
    sums: dict[int, tuple[Convolution, ...]]
    slopes: dict[int, tuple[tuple[int, int], ...]]

    @property
    def convolutions(self) -> list[Convolution]:
        """Each once."""
        return list(dict.fromkeys(x for found in self.sums.values() for x in found))


def series(g: Graph, outputs: Sequence[int], state: Sequence[str]) -> Series:
    """The recursions of what the outputs need, whose slopes are added to the graph; state: the vectors that move.

    Unsupported where an operation is not analytic, or none of those known here.
    """
    depend, slopes = Dependence(g), dict[int, tuple[tuple[int, int], ...]]()
    moves = lambda i: depend.on(i, *state)  # noqa: E731
    pending, known = list(outputs), set[int]()
    while pending:
        new = [i for i in reached(g, pending) if i not in known and moves(i)]
        known.update(new)
        for i in new:
            op, *x = g.nodes[i]
            if op in BY_SLOPE or op == "pow":
                rates = _slopes(g, op, i, x, moves)
                slopes[i] = tuple((d, u) for d, u in zip(rates, x, strict=True) if moves(u))
            elif op not in LINEAR and op not in ("var", "mul", "div", "sqrt"):
                raise Unsupported(op, "has no power series")
        pending = [d for i in new for d, _ in slopes.get(i, ())]
    order = [i for i in sorted(known) if g.nodes[i][0] != "var"]  # operands before what is made of them
    return Series(g, tuple(order), {i: s for i in order if (s := _sums(g, i, slopes.get(i, ()), moves))}, slopes)


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
