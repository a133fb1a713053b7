"""What a node depends on, in which order nodes are evaluated, and what belongs to one side of a branch only."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import operands


def reached(g: Graph, outputs: Iterable[int]) -> list[int]:
    """All nodes the outputs need, both sides of branches among them, operands first."""
    seen, stack = set(), list(outputs)
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            stack.extend(j for j in operands(g.nodes[i]) if j not in seen)
    return sorted(seen)


def eager(g: Graph, outputs: Iterable[int], known: Container[int] = ()) -> list[int]:
    """Nodes the outputs need that are evaluated whatever the branches do, operands first, without those `known`.

    Sides of a branch are not entered: their nodes are evaluated inside the branch.
    """
    seen, stack = set(), list(outputs)
    while stack:
        i = stack.pop()
        if i not in seen and i not in known:
            seen.add(i)
            node = g.nodes[i]
            stack.extend((node[1],) if node[0] == "branch" else operands(node))
    return sorted(seen)


class Dependence:
    """For every node the set of input vectors it depends on, as a bit mask."""

    def __init__(self, g: Graph):
        self.g = g
        self._bits: dict[str, int] = {}
        self._masks: list[int] = []

    def _masked(self) -> list[int]:
        nodes, masks = self.g.nodes, self._masks
        for i in range(len(masks), len(nodes)):
            node = nodes[i]
            if node[0] == "var":
                masks.append(1 << self._bits.setdefault(node[1], len(self._bits)))
            else:
                mask = 0
                for j in operands(node):
                    mask |= masks[j]
                masks.append(mask)
        return masks

    def on(self, i: int, *names: str) -> bool:
        """Whether node i depends on any of the named vectors."""
        mask = self._masked()[i]
        return any(mask >> self._bits[name] & 1 for name in names if name in self._bits)

    def free(self, nodes: Iterable[int], *names: str) -> Iterator[int]:
        """Those of the nodes that depend on none of the named vectors."""
        return (i for i in nodes if not self.on(i, *names))
