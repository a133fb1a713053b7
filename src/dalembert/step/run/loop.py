"""The run by JAX: a step as one function, driven by a scan under tracing and by compiled chunks otherwise.

A step is made of stages, predicted, solved, and undone together if one of them fails. Most steps have one.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dalembert.algebra import Solve
from dalembert.native import HISTORY, LEAP, OF_STAGE, REFINEMENT, SMOOTH, STAGE_HISTORY, next_chunk
from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import VaryingSteps, clock_of, has_ended, time_of
from dalembert.step.run.branch import Call, solve_step
from dalembert.step.run.state import Grid, RunState, StepOptions, as_before
from dalembert.step.run.steps import Rows, Steps
from dalembert.tracing import Jitted

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object, in the text of a program
CHUNK = 256  # saved states per compiled call outside tracing


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


def prediction(program: StepProgram, stage, point: RunState, t, h) -> Float[Array, "z"]:
    """z extrapolated through the last stages; the program's guess before the first.

    Where steps are equal a component that proves smooth goes through the last eight, or it changes as this stage did in
    the last twelve steps.
    """
    weights, latest = jnp.asarray(extrapolation(program))[stage, jnp.minimum(point.known, HISTORY)], point.history[0]
    found = weights @ point.history[:HISTORY]
    if len(point.history) > HISTORY:
        past = _differences(point.history, stage) if program.by_stage else point.history
        excess, highest, *fourth = jnp.asarray(OF_STAGE[1] if program.by_stage else REFINEMENT) @ past
        low = latest + jnp.sum(past[:HISTORY], axis=0) if program.by_stage else found
        smooth = jnp.abs(highest) <= SMOOTH * jnp.maximum(*map(jnp.abs, fourth))
        found = jnp.where(point.known == len(point.history), jnp.where(smooth, low + excess, low), found)
    return jnp.where(point.known > 0, found, program.guess(point.q, point.s, t, h))


def _differences(history: Float[Array, "rows z"], stage) -> Float[Array, "12 z"]:
    """The change of a stage from the solution before it, and the differences of this from step to step."""
    return lax.dynamic_slice_in_dim(history, HISTORY + STAGE_HISTORY * stage, STAGE_HISTORY)


def _next_history(program: StepProgram, history: Float[Array, "rows z"], stage, z) -> Float[Array, "rows z"]:
    if not program.by_stage:
        return jnp.concatenate([z[None], history[:-1]])
    change = (z - history[0])[None]
    new = jnp.concatenate([change, change - jnp.cumsum(_differences(history, stage)[:-1], axis=0)])
    solutions = jnp.concatenate([z[None], history[: HISTORY - 1], history[HISTORY:]])
    return lax.dynamic_update_slice_in_dim(solutions, new, HISTORY + STAGE_HISTORY * stage, 0)


def leaps(before, after):
    """True if a determinant changed its size more than LEAP-fold; 0 stands for one that is not known."""
    low, high = jnp.minimum(before, after), jnp.maximum(before, after)
    return (low > 0) & (high > LEAP * low)


class SolvedStage(NamedTuple):
    """The unknowns of a stage, the state from which they were solved, when it began, its length; done: how many stages."""

    z: Float[Array, "z"]
    q: Float[Array, "n"]
    s: Float[Array, "k"]
    t: Any
    h: Any
    done: Any


def _solve_stage(
    program: StepProgram, step_options: StepOptions, held_force, state: RunState, stage, *, t, h
) -> tuple[RunState, SolvedStage]:
    """The state after one stage, with the residual of this solution as failed_residual. stage: its index in the step; t, h:
    when it begins and its length."""
    start = prediction(program, stage, state, t, h)
    z, info = solve_step(program, step_options.branch, Call(state.q, state.s, t, h, held_force), start, step_options.newton)
    increment, s = program.advance(z, state.q, state.s, t, h)
    factor = program.factor(z, state.q, state.s, t, h)
    total = increment - state.compensation
    q = state.q + total
    code = _outcome(info, q, s)
    facing = lax.stop_gradient(info.determinant_sign if factor is None else jnp.sign(factor))
    side = jnp.asarray(h < 0, dtype=int) if state.sign.shape[0] > 1 else 0
    ends = step_options.branch is None and factor is None  # nothing explains a crossing
    # Of the last stage only: determinants of steps of different lengths are not to be compared.
    last, size = stage == len(program.weights) - 1, lax.stop_gradient(info.determinant)
    watched, weighed = True if ends else last, last & (ends and not isinstance(program, VaryingSteps))
    crossed = watched & (facing * state.sign[side] < 0)
    if ends:
        ended, kept = crossed, program.overlap(z, state.q, state.s, t, h)
        ended = ended if kept is None else ended | (kept < 0)
        code = jnp.where((code == 0) & ended, int(Outcome.CROSSED), code)
    after = state._replace(
        q=q,
        compensation=(q - state.q) - total,
        s=s,
        history=_next_history(program, state.history, stage, z),
        known=jnp.minimum(state.known + 1, state.history.shape[0]),
        code=code,
        iterations=state.iterations + info.iterations,
        max_iterations=jnp.maximum(state.max_iterations, info.iterations),
        residual=jnp.maximum(state.residual, lax.stop_gradient(info.residual)),
        failed_residual=lax.stop_gradient(info.residual),
        sign=jnp.where(watched & (facing != 0), state.sign.at[side].set(facing), state.sign),
        determinant=jnp.where(weighed, size, state.determinant),
        crossings=state.crossings + crossed,
        leaps=state.leaps + (weighed & leaps(state.determinant, size)),
    )
    return after, SolvedStage(z, state.q, state.s, jnp.asarray(t, dtype=float), jnp.asarray(h, dtype=float), stage + 1)


def solve_stages(
    program: StepProgram, step_options: StepOptions, held_force, carry: RunState, t, h
) -> tuple[RunState, SolvedStage]:
    """All stages of a step, from t on with step h; one that fails, and those after it, leave the state as it is."""
    gammas = np.array(program.weights)
    if len(gammas) == 1:
        return _solve_stage(program, step_options, held_force, carry, 0, t=t, h=h)

    def solve_stage(before: tuple[RunState, SolvedStage], given):
        stage, gamma, begin = given
        state, solved = before
        after, now = _solve_stage(program, step_options, held_force, state, stage, t=t + begin * h, h=gamma * h)
        failed = state._replace(code=after.code, failed_residual=after.failed_residual), solved
        choose = lambda a, b, c: jnp.where(state.code != 0, c, jnp.where(after.code == 0, a, b))  # noqa: E731
        return jax.tree.map(choose, (after, now), failed, before), None

    now, length = (jnp.asarray(x, dtype=float) for x in (t, h))
    nothing = SolvedStage(carry.history[0], carry.q, carry.s, now, length, jnp.asarray(0))
    begins = np.cumsum(gammas) - gammas
    given = jnp.arange(len(gammas)), jnp.asarray(gammas), jnp.asarray(begins)
    return lax.scan(solve_stage, (carry, nothing), given)[0]


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


def _outcome(info: Solve, new_q, new_s) -> Int[Array, ""]:
    finite = jnp.all(jnp.isfinite(new_q)) & jnp.all(jnp.isfinite(new_s)) & ~info.not_finite
    code = jnp.where(info.not_converged, int(Outcome.NOT_CONVERGED), int(Outcome.SUCCESS))
    code = jnp.where(info.singular, int(Outcome.SINGULAR), code)
    return jnp.where(finite, code, int(Outcome.NOT_FINITE)).astype(int)


def _step(program: StepProgram, step_options: StepOptions, t0, h, carry: RunState) -> RunState:
    """One step; a step that fails leaves the state as it is and records why."""
    t = t0 + carry.k * h
    held_force = force_of_law(program, step_options, carry, t)
    after, (z, q, s, stage_t, stage_h, _) = solve_stages(program, step_options, held_force, carry, t, h)
    outputs = program.outputs(z, q, s, stage_t, stage_h, held_force)
    code, v, now = after.code, program.velocity(after.s), time_of(program, after.s, t + h)
    if step_options.domain is not None:
        inside = jnp.all(program.system.call(step_options.domain, after.q, v, t=now))
        code = jnp.where((code == 0) & ~inside, int(Outcome.LEFT_DOMAIN), code)
    solved = code == 0
    for stop in stops(program, step_options):
        code = jnp.where(solved & jnp.all(stop(after.q, v, now)), int(Outcome.STOPPED), code)
    reduced = carry.reduced
    if step_options.reduce is not None:
        after_it = step_options.reduce(carry.reduced, now, after.q, v, outputs.multipliers)
        reduced = as_before(after_it, carry.reduced)
    failed = carry._replace(code=code, failed_residual=after.failed_residual)
    after = after._replace(
        k=carry.k + 1,
        held_force=held_force,
        multipliers=outputs.multipliers,
        force=outputs.force,
        code=code,
        turns=carry.turns + (lax.stop_gradient(program.velocity(carry.s) @ v) < 0),
        leaps=after.leaps + density_mismatch(program, carry, after),
        failed_residual=carry.failed_residual,
        reduced=reduced,
    )
    return jax.tree.map(lambda a, b: jnp.where(solved, a, b), after, failed)


def density_mismatch(program: StepProgram, before: RunState, after: RunState) -> Any:
    """True if the density of steps of varying length is off after a whole step; 0 where all steps are equal."""
    if not isinstance(program, VaryingSteps):
        return 0
    return lax.stop_gradient(program.astray(before.q, before.s, after.q, after.s))


def stops(program: StepProgram, step_options: StepOptions) -> list[Callable]:
    """Conditions that end a run after a step, as functions of (q, v, t): the user's condition, and the time of steps
    that vary."""
    wanted, found = step_options.stop, []
    if wanted is not None:
        found.append(lambda q, v, t: program.system.call(wanted, q, v, t=t))
    if has_ended(program, 0.0) is not None:
        found.append(lambda q, v, t: has_ended(program, t))
    return found


def _active(carry: RunState, limit) -> Array:
    return (carry.code == 0) & (carry.k < limit)


def row_of(program: StepProgram, carry: RunState) -> dict[str, Array]:
    """Row of a table: the values that are saved of a state, by name."""
    return {"q": carry.q, "v": program.velocity(carry.s), "multipliers": carry.multipliers, "force": carry.force,
            "held_force": carry.held_force, "clock": clock_of(program, carry.s), "k": carry.k}  # fmt: skip


def traced_run(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
    """All rows and the last carry under tracing: fixed shapes, reverse mode with O(√N) memory by two checkpointed scans.

    grid.steps: index of the last node. A row for every kept node.
    """
    t0, h, steps, every = grid
    rows = math.ceil(steps / every)
    inner = max(1, math.isqrt(rows))
    outer = math.ceil(rows / inner)

    def step_if_active(carry: RunState, target):
        return lax.cond(
            _active(carry, target), functools.partial(_step, program, step_options, t0, h), lambda c: c, carry
        ), None

    def to_target(carry: RunState, target):
        carry = lax.scan(lambda c, _: step_if_active(c, target), carry, None, length=every)[0]
        return carry, row_of(program, carry)

    @jax.checkpoint
    def block(carry: RunState, targets):
        return lax.scan(jax.checkpoint(to_target) if every > 1 else to_target, carry, targets)

    targets = jnp.minimum(every * (1 + jnp.arange(outer * inner)), steps).reshape(outer, inner)
    carry, table = lax.scan(block, carry, targets)
    before, rows = rows_of(program.starting_nodes, steps, every)
    return carry, jax.tree.map(lambda x: x.reshape(outer * inner, *x.shape[2:])[before:rows], table)


def rows_of(lead: int, steps: int, every: int) -> tuple[int, int]:
    """Of the saved nodes every, 2 every, … and the last: how many are known before the first step, and their number."""
    rows = math.ceil(steps / every)
    return sum(min(every * (1 + i), steps) <= lead for i in range(min(rows, lead))), rows


@Jitted
def _chunk(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid, limit):
    """Up to CHUNK rows and up to the node `limit`, for any numbers of steps: rows are `every` nodes apart, up to `steps`."""
    t0, h, steps, every = grid
    first = carry.k // every

    def to_target(carry: RunState, i):
        target = jnp.minimum(jnp.minimum(every * (1 + first + i), steps), limit)
        carry = lax.while_loop(lambda c: _active(c, target), functools.partial(_step, program, step_options, t0, h), carry)
        return carry, row_of(program, carry)

    return lax.scan(to_target, carry, jnp.arange(CHUNK))


class JaxSteps(Steps):
    """The steps of a run by JAX, compiled once for any number of them."""

    native = False

    def __init__(self, program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
        super().__init__(grid)
        self.carry, self.saved = carry, int(carry.k)
        self._given = program, step_options
        whole = {name: jnp.asarray(getattr(grid, name), dtype=int) for name in ("steps", "every")}
        self._numbers = grid._replace(**whole)

    @property
    def code(self) -> int:
        return int(self.carry.code)

    @property
    def k(self) -> int:
        return int(self.carry.k)

    def advance(self) -> Rows:
        began, start, (_, _, steps, every) = time.perf_counter(), self.k, self.grid
        limit = jnp.asarray(min(start + self.pace, steps), dtype=int)
        carry, table = _chunk(*self._given, self.carry, self._numbers, limit)
        rows = jax.tree.map(np.asarray, table)
        new = np.diff(rows["k"], prepend=self.saved) > 0
        due = (rows["k"] % every == 0) | (rows["k"] == steps) | (int(carry.code) != 0)
        kept = {name: column[new & due] for name, column in rows.items()}
        self.carry, self.saved = carry, int(kept["k"][-1]) if len(kept["k"]) else self.saved
        self.pace = next_chunk(max(1, self.k - start), time.perf_counter() - began)
        return kept

    def interrupt(self) -> Rows:
        self.carry = self.carry._replace(code=np.asarray(int(Outcome.INTERRUPTED)))
        return self._last_row(int(self.k > self.saved))

    def no_rows(self) -> Rows:
        return self._last_row(0)

    def _last_row(self, number: int) -> Rows:
        return jax.tree.map(lambda x: np.asarray(x)[None][:number], row_of(self._given[0], self.carry))

    @property
    def state(self) -> dict[str, np.ndarray]:
        leaves = {f"leaf_{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(self.carry))}
        return leaves | {"saved": np.asarray(self.saved)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        leaves, tree = jax.tree.flatten(self.carry)
        self.carry = jax.tree.unflatten(tree, [jnp.asarray(state[f"leaf_{i}"]) for i in range(len(leaves))])
        self.saved = int(state["saved"])

    @property
    def inputs(self) -> np.ndarray:
        leaves = [self.grid.t0, self.grid.h, *jax.tree.leaves(eqx.filter(self._given, eqx.is_array))]
        return np.concatenate([np.ravel(np.asarray(x, float)) for x in leaves])

    @property
    def key(self) -> str:
        program, step_options = self._given
        step = functools.partial(_step, program, step_options, self.grid.t0, self.grid.h)
        closed = jax.make_jaxpr(step)(self.carry)
        constants = b"".join(np.asarray(x).tobytes() for x in closed.consts)
        return hashlib.sha256(_ADDRESS.sub("", str(closed.jaxpr)).encode() + constants).hexdigest()
