"""The two sides of a comparison: a call of the library's machine code, and a call of compiled C, on the same data."""

from __future__ import annotations

import ctypes
import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from cases import Case
from caught import caught

import dalembert as da
from dalembert.native import COUNTS, CompiledStep

STEPS, TOLERANCE = 20_000, 1e-9


class Side(NamedTuple):
    """call: runs all steps, returns the number of Newton iterations. q: (STEPS, n), the positions it writes."""

    call: Callable[[], int]
    q: Callable[[], np.ndarray]


class Batch(NamedTuple):
    """call: runs all steps of all lanes, from what reset puts back. q: (B, n), at the end; iterations: per step and lane."""

    reset: Callable[[], None]
    call: Callable[[], object]
    q: Callable[[], np.ndarray]
    iterations: Callable[[], float]


class OneByOne(CompiledStep):
    """Many runs, one after the other, by the machine code of one run."""

    def table(self, lanes: bool) -> np.ndarray:
        return super().table(False)


def c_side(library: ctypes.CDLL, name: str, case: Case) -> Side:
    """A C integrator; a row is q, v, multipliers, force and the number of the step."""
    function = getattr(library, name)
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long, ctypes.c_double, ctypes.c_double, *[ctypes.c_void_p] * 4]
    p, q, v = (np.array(x, float) for x in (case.parameters, case.q0, case.v0))
    n = len(q)
    m = len(case.build().constraints) and len(np.atleast_1d(da.acceleration(case.build(), q, v)[1]))
    out = np.zeros((STEPS, 3 * n + m + 1))

    def call() -> int:
        return function(STEPS, case.h, TOLERANCE, *(a.ctypes.data for a in (p, q, v, out)))

    return Side(call, lambda: out[:, :n])


def native_side(case: Case, order: int = 2, h: float | None = None) -> tuple[Side, CompiledStep]:
    """The library: STEPS base steps, of a composition as many as there are stages."""
    scheme = da.Scheme(order=order)
    steps = STEPS // len(scheme.weights)
    solver = da.Solver(tolerance=TOLERANCE, backend="native")
    run = caught(lambda: da.simulate(case.build(), case.q0, case.v0, h=h or case.h, steps=steps, solver=solver,
                                     throw=False, scheme=scheme))  # fmt: skip
    return Side(run.call, lambda: run.arguments[3][:steps, : len(case.q0)]), run.code


def batch_c_side(library: ctypes.CDLL, name: str, case: Case, q0: np.ndarray, v0: np.ndarray, steps: int) -> Batch:
    """A C integrator of many trajectories; states (n, B)."""
    function = getattr(library, name)
    function.restype = ctypes.c_long
    function.argtypes = [*[ctypes.c_long] * 2, *[ctypes.c_double] * 2, *[ctypes.c_void_p] * 3]
    p, start = np.array(case.parameters, float), np.stack([q0.T, v0.T])
    state = start.copy()
    blocks, width = [0], ctypes.c_long.in_dll(library, "lanes_of_block").value

    def call() -> None:
        q, v = state
        blocks[0] = function(len(q0), steps, case.h, TOLERANCE, *(a.ctypes.data for a in (p, q, v)))

    return Batch(lambda: np.copyto(state, start), call, lambda: state[0].T, lambda: blocks[0] * width / len(q0) / steps)


def batch_sides(case: Case, q0: np.ndarray, v0: np.ndarray, steps: int, threads: dict[str, int | None]) -> dict[str, Batch]:
    """What `ensemble` gives to the machine code, caught on its way; with a number of threads, or one by one for None."""
    caught = []
    original = CompiledStep.run_many

    def catch(self, carry, count, inputs, rows, threads=None, between=None):
        caught.append((self, carry.copy(), count.copy(), inputs, rows))
        original(self, carry, count, inputs, rows, threads, between)

    CompiledStep.run_many = catch
    try:
        path = da.ensemble(
            case.build(),
            q0,
            v0,
            h=case.h,
            steps=steps,
            save=da.Save(every=None),
            solver=da.Solver(tolerance=TOLERANCE, backend="native"),
        )
    finally:
        CompiledStep.run_many = original
    if np.any(path.code):
        raise RuntimeError("a run ended early")
    code, carry, count, inputs, rows = caught[-1]
    alone = OneByOne(**{field.name: getattr(code, field.name) for field in dataclasses.fields(code)})
    return {name: _batch_side(alone if number is None else code, carry, count, inputs, rows, steps, number or 1)
            for name, number in threads.items()}  # fmt: skip


def _batch_side(code: CompiledStep, carry, count, inputs, rows, steps: int, threads: int) -> Batch:
    state, numbers, out = carry.copy(), count.copy(), np.zeros_like(rows)

    def reset() -> None:
        np.copyto(state, carry)
        np.copyto(numbers, count)

    def iterations() -> float:
        return float(np.mean(numbers[:, COUNTS.index("iterations")])) / steps

    at, n = code.layout.packed_carry.offset("q"), code.layout.n
    return Batch(
        reset, lambda: code.run_many(state, numbers, inputs, out, threads), lambda: state[:, at : at + n], iterations
    )


def nanoseconds(side: Side) -> float:
    """Per step, of one call: the thread's own time, without that in which others have the processor."""
    start = time.thread_time()
    side.call()
    return (time.thread_time() - start) / STEPS * 1e9


def interleaved(sides: list[Side], repeats: int) -> np.ndarray:
    """(repeats, sides) nanoseconds per step; the sides take turns, so that other work on the machine meets them all."""
    return np.array([[nanoseconds(side) for side in sides] for _ in range(repeats)])
