"""Why a step could not be solved: is there a solution near at all?"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import OWN, VaryingSteps
from dalembert.step.run.branch import Call, solve_step
from dalembert.step.run.closest import EXACT, closest
from dalembert.step.run.stages import force_of_law, prediction, stages
from dalembert.step.run.state import RunState, StepOptions
from dalembert.tracing import seldom

_UNSOLVED = (Outcome.NOT_CONVERGED, Outcome.SINGULAR, Outcome.NOT_FINITE)
_FLAT = 1e-6  # relative smallest singular value under which a row-scaled matrix is called singular


def diagnosis(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h) -> Outcome:
    """The outcome of a run, told apart where Newton's iteration lost its way: its last point says little about the step.

    |F|² (rows scaled) is minimized from the prediction, see `closest`. A local minimum with F ≠ 0, where the
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
    call, start = jax.tree.map(np.asarray, _unsolved(program, step_options, carry, t0, h))
    found = closest(program, call, start)
    if outcome is Outcome.NOT_CONVERGED or found.flatness_at_start > _FLAT:  # false where it is NaN
        if found.residual > EXACT and found.gradient < 1e-4 * found.residual:
            return Outcome.NO_SOLUTION
        if found.residual <= EXACT and found.flatness > _FLAT:
            return Outcome.NOT_CONVERGED
    return outcome


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
def _unsolved(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h) -> tuple[Call, Any]:
    """The step, or the stage of it, that failed, and the prediction of its unknowns."""
    reached, stage, held_force, t, h = _reached(program, step_options, carry, t0, h)
    return Call(reached.q, reached.s, t, h, held_force), prediction(program, stage, reached, t, h)
