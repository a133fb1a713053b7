"""Two versions of the library side by side: what compare, batch, chain_cost, boundary/race and compile_time time, in turns.

    python benchmarks/versions.py FOLDER [--turns 15] [--only WORD]     FOLDER: the checkout of another version

Each version has a process, with the benchmarks of its own checkout. They take turns, A B A B …, call by
call, so that other work on the machine meets both; a time is that of the thread or, where threads are made, of the process.
A ratio is now over before: of the least of all turns, which other work touches least, and of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]
WORKER = r"""
import json, os, sys, time
root, word, out = sys.argv[1], sys.argv[2], os.dup(1)
os.dup2(2, 1)
sys.path[:0] = [root + "/benchmarks", root]
import numpy as np
import batch, chain_cost, compile_time, sides
from cases import CASES, chain_case

def stepping(case):
    return sides.native_side(case)[0].call

def together(many):
    side = sides.batch_sides(many.case, *many.starts(batch.LANES), 100, {"one": 1})["one"]
    def call():
        side.call()
    return side.reset, call

def newton(steps):
    from benchmarks.boundary import race
    return race.ours(steps, 1e-8)[0]

def splines(steps, number=1000):
    from benchmarks.boundary import sphere
    from benchmarks.boundary.race import PROBLEM, da
    random, points = np.random.default_rng(0), {}
    for i, q in enumerate(sphere.POINTS[1:-1]):
        moved = q + 0.1 * random.standard_normal((number, 3))
        points[round((i + 1) * steps / 6) / steps] = moved / np.linalg.norm(moved, axis=1)[:, None]
    ends = {"initial": (np.tile(sphere.POINTS[0], (number, 1)), np.tile(sphere.START_VELOCITY, (number, 1))),
            "final": (np.tile(sphere.POINTS[-1], (number, 1)), np.tile(sphere.END_VELOCITY, (number, 1)))}
    return lambda: da.solve_batch(PROBLEM, **ends, through=points, T=1.0, steps=steps, threads=1)

def work():
    for name, case in CASES.items():
        yield "one trajectory: " + name, time.thread_time, lambda case=case: (None, stepping(case))
    for name, many in batch.MANY.items():
        yield "lanes: " + name, time.thread_time, lambda many=many: together(many)
    for n in chain_cost.SIZES:
        if n not in (8, 20):
            yield f"chain: n = {n}", time.thread_time, lambda n=n: (None, stepping(chain_case(n)))
    for steps in (1000, 10000):
        yield f"boundary Newton: N = {steps}", time.thread_time, lambda steps=steps: (None, newton(steps))
    for steps in (200, 1000):
        yield f"boundary, 1000 splines: N = {steps}", time.process_time, lambda steps=steps: (None, splines(steps))
    for name, case in CASES.items():
        yield "to machine code: " + name, None, lambda case=case: (None, lambda: compile_time.times(case)[0])

found = {name: (clock, make) for name, clock, make in work() if word in name}
def say(x):
    os.write(out, (json.dumps(x) + "\n").encode())
say([*found])
ready = {}
for line in sys.stdin:
    name = line.strip()
    clock, make = found[name]
    if name not in ready:
        ready.clear()
        ready[name] = make()
    reset, call = ready[name]
    if reset:
        reset()
    if clock is None:
        time.perf_counter = time.process_time
        say(call())
    else:
        begin = clock()
        call()
        say(clock() - begin)
"""


class Version:
    """The process of a version, asked by name for the seconds of one turn."""

    def __init__(self, root: Path, word: str):
        environment = os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
        self._process: Any = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(root), word],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.names: list[str] = self._answer()

    def _answer(self) -> Any:
        return json.loads(self._process.stdout.readline())

    def turn(self, name: str) -> float:
        """Seconds; the first turn also prepares."""
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def taken(pair: list[Version], name: str, turns: int) -> np.ndarray:
    """(turns, 2) seconds; who begins alternates."""
    for version in pair:
        version.turn(name)
    return np.array(
        [[v.turn(name) for v in pair] if k % 2 else [v.turn(name) for v in pair[::-1]][::-1] for k in range(turns)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="the checkout of the other version")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", default="", help="a word in the names of what is timed")
    options = parser.parse_args()
    pair = [Version(root.resolve(), options.only) for root in (HERE, options.before)]
    print("| now / before | best | medians | quartiles of the turns |\n|---|---|---|---|")
    for name in pair[0].names:
        times = taken(pair, name, options.turns)
        best, middle = times.min(axis=0), np.median(times, axis=0)
        low, high = np.quantile(times[:, 0] / times[:, 1], (0.25, 0.75))
        print(f"| {name} | {best[0] / best[1]:.3f} | {middle[0] / middle[1]:.3f} | {low:.3f}–{high:.3f} |", flush=True)
    for version in pair:
        version.close()


if __name__ == "__main__":
    main()
