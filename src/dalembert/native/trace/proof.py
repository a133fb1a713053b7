"""Proofs about the equations from their operations: in which unknowns they may bend, and across which they may jump.

A derivative that vanishes proves nothing: those of sign, floor or a comparison do, and those of stop_gradient and of custom
rules are what their author says. Where no unknown meets such an operation, F is analytic and the Jacobian its derivative;
then F is affine in some unknowns if the Jacobian's entries for them do not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.graph.dependence import needed_nodes
from dalembert.native.graph.graph import LIBRARY, Graph, operands
from dalembert.native.trace.elementwise import Nodes

ANALYTIC = frozenset(["add", "sub", "mul", "div", "neg", "sqrt", "solve", "entry"]) | LIBRARY - {"fmod", "atan2"}
CONTINUOUS = frozenset(["abs", "max", "min"])
# What passes on what its operands are. The condition of a choice is a truth value, that is a comparison.
PASSING = frozenset(["const", "var", "select", "branch", "and", "or", "xor", "not", "float"])


class Proof(NamedTuple):
    """Unknowns as bits: those a node depends on; in which it may bend, not being analytic; across which it may jump."""

    depends: int = 0
    bends: int = 0
    jumps: int = 0


def union(parts: Iterable[Proof]) -> Proof:
    depends = bends = jumps = 0
    for part in parts:
        depends, bends, jumps = depends | part.depends, bends | part.bends, jumps | part.jumps
    return Proof(depends, bends, jumps)


def proofs(g: Graph, outputs: Iterable[int], name: str = "z") -> dict[int, Proof]:
    """For every node the outputs need. Unknowns are the inputs called `name`."""
    found: dict[int, Proof] = {}
    for i in needed_nodes(g, outputs):
        op, *args = g.nodes[i]
        if op == "agree":  # which choice it is makes no difference
            found[i] = Proof()
        elif op == "var":
            found[i] = Proof(1 << args[1] if args[0] == name else 0)
        else:
            found[i] = _proof(op, union(found[j] for j in _operands(g, i)))
    return found


def _operands(g: Graph, i: int) -> Iterator[int]:
    """The operands; of an output of a branch the condition and that output of both sides."""
    op, *args = g.nodes[i]
    if op != "pick":
        yield from operands(g.nodes[i])
        return
    _, condition, *sides = g.nodes[args[0]]
    yield condition
    yield from (side[args[1]] for side in sides)


def _proof(op: str, of: Proof) -> Proof:
    if op in ANALYTIC or op in PASSING or op == "pick":
        return of
    if op in CONTINUOUS:
        return of._replace(bends=of.bends | of.depends)
    return Proof(of.depends, of.bends | of.depends, of.jumps | of.depends)


class Equations:
    """F (rows) with its Jacobian. declared: nodes whose part in the Jacobian is what somebody says. name: of unknowns."""

    def __init__(self, g: Graph, f: Sequence[int], jacobian: Nodes, declared: Iterable[int], name: str = "z"):
        self.jacobian = jacobian
        declared = list(declared)
        self._of = proofs(g, [*f, *jacobian.ravel().tolist(), *declared], name)
        self._f = [self._of[i] for i in f]
        self._declared = union(self._of[i] for i in declared).depends

    def reads(self) -> np.ndarray:
        """Which equation depends on which unknown, (n, n): its derivative may vanish all the same."""
        return np.array([[bool(own.depends >> j & 1) for j in range(len(self._f))] for own in self._f])

    def affine(self, rows: Sequence[int], columns: Sequence[int]) -> bool:
        """True if these equations are affine in these unknowns together: one solution of them is enough."""
        bits = _bits(columns)
        own = union(self._f[i] for i in rows)
        entries = union(self._of[int(i)] for i in self.jacobian[np.ix_(rows, columns)].ravel())
        return not bits & (own.bends | entries.depends | self._declared)

    def may_jump(self, rows: Sequence[int], columns: Sequence[int]) -> bool:
        """True if a small update can leave a large residual: these equations may jump, or their Jacobian is not proven."""
        return bool(_bits(columns) & (union(self._f[i] for i in rows).jumps | self._declared))


def _bits(columns: Sequence[int]) -> int:
    return sum(1 << int(j) for j in columns)
