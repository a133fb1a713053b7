"""SciPy's solve_ivp on the reduced equation: DOP853, and Radau with the exact Jacobian."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import Problem
from scipy.integrate import solve_ivp

TOLERANCES = tuple(10.0**-k for k in range(2, 14))
METHODS = {"SciPy DOP853": ("DOP853", TOLERANCES), "SciPy Radau": ("Radau", TOLERANCES[:-1])}


def methods(problem: Problem, extension) -> list[Method]:
    return [
        Method(name, "SciPy", tolerances, partial(prepare, problem, extension, solver))
        for name, (solver, tolerances) in METHODS.items()
    ]


def functions(problem: Problem, extension):
    """ẏ and its Jacobian from machine code; without gcc ẏ in Python's own floats, faster than NumPy for few components."""
    n = len(problem.y0)
    if extension is None:
        return (lambda t, y: problem.formulas.slope(y.tolist(), math)), None

    def slope(t, y):
        out = np.empty(n)  # the solver keeps it
        extension.rhs(t, y, out)
        return out

    def jacobian(t, y):
        out = np.empty((n, n))
        extension.rhs_jacobian(t, y, y, out)
        return out

    return slope, jacobian


def prepare(problem: Problem, extension, solver: str, tolerance: float):
    slope, jacobian = functions(problem, extension)
    options = {"jac": jacobian} if solver == "Radau" and jacobian else {}
    call = partial(
        solve_ivp, slope, (0.0, problem.time), problem.y0, method=solver, t_eval=problem.times,
        rtol=max(tolerance, 3e-14), atol=tolerance, **options,
    )  # fmt: skip
    return call, lambda result: problem.positions(result.y.T)[1:]
