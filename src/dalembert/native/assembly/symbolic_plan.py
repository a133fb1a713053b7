"""The symbolic plan of the elimination of one block: which entries there are, which fill in, what it changes in others."""

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


class SymbolicPlan(NamedTuple):
    """The elimination of one block.

    pivots: groups of one or two components of the block, in their order. below: for every group the components that are
    coupled to it and eliminated later; update: the pattern of the update matrix, pairs of components of the following
    blocks, counted from the first of these.
    """

    size: int
    pivots: tuple[tuple[int, ...], ...]
    below: tuple[tuple[int, ...], ...]
    entries: tuple[Pair, ...]
    update: tuple[Pair, ...]

    @property
    def stored(self) -> int:
        """Numbers of a block that are kept: D⁻¹ and L."""
        return sum((1, 3)[len(p) - 1] + len(p) * len(q) for p, q in zip(self.pivots, self.below, strict=True))


def symbolic_plan(entries: Sequence[Pair], size: int, pivots: Sequence[tuple[int, ...]]) -> SymbolicPlan:
    """The elimination of every block, once the pattern of the update matrix does not change any more."""
    update: set[Pair] = set()
    while True:
        front = set(entries) | update | {(min(g), max(g)) for g in pivots} | {(i, i) for i in range(size)}
        left_over = set(front)
        below = []
        for group in pivots:
            near = sorted({q for pair in left_over for p in group if p in pair for q in pair if q not in group})
            below.append(tuple(near))
            left_over = {pair for pair in left_over if not set(pair) & set(group)}
            left_over |= {(p, q) for p in near for q in near if p <= q}
            front |= left_over
        left = {(p - size, q - size) for p, q in left_over}
        if left == update:
            return SymbolicPlan(size, tuple(pivots), tuple(below), tuple(sorted(front)), tuple(sorted(update)))
        update = left | update
