"""The graph evaluated by Python, node by node: for samples of a Jacobian and as a reference in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.operations import FOLD, wrapped


def evaluate(g: Graph, outputs: Sequence[int], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Values of the outputs, where every input vector has the given value."""
    values: dict[int, float | int | bool] = {}
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
        else:
            values[i] = _item(FOLD[op](*(values[j] for j in args)))
    return np.array([values[o] for o in outputs])


def _item(x):
    x = x.item() if isinstance(x, np.generic) else x
    return wrapped(x) if isinstance(x, int) and not isinstance(x, bool) else x
