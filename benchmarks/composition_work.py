"""How many base steps per unit of time a composition needs for an error, on problems that differ.

    python benchmarks/composition_work.py      the table of benchmarks/README.md: geometric means over the problems

Every problem is run with 60 numbers of steps by `composed` of c/composition_problems.c; the truth is a run of another set of
order 8 with far smaller steps, checked against a third. An error counts as reached from the first run on whose finer runs
all keep it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import tempfile
from pathlib import Path

import numpy as np
from build import built
from compositions import SETS, coefficients
from contact_reference import START

ERRORS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
WORK = np.geomspace(4, 220, 60)  # base steps per unit of time
FINE = 16  # composed steps per unit of time, of the truth


@dataclasses.dataclass(frozen=True)
class Problem:
    """number: of composition_problems.c; epsilon: its parameter; start: (q, v); time: T."""

    name: str
    number: int
    epsilon: float
    start: tuple[float, ...]
    time: float


PROBLEMS = (
    Problem("contact oscillator", 0, 0.0, START, 100.0),
    Problem("contact oscillator, long", 0, 0.0, START, 1000.0),
    Problem("contact oscillator, nonlinear", 0, 1.0, (1.0, 1.0, 0.4, -0.5, 0.3, 0.5), 100.0),
    Problem("nonholonomic particle, nonlinear", 1, 1.0, (1.0, 0.0, 0.0, 0.5, 1.0, 0.0), 50.0),
)


def end(function, problem: Problem, gamma: np.ndarray, steps: int) -> np.ndarray:
    state = np.array(problem.start)
    function(
        problem.number, problem.epsilon, steps, len(gamma), problem.time / steps, gamma.ctypes.data, state.ctypes.data
    )  # fmt: skip
    return state


def work(function, problem: Problem, gamma: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Base steps per unit of time for ERRORS; NaN where no run, or every run, is as accurate."""
    counts = np.unique(np.maximum(1, np.round(WORK * problem.time / len(gamma)).astype(int)))
    errors = np.array([np.max(np.abs(end(function, problem, gamma, int(n)) - truth)) for n in counts])
    kept = np.maximum.accumulate(np.nan_to_num(errors, nan=np.inf, posinf=1e9)[::-1])[::-1]
    needed = np.interp(-np.log(ERRORS), -np.log(kept), np.log(counts * len(gamma) / problem.time))
    return np.where((np.array(ERRORS) < kept[-1]) | (np.array(ERRORS) > kept[0]), np.nan, np.exp(needed))


def main() -> None:
    sets = {name: coefficients(name) for name, (order, _) in SETS.items() if order > 2}
    with tempfile.TemporaryDirectory() as folder:
        function = built("composition_problems.c", Path(folder)).composed
        function.argtypes = [ctypes.c_long, ctypes.c_double, *[ctypes.c_long] * 2, ctypes.c_double, *[ctypes.c_void_p] * 2]
        function.restype = None
        found = {name: [] for name in sets}
        for problem in PROBLEMS:
            fine = [
                end(function, problem, sets[name], int(FINE * problem.time)) for name in ("Suzuki-Umeno 15", "Kahan-Li 17")
            ]
            print(f"{problem.name}, T = {problem.time:g}: references differ by {np.max(np.abs(fine[0] - fine[1])):.0e}")
            for name, gamma in sets.items():
                found[name].append(work(function, problem, gamma, fine[0]))
    print("\n| base steps per unit of time | order | " + " | ".join(f"{e:.0e}" for e in ERRORS) + " |")
    print("|---|" + "---|" * (len(ERRORS) + 1))
    means = {name: np.exp(np.mean(np.log(rows), axis=0)) for name, rows in found.items()}
    best = np.nanmin(list(means.values()), axis=0)
    for name, row in means.items():
        cells = ["–" if np.isnan(x) else f"**{x:.1f}**" if x == y else f"{x:.1f}" for x, y in zip(row, best, strict=True)]
        print(f"| {name} | {SETS[name][0]} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
