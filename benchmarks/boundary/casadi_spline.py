"""CasADi's solvers on the spline on the sphere (`sphere.py`): time, iterations and error from one guess.

    python -m benchmarks.boundary.casadi_spline [--steps 100 1000 10000] [--choices] [--repeats 9]   from the root

Exact Hessians by CasADi, given nodes as numbers, no output. `hessian_constant` and `jac_c_constant` are not set: with
quadratic constraints they would be false; `mu_strategy` has nothing to do without inequalities. Of IPOPT's linear solvers
CasADi's wheel has MUMPS and SPRAL. A time is that of a call of the solver with its guess, on one thread, without building;
"first use" is building and first call. The error is the largest distance of a node from the solution of `spline_newton.py`
in long double. --choices: all forms, linear solvers and options that were tried, not only the best. SX compiled by gcc is
not among them: at N = 1000 gcc takes minutes, and the functions are a tenth of the time.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before CasADi loads MUMPS and its BLAS
os.environ.setdefault("OMP_CANCELLATION", "TRUE")  # SPRAL does not run without

import casadi
import numpy as np
from benchmarks.boundary import sphere
from benchmarks.boundary.spline_forms import Form, mapped, nodes, states
from benchmarks.boundary.spline_newton import sparse, start
from benchmarks.peers.measure import Method, Result, measure
from benchmarks.scratch import scratch

TOLERANCES = (1e-8, 1e-10)
COLUMNS = (
    "solver", "tolerance", "ms", "iterations", "ms / iteration", "in callbacks", "first use, s", "error of q", "of |q|²",
    "objective",
)  # fmt: skip
GCC = {"jit": True, "compiler": "shell", "jit_options": {"compiler": "gcc", "flags": ["-O1", "-march=native"]}}
BEST = {"nlp_scaling_method": "none", "fast_step_computation": "yes"}


@dataclasses.dataclass(frozen=True)
class Choice:
    """A form of the problem, a solver, its options, CasADi's; most: not built for more steps."""

    name: str
    form: Callable[[int], Form]
    solver: str = "ipopt"
    options: dict = dataclasses.field(default_factory=dict)
    function: dict = dataclasses.field(default_factory=dict)
    most: int = 10**9


@dataclasses.dataclass
class Note:
    """What a solver says of its run: iterations, the objective, and the seconds in f, g and their derivatives."""

    iterations: int
    objective: float
    callbacks: float


BESTS = (
    Choice("IPOPT, as shipped", partial(nodes, symbols=casadi.SX, scaled=False)),
    Choice("IPOPT, best", nodes, options=BEST),
    Choice("fatrop", states, "fatrop", most=1000),  # CasADi needs minutes to build 10000 stages
)
OTHERS = (
    Choice("IPOPT, scaled by h³", nodes),
    Choice("IPOPT, and without its own scaling", nodes, options={"nlp_scaling_method": "none"}),
    Choice("IPOPT, best, SX", partial(nodes, symbols=casadi.SX), options=BEST),
    Choice("IPOPT, best, mapped functions", mapped, options=BEST),
    Choice("IPOPT, best, functions by gcc", nodes, options=BEST, function=GCC),
    Choice("IPOPT, best, mapped functions by gcc", mapped, options=BEST, function=GCC),
    Choice("IPOPT, best, MUMPS scales by the diagonal", nodes, options={**BEST, "mumps_scaling": 1}),
    Choice("IPOPT, best, MUMPS does not permute", nodes, options={**BEST, "mumps_permuting_scaling": 0}),
    Choice("IPOPT, best, ordering by METIS", nodes, options={**BEST, "mumps_pivot_order": 5}),
    Choice("IPOPT, best, multipliers from 0", nodes, options={**BEST, "constr_mult_init_max": 0}),
    Choice("IPOPT, best, as optimal control", states, options=BEST),
    Choice("IPOPT, best, SPRAL", nodes, options={**BEST, "linear_solver": "spral"}),
)


def solver(choice: Choice, form: Form, tolerance: float) -> casadi.Function:
    quiet = {"sb": "yes"} if choice.solver == "ipopt" else {}
    structure = form.structure if choice.solver == "fatrop" else {}
    options = {choice.solver: {"print_level": 0, "tol": tolerance, **quiet, **choice.options}, "print_time": False}
    return casadi.nlpsol(
        "solve", choice.solver, form.nlp, {**options, **structure, **choice.function, "error_on_fail": True}
    )


def prepare(choice: Choice, steps: int, notes: dict, tolerance: float):
    """A call of the solver, and the path of its result, which leaves a note of the run."""
    form = choice.form(steps)
    solve = solver(choice, form, tolerance)

    def path(result) -> np.ndarray:
        said = solve.stats()
        callbacks = sum(value for name, value in said.items() if name.startswith("t_proc_nlp"))
        notes[choice.name, tolerance] = Note(said["iter_count"], float(result["f"]) / form.factor, callbacks)
        return form.path(np.array(result["x"]).ravel())

    return partial(solve, x0=form.guess, lbg=0.0, ubg=0.0), path


def methods(steps: int, choices: tuple[Choice, ...], notes: dict) -> list[Method]:
    return [
        Method(choice.name, choice.solver, TOLERANCES, partial(prepare, choice, steps, notes))
        for choice in choices
        if steps <= choice.most
    ]


def violation(path: np.ndarray) -> float:
    return float(np.max(np.abs(np.sum(path**2, axis=1) - 1)))


def print_table(steps: int, results: list[Result], notes: dict) -> None:
    print(f"\nN = {steps}\n\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for result in results:
        for k, tolerance in enumerate(result.settings):
            note, taken = notes[result.method.name, tolerance], 1e3 * result.times[k]
            cells = [
                result.method.name, f"{tolerance:.0e}", f"{taken:.2f}", str(note.iterations),
                f"{taken / note.iterations:.2f}", f"{1e3 * note.callbacks / taken:.0%}",
                f"{result.first_use:.2f}" if k == 0 else "", f"{result.errors[k]:.1e}", f"{result.drifts[k]:.1e}",
                f"{note.objective:.11g}",
            ]  # fmt: skip
            print(f"| {' | '.join(cells)} |")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--steps", type=int, nargs="*", default=[100, 1000, 10000])
    arguments.add_argument("--choices", action="store_true", help="everything that was tried")
    arguments.add_argument("--repeats", type=int, default=9)
    chosen = arguments.parse_args()
    for steps in chosen.steps:
        notes: dict = {}
        truth = sparse(*start(steps)).path.astype(float)
        tried = BESTS + OTHERS if chosen.choices else BESTS
        with scratch():
            results = measure(methods(steps, tried, notes), truth, violation, chosen.repeats, slowest=60.0)
        print(f"\nobjective of the solution by Newton's method: {sphere.objective(truth):.12g}")
        print_table(steps, results, notes)


if __name__ == "__main__":
    main()
