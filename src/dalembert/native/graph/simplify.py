"""Rewriting for speed: factors that never change are gathered, and divisions become products with shared reciprocals.

Both passes change values by rounding only. Levels tell how often a node is evaluated: 0 once per run, 1 once per step, 2
once per iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import Node

Level = Callable[[int], int]


def rebuilt(g: Graph, node: Node, new: Callable[[int], int]) -> int:
    """The node with new operands; new(i) gives the successor of node i."""
    op, *args = node
    if op == "branch":
        return g.branch(new(args[0]), [new(j) for j in args[1]], [new(j) for j in args[2]])
    if op == "pick":
        return g.pick(new(args[0]), args[1])
    if op == "entry":
        return g.entry(new(args[0]), args[1])
    if op == "solve":
        return g.raw(op, *(new(j) for j in args))
    return g.apply(op, *(new(j) for j in args))


def replaced(g: Graph, outputs: Sequence[int], known: Mapping[int, int]) -> list[int]:
    """The outputs with other nodes in place of some."""
    new: dict[int, int] = dict(known)
    for i in reached(g, outputs):
        if i not in new:
            node = g.nodes[i]
            new[i] = i if node[0] in ("const", "var") else rebuilt(g, node, new.__getitem__)
    return [new[i] for i in outputs]


class _Factored:
    """Every node as c·x with c of level 0, so that products of h, masses and the like are formed once per run. alike: a node
    that counts as one of level 0, as do products of it."""

    def __init__(self, g: Graph, level: Level, alike: int | None):
        self.g, self.level = g, level
        self.fixed = {alike}
        self.form: dict[int, tuple[int, int]] = {}
        self.whole: dict[int, int] = {}

    def value(self, i: int) -> int:
        if i not in self.whole:
            self.whole[i] = self.g.apply("mul", *self.form[i])
        return self.whole[i]

    def visit(self, i: int) -> None:
        g, node = self.g, self.g.nodes[i]
        if node[0] in ("branch", "pick", "solve", "entry") or g.kind[i] != "f":
            self.whole[i] = i if node[0] in ("const", "var") else rebuilt(g, node, self.value)
            self.form[i] = (g.one, self.whole[i])
        elif self._is_fixed(i, node):
            self.fixed.add(i)
            self.form[i], self.whole[i] = (i, g.one), i
        else:
            self.form[i] = self._positive(*self._split(i, *node))

    def _is_fixed(self, i: int, node: Node) -> bool:
        if i in self.fixed or self.level(i) == 0:
            return True
        return node[0] != "var" and all(j in self.fixed for j in node[1:])

    def _split(self, i: int, op: str, *args) -> tuple[int, int]:
        g = self.g
        if op == "var":
            return g.one, i
        forms = [self.form[j] for j in args]
        if op in ("mul", "div"):
            (c, x), (d, y) = forms
            return g.apply(op, c, d), g.apply(op, x, y)
        if op == "neg":
            return forms[0][0], g.apply("neg", forms[0][1])
        if op in ("add", "sub"):
            (c, x), (d, y) = forms
            if x == y:
                return g.apply(op, c, d), x
            if g.nodes[x] == ("neg", y) or g.nodes[y] == ("neg", x):
                other = "sub" if op == "add" else "add"
                return g.apply("neg", g.apply(other, c, d)) if g.nodes[x] == ("neg", y) else g.apply(other, c, d), min(x, y)
            if c == d:
                return c, g.apply(op, x, y)
        return g.one, g.apply(op, *(self.value(j) for j in args))

    def _positive(self, c: int, x: int) -> tuple[int, int]:
        """Signs belong to x, so that factors that differ in sign only are seen to be equal."""
        g, known = self.g, self.g.value(c)
        if g.nodes[c][0] == "neg" or (known is not None and known < 0):
            return g.apply("neg", c), g.apply("neg", x)
        return c, x


def gather_factors(g: Graph, outputs: Sequence[int], level: Level, alike: int | None = None) -> list[int]:
    """The outputs, with a·(b·x) as (a·b)·x, and a·x + a·y as a·(x + y), where a and b are of level 0 or products of `alike`.

    It saves products, and rounding: h·z - h·s of neighbours z, s has the rounding of two products, h·(z - s) only its own.
    """
    factored = _Factored(g, level, alike)
    for i in reached(g, outputs):
        factored.visit(i)
    return [factored.value(o) for o in outputs]


class _Reciprocals:
    """Which denominators get a reciprocal node, and which of those follow from others without a division."""

    def __init__(self, g: Graph, quotients: Sequence[tuple[int, int]], level: Level):
        self.g = g
        times = Counter(b for _, b in quotients)
        self.denominators = set(times)
        self.root = {g.nodes[i][1]: i for i in times if g.nodes[i][0] == "sqrt"}
        self.wanted = {b for a, b in quotients if times[b] > 1 or level(b) < level(a) or self.follows(b)}
        self.known: dict[int, int] = {}

    def follows(self, b: int) -> bool:
        """Whether 1/b is a product of reciprocals of other denominators."""
        if b in self.root:
            return True
        node = self.g.nodes[b]
        return node[0] == "mul" and all(j in self.denominators or self.follows(j) for j in node[1:])

    def of(self, b: int, new: dict[int, int]) -> int:
        if b not in self.known:
            parts = self.g.nodes[b][1:] if self.follows(b) else ()
            if b in self.root:  # the root itself may come later, and then b is divided by
                parts = [self.root[b]] * 2 if self.root[b] in new else ()
            if parts:
                self.known[b] = self.g.apply("mul", *(self.of(j, new) for j in parts))
            else:
                self.known[b] = self.g.apply("div", self.g.one, new[b])
        return self.known[b]


def share_reciprocals(g: Graph, outputs: Sequence[int], level: Level) -> list[int]:
    """The outputs with a/b as a·(1/b), where 1/b serves several quotients, changes less often, or needs no division."""
    nodes = reached(g, outputs)
    quotients = [g.nodes[i][1:] for i in nodes if g.nodes[i][0] == "div" and g.kind[i] == "f"]
    reciprocals = _Reciprocals(g, quotients, level)
    new: dict[int, int] = {}
    for i in nodes:
        node = g.nodes[i]
        if node[0] in ("const", "var"):
            new[i] = i
        elif node[0] == "div" and node[2] in reciprocals.wanted:
            new[i] = g.apply("mul", new[node[1]], reciprocals.of(node[2], new))
        else:
            new[i] = rebuilt(g, node, new.__getitem__)
    return [new[o] for o in outputs]
