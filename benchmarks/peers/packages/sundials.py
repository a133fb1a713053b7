"""SUNDIALS by scikit-sundae: CVODE on the reduced equation, IDA on the DAE.

It calls Python functions only; those of the extension module cost little more than the call, with exact Jacobians.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import Problem

TOLERANCES = tuple(10.0**-k for k in range(2, 13))
MOST_STEPS = 2_000_000  # in all
IGNORED = 1e6  # the multipliers stay out of the error test, which index 2 does not pass with them


def methods(problem: Problem, extension) -> list[Method]:
    from sksundae.cvode import CVODE
    from sksundae.ida import IDA

    if extension is None:
        raise ImportError("gcc")
    found = [
        Method(f"CVODE {kind}", "SUNDIALS", TOLERANCES, partial(prepare_ode, problem, extension, CVODE, kind))
        for kind in ("Adams", "BDF")
    ]
    indices = [1] if problem.formulas.velocity is None else [1, 2]
    for index in indices:
        tolerances = TOLERANCES if index == 1 else TOLERANCES[:-2]
        found.append(
            Method(f"IDA index {index}", "SUNDIALS", tolerances, partial(prepare_dae, problem, extension, IDA, index))
        )
    return found


def times(problem: Problem) -> np.ndarray:
    """Between two times alone every step would be stored, which takes longer."""
    return problem.times if problem.samples > 1 else np.array([0.0, 0.5, 1.0]) * problem.time


def prepare_ode(problem: Problem, extension, solver, kind: str, tolerance: float):
    ode = solver(
        extension.rhs,
        jacfn=extension.rhs_jacobian,
        method=kind,
        rtol=tolerance,
        atol=tolerance,
        max_num_steps=MOST_STEPS // problem.samples,
    )
    return partial(ode.solve, times(problem), problem.y0), lambda result: problem.positions(result.y[-problem.samples :])


def prepare_dae(problem: Problem, extension, solver, index: int, tolerance: float):
    size, n = len(problem.x0), len(problem.q0)
    y0 = np.concatenate([problem.x0, problem.z0])
    slope = problem.formulas.differential(list(problem.x0), list(problem.z0), math)
    d0 = np.concatenate([slope, np.zeros(problem.multipliers)])
    algebraic = np.arange(size, len(y0))
    absolute = np.full(len(y0), tolerance)
    absolute[size:] *= IGNORED
    dae = solver(
        getattr(extension, f"index{index}"), jacfn=getattr(extension, f"index{index}_jacobian"), rtol=tolerance,
        atol=absolute, algebraic_idx=algebraic, max_num_steps=MOST_STEPS // problem.samples,
    )  # fmt: skip
    kept = n if problem.constraint is None else 2 * n
    return partial(dae.solve, times(problem), y0, d0), lambda result: result.y[-problem.samples :, :kept]
