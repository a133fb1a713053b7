"""dalembert's boundary problems against IPOPT on the spline on the sphere, and against themselves.

    python -m benchmarks.boundary.race [--repeats 9]   from the root, with casadi installed

1. Newton's method from the same guess to the same tolerance on the same transcription, N = 1000: IPOPT with the options that
   were found best (casadi_spline.py), turns taken, medians, one thread, without building on either side.
2. Time per node and iteration from N = 10³ to 10⁵.
3. 1000 splines with points of their own at N = 200: time of each against the factorizations alone that it needs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.boundary import sphere

import dalembert as da
from dalembert.algebra import BandedLU
from dalembert.boundary import (
    BoundaryNewton,
    LinearSolver,
    Request,
    Settings,
    TimeGrid,
    Transcription,
    first_values,
    prepare_problem,
    transcribe,
)

PROBLEM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Holonomic(lambda q: q @ q - 1.0), derivatives=2)


def transcribed(steps: int) -> tuple[Transcription, np.ndarray]:
    """The KKT system of the spline and its first path."""
    indices, given = sphere.fixed_nodes(steps)
    guess = sphere.spline_guess(sphere.POINTS, steps)
    guess[indices] = given
    t = np.linspace(0.0, sphere.T, steps + 1)
    inner = {float(t[i]): q for i, q in zip(indices[2:-2], given[2:-2], strict=True)}
    ends = (da.Nodes(given[:2]), da.Nodes(given[-2:]))
    base = prepare_problem(PROBLEM, [Request(*ends, inner, guess)], TimeGrid(sphere.T, steps), None)
    made = transcribe(base.unknowns, base.values[0], base.typical_sizes(base.extents[0]))
    return made, first_values(made, base.values)[0]


def ours(steps: int, tolerance: float) -> tuple[Callable[[], object], Transcription, np.ndarray]:
    """A call of the iteration alone."""
    made, z = transcribed(steps)
    newton = BoundaryNewton(made.kkt, LinearSolver(made.kkt, z), Settings(tolerance))
    return lambda: newton.minimise(z), made, z


def seconds(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Medians of CPU seconds of this thread, the calls taking turns."""
    found = [[] for _ in calls]
    for _ in range(repeats):
        for times, call in zip(found, calls, strict=True):
            begin = time.thread_time()
            call()
            times.append(time.thread_time() - begin)
    return [float(np.median(times)) for times in found]


def against_ipopt(repeats: int, steps: int = 1000) -> None:
    from benchmarks.boundary import casadi_spline

    for tolerance in (1e-8, 1e-10):
        call, _, _ = ours(steps, tolerance)
        peer, path = casadi_spline.prepare(casadi_spline.BESTS[1], steps, {}, tolerance)
        mine, theirs = seconds([call, peer], repeats)
        it = call()
        apart = np.max(np.abs(it.z[:, :3] - path(peer())))
        print(
            f"N = {steps}, tolerance {tolerance:g}: {it.iterations} iterations; IPOPT takes "
            f"{theirs / mine:.2f} times as long; the solutions are {apart:.1e} apart"
        )


def per_node(repeats: int) -> None:
    base = 1.0
    for steps in (1_000, 10_000, 100_000):
        call, _, _ = ours(steps, 1e-8)
        it = call()
        mine = seconds([call], repeats)[0] / steps / it.iterations
        base = mine if steps == 1_000 else base
        print(
            f"N = {steps}: {it.iterations} iterations, time per node and iteration {mine / base:.2f} of that at N = 1000, "
            f"update {it.update:.1e}"
        )


def batch(steps: int, number: int = 1000) -> None:
    """Also where the points of every spline are its own. The factorizations are LAPACK's, of the same matrices."""
    random = np.random.default_rng(0)
    points = {}
    for i, q in enumerate(sphere.POINTS[1:-1]):
        moved = q + 0.1 * random.standard_normal((number, 3))
        points[round((i + 1) * steps / 6) / steps] = moved / np.linalg.norm(moved, axis=1)[:, None]
    ends = {
        "initial": (np.tile(sphere.POINTS[0], (number, 1)), np.tile(sphere.START_VELOCITY, (number, 1))),
        "final": (np.tile(sphere.POINTS[-1], (number, 1)), np.tile(sphere.END_VELOCITY, (number, 1))),
    }

    def solve():
        return da.solve_batch(PROBLEM, **ends, through=points, T=1.0, steps=steps, solver=da.Solver(threads=1))

    solve()  # compiles
    begin = time.process_time()
    found = solve()
    each = (time.process_time() - begin) / number
    factorizations = np.mean([int(s.statistics.factorizations) for s in found])
    made, z = transcribed(steps)
    matrices = [made.kkt.matrix(z) for _ in range(50)]
    begin = time.process_time()
    for matrix in matrices:
        BandedLU(matrix)
    factor = (time.process_time() - begin) / len(matrices)
    solved = sum(s.outcome is da.Outcome.SUCCESS for s in found)
    print(
        f"{number} splines, N = {steps}: {solved} solved, {factorizations:.1f} factorizations each; the whole takes "
        f"{each / (factorizations * factor):.2f} times LAPACK's alone"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    against_ipopt(repeats)
    per_node(max(3, repeats // 3))
    for steps in (200, 1000):
        batch(steps)


if __name__ == "__main__":
    main()
