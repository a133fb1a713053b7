"""The library's orders against each other: time of machine code for an error of (q, v) at the end, and where order 10 wins.

    python benchmarks/orders.py [REPEATS]      prints the table of benchmarks/README.md

An error counts as reached from the first run on whose finer runs all keep it; times between two runs are interpolated in
logarithms. Runs take turns, medians of the thread's own time. The contact oscillator has a closed form, the others
`da.reference` at a tolerance of 1e-14.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Sequence

import numpy as np
from caught import Caught, caught

import dalembert as da
from dalembert.gallery import ENTRIES, contact_oscillator, nonholonomic_particle

ORDERS = (4, 6, 8, 10)
ERRORS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
REPEATS = 9


@dataclasses.dataclass(frozen=True)
class Problem:
    """end: (q, v) at the time. stages: of the runs, over the whole time."""

    system: da.System
    q0: Sequence[float]
    v0: Sequence[float]
    time: float
    end: np.ndarray
    stages: Sequence[int]


def problems() -> dict[str, Problem]:
    contact, ball, rolling = (ENTRIES[name] for name in ("contact_oscillator", "spherical_pendulum", "car_with_trailers"))
    particle = nonholonomic_particle.nonholonomic_particle(1.0)
    found = {"contact oscillator, T = 1000": (contact.system, contact.q0, contact.v0, 1000.0, (8_000, 400_000)),
             "nonholonomic particle, T = 100": (particle, [1.0, 0.0, 0.0], [0.5, 1.0, 0.0], 100.0, (1_000, 100_000)),
             "spherical pendulum, T = 20": (ball.system, ball.q0, ball.v0, 20.0, (400, 40_000)),
             "car with two trailers, T = 30": (rolling.system, rolling.q0, rolling.v0, 30.0, (400, 40_000))}  # fmt: skip
    return {name: Problem(system, q0, v0, end, ends(system, q0, v0, end), np.geomspace(*span, 28).astype(int))
            for name, (system, q0, v0, end, span) in found.items()}  # fmt: skip


def ends(system: da.System, q0, v0, end: float) -> np.ndarray:
    if system is ENTRIES["contact_oscillator"].system:
        return np.concatenate(contact_oscillator.exact(end))
    flow = da.reference(system, q0, v0, [0.0, end], tolerance=1e-14)
    return np.concatenate([flow.q[-1], flow.v[-1]])


def run(problem: Problem, scheme: da.Scheme, steps: int) -> Caught:
    options = {
        "h": problem.time / steps,
        "steps": steps,
        "scheme": scheme,
        "save": da.Save(every=None),
        "solver": da.Solver(backend="native"),
    }
    return caught(lambda: da.simulate(problem.system, problem.q0, problem.v0, **options))


def runs(problem: Problem, order: int) -> tuple[list[Caught], np.ndarray]:
    """The runs of one order, and their errors."""
    scheme, found = da.Scheme(order=order), []
    for stages in problem.stages:
        with contextlib.suppress(da.StepError, RuntimeError):  # a step too large to be solved
            found.append(run(problem, scheme, max(2, round(stages / len(scheme.weights)))))
    ends = np.array([np.concatenate([x.path.q[-1], x.path.v[-1]]) for x in found])
    return found, np.max(np.abs(ends - problem.end), axis=1)


def nanoseconds(run: Caught) -> int:
    start = time.thread_time_ns()
    run.call()
    return time.thread_time_ns() - start


def times_at(errors: np.ndarray, times: np.ndarray) -> list[float]:
    kept = np.maximum.accumulate(errors[::-1])[::-1]
    inside = [kept[-1] <= e <= kept[0] for e in ERRORS]
    found = np.exp(np.interp(-np.log(ERRORS), -np.log(kept), np.log(times)))
    return [t if known else np.nan for t, known in zip(found, inside, strict=True)]


def table(name: str, problem: Problem, repeats: int) -> None:
    """Prints the rows of one problem, times over that of the fastest order."""
    measured = [runs(problem, order) for order in ORDERS]
    taken = np.median([[nanoseconds(x) for found, _ in measured for x in found] for _ in range(repeats)], axis=0)
    parts = np.split(taken, np.cumsum([len(found) for found, _ in measured])[:-1])
    rows = np.array([times_at(errors, times) for (_, errors), times in zip(measured, parts, strict=True)])
    best = np.nanmin(rows, axis=0)
    print(f"| *{name}*, fastest in ms | " + " | ".join("–" if np.isnan(b) else f"{1e-6 * b:.2g}" for b in best) + " |")
    for order, row in zip(ORDERS, rows / best, strict=True):
        cells = ["–" if np.isnan(x) else "**1**" if x == 1.0 else f"{x:.2g}" for x in row]
        print(f"| order {order} | " + " | ".join(cells) + " |", flush=True)


def main(repeats: int) -> None:
    print("| time ÷ that of the fastest order, at error | " + " | ".join(f"{e:.0e}" for e in ERRORS) + " |")
    print("|---|" + "---|" * len(ERRORS))
    for name, problem in problems().items():
        table(name, problem, repeats)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS)
