"""Twelve robots, dalembert beside IPOPT on the same discrete problems from the same guesses.

    PYTHONPATH=CASADI:src:. python -m benchmarks.control.robots_race [--robots arm acrobot] [--steps 40 100 200]
        [--guesses default line inverse random] [--random 20] [--bounds both] [--json FILE] [--no-ipopt] [--check]

A line for every pair: how it ended, the kind of the extremal, cost, iterations, and processor time in ms of the first call
and of the same call again; the same of IPOPT, whose solver is built before and whose time is that of its search. "Rough":
the steps do not resolve the motion, of which `solve` warns; the summary does not count such extremals as solutions.

Guesses: "default" none (IPOPT: the cubic and zero controls), "line" a path at constant velocity, "inverse" a smooth path
with its controls by inverse dynamics, "random0", … the cubic with waves, without controls.

--robots takes those of `unseen_robots`, too, which the search was not tuned by.
--table FILE: the summary and a short table of a file that --json wrote; s: no minimum, r: rough.
--check: cost and equations of both sides at random unknowns, where they have to agree to 1e-10.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from benchmarks.control.robots import ROBOTS, Robot
from benchmarks.control.unseen_robots import UNSEEN

import dalembert as da
from dalembert.boundary import Asked, Request, TimeGrid, settings
from dalembert.control import control_search

SAME = 1e-4  # relative difference of costs that count as one
WORSE = 1.05
ROUGH = 0.25  # of the path, as in the warning of `solve`
SOLVED = ("Solve_Succeeded", "Solved_To_Acceptable_Level")
FAST = 2
ALL = ROBOTS | UNSEEN


@dataclasses.dataclass
class Pair:
    """A robot, its steps and bounds, a guess: how both ended. Times in ms; peer: of IPOPT, None where it was left out."""

    robot: str
    steps: int
    bounded: bool
    guess: str
    outcome: str
    kind: str = ""
    cost: float = np.nan
    iterations: int = 0
    first: float = np.nan
    again: float = np.nan
    rough: bool = False
    peer: str | None = None
    peer_cost: float = np.nan
    peer_iterations: int = 0
    peer_time: float = np.nan
    peer_rough: bool = False

    @property
    def solved(self) -> bool:
        return self.outcome == "SUCCESS"

    @property
    def peer_solved(self) -> bool:
        return self.peer in SOLVED

    @property
    def problem(self) -> tuple[str, int, bool]:
        """What pairs with the same cheapest extremal have in common."""
        return self.robot, self.steps, self.bounded

    @property
    def own(self) -> float:
        """The cost, infinite if there is no solution, or a rough one."""
        return self.cost if self.solved and not self.rough else np.inf

    @property
    def other(self) -> float:
        """That of IPOPT."""
        return self.peer_cost if self.peer_solved and not self.peer_rough else np.inf

    def line(self) -> str:
        """For the table."""
        rough = [", rough" if x else "" for x in (self.rough, self.peer_rough)]
        ended = f"{self.outcome} {self.kind}{rough[0]}"
        own = f"{ended} | {self.cost:.6g} | {self.iterations} | {self.first:.1f} | {self.again:.1f}"
        other = f"{self.peer}{rough[1]} | {self.peer_cost:.6g} | {self.peer_iterations} | {self.peer_time:.1f}"
        bounds = "bounds" if self.bounded else "none"
        return f"| {self.robot} | {self.steps} | {bounds} | {self.guess} | {own} | {other if self.peer else '| | |'} |"

    def cell(self) -> str:
        """For `table`."""
        marks = ("" if self.kind == "minimum" else " s") + (" r" if self.rough else "")
        own = f"{self.cost:.5g}{marks}, {self.iterations}, {self.again:.0f}" if self.solved else self.outcome
        other = f"{self.peer_cost:.5g}{' r' if self.peer_rough else ''}, {self.peer_iterations}, {self.peer_time:.0f}"
        return f"{own} / {other if self.peer_solved else self.peer or ''}".replace("_", " ")


def guesses_of(
    robot: Robot, steps: int, bounded: bool, names: Sequence[str], count: int
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, the guess of dalembert, and path and controls of IPOPT."""
    for name in names:
        if name == "default":
            yield name, None, robot.cubic(steps), None
        elif name == "line":
            yield name, robot.line(steps), robot.line(steps), None
        elif name == "inverse":
            q, u = robot.inverse_dynamics(steps, bounded)
            yield name, (q, u), q, u
        else:
            for number in range(count):
                yield f"random{number}", robot.random(number, steps), robot.random(number, steps), None


def ours(problem: Any, asked: dict, steps: int, guess: Any) -> dict[str, Any]:
    """The entries of a pair."""
    found: dict[str, Any] = {}
    for name in ("first", "again"):
        begin = time.process_time()
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                solution = da.solve(problem, steps=steps, guess=guess, throw=False, **asked)
        except Exception as error:  # whatever goes wrong stands in the table
            return {"outcome": f"{type(error).__name__}: {str(error).splitlines()[0]}"[:90]}
        found[name] = 1e3 * (time.process_time() - begin)
    found |= {"cost": float(solution.cost), "iterations": int(solution.statistics.iterations)}
    found |= {"outcome": solution.outcome.name, "kind": solution.kind if solution.outcome is da.Outcome.SUCCESS else ""}
    return found | {"rough": any("resolve the motion" in str(warning.message) for warning in told)}


def race(name: str, steps: int, bounded: bool, names: Sequence[str], count: int, peer: bool) -> Iterator[Pair]:
    """All guesses of one problem."""
    robot = ALL[name]
    problem, asked, twin = robot.problem(), robot.asked(bounded), None
    if peer:
        from benchmarks.control.casadi_robots import Twin

        twin = Twin(robot, steps, bounded)
    for guess, own, q, u in guesses_of(robot, steps, bounded, names, count):
        pair = Pair(name, steps, bounded, guess, **ours(problem, asked, steps, own))
        if twin is not None:
            found = twin.solve(q, u)
            pair.peer, pair.peer_cost, pair.peer_iterations = found.status, found.cost, found.iterations
            pair.peer_time = 1e3 * found.seconds
            pair.peer_rough = pair.peer_solved and twin.distance(found.x) > ROUGH
        yield pair


def summary(pairs: Sequence[Pair]) -> None:
    """A line for every robot: of the pairs, how many each side solved, and how often with the cheapest extremal that either
    side found; how often each ended worse than the other from the same guess."""
    cheapest = collections.defaultdict(lambda: np.inf)
    for p in pairs:
        cheapest[p.problem] = min(cheapest[p.problem], p.own, p.other)
    print(
        "| robot | pairs | solved, IPOPT | cheapest, IPOPT | not solved or over 1.05 × the other's cost, IPOPT | "
        "rough, IPOPT | false INFEASIBLE | SUCCESS, no minimum | again ÷ IPOPT |"
    )
    print("| --- " * 9 + "|")
    for robot in [*dict.fromkeys(p.robot for p in pairs), "all"]:
        own = [p for p in pairs if robot in (p.robot, "all")]
        costs, least = np.array([[p.own, p.other] for p in own]), np.array([[cheapest[p.problem]] for p in own])
        solved = np.isfinite(costs)
        rough = np.array([[p.rough, p.peer_rough] for p in own])
        worse = costs > WORSE * costs[:, ::-1]
        counts = [x.sum(axis=0) for x in (solved, solved & (costs <= least * (1 + SAME)), worse, rough)]
        wrong = sum(p.outcome == "INFEASIBLE" and np.isfinite(cheapest[p.problem]) for p in own)
        saddles = sum(p.solved and p.kind != "minimum" for p in own)
        ratios = [p.again / p.peer_time for p in own if p.solved and p.peer_solved]
        told = " | ".join(f"{a}, {b}" for a, b in counts)
        ratio = f"{np.median(ratios):.2f}" if ratios else ""
        print(f"| {robot} | {len(own)} | {told} | {wrong} | {saddles} | {ratio} |", flush=True)


def table(pairs: Sequence[Pair]) -> None:
    """A row for every problem, a column for every guess: cost, iterations and ms of the repeated call, ours / IPOPT's."""
    guesses = list(dict.fromkeys(p.guess for p in pairs))
    print(f"| robot | N | bounds | {' | '.join(guesses)} |")
    print("| --- " * (3 + len(guesses)) + "|")
    cells = {(*p.problem, p.guess): p.cell() for p in pairs}
    for robot, steps, bounded in dict.fromkeys(p.problem for p in pairs):
        row = " | ".join(cells.get((robot, steps, bounded, guess), "") for guess in guesses)
        print(f"| {robot} | {steps} | {'yes' if bounded else 'no'} | {row} |")


def check(name: str, steps: int = 6) -> float:
    """The largest difference of cost and equations at random unknowns, relative to their size."""
    from benchmarks.control.casadi_robots import Twin

    robot = ALL[name]
    given = robot.asked(False)
    ends, grid = Request(given["initial"], given["final"]), TimeGrid(given["T"], steps, None)
    asked = Asked(ends, grid, None, None, settings(da.Solver()), False, None, None)
    ready = control_search(robot.problem(), asked)
    data, random = ready.start.data, np.random.default_rng(0)
    part, z = data.layout.part, random.standard_normal(ready.start.z.shape)
    z[:, part("ends")] = z[:, part("time")] = 0.0
    state = part("state")
    q = z[1:-1, state] + data.origin
    cost, equations, middles = Twin(robot, steps, False).evaluate(
        q, z[1:-1, part("controls")], z[2:, part("reactions")], z[[0, -1], state]
    )
    # L̃ is linear in the multipliers, so that its gradient by them are the equations; without them it is the cost
    gradient = ready.kkt.raw_gradient(z)
    still = z.copy()
    still[:, part("adjoints")] = still[:, part("steps")] = 0.0
    pairs = [
        (cost, ready.kkt.evaluate(still).objective), (equations, gradient[2:, part("adjoints")]),
        (middles, gradient[2:-1, part("steps")]),
    ]  # fmt: skip
    return max(float(np.max(np.abs(a - b) / (1.0 + np.abs(a)), initial=0.0)) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=list(ALL), default=list(ROBOTS))
    parser.add_argument("--steps", type=int, nargs="+", default=[40, 100, 200])
    parser.add_argument("--guesses", nargs="+", default=["default", "line", "inverse", "random"])
    parser.add_argument("--random", type=int, default=FAST)
    parser.add_argument("--bounds", choices=("both", "no", "yes"), default="both")
    parser.add_argument("--json")
    parser.add_argument("--no-ipopt", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", metavar="JSON", help="print the tables of a file that --json wrote")
    given = parser.parse_args()
    if given.check:
        for name in given.robots:
            print(f"{name}: {check(name):.1e}", flush=True)
        return
    if given.table:
        with open(given.table) as file:
            read = [Pair(**entry) for entry in json.load(file)]
        summary(read)
        table(read)
        return
    pairs: list[Pair] = []
    print("| robot | N | bounds | guess | outcome | cost | it. | first | again | IPOPT | cost | it. | ms |")
    print("| --- " * 13 + "|")
    for name in given.robots:
        for steps in given.steps:
            for bounded in {"both": (False, True), "no": (False,), "yes": (True,)}[given.bounds]:
                for pair in race(name, steps, bounded, given.guesses, given.random, not given.no_ipopt):
                    print(pair.line(), flush=True)
                    pairs.append(pair)
                    if given.json:
                        with open(given.json, "w") as file:
                            json.dump([dataclasses.asdict(p) for p in pairs], file, indent=1)
    print()
    summary(pairs)


if __name__ == "__main__":
    main()
