"""Blocks: the runs of a sweep in equal boxes over its axes, each of which is computed and stored at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

NUMBERS = 2**22  # of the states of a block, about: 32 MiB
STEPS = 2**27  # of all runs of a block together, about: seconds
FEWEST, MOST = 64, 2**16  # runs of a block, unless asked for otherwise: lanes and threads want some


class Blocks(NamedTuple):
    """shape: of the axes; block: numbers of runs along each axis, in full along the last ones, 1 along the first ones; so
    that the runs of a block follow each other, the last axis running fastest."""

    shape: tuple[int, ...]
    block: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], most: int) -> Blocks:
        """As large as they can be with so many runs at the most."""
        block, room = [1] * len(shape), most
        for axis in reversed(range(len(shape))):
            block[axis] = min(shape[axis], room)
            room //= block[axis]
            if block[axis] < shape[axis] or room < 2:
                break
        return cls(shape, tuple(block))

    @property
    def size(self) -> int:
        """Runs of a block."""
        return math.prod(self.block)

    @property
    def grid(self) -> tuple[int, ...]:
        """Numbers of blocks along the axes."""
        return tuple(-(-n // b) for n, b in zip(self.shape, self.block, strict=True))

    @property
    def number(self) -> int:
        """All blocks."""
        return math.prod(self.grid)

    def place(self, i: int) -> tuple[int, ...]:
        """Of the i-th block in the grid."""
        return tuple(map(int, np.unravel_index(i, self.grid)))

    def ranges(self, i: int) -> tuple[range, ...]:
        """Of its runs along the axes; fewer in the last block of an axis."""
        begins = (k * b for k, b in zip(self.place(i), self.block, strict=True))
        return tuple(range(a, min(a + b, n)) for a, b, n in zip(begins, self.block, self.shape, strict=True))

    def first(self, i: int) -> int:
        """The number of its first run, the last axis running fastest."""
        return int(np.ravel_multi_index(tuple(part.start for part in self.ranges(i)), self.shape))

    def runs(self, i: int) -> int:
        """How many it has."""
        return math.prod(map(len, self.ranges(i)))

    def places(self, i: int) -> tuple[np.ndarray, ...]:
        """(size,) places of its runs along each axis. A block that has fewer runs repeats its last one: what is compiled for
        one size is compiled once."""
        along = np.meshgrid(*(np.arange(r.start, r.stop) for r in self.ranges(i)), indexing="ij")
        return tuple(np.pad(x.ravel(), (0, self.size - x.size), mode="edge") for x in along)


def runs_of_block(numbers: int, steps: int) -> int:
    """How many runs go together, where one has so many numbers and steps."""
    found = min(NUMBERS // max(1, numbers), STEPS // max(1, steps), MOST)
    return max(1, min(FEWEST, NUMBERS * 8 // max(1, numbers)), found)
