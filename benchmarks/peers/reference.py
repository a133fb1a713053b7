"""The reference solution of a problem, and by how much independent ones differ from it."""

from __future__ import annotations

from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.peers.packages.diffrax_ode import solve
from benchmarks.peers.packages.scipy_ode import functions
from benchmarks.peers.problems import Problem
from scipy.integrate import solve_ivp

import dalembert as da

STEPS = 20_000  # far more than the tolerance asks for, so that only rounding is left


def reference(problem: Problem, extension) -> tuple[np.ndarray, float, float]:
    """Positions (100, n) at the samples by DOP853; largest distances from a second and from a third solution.

    The second is the closed form where there is one, else Dormand and Prince 8(7) of diffrax with constant steps on the
    equation reduced by hand. The third integrates the equations that the library derives by itself, at tolerance 1e-11.
    """
    slope, _ = functions(problem, extension)
    first = solve_ivp(
        slope, (0.0, problem.time), problem.y0, method="DOP853", rtol=3e-14, atol=1e-15, t_eval=problem.times,
        max_step=problem.time / STEPS,
    )  # fmt: skip
    q = problem.positions(first.y.T)
    third = da.reference(problem.system, problem.q0, problem.v0, jnp.asarray(problem.times), tolerance=1e-11).q
    second = problem.exact(problem.times) if problem.exact else constant_steps(problem)
    near, far = (float(np.max(np.linalg.norm(q - np.asarray(other), axis=1))) for other in (second, third))
    return q[1:], near, far


def constant_steps(problem: Problem) -> np.ndarray:
    """A multiple of the number of samples, so that no value is interpolated."""
    options = {"controller": diffrax.ConstantStepSize(), "dt0": problem.time / (2 * STEPS)}
    ys = jax.jit(partial(solve, problem, diffrax.Dopri8(), **options))(jnp.asarray(problem.y0))
    return problem.positions(np.asarray(ys))
