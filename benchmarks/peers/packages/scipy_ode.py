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
FULL = "SciPy DOP853 in (q, v)"


def methods(problem: Problem, extension) -> list[Method]:
    found = [
        Method(name, "SciPy", tolerances, partial(prepare, problem, extension, solver))
        for name, (solver, tolerances) in METHODS.items()
        if problem.constraint is None or solver != "Radau"  # it has no chance there
    ]
    if problem.constraint is not None and extension is not None:
        found.append(Method(FULL, "SciPy", TOLERANCES, partial(prepare_full, problem, extension)))
    return found


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


def prepare_full(problem: Problem, extension, tolerance: float):
    """The equation of (q, v)."""

    def slope(t, x):
        out = np.empty(len(problem.x0))
        extension.full(t, x, out)
        return out

    call = partial(
        solve_ivp, slope, (0.0, problem.time), problem.x0, method="DOP853", rtol=max(tolerance, 3e-14), atol=tolerance
    )
    return call, lambda result: result.y.T[-1:]


def prepare(problem: Problem, extension, solver: str, tolerance: float):
    slope, jacobian = functions(problem, extension)
    options = {"jac": jacobian} if solver == "Radau" and jacobian else {}
    times = problem.times if problem.samples > 1 else None  # dense output is not free
    call = partial(
        solve_ivp, slope, (0.0, problem.time), problem.y0, method=solver, t_eval=times, rtol=max(tolerance, 3e-14),
        atol=tolerance, **options,
    )  # fmt: skip
    return call, lambda result: problem.positions(result.y.T[-problem.samples :])
