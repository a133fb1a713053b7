"""Why a step did not converge: is there a solution near at all?"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx

from dalembert.step.program import StepProgram
from dalembert.step.run import Carry, prediction


def has_no_solution(program: StepProgram, carry: Carry, t0, h) -> bool:
    """True where |F|² (rows scaled) has a local minimum with F ≠ 0 near the prediction: no solution near.

    Levenberg-Marquardt from the prediction; the gradient is tested where it stops, so that the verdict is not just
    another failure to converge.
    """
    residual, gradient = _least(program, carry, t0, h)
    return bool((residual > 1e-6) & (gradient < 1e-4 * residual))


@eqx.filter_jit
def _least(program: StepProgram, carry: Carry, t0, h):
    t = t0 + carry.k * h
    start = prediction(program, carry, t, h)
    equations = lambda z: program.residual(z, carry.q, carry.s, t, h, carry.held)  # noqa: E731
    rows = jnp.max(jnp.abs(jax.jacfwd(equations)(start)), axis=1)
    rows = jnp.where(jnp.isfinite(rows) & (rows > 0), rows, 1.0)
    scaled = lambda z, _: equations(z) / rows  # noqa: E731
    solver = optx.LevenbergMarquardt(rtol=1e-12, atol=1e-12)
    found = optx.least_squares(scaled, solver, start, max_steps=500, throw=False)
    f = scaled(found.value, None)
    gradient = jax.grad(lambda z: 0.5 * jnp.sum(scaled(z, None) ** 2))(found.value)
    size = 1.0 + jnp.max(jnp.abs(found.value))
    return jnp.linalg.norm(f), jnp.linalg.norm(gradient) / size
