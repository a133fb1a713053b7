"""The run: one step function, driven by a scan under tracing and by compiled chunks otherwise."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.branch import call_system
from dalembert.step.run.reduced import as_before
from dalembert.step.run.stages import force_of_law, stages
from dalembert.step.run.state import Grid, RunState, StepOptions
from dalembert.tracing import Jitted

CHUNK = 256  # saved states per compiled call outside tracing


def _step(program: StepProgram, step_options: StepOptions, t0, h, carry: RunState) -> RunState:
    """One step; a step that fails leaves the state as it is and records why."""
    t = t0 + carry.k * h
    held_force = force_of_law(program, step_options, carry, t)
    moved = stages(program, step_options, held_force, carry, t, h)
    z, q, s, stage_t, stage_h = moved.solved
    outputs = program.outputs(z, q, s, stage_t, stage_h, held_force)
    code, v = moved.code, program.velocity(moved.s)
    if step_options.domain is not None:
        inside = jnp.all(call_system(program, step_options.domain, moved.q, v, t + h))
        code = jnp.where((code == 0) & ~inside, int(Outcome.LEFT_DOMAIN), code)
    solved = code == 0
    if step_options.stop is not None:
        stop = jnp.all(call_system(program, step_options.stop, moved.q, v, t + h))
        code = jnp.where(solved & stop, int(Outcome.STOPPED), code)
    reduced = carry.reduced
    if step_options.reduce is not None:
        after_it = step_options.reduce(carry.reduced, t + h, moved.q, v, outputs.multipliers)
        reduced = as_before(after_it, carry.reduced)
    after = RunState(
        q=moved.q,
        compensation=moved.compensation,
        s=moved.s,
        k=carry.k + 1,
        history=moved.history,
        known=moved.known,
        held_force=held_force,
        sign=moved.sign,
        determinant=moved.determinant,
        multipliers=outputs.multipliers,
        force=outputs.force,
        code=code,
        iterations=moved.iterations,
        max_iterations=moved.max_iterations,
        residual=moved.residual,
        crossings=moved.crossings,
        turns=carry.turns + (lax.stop_gradient(program.velocity(carry.s) @ v) < 0),
        leaps=moved.leaps,
        failed_residual=carry.failed_residual,
        reduced=reduced,
    )
    failed = carry._replace(code=code, failed_residual=moved.last_residual)
    return jax.tree.map(lambda a, b: jnp.where(solved, a, b), after, failed)


def _active(carry: RunState, limit) -> Array:
    return (carry.code == 0) & (carry.k < limit)


def row_of(program: StepProgram, carry: RunState) -> dict[str, Array]:
    """What is saved of a state."""
    return {"q": carry.q, "v": program.velocity(carry.s), "multipliers": carry.multipliers, "force": carry.force,
            "held_force": carry.held_force, "k": carry.k}  # fmt: skip


def traced_run(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
    """All rows and the last carry under tracing: fixed shapes, reverse mode with O(√N) memory by two checkpointed scans.

    grid.steps: index of the last node. A row for every kept node.
    """
    t0, h, steps, every = grid
    rows = math.ceil(steps / every)
    inner = max(1, math.isqrt(rows))
    outer = math.ceil(rows / inner)

    def one(carry: RunState, target):
        return lax.cond(
            _active(carry, target), functools.partial(_step, program, step_options, t0, h), lambda c: c, carry
        ), None

    def to_target(carry: RunState, target):
        carry = lax.scan(lambda c, _: one(c, target), carry, None, length=every)[0]
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
def _chunk(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid, first):
    """CHUNK rows, for any numbers of steps: first is the index of the first row, `every` nodes apart, up to `steps`."""
    t0, h, steps, every = grid

    def to_target(carry: RunState, i):
        target = jnp.minimum(every * (1 + first + i), steps)
        carry = lax.while_loop(lambda c: _active(c, target), functools.partial(_step, program, step_options, t0, h), carry)
        return carry, row_of(program, carry)

    return lax.scan(to_target, carry, jnp.arange(CHUNK))


def chunked_run(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
    """As `traced_run`, outside tracing: compiled once for any N and `every`; stops early when the run has ended."""
    rows, tables = math.ceil(grid.steps / grid.every), []
    start = int(carry.k)
    numbers = grid._replace(steps=jnp.asarray(grid.steps, dtype=int), every=jnp.asarray(grid.every, dtype=int))
    for first in range(0, rows, CHUNK):
        carry, table = _chunk(program, step_options, carry, numbers, jnp.asarray(first, dtype=int))
        tables.append(jax.tree.map(lambda x: np.asarray(x)[: rows - first], table))  # noqa: B023
        if int(carry.code) != 0:
            break
    table = {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}
    return carry, _reached(table, start)


def _reached(table: dict[str, np.ndarray], start: int) -> dict[str, np.ndarray]:
    """Rows at which a step was solved since the row before: when a run has ended, the same state is repeated."""
    new = np.diff(table["k"], prepend=start) > 0
    return {name: column[new] for name, column in table.items()}
