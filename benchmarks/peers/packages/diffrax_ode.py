"""diffrax on the reduced equation, one jitted function for all tolerances; only the forward solve is compiled.

The default adjoint is the fastest of those that diffrax has for a forward solve, and one array is faster than a tuple of
scalars. XLA runs the loop as one compiled function with the flag that __main__ sets, ten times faster than without it.
"""

from __future__ import annotations

from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.measure import Method
from benchmarks.peers.problems import Problem

SOLVERS = {"diffrax Tsit5": (diffrax.Tsit5, range(2, 13)), "diffrax Dopri8": (diffrax.Dopri8, range(2, 15))}


def methods(problem: Problem, extension) -> list[Method]:
    found = []
    for name, (solver, digits) in SOLVERS.items():
        run = jax.jit(partial(solve, problem, solver()))
        found.append(Method(name, "diffrax", tuple(10.0**-k for k in digits), partial(prepare, problem, run)))
    return found


def solve(problem: Problem, solver: diffrax.AbstractSolver, y0, tolerance):
    term = diffrax.ODETerm(lambda t, y, args: jnp.stack(problem.formulas.slope([y[i] for i in range(y.shape[0])], jnp)))
    solution = diffrax.diffeqsolve(
        term, solver, 0.0, problem.time, None, y0, saveat=diffrax.SaveAt(ts=jnp.asarray(problem.times)),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance), max_steps=1_000_000, throw=False,
    )  # fmt: skip
    return solution.ys


def prepare(problem: Problem, run, tolerance: float):
    y0, given = jnp.asarray(problem.y0), jnp.asarray(tolerance)
    return lambda: run(y0, given).block_until_ready(), lambda ys: problem.positions(np.asarray(ys))[1:]
