"""Nodes of a graph, and how many terms are combined."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

Node = tuple


T = TypeVar("T")


def paired(combine: Callable[[T, T], T], terms: list[T], empty: T) -> T:
    """All terms combined in pairs of pairs, so that a processor can do most of it at the same time."""
    while len(terms) > 1:
        ends = [terms[-1]] if len(terms) % 2 else []
        terms = [combine(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)] + ends
    return terms[0] if terms else empty


def size_of_system(operands: int) -> int:
    """n of a system that is solved, with n² + n operands."""
    return math.isqrt(operands)


def operands(node: Node) -> tuple[int, ...]:
    """Indices a node refers to, both sides of a branch among them."""
    if node[0] in ("const", "var"):
        return ()
    if node[0] == "branch":
        return (node[1], *node[2], *node[3])
    return (node[1],) if node[0] in ("pick", "entry") else node[1:]
