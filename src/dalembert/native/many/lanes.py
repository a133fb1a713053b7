"""Integrations in lanes, call by call of machine code: a lane whose integration has ended is given the next one."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from dalembert.interrupts import leave_if_wanted
from dalembert.native.assembly.function import GraphFunction
from dalembert.native.flow.integration import Integration
from dalembert.native.flow.step_loop import COUNTED
from dalembert.native.llvm.cache import Cache
from dalembert.native.llvm.jit import Loaded, lanes_of_processor
from dalembert.native.llvm.packing import Held
from dalembert.native.many.lane_code import lane_loop
from dalembert.native.many.lane_vectors import EACH, FINISHED, FRESH, LANES, LEFT, lane_arrays, lane_field

BUDGET = 4096  # steps of one call: between two of them Ctrl-C is answered
LINE = 8  # numbers of a line of the cache, at which arrays begin


@dataclasses.dataclass(frozen=True)
class LaneMethod:
    """The method of order 8 in lanes for ẏ = f(y, t, *given), and whether f holds there. onto: constraints, if it is kept on
    any."""

    made: GraphFunction
    cache: Cache
    onto: GraphFunction | None = None

    @functools.cached_property
    def width(self) -> int:
        return min(8, lanes_of_processor())

    @functools.cached_property
    def field(self) -> Loaded:
        return self.cache.load(lane_field(self.made, self.width), plain=False)

    @functools.cached_property
    def projection(self) -> Loaded | None:
        return None if self.onto is None else self.cache.load(lane_field(self.onto, self.width), plain=False)

    @functools.cached_property
    def run(self) -> Callable[[int], None]:
        loaded = self.cache.load(lane_loop(self.width), plain=True)
        self.__dict__["_loop"] = loaded  # as long as its function
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address("lanes"))


class LaneRuns:
    """The arrays of one thread. at: all integrations; given: their arrays, of length B or 1; clocks: so as well."""

    def __init__(self, method: LaneMethod, at: Integration, given: np.ndarray, tolerance: np.ndarray, clocks: np.ndarray):
        self._method, self._at, self._own, w = method, at, (given, tolerance, clocks), method.width
        size, before = at.rows.shape[2], at.rows.shape[2] + 1 + given.shape[1]
        captured = [np.asarray(x.tracer.captured if x else [], float) for x in (method.made, method.onto)]
        held = self._held = Held()
        lengths = lane_arrays(size, before + len(captured[0]), before + len(captured[1]), w)
        parts = {name: _aligned(length) for name, length in lengths}
        self._each = parts["each"].reshape(len(EACH), w)
        self._y, *self._given = (parts[name].reshape(-1, w) for name in ("y", "given", "onto_given"))
        for place, numbers in zip(self._given, captured, strict=True):
            place[before:] = numbers[:, None]
        parts["result"][-w:] = 1.0  # it holds, if it does not say
        self._rows, self._times = np.zeros(w, np.int64), np.zeros(w, np.int64)
        addresses = {name: held.array(x) for name, x in (parts | {"rows": self._rows, "times": self._times}).items()}
        numbers = {"size": size, "most": at.most, "budget": BUDGET, "length": at.times.shape[1]}
        onto = method.projection.address("evaluate") if method.projection else 0
        self._told = held.array(LANES.pack(**numbers, **addresses, field=method.field.address("evaluate"), onto=onto))

    def go_on(self, places: Iterator[int], reached: np.ndarray, whole: Callable[[int], bool]) -> list[int]:
        """As long as there are places; of what is left, the places. reached: what has ended. whole: makes the rows of an
        integration what they are to be, if it can."""
        number, left, w = len(reached), list[int](), self._method.width
        state, lanes = self._each[EACH.index("state")], [-1] * w
        state[:] = FINISHED
        while True:
            for lane in range(w):
                if state[lane] < FINISHED:
                    continue
                if (i := lanes[lane]) >= 0:
                    if self._each[EACH.index("state"), lane] == LEFT or not whole(i):
                        left.append(i)
                    else:
                        self._taken(lane, i, reached)
                lanes[lane] = i = next(places)
                if i < number:
                    self._begin(lane, i)
                else:
                    lanes[lane] = -1
            if max(lanes) < 0:
                return left
            leave_if_wanted()
            self._method.run(self._told)

    def _taken(self, lane: int, i: int, reached: np.ndarray) -> None:
        """Integration i has ended."""
        reached[i], counts = True, self._at.counts[i]
        counts[COUNTED.offset("saved")] = self._at.times.shape[1]
        counts[COUNTED.offset("steps")] = self._each[EACH.index("steps"), lane]

    def _begin(self, lane: int, i: int) -> None:
        at, (given, tolerance, clocks) = self._at.one(i), (x[i if len(x) > 1 else 0] for x in self._own)
        self._y[:, lane] = at.y
        first = at.rows.shape[1] + 1
        for place in self._given:
            place[first : first + len(given), lane] = given
        self._rows[lane], self._times[lane] = (x.__array_interface__["data"][0] for x in (at.rows, at.times))
        self._each[:, lane] = [FRESH, at.times[0], 0.0, at.times[-1], at.times[1], tolerance, clocks, 0.0, 0.0, 1.0]


def _aligned(length: int) -> np.ndarray:
    whole = np.zeros(length + LINE)
    first = -(whole.__array_interface__["data"][0] // 8) % LINE
    return whole[first : first + length]
