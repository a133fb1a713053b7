"""Why a step could not be solved: is there a solution near at all?"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import OWN, VaryingSteps
from dalembert.step.run.branch import Call, solve_step
from dalembert.step.run.stages import force_of_law, prediction, stages
from dalembert.step.run.state import RunState, StepOptions
from dalembert.tracing import seldom, traced_once

_UNSOLVED = (Outcome.NOT_CONVERGED, Outcome.SINGULAR, Outcome.NOT_FINITE)
_FLAT = 1e-6  # relative smallest singular value under which a row-scaled matrix is called singular


def diagnosis(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h) -> Outcome:
    """The outcome of a run, told apart where Newton's iteration lost its way: its last point says little about the step.

    |F|² (rows scaled) is minimized from the prediction by Levenberg-Marquardt. A local minimum with F ≠ 0, where the
    gradient vanishes: NO_SOLUTION. A zero with a regular matrix: NOT_CONVERGED, there is a root that Newton missed. Where
    the matrix is singular or not finite at the prediction, or neither is found, Newton's own verdict stands.
    """
    outcome = Outcome(int(carry.code))
    if outcome not in _UNSOLVED:
        return outcome
    if (
        isinstance(program, VaryingSteps)
        and outcome is Outcome.NOT_FINITE
        and bool(_stands(program, step_options, carry, t0, h))
    ):
        return Outcome.NO_POSITIVE_STEP
    start, end, gradient = _least(program, step_options, carry, t0, h)
    regular = bool(start.flatness > _FLAT)  # false where it is NaN
    if outcome is Outcome.NOT_CONVERGED or regular:
        if bool((end.residual > 1e-6) & (gradient < 1e-4 * end.residual)):
            return Outcome.NO_SOLUTION
        if bool((end.residual <= 1e-6) & (end.flatness > _FLAT)):
            return Outcome.NOT_CONVERGED
    return outcome


class _Point(NamedTuple):
    """|F| and the ratio of the smallest to the largest singular value of F′, rows scaled."""

    residual: Float[Array, ""]
    flatness: Float[Array, ""]


class _Reached(NamedTuple):
    """The state from which a step, or the stage of it that failed, began; its number, force, time and length."""

    state: Any
    stage: Any
    held_force: Float[Array, "n"]
    t: Any
    h: Any


def _reached(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h) -> _Reached:
    t = t0 + carry.k * h
    held_force = force_of_law(program, step_options, carry, t)
    if len(program.weights) == 1:
        return _Reached(carry, 0, held_force, t, h)
    reached = stages(program, step_options, held_force, carry._replace(code=jnp.zeros_like(carry.code)), t, h)
    gammas = jnp.asarray(program.weights)
    stage = jnp.minimum(reached.stages, len(program.weights) - 1)
    return _Reached(reached, stage, held_force, t + h * (jnp.cumsum(gammas) - gammas)[stage], h * gammas[stage])


@seldom
def _stands(program: VaryingSteps, step_options: StepOptions, carry: RunState, t0, h):
    """Whether a step of varying length has none, or its end no density."""
    reached, stage, held_force, t, h = _reached(program, step_options, carry, t0, h)
    start = prediction(program, stage, reached, t, h)
    z, _ = solve_step(program, step_options.branch, Call(reached.q, reached.s, t, h, held_force), start, step_options.newton)
    increment, s = program.advance(z, reached.q, reached.s, t, h)
    solved = jnp.all(jnp.isfinite(increment)) & jnp.all(jnp.isfinite(s[:-OWN]))
    return ~jnp.isfinite(program.begun(reached.s, h).h) | (solved & ~jnp.isfinite(s[-3]))


@seldom
def _least(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h):
    import optimistix as optx  # slow to load, and needed only where a step fails

    reached, stage, held_force, t, h = _reached(program, step_options, carry, t0, h)
    start = prediction(program, stage, reached, t, h)
    equations = traced_once(lambda z: program.residual(z, reached.q, reached.s, t, h, held_force))
    rows = jnp.max(jnp.abs(jax.jacfwd(equations)(start)), axis=1)
    rows = jnp.where(jnp.isfinite(rows) & (rows > 0), rows, 1.0)
    scaled = lambda z, _: equations(z) / rows  # noqa: E731

    def point(z) -> _Point:
        values = jnp.linalg.svd(jax.jacfwd(lambda x: scaled(x, None))(z), compute_uv=False)
        return _Point(jnp.linalg.norm(scaled(z, None)), values[-1] / values[0])

    half = lambda z: 0.5 * jnp.sum(scaled(z, None) ** 2)  # noqa: E731
    gradient = jax.grad(half)
    solver = optx.LevenbergMarquardt(rtol=1e-12, atol=1e-12)
    found = optx.least_squares(scaled, solver, start, max_steps=500, throw=False).value
    # Where F ≠ 0 Levenberg-Marquardt converges slowly: finish with Newton's method on the gradient, if that descends.
    lowest = lax.fori_loop(0, 10, lambda _, z: z - jnp.linalg.solve(jax.hessian(half)(z), gradient(z)), found)
    found = jnp.where(half(lowest) <= half(found), lowest, found)
    return point(start), point(found), jnp.linalg.norm(gradient(found)) / (1.0 + jnp.max(jnp.abs(found)))
