"""Where an integration stands: what its loops of machine code share, and how they are called chunk by chunk."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dalembert.native.chunks import FIRST, paced
from dalembert.native.flow.step_loop import COUNTED, NUMBERS, TOO_MANY
from dalembert.native.llvm.jit import Loaded

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
    def value(self) -> Callable[..., int]:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)
        return kind(self.address)

    @functools.cached_property
    def along(self) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)(self.field.address("along"))

    @functools.cached_property
    def integrate(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 12)(self.loop.address("integrate"))

    def slope(self, told: int, t: float, y: np.ndarray) -> np.ndarray:
        """ẏ, NaN where it has no value."""
        found = np.full_like(y, np.nan)
        return found if not self.value(told, t, y.ctypes.data, found.ctypes.data) else np.full_like(y, np.nan)

    def first_step(self, told: int, y: np.ndarray, times: np.ndarray, tolerance: float) -> float:
        """A step whose error is about the tolerance: from the sizes of y, ẏ and ÿ; Hairer, Norsett, Wanner, II.4."""
        here = y.tolist()  # a few numbers: NumPy would take ten times as long
        parts = [1.0 / (tolerance * (1.0 + abs(x))) for x in here]
        size = lambda x: math.sqrt(sum((a * b) * (a * b) for a, b in zip(x, parts, strict=True)) / len(parts))  # noqa: E731
        t, whole = float(times[0]), float(times[-1] - times[0])
        slope = self.slope(told, t, y)
        rates = slope.tolist()
        state, speed = size(here), size(rates)
        if not math.isfinite(state + speed):
            return min(1e-6, whole)
        short = min(1e-6 if not min(state, speed) >= 1e-5 else 0.01 * state / speed, whole)
        after = self.slope(told, t + short, y + short * slope).tolist()
        bend = max(speed, size([a - b for a, b in zip(after, rates, strict=True)]) / short)
        step = (0.01 / bend) ** 0.125 if bend > 1e-15 else max(1e-6, 1e-3 * short)
        return min(100.0 * short, step, whole) if math.isfinite(step) else short
