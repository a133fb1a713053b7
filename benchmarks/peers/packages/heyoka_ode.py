"""heyoka: Taylor series of an order that follows from the tolerance, made by LLVM for each equation and tolerance.

Without compact mode, which compiles faster and runs slower. The first use is that of the coarsest tolerance: every other
one is compiled anew, and the finer it is the longer that takes.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import Problem

TOLERANCES = tuple(10.0**-k for k in range(3, 16))
FULL = "heyoka in (q, v)"
FULL_TOLERANCES = TOLERANCES[::3]  # half a minute to compile with the car's multipliers


def methods(problem: Problem, extension) -> list[Method]:
    import heyoka

    found = [Method("heyoka", "heyoka", TOLERANCES, partial(prepare, problem, heyoka, False))]
    if problem.constraint is not None:
        found.append(Method(FULL, "heyoka", FULL_TOLERANCES, partial(prepare, problem, heyoka, True)))
    return found


def prepare(problem: Problem, heyoka, full: bool, tolerance: float):
    """The reduced equation, or that of (q, v)."""
    start = problem.x0 if full else problem.y0
    names = [f"x{i}" for i in range(len(start))]
    slope = (problem.formulas.full if full else problem.formulas.slope)(list(heyoka.make_vars(*names)), heyoka)
    equations = list(zip(heyoka.make_vars(*names), slope, strict=True))
    run = heyoka.taylor_adaptive(equations, np.array(start, float), tol=tolerance)

    def call() -> np.ndarray:
        run.time = 0.0
        run.state[:] = start
        if problem.samples > 1:
            return run.propagate_grid(problem.times)[-1][1:]
        run.propagate_until(problem.time)
        return run.state[None].copy()

    return call, (lambda rows: rows) if full else problem.positions
