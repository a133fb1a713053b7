"""dalembert: `simulate` with the native back-end. Another scheme is one more line in SCHEMES."""

from __future__ import annotations

from functools import partial

import numpy as np
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import SAMPLES, Problem

import dalembert as da
from dalembert.native import CompiledStep

# name: (scheme, the finest number of steps relative to the problem's)
SCHEMES = {"dalembert": (da.Scheme, 1.0)}


def methods(problem: Problem, extension) -> list[Method]:
    found = []
    for name, (scheme, share) in SCHEMES.items():
        steps = tuple(n for n in problem.steps if n <= share * problem.steps[-1])
        found.append(Method(f"{name}, run", "dalembert", steps, partial(run_only, problem, scheme())))
        found.append(Method(f"{name}, whole call", "dalembert", steps, partial(whole_call, problem, scheme())))
    return found


def simulate(problem: Problem, scheme: da.Scheme, steps: int) -> da.Path:
    return da.simulate(
        problem.system, problem.q0, problem.v0, h=problem.time / steps, steps=steps, scheme=scheme,
        save_every=steps // SAMPLES, backend="native",
    )  # fmt: skip


def whole_call(problem: Problem, scheme: da.Scheme, steps):
    return partial(simulate, problem, scheme, int(steps)), lambda path: np.asarray(path.q)[1:]


def run_only(problem: Problem, scheme: da.Scheme, steps):
    """The machine code of the same run, without the checks, the start and the record that `simulate` makes around it."""
    caught, original = [], CompiledStep.run

    def catch(self, carry, count, inputs, rows):
        caught.append((self, carry.copy(), count.copy(), inputs, rows))
        original(self, carry, count, inputs, rows)

    CompiledStep.run = catch
    try:
        path = simulate(problem, scheme, int(steps))
    finally:
        CompiledStep.run = original
    code, carry, count, inputs, rows = caught[-1]
    return lambda: original(code, carry.copy(), count.copy(), inputs, rows), lambda _: np.asarray(path.q)[1:]
