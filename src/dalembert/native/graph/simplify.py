"""Rewriting for speed: factors that never change are gathered, divisions become products with shared reciprocals, and sums
of products of sines and cosines one function of an angle.

    sin² a + cos² a = 1,   cos a cos b + sin a sin b = cos (a - b),   sin a cos b - cos a sin b = sin (a - b)

The last two where a - b is an angle that is there: a = b + c, or b = a + c. All change values by rounding only. Levels tell
how often a node is evaluated: 0 once per run, 1 once per step, 2 once per iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dalembert.native.graph.dependence import Dependence, needed_nodes
from dalembert.native.graph.graph import Graph, Node

Level = Callable[[int], int]
Change = Callable[[int, Mapping[int, int]], int | None]


def rebuild(g: Graph, node: Node, new: Callable[[int], int]) -> int:
    """The node with new operands; new(i) gives the successor of node i."""
    op, *args = node
    if op == "branch":
        return g.branch(new(args[0]), [new(j) for j in args[1]], [new(j) for j in args[2]])
    if op == "pick":
        return g.pick(new(args[0]), args[1])
    if op == "entry":
        return g.entry(new(args[0]), args[1])
    if op == "solve":
        return g.raw(op, *map(new, args))
    return g.apply(op, *map(new, args))


def rewrite(
    g: Graph, outputs: Sequence[int], change: Change | None = None, known: Mapping[int, int] | None = None
) -> list[int]:
    """The outputs, with other nodes in place of some. change(i, new): what takes the place of node i, None for the same
    operation on new operands, the successors new[j] of those before it."""
    new: dict[int, int] = dict(known or {})
    for i in needed_nodes(g, outputs):
        if i in new or g.nodes[i][0] in ("const", "var"):
            new.setdefault(i, i)
        else:
            found = change and change(i, new)
            new[i] = rebuild(g, g.nodes[i], new.__getitem__) if found is None else found
    return [new[i] for i in outputs]


def replace_nodes(g: Graph, outputs: Sequence[int], known: Mapping[int, int]) -> list[int]:
    """The outputs with other nodes in place of some."""
    return rewrite(g, outputs, known=known)


class _Factored:
    """Every node as c·x with c of level 0, so that products of h, masses and the like are formed once per run. alike: a node
    that counts as one of level 0, as do products of it."""

    def __init__(self, g: Graph, level: Level, alike: int | None):
        self.g, self.level = g, level
        self.fixed = {alike}
        self.form: dict[int, tuple[int, int]] = {}
        self.whole: dict[int, int] = {}

    def node(self, i: int) -> int:
        if i not in self.whole:
            self.whole[i] = self.g.apply("mul", *self.form[i])
        return self.whole[i]

    def visit(self, i: int) -> None:
        g, node = self.g, self.g.nodes[i]
        if node[0] in ("branch", "pick", "solve", "entry") or g.kind[i] != "f":
            self.whole[i] = i if node[0] in ("const", "var") else rebuild(g, node, self.node)
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
            return c if d == g.one else g.apply(op, c, d), g.apply(op, x, y)
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
        return g.one, g.apply(op, *map(self.node, args))

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
    for i in needed_nodes(g, outputs):
        factored.visit(i)
    return [factored.node(o) for o in outputs]


def share_reciprocals(g: Graph, outputs: Sequence[int], level: Level) -> list[int]:
    """The outputs with a/b as a·(1/b), where 1/b serves several quotients or changes less often."""
    nodes = needed_nodes(g, outputs)
    quotients = [g.nodes[i][1:] for i in nodes if g.nodes[i][0] == "div" and g.kind[i] == "f"]
    times = Counter(b for _, b in quotients)
    wanted = {b for a, b in quotients if times[b] > 1 or level(b) < level(a)}

    def by_reciprocal(i: int, new: Mapping[int, int]) -> int | None:
        op, *x = g.nodes[i]
        return g.apply("mul", new[x[0]], g.apply("div", g.one, new[x[1]])) if op == "div" and x[1] in wanted else None

    return rewrite(g, outputs, by_reciprocal)


def simplify_for(g: Graph, outputs: Sequence[int], names: Sequence[str]) -> list[int]:
    """The outputs with factors gathered and reciprocals shared; what depends on the named inputs changes most often."""
    depend = Dependence(g)
    level = lambda i: int(depend.on(i, *names))  # noqa: E731
    return share_reciprocals(g, gather_factors(g, outputs, level), level)


def with_angles(g: Graph, outputs: Sequence[int]) -> list[int]:
    """The outputs with such sums replaced: other values by rounding only."""

    def angle(i: int, new: Mapping[int, int]) -> int:
        made = rebuild(g, g.nodes[i], new.__getitem__)
        found = _angle(g, made)
        return made if found is None else found

    return rewrite(g, outputs, angle)


def _angle(g: Graph, i: int) -> int | None:
    """Node of at most one sine or cosine that stands for the sum or difference i; None if it is no such sum."""
    op, *x = g.nodes[i]
    if op not in ("add", "sub"):
        return None
    minus = g.nodes[x[0]][0] == "neg"  # -x - y = -(x + y), y - x is a difference already
    first = g.nodes[x[0]][1] if minus else x[0]
    if op == "sub" and not minus:
        return _difference(g, first, x[1])
    if op == "sub" or not minus:
        total = _sum(g, first, x[1])
        return g.apply("neg", total) if total is not None and minus else total
    return None


def _sum(g: Graph, x: int, y: int) -> int | None:
    """x + y = cos a cos b + sin a sin b."""
    one, other = _factors(g, x), _factors(g, y)
    if one is None or other is None:
        return None
    if one[0][0] == "sin":
        one, other = other, one
    (p, a), (q, b) = one
    (r, c), (s, d) = other
    if (p, q, r, s) != ("cos", "cos", "sin", "sin") or {a, b} != {c, d} or (a == b) != (c == d):
        return None
    if a == b:
        return g.one
    apart = _apart(g, a, b)
    return None if apart is None else g.apply("cos", apart)


def _difference(g: Graph, x: int, y: int) -> int | None:
    """x - y = sin a cos b - cos a sin b."""
    one, other = _factors(g, x), _factors(g, y)
    if one is None or other is None or one[0][0] == one[1][0] or other[0][0] == other[1][0]:
        return None
    sine, cosine = (dict(one)[name] for name in ("sin", "cos"))
    if (dict(other)["sin"], dict(other)["cos"]) != (cosine, sine):
        return None
    apart = _apart(g, sine, cosine)
    return None if apart is None else g.apply("sin", apart)


def _factors(g: Graph, i: int) -> list[tuple[str, int]] | None:
    """(function, angle) of both factors of a product of sines and cosines."""
    op, *x = g.nodes[i]
    if op != "mul":
        return None
    found = [(g.nodes[j][0], g.nodes[j][1]) for j in x]
    return found if all(name in ("sin", "cos") for name, _ in found) else None


def _apart(g: Graph, a: int, b: int) -> int | None:
    """a - b, where that takes no operation but a sign."""
    for whole, part, sign in ((a, b, 1), (b, a, -1)):
        op, *x = g.nodes[whole]
        if op == "add" and part in x:
            rest = x[1] if x[0] == part else x[0]
            return rest if sign > 0 else g.apply("neg", rest)
    return None
