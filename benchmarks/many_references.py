"""Many integrations of the continuous equation: `da.references` beside heyoka's batch mode and diffrax under vmap.

    python -m benchmarks.many_references

The others have the equation reduced by hand. Each of the runs has its own initial speed; positions and velocities at the end
alone. One thread and its own time, for each run the least of several turns, with the median error of the runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import heyoka
import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.peers.packages.diffrax_ode import solve
from benchmarks.peers.problems import Problem, problems

import dalembert as da

RUNS, TURNS, TOLERANCES = 256, 5, (1e-4, 1e-7, 1e-10, 1e-12)
NAMES = ("curvature", "nonholonomic")  # whose reduced velocities are the first of v


def starts(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Reduced states and velocities, each run faster than the one before."""
    factors, n = np.linspace(0.8, 1.2, RUNS)[:, None], len(problem.q0)
    y = np.repeat(np.array(problem.y0, float)[None], RUNS, axis=0)
    y[:, n:] *= factors
    return y, np.asarray(problem.v0) * factors


def by_heyoka(problem: Problem, y: np.ndarray, tolerance: float) -> Callable[[], np.ndarray]:
    names = [f"x{i}" for i in range(y.shape[1])]
    slope = problem.formulas.slope(list(heyoka.make_vars(*names)), heyoka)
    equations, width = list(zip(heyoka.make_vars(*names), slope, strict=True)), heyoka.recommended_simd_size()
    run = heyoka.taylor_adaptive_batch(equations, np.ascontiguousarray(y[:width].T), tol=tolerance)

    def call() -> np.ndarray:
        ends = np.empty_like(y)
        for i in range(0, len(y), width):
            run.set_time(np.zeros(width))
            run.state[:] = y[i : i + width].T
            run.propagate_until(np.full(width, problem.time))
            ends[i : i + width] = run.state.T
        return ends

    return call


def by_diffrax(problem: Problem, y: np.ndarray, tolerance: float) -> Callable[[], np.ndarray]:
    import diffrax

    run, given = jax.jit(jax.vmap(partial(solve, problem, diffrax.Dopri8()), in_axes=(0, None))), jnp.asarray(y)
    return lambda: np.asarray(run(given, jnp.asarray(tolerance)))[:, -1]


def by_references(problem: Problem, v: np.ndarray, size: int, tolerance: float, threads: int) -> Callable[[], np.ndarray]:
    times = jnp.array([0.0, problem.time])

    def call() -> np.ndarray:
        found = da.references(problem.system, problem.q0, v, times, tolerance=tolerance, threads=threads)
        return np.concatenate([np.asarray(found.q)[:, -1], np.asarray(found.v)[:, -1]], axis=1)[:, :size]

    return call


def least(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Seconds of processor time, in all threads: XLA has some of its own."""
    ends, taken = call(), []
    for _ in range(TURNS):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return min(taken), ends


def main() -> None:
    for problem in (p for p in problems() if p.name in NAMES):
        y, v = starts(problem)
        truth = by_heyoka(problem, y, 1e-16)()
        print(f"{problem.name}: µs a run (median error)")
        for tolerance in TOLERANCES:
            sides = {
                "references": by_references(problem, v, y.shape[1], tolerance, 1),
                "heyoka, batch": by_heyoka(problem, y, tolerance),
                "diffrax, vmap": by_diffrax(problem, y, tolerance),
            }
            row = []
            for name, call in sides.items():
                seconds, ends = least(call)
                row.append(f"{name} {1e6 * seconds / RUNS:.3g} ({np.median(np.abs(ends - truth).max(axis=1)):.1e})")
            print(f"  {tolerance:g}: " + "; ".join(row), flush=True)


if __name__ == "__main__":
    main()
