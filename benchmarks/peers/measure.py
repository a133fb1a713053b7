"""Runs of all methods at all settings, interleaved: error of positions, median time, time to prepare."""

from __future__ import annotations

import dataclasses
import gc
import time
import warnings
from collections.abc import Callable

import numpy as np

REPEATS = 5
SLOWEST = 1.5  # seconds: a method is not run at finer settings after a call that took longer
Call = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Method:
    """prepare(setting) → (call, positions): call() is timed, positions(of its result) are the 100 samples (100, n).

    settings: tolerances, or numbers of steps, from coarse to fine. family groups the methods in the figure.
    """

    name: str
    family: str
    settings: tuple
    prepare: Callable[[float], tuple[Call, Callable[[object], np.ndarray]]]


@dataclasses.dataclass
class Result:
    """errors, times (seconds, medians), settings and constraints at the end of the runs that succeeded.

    first_use: preparation and first call.
    """

    method: Method
    settings: list
    errors: np.ndarray
    times: np.ndarray
    drifts: np.ndarray
    first_use: float

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Errors and times of the runs that no faster run of the method beats, from coarse to fine."""
        kept: list[int] = []
        for i in np.argsort(self.times):
            if self.errors[i] > 0 and (not kept or self.errors[i] < self.errors[kept[-1]]):
                kept.append(int(i))
        return self.errors[kept], self.times[kept]

    def time_at(self, error: float) -> float:
        """The time for an error, linear in logarithms; infinite where no run is as accurate."""
        errors, times = self.best()
        if not errors.size or error < errors[-1]:
            return np.inf
        return float(np.exp(np.interp(-np.log(error), -np.log(errors), np.log(times))))

    def drift_at(self, error: float) -> float:
        """The constraint at the end of the fastest run that is as accurate, or else of the most accurate one."""
        if not self.errors.size:
            return np.nan
        reached = np.flatnonzero(self.errors <= error)
        return float(self.drifts[reached[np.argmin(self.times[reached])] if reached.size else np.argmin(self.errors)])


def seconds(call: Call) -> float:
    """Processor time of a call: other work on the machine would stretch the long calls and miss the short ones.

    Where the call is made in another process, its time comes first in the result. The clock of the process knows of a thread
    that goes on spinning only what it had used at the last tick: a time far below that of the wall is not believed.
    """
    begin, start = time.perf_counter(), time.process_time()
    result = call()
    taken, wall = time.process_time() - start, time.perf_counter() - begin
    taken = taken if taken > 0.5 * wall else wall
    return result[0] if isinstance(result, tuple) and isinstance(result[0], float) else taken


def _first(method: Method, setting, truth: np.ndarray, drift):
    """The prepared call with its error, drift and first time; None where the package gives up."""
    start = time.perf_counter()
    try:
        call, positions = method.prepare(setting)
        result = call()
        used = time.perf_counter() - start
        found = positions(result)
    except Exception as failure:  # a package's way to give up is its own
        print(f"    {method.name} at {setting:g}: {str(failure).strip().splitlines()[-1][:100] or type(failure).__name__}")
        return None
    error = np.max(np.linalg.norm(found - truth, axis=1)) if found.shape == truth.shape else np.nan
    return (call, float(error), drift(found), used) if np.isfinite(error) else None


def measure(
    methods: list[Method], truth: np.ndarray, drift: Callable[[np.ndarray], float], repeats: int = REPEATS,
    slowest: float = SLOWEST,
) -> list[Result]:  # fmt: skip
    """All methods against the truth (samples, n). Every repeat visits every method and setting once."""
    runs, first_use = [], {}
    warnings.simplefilter("ignore")
    for method in methods:
        for setting in method.settings:
            done = _first(method, setting, truth, drift)
            if done is None:
                continue
            call, error, left, used = done
            first_use.setdefault(method.name, used)
            again = seconds(call)
            runs.append((method, setting, call, error, again, [], left))
            if again > slowest:
                break
    gc.disable()
    for repeat in range(repeats):
        for _, _, call, _, once, times, _ in runs:
            if once > 0.5 and repeat >= 3:  # long runs vary less
                continue
            if once < 0.005:
                call()  # the other methods have emptied the caches
            times.append(seconds(call))
    gc.enable()
    return [_result(method, [run for run in runs if run[0] is method], first_use) for method in methods]


def _result(method: Method, runs: list, first_use: dict[str, float]) -> Result:
    return Result(
        method, [run[1] for run in runs], np.array([run[3] for run in runs]),
        np.array([np.median(run[5]) for run in runs]), np.array([run[6] for run in runs]),
        first_use.get(method.name, np.nan),
    )  # fmt: skip
