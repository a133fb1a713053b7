"""The reference solution of a problem, and by how much two independent ones differ."""

from __future__ import annotations

import numpy as np
from benchmarks.peers.packages.scipy_ode import functions
from benchmarks.peers.problems import Problem
from scipy.integrate import solve_ivp

import dalembert as da

STEPS = 20_000  # far below the step that the tolerance asks for, so that only rounding is left


def reference(problem: Problem, extension) -> tuple[np.ndarray, float]:
    """Positions (100, n) at the samples; largest distance between two solutions.

    The first is DOP853 on the equation reduced by hand. The second is the closed form where there is one, else Dormand and
    Prince 8(7) of diffrax on the equations that the library derives by itself.
    """
    slope, _ = functions(problem, extension)
    first = solve_ivp(
        slope, (0.0, problem.time), problem.y0, method="DOP853", rtol=3e-14, atol=1e-15, t_eval=problem.times,
        max_step=problem.time / STEPS,
    )  # fmt: skip
    q = problem.positions(first.y.T)
    if problem.exact is not None:
        other = problem.exact(problem.times)
    else:
        other = np.asarray(da.reference(problem.system, problem.q0, problem.v0, problem.times, tolerance=1e-14).q)
    return q[1:], float(np.max(np.linalg.norm(q - other, axis=1)))
