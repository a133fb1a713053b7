"""The method of `da.reference` beside heyoka: machine code alone, time for an error of the rows.

    python -m benchmarks.flow_methods [names of problems]

heyoka has the equation reduced by hand, and the same tolerances. The thread's own time, the least of several turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import heyoka
import numpy as np
from benchmarks.peers.packages import heyoka_ode
from benchmarks.peers.problems import Problem, problems

from dalembert.native import Accuracy, Integration, Solved
from dalembert.systems import along_constraints, proven_start

ERRORS = (1e-3, 1e-5, 1e-7, 1e-9, 1e-10, 1e-11)
TOLERANCES = tuple(10.0**-k for k in range(2, 16))
TURNS = 7
NAMES = ("Runge-Kutta", "heyoka")


def least(call: Callable[[], float]) -> float:
    """Seconds; call() returns those it took."""
    call()
    return min(call() for _ in range(TURNS))


def loops(integrated: Callable[[float], Solved], tolerance: float):
    """The rows, and a call that returns the seconds that its loops of machine code took."""
    taken = [0.0]
    go_on = Integration.go_on

    def timed(self, *given):
        began = time.thread_time()
        code = go_on(self, *given)
        taken[0] += time.thread_time() - began
        return code

    def call() -> float:
        Integration.go_on, taken[0] = timed, 0.0
        try:
            found.append(integrated(tolerance))
        finally:
            Integration.go_on = go_on
        return taken[0]

    found: list = []
    call()
    return found[0], call


def by_heyoka(problem: Problem, tolerance: float):
    run, positions = heyoka_ode.prepare(problem, heyoka, False, tolerance)

    def call() -> float:
        began = time.thread_time()
        run()
        return time.thread_time() - began

    return positions(run()), call


def time_at(error: float, found: list[tuple[float, float]]) -> float:
    """Seconds for an error, linear in logarithms between the runs that no faster one beats; infinite beyond them."""
    best: list[tuple[float, float]] = []
    for e, t in sorted(found, key=lambda x: x[1]):
        if e > 0 and (not best or e < best[-1][0]):
            best.append((e, t))
    errors, times = np.array(best).T
    return np.inf if error < errors[-1] else float(np.exp(np.interp(-np.log(error), -np.log(errors), np.log(times))))


def measured(problem: Problem) -> dict[str, list[tuple[float, float]]]:
    """(error, seconds) of every method and tolerance."""
    n, times = len(problem.q0), problem.times if problem.samples > 1 else np.array([0.0, problem.time])
    start = proven_start(problem.system, problem.q0, problem.v0, times[0])
    assert start is not None
    integrated = lambda tolerance: along_constraints(problem.system, start, times, Accuracy(tolerance, 10**7))[0]  # noqa: E731
    compared = lambda rows: rows[1:, :n] if problem.constraint is None else rows[-1:]  # noqa: E731
    truth = problem.exact(problem.times)[1:] if problem.exact else None
    if truth is None:
        truth = compared(integrated(1e-15).rows)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
    for tolerance in TOLERANCES:
        for name in NAMES:
            if name == "heyoka":
                rows, call = by_heyoka(problem, tolerance)
            else:
                run, call = loops(integrated, tolerance)
                rows = compared(run.rows)
            found[name].append((float(np.max(np.linalg.norm(rows - truth, axis=1))), least(call)))
    return found


def main() -> None:
    print("| time ÷ heyoka's, at error | " + " | ".join(f"{e:.0e}" for e in ERRORS) + " |")
    print("|---" * (len(ERRORS) + 1) + "|")
    for problem in problems():
        if sys.argv[1:] and problem.name not in sys.argv[1:]:
            continue
        found = measured(problem)
        peer = [time_at(e, found["heyoka"]) for e in ERRORS]
        print(f"| *{problem.title}*, heyoka in ms | " + " | ".join(f"{1e3 * t:.2g}" for t in peer) + " |")
        for name in NAMES[:1]:
            known = [(time_at(e, found[name]) if found[name] else np.inf, t) for e, t in zip(ERRORS, peer, strict=True)]
            ratios = [mine / t if np.isfinite(t) else np.inf for mine, t in known]
            print(f"| {name} | " + " | ".join(f"{r:.2g}" if np.isfinite(r) else "–" for r in ratios) + " |", flush=True)


if __name__ == "__main__":
    main()
