"""Sums of products of sines and cosines that are one function of an angle.

    sin² a + cos² a = 1,   cos a cos b + sin a sin b = cos (a - b),   sin a cos b - cos a sin b = sin (a - b)

The last two where a - b is an angle that is there: a = b + c, or b = a + c.
"""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.simplify import rebuilt


def with_angles(g: Graph, outputs: Sequence[int]) -> list[int]:
    """The outputs with such sums replaced: other values by rounding only."""
    new: dict[int, int] = {}
    for i in reached(g, outputs):
        node = g.nodes[i]
        if node[0] in ("const", "var"):
            new[i] = i
        else:
            made = rebuilt(g, node, new.__getitem__)
            found = _angle(g, made)
            new[i] = made if found is None else found
    return [new[i] for i in outputs]


def _angle(g: Graph, i: int) -> int | None:
    """What stands for the sum or difference i, if it is such a one."""
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
