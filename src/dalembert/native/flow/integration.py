"""Where an integration stands: what its loops of machine code share, and how they are called chunk by chunk."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.interrupts import leave_if_wanted
from dalembert.native.flow.loop_code import COUNTED, NUMBERS, REACHED, TOO_MANY
from dalembert.native.llvm.jit import Loaded
from dalembert.native.threads import FIRST, paced

STILL = dict.fromkeys(("h", "next", "behind", "way"), 0.0)
BEGINNING = {"most": 0, "clipped": 0, "steps": 0, "saved": 1, "refused": 0, "mode": 0}
PART = 0.03  # of the tolerance, that the error of a step may be: what many steps add up to is then of its size
ROUNDING = 5e-15  # a tolerance of which no part is taken


def allowed_errors(tolerance: Any) -> np.ndarray:
    """The tolerances of steps."""
    return np.maximum(PART * np.asarray(tolerance), np.minimum(tolerance, ROUNDING))


class Accuracy(NamedTuple):
    """tolerance: relative and absolute, local. steps: at most. clipped: whether steps end at the times, for which rows are
    then as accurate as the steps."""

    tolerance: float
    steps: int
    clipped: bool = False


class Solved(NamedTuple):
    """rows: at the first `saved` times, infinite after them. Of many integrations all have a leading axis."""

    rows: Any
    saved: Any
    reached: Any
    steps: Any


class Travelled(NamedTuple):
    """rows and outputs at the first `saved` times. t: what was reached, end: the outputs there; reached: whether it is the
    last time, watched: whether the watch has ended it; steps: all that were tried."""

    rows: Float[np.ndarray, "T N"]
    outputs: Float[np.ndarray, "T r"]
    saved: int
    t: float
    end: Float[np.ndarray, "r"]
    reached: bool
    watched: bool
    steps: int


class Integration(NamedTuple):
    """The state of an integration. y: with the typical sizes of its components behind it. most: steps."""

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
        numbers = NUMBERS.pack(t=times[0], tolerance=float(allowed_errors(accuracy.tolerance)), **STILL)
        counts = COUNTED.pack(size=len(y), times=len(times), **BEGINNING)
        return cls(numbers, counts, times, np.concatenate([rows[0], np.ones(len(y))]), rows, accuracy.steps)

    @classmethod
    def many(cls, y: np.ndarray, times: np.ndarray, tolerance: np.ndarray, steps: int) -> Integration:
        """The beginnings of many, in arrays with a leading axis: y (B, N); times and tolerance may have length 1."""
        number, length = len(y), times.shape[1]
        rows = np.empty((number, length, y.shape[1]))
        rows[:, 0] = y
        wide = lambda x: np.broadcast_to(x, number)  # noqa: E731
        first = times[:, 0]
        numbers = NUMBERS.pack(t=wide(first), tolerance=wide(allowed_errors(tolerance)), **{x: wide(0.0) for x in STILL})
        sizes = {"size": y.shape[1], "times": length} | BEGINNING
        counts = COUNTED.pack(**{name: wide(x) for name, x in sizes.items()})
        return cls(numbers, counts, times, np.concatenate([rows[:, 0], np.ones(y.shape)], axis=1), rows, steps)

    def one(self, i: int) -> Integration:
        """Of many: views."""
        times = self.times[i if len(self.times) > 1 else 0]
        return Integration(self.numbers[i], self.counts[i], times, self.y[i], self.rows[i], self.most)

    def measure(self, rates: np.ndarray, positions: int) -> None:
        """Note the typical sizes of a motion: |y| + T|ẏ| over the whole time T, and 1 where that is more or nothing moves.

        Errors are relative to those of a small motion, and absolute otherwise. rates: ẏ at the beginning.
        """
        size, time = len(rates), float(self.times[-1] - self.t[0])
        reach = [abs(x) + time * abs(rate) for x, rate in zip(self.y[:size].tolist(), rates.tolist(), strict=True)]
        rest = max(reach[positions:], default=0.0)
        first = max(reach[:positions], default=0.0) or time * rest
        self.y[size : size + positions] = first if 0.0 < first < 1.0 else 1.0
        self.y[size + positions :] = rest if 0.0 < rest < 1.0 else 1.0

    @property
    def t(self) -> np.ndarray:
        """(1,) the time reached, a view."""
        return self.numbers[NUMBERS.offset("t") :][:1]

    def count(self, name: str) -> int:
        return int(self.counts[COUNTED.offset(name)])

    def solved(self, code: int) -> Solved:
        """What it has come to. code: of its end."""
        saved = self.count("saved")
        self.rows[saved:] = np.inf
        return Solved(self.rows, saved, code == REACHED, self.count("steps"))

    def go_on(self, run: Callable[..., int], clipped: bool) -> int:
        """Chunk by chunk to the end: between two of them Ctrl-C is answered, in any thread."""
        chunk, limit = FIRST, COUNTED.offset("most")
        self.counts[COUNTED.offset("clipped")] = int(clipped)
        addresses = [x.__array_interface__["data"][0] for x in self[:5]]
        while True:
            self.counts[limit] = min(self.most, self.count("steps") + chunk)
            began = time.perf_counter()
            code = run(*addresses)
            if code != TOO_MANY or self.count("steps") >= self.most:
                return code
            leave_if_wanted()
            chunk = paced(chunk, time.perf_counter() - began)


@dataclasses.dataclass(frozen=True)
class FlowCodes:
    """The code that is the same for all equations."""

    field: Loaded
    loop: Loaded

    @functools.cached_property
    def address(self) -> int:
        return self.field.address("field")

    @functools.cached_property
    def project(self) -> int:
        return self.field.address("project")

    @functools.cached_property
    def along(self) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)(self.field.address("along"))

    @functools.cached_property
    def integrate(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 12)(self.loop.address("integrate"))
