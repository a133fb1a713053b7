"""diffrax on the reduced equation, one jitted function for all tolerances; only the forward solve is compiled.

The default adjoint is the fastest of those that diffrax has for a forward solve, and one array is faster than a tuple of
scalars. With the flag that __main__ sets XLA compiles the loop into one function. Flags belong to a process, so that the
same without it, which is what a user gets who does not know it, runs in another process.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import Problem, problems

CONSTANT = {"diffrax Tsit5, constant steps": diffrax.Tsit5, "diffrax Dopri8, constant steps": diffrax.Dopri8}
FULL = "diffrax Dopri8 in (q, v)"
SOLVERS = {"diffrax Tsit5": (diffrax.Tsit5, range(2, 13)), "diffrax Dopri8": (diffrax.Dopri8, range(2, 15))}


def methods(problem: Problem, extension) -> list[Method]:
    found = []
    for name, (solver, digits) in SOLVERS.items():
        run = jax.jit(partial(solve, problem, solver()))
        found.append(Method(name, "diffrax", tuple(10.0**-k for k in digits), partial(prepare, problem, run)))
    if problem.constraint is not None:
        found += methods_of_rolling(problem)
    for name, (_, digits) in SOLVERS.items():
        other = Elsewhere(problem.name, name)
        found.append(Method(f"{name}, no flag", "diffrax", tuple(10.0**-k for k in digits), partial(remote, problem, other)))
    return found


def methods_of_rolling(problem: Problem) -> list[Method]:
    """Constant steps, which save the step control on an even motion, and the equation of (q, v)."""
    found = []
    for name, solver in CONSTANT.items():
        run = jax.jit(lambda y0, h, solver=solver: solve(problem, solver(), y0, 1.0, diffrax.ConstantStepSize(), h))
        steps = tuple(problem.time * 10 / n for n in problem.steps if n <= 1000 * problem.time)
        found.append(Method(name, "diffrax", steps, partial(prepare, problem, run)))
    term = lambda t, x, args: jnp.stack(problem.formulas.full([x[i] for i in range(x.shape[0])], jnp))  # noqa: E731
    run = jax.jit(partial(solve, problem, diffrax.Dopri8(), term=term))

    def prepare_full(tolerance: float):
        x0, given = jnp.asarray(problem.x0), jnp.asarray(tolerance)
        return lambda: run(x0, given).block_until_ready(), lambda xs: np.asarray(xs)[-1:]

    return [*found, Method(FULL, "diffrax", tuple(10.0**-k for k in range(2, 15)), prepare_full)]


def solve(problem: Problem, solver: diffrax.AbstractSolver, y0, tolerance=1.0, controller=None, dt0=None, term=None):
    """y at the samples; a controller with dt0 takes the place of the tolerance, term that of the reduced equation."""
    reduced = lambda t, y, args: jnp.stack(problem.formulas.slope([y[i] for i in range(y.shape[0])], jnp))  # noqa: E731
    saveat = diffrax.SaveAt(ts=jnp.asarray(problem.times)) if problem.samples > 1 else diffrax.SaveAt(t1=True)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(term or reduced), solver, 0.0, problem.time, dt0, y0, saveat=saveat,
        stepsize_controller=controller or diffrax.PIDController(rtol=tolerance, atol=tolerance), max_steps=1_000_000,
        throw=False,
    )  # fmt: skip
    return solution.ys


def prepare(problem: Problem, run, tolerance: float):
    y0, given = jnp.asarray(problem.y0), jnp.asarray(tolerance)
    return lambda: run(y0, given).block_until_ready(), lambda ys: problem.positions(np.asarray(ys)[-problem.samples :])


class Elsewhere:
    """A process without XLA's flag; it starts with its first call and ends when this object or this process does."""

    def __init__(self, problem: str, solver: str):
        self.pipe, self.arguments = None, (problem, solver)

    def __call__(self, tolerance: float):
        if self.pipe is None:
            kept, context = os.environ.get("XLA_FLAGS", ""), multiprocessing.get_context("spawn")
            self.pipe, end = context.Pipe()
            os.environ["XLA_FLAGS"] = ""
            context.Process(target=serve, args=(end, *self.arguments), daemon=True).start()
            os.environ["XLA_FLAGS"] = kept
        self.pipe.send(tolerance)
        return self.pipe.recv()


def serve(pipe, name: str, solver: str) -> None:
    """Seconds and result of one solve for every tolerance that comes through the pipe."""
    problem = next(p for p in problems() if p.name == name)
    run, y0 = jax.jit(partial(solve, problem, SOLVERS[solver][0]())), jnp.asarray(problem.y0)
    while True:
        try:
            tolerance = jnp.asarray(pipe.recv())
        except EOFError:  # the other end is gone
            return
        start = time.process_time()
        result = run(y0, tolerance).block_until_ready()
        pipe.send((time.process_time() - start, np.asarray(result)))


def remote(problem: Problem, other: Elsewhere, tolerance: float):
    return partial(other, tolerance), lambda result: problem.positions(result[1][-problem.samples :])
