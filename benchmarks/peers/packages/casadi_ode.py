"""CasADi's integrators on SX expressions, compiled by gcc: CVODES, IDAS on the DAE, Runge-Kutta 4 and collocation.

Of the choices that were tried these are the fastest: Adams with functional iteration for CVODES, simplify for "rk", and
fast_newton for collocation.
"""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import Problem, step_counts

TOLERANCES = tuple(10.0**-k for k in range(2, 13))
ADAMS = {"linear_multistep_method": "adams", "nonlinear_solver_iteration": "functional"}
COLLOCATION = {"interpolation_order": 4, "rootfinder": "fast_newton"}


def methods(problem: Problem, extension) -> list[Method]:
    import casadi

    few, many = 100, problem.steps[-1]  # at least one element between two samples
    table = {
        "CasADi cvodes Adams": ("cvodes", TOLERANCES, ADAMS),
        "CasADi cvodes BDF": ("cvodes", TOLERANCES, {}),
        "CasADi idas": ("idas", TOLERANCES, {}),
        "CasADi rk": ("rk", step_counts(few, many // 10, 2), {"simplify": True}),
        "CasADi collocation": ("collocation", step_counts(few, many // 1000, 3), COLLOCATION),
    }
    return [
        Method(name, "CasADi", settings, partial(prepare, problem, casadi, plugin, options))
        for name, (plugin, settings, options) in table.items()
    ]


def equations(problem: Problem, casadi, algebraic: bool) -> dict:
    start = problem.x0 if algebraic else problem.y0
    x = casadi.SX.sym("x", len(start))
    if not algebraic:
        return {"x": x, "ode": casadi.vertcat(*problem.formulas.slope(casadi.vertsplit(x), casadi))}
    z = casadi.SX.sym("z", problem.multipliers)
    pieces = casadi.vertsplit(x), casadi.vertsplit(z), casadi
    ode, constraint = problem.formulas.differential(*pieces), problem.formulas.acceleration(*pieces)
    return {"x": x, "z": z, "ode": casadi.vertcat(*ode), "alg": casadi.vertcat(*constraint)}


def prepare(problem: Problem, casadi, plugin: str, options: dict, setting: float):
    algebraic = plugin == "idas"
    chosen = dict(options)
    if plugin in ("rk", "collocation"):
        chosen["number_of_finite_elements"] = int(setting)
    else:
        chosen.update(
            abstol=setting,
            reltol=setting,
            max_num_steps=10_000_000 // problem.samples,
            disable_internal_warnings=True,
            show_eval_warnings=False,
        )
    if shutil.which("gcc"):
        chosen.update(jit=True, compiler="shell", jit_options={"compiler": "gcc", "flags": ["-O3", "-march=native"]})
    run = casadi.integrator("run", plugin, equations(problem, casadi, algebraic), 0.0, list(problem.times[1:]), chosen)
    given = {"x0": problem.x0, "z0": problem.z0} if algebraic else {"x0": problem.y0}

    def positions(result) -> np.ndarray:
        x = np.array(result["xf"]).T
        if algebraic:
            return x[:, : len(problem.q0)] if problem.constraint is None else x
        return problem.positions(x)

    return partial(run, **given), positions
