"""dalembert: `simulate` in machine code, by the orders that a problem names, and `reference`, the continuous flow."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.caught import caught
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import SAMPLES, Problem

import dalembert as da
from dalembert.discretize import composition
from dalembert.native import Accuracy
from dalembert.systems import along_constraints, proven_start

MOST_BASE_STEPS = 2_000_000  # of a composition
TOLERANCES = tuple(10.0**-k for k in range(3, 14))


def methods(problem: Problem, extension) -> list[Method]:
    found = []
    for order in problem.orders:
        scheme, name = da.Scheme(order=order), "dalembert" if problem.orders == (2,) else f"dalembert, order {order}"
        stages = len(composition(order))
        steps = problem.steps if stages == 1 else tuple(n // stages for n in problem.steps if n <= MOST_BASE_STEPS)
        found.append(Method(f"{name}, run", "dalembert", steps, partial(run_only, problem, scheme)))
        whole = ("whole call", whole_call) if problem.constraint is None else ("under jit", under_jit)
        found.append(Method(f"{name}, {whole[0]}", "dalembert", steps, partial(whole[1], problem, scheme)))
    for name, prepare in (("run", flow_only), ("whole call", reference_call)):
        found.append(Method(f"dalembert, reference, {name}", "dalembert", TOLERANCES, partial(prepare, problem)))
    return found


def compared(problem: Problem, path: da.Path) -> np.ndarray:
    """Positions at the samples, or (q, v) at the end."""
    if problem.constraint is None:
        return np.asarray(path.q)[1:]
    return np.concatenate([np.asarray(path.q)[-1:], np.asarray(path.v)[-1:]], axis=1)


def simulate(problem: Problem, scheme: da.Scheme, steps: int) -> da.Path:
    return da.simulate(
        problem.system, problem.q0, problem.v0, h=problem.time / steps, steps=steps, scheme=scheme,
        save=da.Save(every=steps // SAMPLES if problem.samples > 1 else None), solver=da.Solver(backend="native"),
    )  # fmt: skip


def whole_call(problem: Problem, scheme: da.Scheme, steps):
    return partial(simulate, problem, scheme, int(steps)), partial(compared, problem)


def under_jit(problem: Problem, scheme: da.Scheme, steps):
    """`simulate` in a jitted function of the initial data: compiled once, as other packages are."""
    run = jax.jit(lambda *data: _end(problem, scheme, int(steps), data))
    data = jnp.asarray(problem.q0), jnp.asarray(problem.v0)
    return lambda: jax.block_until_ready(run(*data)), lambda end: np.concatenate([np.asarray(x)[None] for x in end], axis=1)


def _end(problem: Problem, scheme: da.Scheme, steps: int, data):
    path = da.simulate(problem.system, *data, h=problem.time / steps, steps=steps, scheme=scheme, save=da.Save(every=None))
    return path.q[-1], path.v[-1]


def run_only(problem: Problem, scheme: da.Scheme, steps):
    """The machine code of the same run, without the checks, the start and the record that `simulate` makes around it."""
    run = caught(partial(simulate, problem, scheme, int(steps)))
    return run.call, lambda _: compared(problem, run.path)


def reference_times(problem: Problem) -> np.ndarray:
    return problem.times if problem.samples > 1 else np.array([0.0, problem.time])


def reference_call(problem: Problem, tolerance: float):
    """`reference`: the continuous equation that the library finds from L and the constraints, by Taylor series or the
    method of order 8, as it chooses."""
    times = reference_times(problem)
    call = partial(da.reference, problem.system, problem.q0, problem.v0, times, tolerance=tolerance)
    return call, partial(compared, problem)


def flow_only(problem: Problem, tolerance: float):
    """Its machine code, without the checks of the initial data around it."""
    n, times = len(problem.q0), reference_times(problem)
    start, accuracy = proven_start(problem.system, problem.q0, problem.v0, times[0]), Accuracy(tolerance, 10**7)
    assert start is not None

    def positions(found) -> np.ndarray:
        rows = found[0].rows[1:]
        return rows[:, :n] if problem.constraint is None else rows[-1:]

    return partial(along_constraints, problem.system, start, times, accuracy), positions
