"""Dependence of nodes, the order in which they are evaluated, the nodes of one side of a branch, and their values."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import numpy as np

from dalembert.native.graph.graph import FOLD, Graph, Node, operands, size_of_system


def needed_nodes(
    g: Graph, outputs: Iterable[int], known: Container[int] = (), enter: Callable[[Node], Iterable[int]] = operands
) -> list[int]:
    """All nodes the outputs need, without those `known`, operands first. enter: what a node needs, by default both sides of
    branches, too."""
    seen, stack = set(), list(outputs)
    while stack:
        i = stack.pop()
        if i not in seen and i not in known:
            seen.add(i)
            stack.extend(enter(g.nodes[i]))
    return sorted(seen)


def eager(g: Graph, outputs: Iterable[int], known: Container[int] = ()) -> list[int]:
    """Nodes the outputs need that are evaluated whatever the branches do: those of their sides are evaluated inside."""
    return needed_nodes(g, outputs, known, lambda node: (node[1],) if node[0] == "branch" else operands(node))


class Dependence:
    """For every node the set of input vectors it depends on, as a bit mask."""

    def __init__(self, g: Graph):
        self.g = g
        self._bits: dict[str, int] = {}
        self._masks: list[int] = []
        self._wanted: dict[tuple[str, ...], int] = {}

    def _update_masks(self) -> list[int]:
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
        """True if node i depends on any of the named vectors."""
        if names not in self._wanted:
            self._wanted[names] = sum(1 << self._bits.setdefault(name, len(self._bits)) for name in set(names))
        return bool(self._update_masks()[i] & self._wanted[names])


def evaluate(g: Graph, outputs: Sequence[int], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Values of the outputs, where every input vector has the given value."""
    values: dict[int, float | int | bool] = {}
    solved: dict[int, np.ndarray] = {}
    for i in needed_nodes(g, outputs):
        op, *args = g.nodes[i]
        if op == "const":
            values[i] = args[0]
        elif op == "var":
            values[i] = inputs[args[0]][args[1]].item()
        elif op == "branch":
            values[i] = values[args[0]]
        elif op == "pick":
            _, condition, *sides = g.nodes[args[0]]
            values[i] = values[sides[0 if values[condition] else 1][args[1]]]
        elif op == "solve":
            solved[i] = _solve_system([values[j] for j in args])
            values[i] = 0.0
        elif op == "entry":
            values[i] = solved[args[0]][args[1]].item()
        else:
            values[i] = FOLD[op](*(values[j] for j in args))
    return np.array([values[o] for o in outputs])


STATES = 3


def evaluate_at_states(g: Graph, nodes: np.ndarray, examples: Sequence[np.ndarray], captured: Sequence[float]) -> np.ndarray:
    """Values (STATES, …) of nodes (…) at states x0 that are the same for every system; the other inputs as in `examples`."""
    inputs = {f"x{i}": np.ravel(np.asarray(x, float)) for i, x in enumerate(examples)}
    inputs["captured"] = np.array(captured, float)
    states = np.random.default_rng(0).uniform(0.2, 1.0, (STATES, inputs["x0"].size))
    with np.errstate(all="ignore"):  # what is not finite gives no order of pivots
        found = [evaluate(g, nodes.ravel().tolist(), inputs | {"x0": x}).astype(float) for x in states]
    return np.reshape(found, (STATES, *nodes.shape))


def _solve_system(numbers: list) -> np.ndarray:
    """Of a system, its matrix by columns and then its right-hand side."""
    n = size_of_system(len(numbers))
    matrix = np.array(numbers[: n * n], float).reshape(n, n).T
    try:
        return np.linalg.solve(matrix, np.array(numbers[n * n :], float))
    except np.linalg.LinAlgError:
        return np.full(n, np.nan)
