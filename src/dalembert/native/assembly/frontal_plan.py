"""The elimination of one block of a front: which entries there are, which fill in, and what is carried on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dalembert.native.assembly.windows import Windowed

Pair = tuple[int, int]


class Summand(NamedTuple):
    """One of the functions of a window. windowed: reads the path at Places, returns the entries of K_i that are not zero.

    entries: their (row, column), row ≤ column, counted from the first component of the window's first block.
    """

    windowed: Windowed
    entries: tuple[Pair, ...]


class Plan(NamedTuple):
    """The elimination of one block.

    pivots: groups of one or two components of the block, in their order. below: for every group the components that are
    coupled to it and eliminated later; carry: the pairs of components of the following blocks that are changed,
    counted from the first of these.
    """

    size: int
    pivots: tuple[tuple[int, ...], ...]
    below: tuple[tuple[int, ...], ...]
    entries: tuple[Pair, ...]
    carry: tuple[Pair, ...]

    @property
    def record(self) -> int:
        """Numbers of a block that are kept: D⁻¹ and L."""
        return sum((1, 3)[len(p) - 1] + len(p) * len(q) for p, q in zip(self.pivots, self.below, strict=True))


def plan(entries: Sequence[Pair], size: int, pivots: Sequence[tuple[int, ...]]) -> Plan:
    """The elimination of every block, once the pattern of the carry does not change any more."""
    carry: set[Pair] = set()
    while True:
        front = set(entries) | carry | {(min(g), max(g)) for g in pivots} | {(i, i) for i in range(size)}
        held = set(front)
        below = []
        for group in pivots:
            near = sorted({q for pair in held for p in group if p in pair for q in pair if q not in group})
            below.append(tuple(near))
            held = {pair for pair in held if not set(pair) & set(group)}
            held |= {(p, q) for p in near for q in near if p <= q}
            front |= held
        left = {(p - size, q - size) for p, q in held}
        if left == carry:
            return Plan(size, tuple(pivots), tuple(below), tuple(sorted(front)), tuple(sorted(carry)))
        carry = left | carry
