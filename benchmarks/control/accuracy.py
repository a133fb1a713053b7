"""Time against the error of the cost: dalembert's orders 2 and 4 and their limits, IPOPT on Hermite-Simpson collocation.

    python -m benchmarks.control.accuracy [--repeats 7] [--errors 1e-4 1e-6 1e-8]   with casadi installed

The swing-up without bounds, whose cost is known to 1e-11. Every way takes the coarsest mesh of a list with that error, the
solver's tolerance being 1e-10; of a limit of two meshes both solutions are timed. Processor time of the search alone, one
thread, taking turns.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.control import casadi_swing_up as peers
from benchmarks.control.race import Solved, ours, prepared

import dalembert as da
from dalembert.boundary import Termination

COST = 58.807667458167
TOLERANCE = 1e-10
LONG = 100  # steps: those that a chain of two meshes begins with, as there is machine code of the filter from there on
MESHES = [20, 28, 40, 56, 80, 112, 160, 224, 320, 452, 640, 904, 1280, 1808, 2560]


def fourth(steps: int):
    return [ours(steps, None, TOLERANCE, da.Lobatto())], lambda found: found[0]


def second_limit(steps: int):
    return [ours(n, None, TOLERANCE) for n in (steps, 2 * steps)], lambda found: (4 * found[1] - found[0]) / 3


def nested_limit(steps: int):
    """The finer mesh from the straight line, the coarser from every second node of it, as `da.refine` does."""
    fine, coarse = (prepared(n, None, TOLERANCE) for n in (2 * steps, steps))
    state, controls, adjoints = (coarse.start.data.layout.part(x) for x in ("state", "controls", "adjoints"))

    def run() -> Solved:
        known, _ = fine.search(fine.start.z, fine.sizes, None)
        z = np.zeros_like(coarse.start.z)
        z[1:-1, state], z[1:-1, controls] = known.z[1:-1:2, state], known.z[1:-1:2, controls]
        z[[0, -1], state], z[2:, adjoints] = known.z[[0, -1], state], known.z[2::2, adjoints]
        other, _ = coarse.search(z, coarse.sizes, None)
        solved = all(it.end is Termination.CONVERGED for it in (known, other))
        return (4 * known.at.objective - other.at.objective) / 3, known.iterations + other.iterations, solved

    return [run], lambda found: found[0]


def fourth_limit(steps: int):
    several = [ours(n, None, TOLERANCE, da.Lobatto()) for n in (steps, 2 * steps)]
    return several, lambda found: (16 * found[1] - found[0]) / 15


def collocation(steps: int):
    return [peers.hermite_simpson(steps // 2, None, TOLERANCE)], lambda found: found[0]


WAYS = {
    "Hermite-Simpson, IPOPT": collocation, "order 4": fourth, "order 2, limit of N and 2N": second_limit,
    "order 2, limit, N from 2N": nested_limit,
    "order 4, limit of N and 2N": fourth_limit,
}  # fmt: skip


def coarsest(way: Callable, errors: Sequence[float]) -> dict[float, tuple[int, list, float]]:
    """For every error the first mesh that has it: (steps, its searches, its error)."""
    found = {}
    for steps in [n for n in MESHES if n >= LONG] if way is nested_limit else MESHES:
        searches, limit = way(steps)
        ends = [search() for search in searches]
        off = abs(limit([cost for cost, *_ in ends]) - COST) if all(solved for *_, solved in ends) else np.inf
        found |= {error: (steps, searches, off) for error in errors if off <= error and error not in found}
        if len(found) == len(errors):
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--errors", type=float, nargs="+", default=[1e-4, 1e-6, 1e-8])
    given = parser.parse_args()
    meshes = {name: coarsest(way, given.errors) for name, way in WAYS.items()}
    for error in given.errors:
        taken = {name: [] for name, found in meshes.items() if error in found}
        for _ in range(given.repeats):
            for name, times in taken.items():
                begin = time.thread_time()
                for search in meshes[name][error][1]:
                    search()
                times.append(time.thread_time() - begin)
        base = np.median(taken["Hermite-Simpson, IPOPT"]) if "Hermite-Simpson, IPOPT" in taken else np.nan
        for name, times in taken.items():
            steps, _, off = meshes[name][error]
            own = np.median(times)
            print(f"| {error:.0e} | {name} | {steps} | {off:.1e} | {1e3 * own:.2f} ms | {base / own:.1f} |", flush=True)


if __name__ == "__main__":
    main()
