"""Rewriting of sums: terms that differ by a factor which never changes are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import operands
from dalembert.native.graph.simplify import Level, rebuilt

Terms = dict[int, int]  # node → its coefficient, of level 0


class _Collected:
    """Every node as a sum of coefficients times nodes; inside a larger sum only where nothing else needs it."""

    def __init__(self, g: Graph, level: Level, inner: set[int], kept: set[int]):
        self.g, self.level, self.inner, self.kept = g, level, inner, kept
        self.terms: dict[int, Terms] = {}
        self.whole: dict[int, int] = {}

    def visit(self, i: int) -> None:
        g, node = self.g, self.g.nodes[i]
        if i in self.kept or node[0] in ("const", "var"):
            self.whole[i] = i
        elif not _linear(g, self.level, i):
            self.whole[i] = rebuilt(g, node, self.whole.__getitem__)
        elif i in self.inner:
            self.terms[i] = self._sum(*node)
        else:
            self.whole[i] = self._built(self._sum(*node))

    def _sum(self, op: str, a: int, b: int | None = None) -> Terms:
        g = self.g
        if op == "mul":
            assert b is not None
            c, x = (a, b) if self.level(a) == 0 else (b, a)
            return {core: g.apply("mul", c, d) for core, d in self._of(x).items()}
        if op == "neg" or b is None:
            return {core: g.apply("neg", d) for core, d in self._of(a).items()}
        left, right = self._of(a), self._of(b)
        if op == "add" and len(left) < len(right):
            left, right = right, left
        for core, d in right.items():
            left[core] = g.apply(op, left.get(core, g.zero), d)
        return left

    def _of(self, i: int) -> Terms:
        """The terms of an operand; they may be changed, because nothing else needs them."""
        return self.terms.pop(i) if i in self.terms else {self.whole[i]: self.g.one}

    def _built(self, terms: Terms) -> int:
        """Σ c (Σ x - Σ y), terms with the same coefficient, or the opposite one, together."""
        g = self.g
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for core, c in terms.items():
            if c == g.zero:
                continue
            known, inverse = g.value(c), g.apply("neg", c)
            negative = g.nodes[c][0] == "neg" or (known is not None and known < 0)
            groups.setdefault(inverse if negative else c, ([], []))[negative].append(core)
        sums = []
        for c, (plus, minus) in groups.items():
            difference = g.apply("sub", g.total(plus), g.total(minus))
            sums.append(g.apply("mul", c, difference))
        return g.total(sums)


def _linear(g: Graph, level: Level, i: int) -> bool:
    """Whether a node is a sum, or a product with a factor of level 0, and changes itself."""
    op, *args = g.nodes[i]
    if g.kind[i] != "f" or level(i) == 0:
        return False
    return op in ("add", "sub", "neg") or (op == "mul" and any(level(j) == 0 for j in args))


def collect_terms(g: Graph, outputs: Sequence[int], shared: Sequence[int], level: Level) -> list[int]:
    """The outputs with a·x + b·x as (a + b)·x, where a and b are of level 0 and the sums are needed nowhere else.

    For matrices, not for residuals: a difference of two large terms that was formed first would be taken apart.
    shared: other outputs; what they need is computed anyway, and is kept as it is.
    """
    nodes, kept = reached(g, outputs), set(reached(g, shared))
    uses = Counter(j for i in nodes for j in operands(g.nodes[i]))
    uses.update([*outputs, *outputs])  # an output is no part of a larger sum
    linear = {i for i in nodes if i not in kept and _linear(g, level, i)}
    parents = {j for i in linear for j in operands(g.nodes[i])}
    inner = {i for i in linear if uses[i] == 1 and i in parents}
    collected = _Collected(g, level, inner, kept)
    for i in nodes:
        collected.visit(i)
    return [collected.whole[o] for o in outputs]
