"""Divisions turned into products with shared reciprocals: a division costs several times a product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from dalembert.native.depend import reached
from dalembert.native.graph import Graph


def share_reciprocals(g: Graph, roots: Sequence[int], level: Callable[[int], int]) -> list[int]:
    """The roots with a/b as a·(1/b), where 1/b serves several quotients or stays the same over more evaluations than a.

    level(i): how often a node is evaluated: 0 once per run, 1 once per step, 2 once per iteration. A reciprocal of a product, or
    of a square, is a product of reciprocals where these are needed anyway. Values change by rounding only.
    """
    nodes = reached(g, roots)
    quotients = [g.nodes[i][1:] for i in nodes if g.nodes[i][0] == "div" and g.kind[i] == "f"]
    times = Counter(b for _, b in quotients)
    roots_of = {g.nodes[i][1]: i for i in times if g.nodes[i][0] == "sqrt"}
    shared = {b for a, b in quotients if times[b] > 1 or level(b) < level(a) or b in roots_of}
    new: dict[int, int] = {}
    inverse: dict[int, int] = {}

    def reciprocal(b: int) -> int:
        if b not in inverse:
            op, *args = g.nodes[b]
            if b in roots_of:
                r = reciprocal(roots_of[b])
                inverse[b] = g.apply("mul", r, r)
            elif op == "mul" and all(x in times for x in args):
                inverse[b] = g.apply("mul", *(reciprocal(x) for x in args))
            else:
                inverse[b] = g.apply("div", g.one, new[b])
        return inverse[b]

    for i in nodes:
        op, *args = g.nodes[i]
        if op in ("const", "var"):
            new[i] = i
        elif op == "branch":
            sides = [tuple(new[j] for j in side) for side in args[1:]]
            key = ("branch", new[args[0]], *sides)
            new[i] = g._intern(key, key, "b")
        elif op == "pick":
            key = ("pick", new[args[0]], args[1])
            new[i] = g._intern(key, key, g.kind[i])
        elif op == "div" and args[1] in shared:
            new[i] = g.apply("mul", new[args[0]], reciprocal(args[1]))
        else:
            new[i] = g.apply(op, *(new[j] for j in args))
    return [new[r] for r in roots]
