"""Where an integration stands: what its loops of machine code share, and how they are called chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dalembert.native.chunks import FIRST, paced
from dalembert.native.flow.step_loop import COUNTED, NUMBERS, TOO_MANY

SHARE = 0.1  # of the whole, as if it had been the step before: it limits the first


class Accuracy(NamedTuple):
    """tolerance: relative and absolute, local. steps: at most. clipped: whether steps end at the times, for which rows are
    then as accurate as the steps."""

    tolerance: float
    steps: int
    clipped: bool = False


class Integration(NamedTuple):
    """The state of an integration, which any method can go on from. most: steps."""

    numbers: np.ndarray
    counts: np.ndarray
    times: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    most: int

    @classmethod
    def at(cls, y: np.ndarray, times: np.ndarray, accuracy: Accuracy) -> Integration:
        """The beginning: y at times[0]."""
        rows = np.empty((len(times), len(y)))
        rows[0] = y
        numbers = NUMBERS.pack(t=times[0], h=SHARE * (times[-1] - times[0]), tolerance=accuracy.tolerance)
        counts = COUNTED.pack(size=len(y), times=len(times), most=0, clipped=0, steps=0, saved=1, refused=0)
        return cls(numbers, counts, times, rows[0].copy(), rows, accuracy.steps)

    @property
    def t(self) -> np.ndarray:
        """(1,) the time reached, a view."""
        return self.numbers[NUMBERS.offset("t") :][:1]

    def count(self, name: str) -> int:
        return int(self.counts[COUNTED.offset(name)])

    def go_on(self, run: Callable[..., int], clipped: bool, steps: int | None = None) -> int:
        """Chunk by chunk to the end, or for so many steps: between two of them Python answers Ctrl-C."""
        chunk, limit = FIRST, COUNTED.offset("most")
        most = self.most if steps is None else min(self.most, self.count("steps") + steps)
        self.counts[COUNTED.offset("clipped")] = int(clipped)
        addresses = [x.__array_interface__["data"][0] for x in self[:5]]
        while True:
            self.counts[limit] = min(most, self.count("steps") + chunk)
            began = time.perf_counter()
            code = run(*addresses)
            if code != TOO_MANY or self.count("steps") >= most:
                return code
            chunk = paced(chunk, time.perf_counter() - began)
