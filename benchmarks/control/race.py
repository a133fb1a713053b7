"""dalembert's optimal control against IPOPT and Fatrop: the swing-up of a cart with a pole, from the straight line.

    python -m benchmarks.control.race [--steps 100 1000] [--repeats 9] [--compiled] [--alone]   with casadi installed
    python -m benchmarks.control.race --robots cart_pole quadrotor [--compiled]

1. dalembert, IPOPT on the same discrete problem, Fatrop on Runge-Kutta steps, one thread, taking turns; medians of the
   processor time, first of the call that comes after the others' and then of those that repeat it at once. "da.solve" is the
   whole call of a user, who makes it again with the same problem; "dalembert" is the search in it. The peers' solvers are
   built before, so that a call of theirs is their search. --compiled: Fatrop with generated C as well.
2. --robots: whole calls on these robots of `robots_race`, from the default guess, without and with bounds, beside IPOPT,
   and Fatrop on Runge-Kutta steps. --compiled: both with generated C as well, IPOPT up to N = 100: its C has a line for
   every node, and takes minutes to compile.
3. --alone: dalembert's time per node and iteration from N = 10³ to 10⁵.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.control.robots import ROBOTS

import dalembert as da
from dalembert.boundary import Asked, Request, Termination, TimeGrid, settings
from dalembert.control import ControlSearch, control_search
from dalembert.gallery import PROBLEMS

FORCES = (None, 12.0)
TOLERANCE = 1e-8
SOLVED = ("Solve_Succeeded", "Solved_To_Acceptable_Level")
LONGEST_C, LONGEST_FATROP = 100, 1000  # steps; beyond, compilation takes minutes, and evaluation by CasADi seconds
Solved = tuple[float, int, bool]


def prepared(steps: int, force: float | None, tolerance: float, scheme=None) -> ControlSearch:
    """All but the search."""
    entry = PROBLEMS["cart_pole"]
    ends, bounds = Request(entry.boundary["initial"], entry.boundary["final"]), None
    if force is not None:
        bounds = {"u": (-force, force)}
    asked = Asked(ends, TimeGrid(2.0, steps, None), scheme, None, settings(da.Solver(tolerance=tolerance)), False, bounds)
    return control_search(entry.problem, asked)


def ours(steps: int, force: float | None, tolerance: float, scheme=None) -> Callable[[], Solved]:
    """The search alone: cost, iterations, whether it succeeded."""
    ready = prepared(steps, force, tolerance, scheme)

    def run() -> Solved:
        it, _ = ready.search(ready.start.z, ready.sizes, None)
        return it.at.objective, it.iterations, it.end is Termination.CONVERGED

    return run


def whole_call(steps: int, force: float | None, tolerance: float) -> Callable[[], Solved]:
    """`da.solve` as a user calls it: cost, iterations, whether it succeeded."""
    entry = PROBLEMS["cart_pole"]
    bounds = None if force is None else {"u": (-force, force)}

    def run() -> Solved:
        solution = da.solve(
            entry.problem, **entry.boundary, steps=steps, bounds=bounds, solver=da.Solver(tolerance=tolerance)
        )
        return float(solution.cost), int(solution.statistics.iterations), not solution.outcome.failed

    return run


def medians(calls: dict[str, Callable[[], Solved]], repeats: int) -> dict[str, tuple[float, float, Solved]]:
    """Processor time of this thread and the result of each, after one call that is not timed: of the first call of a turn,
    which finds the processor's caches full of the others' data, and of the three that follow it."""
    first, again = ({name: [] for name in calls} for _ in range(2))
    found = {name: call() for name, call in calls.items()}
    for _ in range(repeats):
        for name, call in calls.items():
            for k in range(4):
                begin = time.thread_time()
                call()
                (again if k else first)[name].append(time.thread_time() - begin)
    return {name: (float(np.median(first[name])), float(np.median(again[name])), found[name]) for name in calls}


def race(steps: int, force: float | None, repeats: int, compiled: bool) -> None:
    from benchmarks.control import casadi_swing_up as peers

    calls = {"dalembert": ours(steps, force, TOLERANCE), "da.solve": whole_call(steps, force, TOLERANCE)}
    calls |= {"IPOPT": peers.ipopt(steps, force, TOLERANCE)}
    calls["Fatrop"] = peers.fatrop(steps, force, TOLERANCE, False)
    if compiled:
        calls["Fatrop, C"] = peers.fatrop(steps, force, TOLERANCE, True)
    found = medians(calls, repeats)
    own, own_again, _ = found["dalembert"]
    for name, (taken, again, (cost, iterations, solved)) in found.items():
        told = f"{iterations} iterations, cost {cost:.8f}" if solved else "not solved"
        times = f"{1e3 * taken:.2f} ms | {taken / own:.2f} | {1e3 * again:.2f} ms | {again / own_again:.2f}"
        print(f"| {steps} | {force or 'none'} | {name} | {told} | {times} |", flush=True)


def race_robot(name: str, steps: int, bounded: bool, repeats: int, compiled: bool) -> None:
    """Whole calls of a user, and the searches of the peers, whose solvers are built before."""
    from benchmarks.control.casadi_robots import Found, Twin

    robot = ROBOTS[name]
    problem, asked = robot.problem(), robot.asked(bounded)

    def whole() -> Solved:
        solution = da.solve(problem, steps=steps, throw=False, **asked)
        return float(solution.cost), int(solution.statistics.iterations), not solution.outcome.failed

    def peer(search: Callable[[], Found]) -> Callable[[], Solved]:
        return lambda: ((found := search()).cost, found.iterations, found.status in (*SOLVED, "True"))

    twin = Twin(robot, steps, bounded)
    calls = {"da.solve": whole, "IPOPT": peer(lambda: twin.solve(robot.cubic(steps), None))}
    if steps <= LONGEST_FATROP:
        calls["Fatrop"] = peer(twin.stages(bounded, False))
    if compiled and steps <= LONGEST_C:
        written = Twin(robot, steps, bounded, compiled=True)
        calls["IPOPT, C"] = peer(lambda: written.solve(robot.cubic(steps), None))
        calls["Fatrop, C"] = peer(twin.stages(bounded, True))
    found = medians(calls, repeats)
    own, own_again, _ = found["da.solve"]
    for side, (taken, again, (cost, iterations, solved)) in found.items():
        told = f"{iterations} | {cost:.6g}" if solved else f"not solved, {iterations} |"
        times = f"{1e3 * taken:.1f} | {taken / own:.2f} | {1e3 * again:.1f} | {again / own_again:.2f}"
        print(f"| {name} | {steps} | {'yes' if bounded else 'no'} | {side} | {told} | {times} |", flush=True)


def alone(repeats: int) -> None:
    """Time per node and iteration."""
    for force in FORCES:
        base = None
        for steps in (1_000, 10_000, 100_000):
            _, taken, (cost, iterations, solved) = medians({"": ours(steps, force, TOLERANCE)}, repeats)[""]
            each = taken / steps / iterations
            base = base or each
            told = f"{iterations} iterations, cost {cost:.8f}" if solved else f"not solved, {iterations} iterations"
            print(f"| {steps} | {force or 'none'} | {told} | {1e6 * each:.2f} µs | {each / base:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--robots", nargs="+", choices=list(ROBOTS), default=[])
    given = parser.parse_args()
    if given.alone:
        alone(max(3, given.repeats // 3))
        return
    with tempfile.TemporaryDirectory() as folder:  # CasADi's Fatrop writes there, and so does the compiler
        os.chdir(folder)
        for name in given.robots:
            for steps in given.steps:
                for bounded in (False, True):
                    race_robot(name, steps, bounded, given.repeats, given.compiled)
        for steps in () if given.robots else given.steps:
            for force in FORCES:
                race(steps, force, given.repeats, given.compiled)


if __name__ == "__main__":
    main()
