"""The graph evaluated by Python, node by node: for samples of a Jacobian and as a reference in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import size_of_system
from dalembert.native.graph.operations import FOLD, wrapped


def evaluate(g: Graph, outputs: Sequence[int], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Values of the outputs, where every input vector has the given value."""
    values: dict[int, float | int | bool] = {}
    solved: dict[int, np.ndarray] = {}
    for i in reached(g, outputs):
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
            solved[i] = _solution([values[j] for j in args])
            values[i] = 0.0
        elif op == "entry":
            values[i] = solved[args[0]][args[1]].item()
        else:
            values[i] = _item(FOLD[op](*(values[j] for j in args)))
    return np.array([values[o] for o in outputs])


def _solution(numbers: list) -> np.ndarray:
    """Of a system, its matrix by columns and then its right-hand side."""
    n = size_of_system(len(numbers))
    matrix = np.array(numbers[: n * n], float).reshape(n, n).T
    try:
        return np.linalg.solve(matrix, np.array(numbers[n * n :], float))
    except np.linalg.LinAlgError:
        return np.full(n, np.nan)


def _item(x):
    x = x.item() if isinstance(x, np.generic) else x
    return wrapped(x) if isinstance(x, int) and not isinstance(x, bool) else x
