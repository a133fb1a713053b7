"""The velocities that linear constraints allow, found on the graph: φ(q, v, t) = 0 where v = Σ_a ψ_a(q,t) w_a + v_b(q,t).

Row after row, those with the fewest entries first. An entry that no motion changes is divided by. Where there is none, two
directions with entries a and b turn: (b, -a) satisfies the row, whatever a and b are, and (a, b) stays in it. So ψ is as
smooth as φ, and degenerates only where one of the pivots vanishes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from dalembert.native import Unsupported
from dalembert.native.graph.angles import with_angles
from dalembert.native.graph.derivative import along, jacobian
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.simplify import gather_factors, replaced
from dalembert.systems.frame.pieces import Nodes, degrees

LARGE = 0.1  # of the largest entry of its row: so large a pivot is divided by


@dataclasses.dataclass(frozen=True)
class Forbidden:
    """What a row forbids: its direction ν, and the entry of the row there, its pivot."""

    row: int
    direction: Nodes
    pivot: int


class AllowedDirections:
    """free: ψ_a. offset: v_b. held: in the order of elimination; φ of a row is 0 along every later ν. pivots: all that move.

    moves: whether a node changes with the motion. sampled: values of nodes, (samples, nodes).
    """

    def __init__(
        self, g: Graph, phi: Sequence[int], v: Sequence[int], name: str, moves: Callable[[int], bool], sampled: Callable
    ):
        if any(x > 1 for x in degrees(g, phi, name).values()):
            raise Unsupported("constraints", "they are not linear in the velocities")
        self.g, self.v, self.moves, self.sampled = g, list(v), moves, sampled
        self.phi = self.simpler(phi)
        self.free = [[g.one if i == j else g.zero for i in range(len(v))] for j in range(len(v))]
        self.offset, self.held, self.pivots = [g.zero] * len(v), list[Forbidden](), Nodes()
        pattern = jacobian(g, self.phi, self.v) != g.zero
        left = set(range(len(phi)))
        while left:
            row = min(left, key=lambda r: (sum(any(pattern[r, self._support(c)]) for c in self.free), r))
            left.remove(row)
            self._eliminate(row)

    def simpler(self, nodes: Sequence[int]) -> Nodes:
        return with_angles(self.g, gather_factors(self.g, nodes, lambda i: int(self.moves(i))))

    def entry(self, row: int, direction: Nodes) -> int:
        """∂φ/∂v of this row along a direction."""
        return self.simpler(along(self.g, [self.phi[row]], self.v, direction))[0]

    def at(self, nodes: Sequence[int], v: Nodes) -> Nodes:
        """Nodes with v in place of the velocities."""
        return replaced(self.g, nodes, dict(zip(self.v, v, strict=True)))

    def _support(self, column: Nodes) -> Nodes:
        return [i for i, x in enumerate(column) if x != self.g.zero]

    def _eliminate(self, row: int) -> None:
        g = self.g
        entries = {c: x for c, column in enumerate(self.free) if (x := self.entry(row, column)) != g.zero}
        if not entries:
            raise Unsupported("constraints", "one of them follows from the others")
        while (chosen := self._pivot(entries)) is None:
            self._turn(entries)
        pivot, direction = entries.pop(chosen), self.free[chosen]
        for c, x in entries.items():
            self.free[c] = self._moved(self.free[c], g.apply("neg", g.apply("div", x, pivot)), direction)
        (wrong,) = self.at([self.phi[row]], self.offset)
        if wrong != g.zero:
            self.offset = self._moved(self.offset, g.apply("neg", g.apply("div", wrong, pivot)), direction)
        self.held.append(Forbidden(row, direction, pivot))
        self._watch(pivot)
        del self.free[chosen]

    def _moved(self, x: Nodes, factor: int, direction: Nodes) -> Nodes:
        g = self.g
        return self.simpler([g.apply("add", a, g.apply("mul", factor, b)) for a, b in zip(x, direction, strict=True)])

    def _pivot(self, entries: dict[int, int]) -> int | None:
        """The column with an entry to divide by: one that is there alone, or is constant and not small."""
        if len(entries) == 1:
            return next(iter(entries))
        sizes = np.abs(self.sampled(list(entries.values())))
        enough = sizes >= LARGE * sizes.max(axis=1, keepdims=True)
        good = [c for (c, x), large in zip(entries.items(), enough.T, strict=True) if not self.moves(x) and large.all()]
        return min(good, key=lambda c: (len(self._support(self.free[c])), -c), default=None)

    def _turn(self, entries: dict[int, int]) -> None:
        """Two columns x, y with entries a, b: b x - a y has none, and a x + b y has a² + b², if possible a constant."""
        g = self.g
        columns = sorted(entries, key=lambda c: len(self._support(self.free[c])))
        pairs = [(i, j) for k, i in enumerate(columns) for j in columns[k + 1 :]]
        squares = {(i, j): self._square(entries[i], entries[j]) for i, j in pairs}
        i, j = min(pairs, key=lambda pair: self.moves(squares[pair]))
        a, b, (x, y) = entries.pop(i), entries[j], (self.free[c] for c in (i, j))
        mixed = lambda p, q, op: self.simpler(  # noqa: E731
            [g.apply(op, g.apply("mul", p, s), g.apply("mul", q, t)) for s, t in zip(x, y, strict=True)]
        )
        self._watch(squares[i, j])
        self.free[i], self.free[j], entries[j] = mixed(b, a, "sub"), mixed(a, b, "add"), squares[i, j]

    def _watch(self, pivot: int) -> None:
        if self.moves(pivot) and pivot not in self.pivots:
            self.pivots.append(pivot)

    def _square(self, a: int, b: int) -> int:
        g = self.g
        return self.simpler([g.apply("add", g.apply("mul", a, a), g.apply("mul", b, b))])[0]
