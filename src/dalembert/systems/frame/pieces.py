"""A Lagrangian as ½ uᵀC u + U, where u, its pieces, are the velocities of which it is made: affine in v.

Most are rates of something, such as of a point's coordinates; then the equations of motion need no derivative of them except
along the motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native import Unsupported
from dalembert.native.graph.dependence import Dependence, reached
from dalembert.native.graph.derivative import jacobian
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import operands
from dalembert.native.graph.simplify import replaced

Nodes = list[int]


class PiecewiseEnergy(NamedTuple):
    """pieces: u (r,). metric: C (r, r). potential: U."""

    pieces: Nodes
    metric: np.ndarray
    potential: int


def degrees(g: Graph, outputs: Sequence[int], name: str) -> dict[int, float]:
    """Of every node as a polynomial in the vector of this name, infinite where it is none."""
    found: dict[int, float] = {}
    for i in reached(g, outputs):
        op, *x = g.nodes[i]
        if op in ("const", "var"):
            found[i] = float(op == "var" and x[0] == name)
            continue
        of = [found[j] for j in operands(g.nodes[i])]
        if not any(of):
            found[i] = 0.0
        elif op in ("add", "sub", "neg"):
            found[i] = max(of)
        elif op == "mul":
            found[i] = sum(of)
        else:
            found[i] = of[0] if op == "div" and not of[1] else np.inf
    return found


def energy(g: Graph, lagrangian: int, v: Sequence[int], name: str) -> PiecewiseEnergy:
    """v: the inputs of this name. Unsupported where L is no such sum."""
    degree = degrees(g, [lagrangian], name)
    if degree[lagrangian] > 2:
        raise Unsupported("lagrangian", "it is not quadratic in the velocities")
    pieces: dict[int, int] = {}
    for i in reached(g, [lagrangian]):
        op, *x = g.nodes[i]
        if op == "mul" and all(degree[j] == 1 for j in x):
            for j in x:
                pieces.setdefault(j, g.variable("u", len(pieces)))
    u = list(pieces.values())
    (whole,) = replaced(g, [lagrangian], pieces)
    slopes = jacobian(g, [whole], u)[0]
    rest = dict.fromkeys(u, g.zero)
    linear = Dependence(g).on(whole, name) or any(i != g.zero for i in replaced(g, slopes, rest))
    if linear:
        raise Unsupported("lagrangian", "it has a term that is linear in the velocities")
    return PiecewiseEnergy(list(pieces), jacobian(g, slopes, u), replaced(g, [whole], rest)[0])
