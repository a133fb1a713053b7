"""The run: one step function, driven by a scan under tracing and by compiled chunks otherwise."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dalembert.algebra import Newton, Solve
from dalembert.path import Outcome
from dalembert.step.branch import Branch, Call, call_system, solve_step
from dalembert.step.program import StepProgram
from dalembert.systems.shapes import traced

HISTORY = 4  # solved steps kept for the cubic prediction
CHUNK = 256  # saved states per compiled call outside tracing


class SampledFeedback(eqx.Module):
    """A sampled law: every `every` steps the generalised force `law(q, v[, t][, p])` is computed, and held in between.

    law: (n,), (n,) → (n,), traceable by JAX (wrap other code in jax.pure_callback). v is the latest velocity of the
    scheme's state: at the node itself, or half a step before it in the form "nodes".
    """

    law: Callable = eqx.field(static=True)
    every: int = eqx.field(static=True)

    def __init__(self, law: Callable, every: int = 1):
        if not callable(law):
            raise TypeError(f"law: found {type(law).__name__}; give a function of (q, v) that returns (n,)")
        if int(every) != every or every < 1:
            raise ValueError(f"every: found {every}; give a whole number of steps, 1 or more")
        self.law, self.every = law, int(every)


class Choices(eqx.Module):
    """What the user chose for a run, besides the program and the state: all static."""

    branch: Branch | None
    options: Newton
    stop: Callable | None = eqx.field(static=True)
    domain: Callable | None = eqx.field(static=True)
    feedback: SampledFeedback | None
    reduce: Callable | None = eqx.field(static=True)


class Carry(NamedTuple):
    """State of a run between two steps. k: index of the node (or half-shifted state) that q stands for."""

    q: Float[Array, "n"]
    lost: Float[Array, "n"]  # compensation: what q has lost to rounding
    s: Float[Array, "k"]
    k: Int[Array, ""]
    history: Float[Array, "4 z"]
    known: Int[Array, ""]
    held: Float[Array, "n"]
    sign: Float[Array, ""]
    multipliers: Float[Array, "m"]
    force: Float[Array, "n"]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    max_iterations: Int[Array, ""]
    residual: Float[Array, ""]
    crossings: Int[Array, ""]
    failed_residual: Float[Array, ""]
    reduced: Any


def first_carry(program: StepProgram, q, s, t, h, reduced: Any, expected: Float[Array, "z"] | None = None) -> Carry:
    """The carry before the first step. expected: (z,) where its iteration starts, the program's guess if None."""
    z = program.guess(q, s, t, h) if expected is None else expected
    m = traced(_multipliers, program, z, q, s, t, h)
    # With a dtype: a weakly typed first carry would compile the second chunk again.
    zero, none = jnp.asarray(0.0, dtype=float), jnp.asarray(0, dtype=int)
    return Carry(
        q=q,
        lost=jnp.zeros_like(q),
        s=s,
        k=jnp.asarray(program.lead, dtype=int),
        history=jnp.zeros((HISTORY, z.shape[0])).at[0].set(lax.stop_gradient(z)),
        known=jnp.asarray(0 if expected is None else 1, dtype=int),
        held=jnp.zeros_like(q),
        sign=zero,
        multipliers=jnp.full(m, jnp.nan, dtype=float),
        force=jnp.full_like(q, jnp.nan),
        code=none,
        iterations=none,
        max_iterations=none,
        residual=zero,
        crossings=none,
        failed_residual=jnp.asarray(jnp.nan, dtype=float),
        reduced=reduced,
    )


def _multipliers(program: StepProgram, z, q, s, t, h) -> tuple[int, ...]:
    """Shape of the multipliers."""
    return program.outputs(z, q, s, t, h, jnp.zeros_like(q)).multipliers.shape


def _outcome(info: Solve, new_q, new_s) -> Int[Array, ""]:
    finite = jnp.all(jnp.isfinite(new_q)) & jnp.all(jnp.isfinite(new_s)) & ~info.not_finite
    code = jnp.where(info.not_converged, int(Outcome.NOT_CONVERGED), int(Outcome.SUCCESS))
    code = jnp.where(info.singular, int(Outcome.SINGULAR), code)
    return jnp.where(finite, code, int(Outcome.NOT_FINITE)).astype(int)


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


def prediction(program: StepProgram, stage, point: Moving | Carry, t, h) -> Float[Array, "z"]:
    """z extrapolated through the last stages; the program's guess before the first."""
    weights = jnp.asarray(extrapolation(program))[stage, point.known]
    return jnp.where(point.known > 0, weights @ point.history, program.guess(point.q, point.s, t, h))


class Moving(NamedTuple):
    """What a stage of a step changes. stages: how many are done; solved: what the last one solved, and at which state."""

    q: Float[Array, "n"]
    lost: Float[Array, "n"]
    s: Float[Array, "k"]
    history: Float[Array, "4 z"]
    known: Int[Array, ""]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    max_iterations: Int[Array, ""]
    residual: Float[Array, ""]
    last_residual: Float[Array, ""]
    sign: Float[Array, ""]
    stages: Int[Array, ""]
    solved: Any


def _stage(program: StepProgram, choices: Choices, held, moving: Moving, stage, t, h) -> Moving:
    """One stage; one that fails, and those after it, leave the state as it is."""
    start = prediction(program, stage, moving, t, h)
    z, info = solve_step(program, choices.branch, Call(moving.q, moving.s, t, h, held), start, choices.options)
    increment, s = program.advance(z, moving.q, moving.s, h)
    factor = program.factor(z, moving.q, moving.s, t, h)
    total = increment - moving.lost
    q = moving.q + total
    code = _outcome(info, q, s)
    after = Moving(
        q=q,
        lost=(q - moving.q) - total,
        s=s,
        history=jnp.concatenate([z[None], moving.history[:-1]]),
        known=jnp.minimum(moving.known + 1, HISTORY),
        code=code,
        iterations=moving.iterations + info.iterations,
        max_iterations=jnp.maximum(moving.max_iterations, info.iterations),
        residual=jnp.maximum(moving.residual, lax.stop_gradient(info.residual)),
        last_residual=lax.stop_gradient(info.residual),
        sign=lax.stop_gradient(info.determinant_sign if factor is None else jnp.sign(factor)),
        stages=moving.stages + 1,
        solved=(z, moving.q, moving.s, jnp.asarray(t, dtype=float), jnp.asarray(h, dtype=float)),
    )
    if len(program.weights) == 1:
        return after
    failed = moving._replace(code=code, last_residual=after.last_residual)
    return jax.tree.map(lambda a, b, c: jnp.where(moving.code != 0, c, jnp.where(code == 0, a, b)), after, failed, moving)


def stages(program: StepProgram, choices: Choices, held, carry: Carry, t, h) -> Moving:
    """All stages of a step, from t on with step h."""
    gammas = np.array(program.weights)
    known = {name: getattr(carry, name) for name in Moving._fields if name in Carry._fields}
    solved = (carry.history[0], carry.q, carry.s, jnp.asarray(t, dtype=float), jnp.asarray(h, dtype=float))
    moving = Moving(**known, last_residual=jnp.zeros_like(carry.residual), stages=jnp.zeros_like(carry.k), solved=solved)
    if len(gammas) == 1:
        return _stage(program, choices, held, moving, 0, t, h)

    def one(moving: Moving, given):
        stage, gamma, begin = given
        return _stage(program, choices, held, moving, stage, t + begin * h, gamma * h), None

    begins = np.cumsum(gammas) - gammas
    return lax.scan(one, moving, (jnp.arange(len(gammas)), jnp.asarray(gammas), jnp.asarray(begins)))[0]


def _step(program: StepProgram, choices: Choices, t0, h, carry: Carry) -> Carry:
    """One step; a step that fails leaves the state as it is and records why."""
    t = t0 + carry.k * h
    held = carry.held
    if choices.feedback is not None:
        law = choices.feedback
        sample = lambda: jnp.asarray(  # noqa: E731
            call_system(program, law.law, carry.q, program.velocity(carry.s), t), dtype=float
        )
        due = ((carry.k - program.lead) % law.every) == 0
        held = sample() if law.every == 1 else lax.cond(due, sample, lambda: held)
    moved = stages(program, choices, held, carry, t, h)
    outputs = program.outputs(*moved.solved, held)
    code, v = moved.code, program.velocity(moved.s)
    if choices.domain is not None:
        inside = jnp.all(call_system(program, choices.domain, moved.q, v, t + h))
        code = jnp.where((code == 0) & ~inside, int(Outcome.LEFT_DOMAIN), code)
    solved = code == 0
    if choices.stop is not None:
        stop = jnp.all(call_system(program, choices.stop, moved.q, v, t + h))
        code = jnp.where(solved & stop, int(Outcome.STOPPED), code)
    reduced = carry.reduced
    if choices.reduce is not None:
        reduced = choices.reduce(carry.reduced, t + h, moved.q, v, outputs.multipliers)
    after = Carry(
        q=moved.q,
        lost=moved.lost,
        s=moved.s,
        k=carry.k + 1,
        history=moved.history,
        known=moved.known,
        held=held,
        sign=jnp.where(moved.sign == 0, carry.sign, moved.sign),
        multipliers=outputs.multipliers,
        force=outputs.force,
        code=code,
        iterations=moved.iterations,
        max_iterations=moved.max_iterations,
        residual=moved.residual,
        crossings=carry.crossings + ((moved.sign * carry.sign) < 0),
        failed_residual=carry.failed_residual,
        reduced=reduced,
    )
    failed = carry._replace(code=code, held=held, failed_residual=moved.last_residual)
    return jax.tree.map(lambda a, b: jnp.where(solved, a, b), after, failed)


def _active(carry: Carry, limit) -> Array:
    return (carry.code == 0) & (carry.k < limit)


def row_of(program: StepProgram, carry: Carry) -> dict[str, Array]:
    """What is saved of a state."""
    return {"q": carry.q, "v": program.velocity(carry.s), "multipliers": carry.multipliers, "force": carry.force,
            "held": carry.held, "k": carry.k}  # fmt: skip


def traced_run(program: StepProgram, choices: Choices, carry: Carry, t0, h, steps: int, every: int):
    """All rows and the last carry under tracing: fixed shapes, reverse mode with O(√N) memory by two checkpointed scans.

    steps: index of the last node. A row for every `every`-th node, and for the last.
    """
    rows = math.ceil(steps / every)
    inner = max(1, math.isqrt(rows))
    outer = math.ceil(rows / inner)

    def one(carry: Carry, target):
        return lax.cond(_active(carry, target), functools.partial(_step, program, choices, t0, h), lambda c: c, carry), None

    def to_target(carry: Carry, target):
        carry = lax.scan(lambda c, _: one(c, target), carry, None, length=every)[0]
        return carry, row_of(program, carry)

    @jax.checkpoint
    def block(carry: Carry, targets):
        return lax.scan(jax.checkpoint(to_target) if every > 1 else to_target, carry, targets)

    targets = jnp.minimum(every * (1 + jnp.arange(outer * inner)), steps).reshape(outer, inner)
    carry, table = lax.scan(block, carry, targets)
    before, rows = rows_of(program.lead, steps, every)
    return carry, jax.tree.map(lambda x: x.reshape(outer * inner, *x.shape[2:])[before:rows], table)


def rows_of(lead: int, steps: int, every: int) -> tuple[int, int]:
    """Of the saved nodes every, 2 every, … and the last: how many are known before the first step, and their number."""
    rows = math.ceil(steps / every)
    return sum(min(every * (1 + i), steps) <= lead for i in range(min(rows, lead))), rows


@eqx.filter_jit
def _chunk(program: StepProgram, choices: Choices, carry: Carry, t0, h, first, steps, every):
    """CHUNK rows, for any numbers of steps: first is the index of the first row, `every` nodes apart, up to `steps`."""

    def to_target(carry: Carry, i):
        target = jnp.minimum(every * (1 + first + i), steps)
        carry = lax.while_loop(lambda c: _active(c, target), functools.partial(_step, program, choices, t0, h), carry)
        return carry, row_of(program, carry)

    return lax.scan(to_target, carry, jnp.arange(CHUNK))


def chunked_run(program: StepProgram, choices: Choices, carry: Carry, t0, h, steps: int, every: int):
    """As `traced_run`, outside tracing: compiled once for any N and `every`; stops early when the run has ended."""
    rows, tables = math.ceil(steps / every), []
    start = int(carry.k)
    for first in range(0, rows, CHUNK):
        carry, table = _chunk(program, choices, carry, t0, h, *(jnp.asarray(x, dtype=int) for x in (first, steps, every)))
        tables.append(jax.tree.map(lambda x: np.asarray(x)[: rows - first], table))  # noqa: B023
        if int(carry.code) != 0:
            break
    table = {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}
    return carry, _reached(table, start)


def _reached(table: dict[str, np.ndarray], start: int) -> dict[str, np.ndarray]:
    """Rows at which a step was solved since the row before: when a run has ended, the same state is repeated."""
    new = np.diff(table["k"], prepend=start) > 0
    return {name: column[new] for name, column in table.items()}
