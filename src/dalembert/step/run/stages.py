"""The stages of a step: predicted, solved, and undone together if one of them fails. Most steps have one."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dalembert.algebra import Solve
from dalembert.native.stepper.arrays import HISTORY, LEAP, LONG_HISTORY, REFINEMENT, SMOOTH
from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import VaryingSteps, time_of
from dalembert.step.run.branch import Call, solve_step
from dalembert.step.run.state import RunState, StepOptions


def extrapolation(program: StepProgram) -> np.ndarray:
    """(stages, 5, 4): weights of the last z, newest first, in the prediction of a stage, by how many are known (0 … 4).

    A polynomial through the ends of the last stages: of degree 3 where all steps are equal, else of degree 2 with the
    least weights, because the errors of the single stages are amplified by their size.
    """
    gammas = np.array(program.weights)
    stages, degree = len(gammas), 3 if len(gammas) == 1 else 2
    table = np.zeros((stages, HISTORY + 1, HISTORY))
    for stage in range(stages):
        ends = -np.cumsum(np.roll(gammas[::-1], -(stages - 1 - stage))[np.arange(HISTORY) % stages])
        for known in range(1, HISTORY + 1):
            powers = ends[None, :known] ** np.arange(min(known - 1, degree) + 1)[:, None]
            table[stage, known, :known] = np.linalg.lstsq(powers, np.eye(len(powers))[0], rcond=None)[0]
    return np.round(table, 12)


def prediction(program: StepProgram, stage, point: Moving | RunState, t, h) -> Float[Array, "z"]:
    """z extrapolated through the last stages; the program's guess before the first.

    Where steps are equal a component that proves smooth goes through the last eight.
    """
    weights = jnp.asarray(extrapolation(program))[stage, jnp.minimum(point.known, HISTORY)]
    found = weights @ point.history[:HISTORY]
    if point.history.shape[0] == LONG_HISTORY:
        excess, seventh, *fourth = jnp.asarray(REFINEMENT) @ point.history
        smooth = jnp.abs(seventh) <= SMOOTH * jnp.maximum(*map(jnp.abs, fourth))
        found = jnp.where((point.known == LONG_HISTORY) & smooth, found + excess, found)
    return jnp.where(point.known > 0, found, program.guess(point.q, point.s, t, h))


def leaps(before, after):
    """Whether a determinant changed its size more than LEAP-fold; 0 stands for one that is not known."""
    low, high = jnp.minimum(before, after), jnp.maximum(before, after)
    return (low > 0) & (high > LEAP * low)


class Moving(NamedTuple):
    """What a stage of a step changes. stages: how many are done; solved: what the last one solved, and at which state."""

    q: Float[Array, "n"]
    compensation: Float[Array, "n"]
    s: Float[Array, "k"]
    history: Float[Array, "kept z"]
    known: Int[Array, ""]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    max_iterations: Int[Array, ""]
    residual: Float[Array, ""]
    last_residual: Float[Array, ""]
    sign: Float[Array, "sides"]
    determinant: Float[Array, ""]
    crossings: Int[Array, ""]
    leaps: Int[Array, ""]
    stages: Int[Array, ""]
    solved: Any


class Stage(NamedTuple):
    """The index of a stage in its step, the time at which it begins and its length."""

    index: Any
    t: Any
    h: Any


def _solved(program: StepProgram, step_options: StepOptions, held_force, moving: Moving, now: Stage) -> Moving:
    """The state after one stage; one that fails, and those after it, leave it as it is."""
    stage, t, h = now
    start = prediction(program, stage, moving, t, h)
    z, info = solve_step(
        program, step_options.branch, Call(moving.q, moving.s, t, h, held_force), start, step_options.newton
    )
    increment, s = program.advance(z, moving.q, moving.s, t, h)
    factor = program.factor(z, moving.q, moving.s, t, h)
    total = increment - moving.compensation
    q = moving.q + total
    code = _outcome(info, q, s)
    facing = lax.stop_gradient(info.determinant_sign if factor is None else jnp.sign(factor))
    side = jnp.asarray(h < 0, dtype=int) if moving.sign.shape[0] > 1 else 0
    ends = step_options.branch is None and factor is None  # nothing explains a crossing
    watched = True if ends else stage == len(program.weights) - 1
    crossed = watched & (facing * moving.sign[side] < 0)
    if ends:
        ended, kept = crossed, program.overlap(z, moving.q, moving.s, t, h)
        ended = ended if kept is None else ended | (kept < 0)
        code = jnp.where((code == 0) & ended, int(Outcome.CROSSED), code)
    # Of the last stage only: determinants of steps of different lengths are not to be compared.
    last, size = stage == len(program.weights) - 1, lax.stop_gradient(info.determinant)
    weighed = last & (ends and not isinstance(program, VaryingSteps))
    after = Moving(
        q=q,
        compensation=(q - moving.q) - total,
        s=s,
        history=jnp.concatenate([z[None], moving.history[:-1]]),
        known=jnp.minimum(moving.known + 1, moving.history.shape[0]),
        code=code,
        iterations=moving.iterations + info.iterations,
        max_iterations=jnp.maximum(moving.max_iterations, info.iterations),
        residual=jnp.maximum(moving.residual, lax.stop_gradient(info.residual)),
        last_residual=lax.stop_gradient(info.residual),
        sign=jnp.where(watched & (facing != 0), moving.sign.at[side].set(facing), moving.sign),
        determinant=jnp.where(weighed, size, moving.determinant),
        crossings=moving.crossings + crossed,
        leaps=moving.leaps + (weighed & leaps(moving.determinant, size)),
        stages=moving.stages + 1,
        solved=(z, moving.q, moving.s, jnp.asarray(t, dtype=float), jnp.asarray(h, dtype=float)),
    )
    if len(program.weights) == 1:
        return after
    failed = moving._replace(code=code, last_residual=after.last_residual)
    return jax.tree.map(lambda a, b, c: jnp.where(moving.code != 0, c, jnp.where(code == 0, a, b)), after, failed, moving)


def force_of_law(program: StepProgram, step_options: StepOptions, carry: RunState, t) -> Float[Array, "n"]:
    """The force of the law in the step from t on: a new sample where one is due, or the one that is held."""
    law = step_options.feedback
    if law is None:
        return carry.held_force

    def sample() -> Float[Array, "n"]:
        return jnp.asarray(law.force(program, carry.q, program.velocity(carry.s), time_of(program, carry.s, t)), dtype=float)

    if law.every == 1:
        return sample()
    return lax.cond((carry.k - program.starting_nodes) % law.every == 0, sample, lambda: carry.held_force)


def stages(program: StepProgram, step_options: StepOptions, held_force, carry: RunState, t, h) -> Moving:
    """All stages of a step, from t on with step h."""
    gammas = np.array(program.weights)
    known = {name: getattr(carry, name) for name in Moving._fields if name in RunState._fields}
    solved = (carry.history[0], carry.q, carry.s, jnp.asarray(t, dtype=float), jnp.asarray(h, dtype=float))
    moving = Moving(**known, last_residual=jnp.zeros_like(carry.residual), stages=jnp.zeros_like(carry.k), solved=solved)
    if len(gammas) == 1:
        return _solved(program, step_options, held_force, moving, Stage(0, t, h))

    def one(moving: Moving, given):
        stage, gamma, begin = given
        return _solved(program, step_options, held_force, moving, Stage(stage, t + begin * h, gamma * h)), None

    begins = np.cumsum(gammas) - gammas
    return lax.scan(one, moving, (jnp.arange(len(gammas)), jnp.asarray(gammas), jnp.asarray(begins)))[0]


def _outcome(info: Solve, new_q, new_s) -> Int[Array, ""]:
    finite = jnp.all(jnp.isfinite(new_q)) & jnp.all(jnp.isfinite(new_s)) & ~info.not_finite
    code = jnp.where(info.not_converged, int(Outcome.NOT_CONVERGED), int(Outcome.SUCCESS))
    code = jnp.where(info.singular, int(Outcome.SINGULAR), code)
    return jnp.where(finite, code, int(Outcome.NOT_FINITE)).astype(int)
