"""Integrations of one equation from many states, each with steps of its own, over threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.native.flow.flow import CompiledFlow, FlowArrays
from dalembert.native.flow.integration import Accuracy, Integration, Solved
from dalembert.native.flow.step_loop import COUNTED, REACHED
from dalembert.native.many.lanes import LaneMethod, LaneRuns
from dalembert.native.threads import dealt, on_threads


class FlowRuns(NamedTuple):
    """What the B integrations begin with. times, tolerance, given: of length B, or 1 where they are the same for all; given:
    the arrays of the functions, flat."""

    y: Float[np.ndarray, "B N"]
    times: Float[np.ndarray, "some T"]
    tolerance: Float[np.ndarray, "some"]
    given: Float[np.ndarray, "some G"]

    @property
    def clocks(self) -> Float[np.ndarray, "some"]:
        """-1.0 where time decreases."""
        return np.where(self.times[:, -1] > self.times[:, 0], 1.0, -1.0)

    def clocked(self) -> Float[np.ndarray, "some T"]:
        """The times as they increase."""
        return np.ascontiguousarray(self.times * self.clocks[:, None])


class _Worker:
    """The arrays of one thread, for either direction of time."""

    def __init__(self, flow: CompiledFlow, runs: FlowRuns):
        self.flow, self.runs, self._clocks = flow, runs, runs.clocks
        self._arrays: dict[float, FlowArrays] = {}

    def arrays(self, i: int) -> FlowArrays:
        """With what run i is given."""
        clock, given = float(_of(self._clocks, i)), _of(self.runs.given, i)
        found = self._arrays.get(clock)
        if found is None:
            found = self._arrays[clock] = self.flow.over([given], clock)
        elif len(self.runs.given) > 1:
            found.refill(given)
        return found


def travel(flow: CompiledFlow, runs: FlowRuns, steps: int, threads: int) -> Solved:
    """All of them, in lanes if there are several and the field is written out; what is left of these, and one alone, by the
    code for one. The bits of a run do not depend on the others. steps: of each, at most."""
    together, reached = Integration.many(runs.y, runs.clocked(), runs.tolerance, steps), np.zeros(len(runs.y), bool)
    left, methods = list(range(len(reached))), set[str]()
    if flow.lanes is not None and len(reached) > 1:
        left, methods = _in_lanes(flow, flow.lanes, runs, together, reached, threads), {"Runge-Kutta"}

    def begin() -> Callable[[int], None]:
        worker = _Worker(flow, runs)

        def one(place: int) -> None:
            i = left[place]
            accuracy = Accuracy(float(_of(runs.tolerance, i)), steps)
            code, names = flow.advanced(together.one(i), worker.arrays(i), accuracy)
            reached[i] = code == REACHED
            methods.update(names)

        return one

    dealt(begin, len(left), threads)
    saved, taken = (together.counts[:, COUNTED.offset(name)] for name in ("saved", "steps"))
    for i in np.flatnonzero(saved < together.rows.shape[1]):
        together.rows[i, saved[i] :] = np.inf
    return Solved(together.rows, saved, reached, taken, tuple(sorted(methods, reverse=True)))  # the series first, as in one


def _in_lanes(
    flow: CompiledFlow, method: LaneMethod, runs: FlowRuns, at: Integration, reached: np.ndarray, threads: int
) -> list[int]:
    """Which are left."""
    places, first, times = itertools.count(), _Worker(flow, runs), np.broadcast_to(at.times[:, :1], (len(reached), 1))
    if len(runs.given) == len(runs.clocks) == 1:
        rates = flow.along(runs.y, times[:, 0], first.arrays(0))[0]
    else:
        rates = [flow.along(y[None], times[i], first.arrays(i))[0][0] for i, y in enumerate(runs.y)]
    for i, rate in enumerate(rates):
        at.one(i).measure(rate, flow.positions)

    def work(_: int) -> list[int]:
        worker = _Worker(flow, runs)
        whole = lambda i: _brought(flow, worker.arrays(i), at.one(i))  # noqa: E731
        return LaneRuns(method, at, runs.given, runs.tolerance, runs.clocks).go_on(places, reached, whole)

    threads = min(threads, -(-len(reached) // method.width))
    return [i for left in on_threads(work, range(threads), threads) for i in left]


def _brought(flow: CompiledFlow, arrays: FlowArrays, at: Integration) -> bool:
    """Bring all rows of an integration onto the constraints, where there are any; whether that could be done."""
    if flow.projection is None:
        return True
    addresses = (x.__array_interface__["data"][0] for x in (at.times, at.rows))
    return not flow.codes.project_along(arrays.projection(flow.projection.code), *addresses, *at.rows.shape)


def outputs_along(flow: CompiledFlow, runs: FlowRuns, solved: Solved, threads: int) -> Float[np.ndarray, "B T r"]:
    """The outputs at the rows that are there, NaN at the others."""
    found, clocked = np.full((*solved.rows.shape[:2], flow.outputs.result_size), np.nan), runs.clocked()

    def begin() -> Callable[[int], None]:
        worker = _Worker(flow, runs)

        def one(i: int) -> None:
            end = solved.saved[i]
            found[i, :end] = flow.outputs_at(worker.arrays(i), _of(clocked, i)[:end], solved.rows[i, :end])

        return one

    dealt(begin, len(found), threads)
    return found


def _of(values: np.ndarray, i: int) -> np.ndarray:
    """Those of run i."""
    return values[i if len(values) > 1 else 0]
