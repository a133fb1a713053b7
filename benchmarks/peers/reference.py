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
    """Positions at the samples, in closed form or by DOP853; largest distances of DOP853 from a second and a third solution.

    The second is the closed form where there is one, else Dormand and Prince 8(7) of diffrax with constant steps on the
    equation reduced by hand. The third integrates the equations that the library derives by itself, at tolerance 1e-11.
    """
    slope, _ = functions(problem, extension)
    first = solve_ivp(
        slope, (0.0, problem.time), problem.y0, method="DOP853", rtol=3e-14, atol=1e-15, t_eval=problem.times,
        max_step=problem.time / STEPS,
    )  # fmt: skip
    q = problem.positions(first.y.T)
    derived = da.reference(problem.system, problem.q0, problem.v0, jnp.asarray(problem.times), tolerance=1e-11)
    third = derived.q if problem.constraint is None else np.concatenate([derived.q, derived.v], axis=1)
    second = problem.exact(problem.times) if problem.exact else constant_steps(problem)
    near, far = (float(np.max(np.linalg.norm((q - np.asarray(other))[1:], axis=1))) for other in (second, third))
    return (np.asarray(second) if problem.exact else q)[1:], near, far


def constant_steps(problem: Problem) -> np.ndarray:
    """A multiple of the number of samples, so that no value is interpolated."""
    options = {"controller": diffrax.ConstantStepSize(), "dt0": problem.time / (2 * STEPS)}
    ys = jax.jit(partial(solve, problem, diffrax.Dopri8(), **options))(jnp.asarray(problem.y0))
    return np.concatenate([problem.positions(problem.y0[None]), problem.positions(np.asarray(ys))[-problem.samples :]])
