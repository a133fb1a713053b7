"""The run: one step function, driven by a scan under tracing and by compiled chunks otherwise."""

from __future__ import annotations

import functools
import hashlib
import math
import re
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from dalembert.native.chunks import FIRST, paced
from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import VaryingSteps, clock_of, has_ended, time_of
from dalembert.step.run.branch import call_system
from dalembert.step.run.reduced import as_before
from dalembert.step.run.stages import Moving, force_of_law, stages
from dalembert.step.run.state import Grid, RunState, StepOptions, Watch
from dalembert.tracing import Jitted

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object, in the text of a program
CHUNK = 256  # saved states per compiled call outside tracing


def _step(program: StepProgram, step_options: StepOptions, t0, h, carry: RunState) -> RunState:
    """One step; a step that fails leaves the state as it is and records why."""
    t = t0 + carry.k * h
    held_force = force_of_law(program, step_options, carry, t)
    moved = stages(program, step_options, held_force, carry, t, h)
    z, q, s, stage_t, stage_h = moved.solved
    outputs = program.outputs(z, q, s, stage_t, stage_h, held_force)
    code, v, now = moved.code, program.velocity(moved.s), time_of(program, moved.s, t + h)
    if step_options.domain is not None:
        inside = jnp.all(call_system(program, step_options.domain, moved.q, v, now))
        code = jnp.where((code == 0) & ~inside, int(Outcome.LEFT_DOMAIN), code)
    solved = code == 0
    for stop in stops(program, step_options):
        code = jnp.where(solved & jnp.all(stop(moved.q, v, now)), int(Outcome.STOPPED), code)
    reduced = carry.reduced
    if step_options.reduce is not None:
        after_it = step_options.reduce(carry.reduced, now, moved.q, v, outputs.multipliers)
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
        leaps=moved.leaps + _astray(program, carry, moved),
        failed_residual=carry.failed_residual,
        reduced=reduced,
    )
    failed = carry._replace(code=code, failed_residual=moved.last_residual)
    return jax.tree.map(lambda a, b: jnp.where(solved, a, b), after, failed)


def _astray(program: StepProgram, before: RunState, after: Moving) -> Any:
    """Whether the density of steps of varying length is off after a whole step."""
    if not isinstance(program, VaryingSteps):
        return 0
    return lax.stop_gradient(program.astray(before.q, before.s, after.q, after.s))


def stops(program: StepProgram, step_options: StepOptions) -> list[Callable]:
    """What ends a run after a step, as functions of (q, v, t): the user's condition, and the time of steps that vary."""
    wanted, found = step_options.stop, []
    if wanted is not None:
        found.append(lambda q, v, t: call_system(program, wanted, q, v, t))
    if has_ended(program, 0.0) is not None:
        found.append(lambda q, v, t: has_ended(program, t))
    return found


def _active(carry: RunState, limit) -> Array:
    return (carry.code == 0) & (carry.k < limit)


def row_of(program: StepProgram, carry: RunState) -> dict[str, Array]:
    """What is saved of a state."""
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
def _chunk(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid, limit):
    """Up to CHUNK rows and up to the node `limit`, for any numbers of steps: rows are `every` nodes apart, up to `steps`."""
    t0, h, steps, every = grid
    first = carry.k // every

    def to_target(carry: RunState, i):
        target = jnp.minimum(jnp.minimum(every * (1 + first + i), steps), limit)
        carry = lax.while_loop(lambda c: _active(c, target), functools.partial(_step, program, step_options, t0, h), carry)
        return carry, row_of(program, carry)

    return lax.scan(to_target, carry, jnp.arange(CHUNK))


def chunked_run(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid, watch: Watch = None):
    """As `traced_run`, outside tracing: compiled once for any N and `every`; stops early when the run has ended.

    Ctrl-C is answered between two chunks, with Outcome.INTERRUPTED.
    """
    run = Chunks(program, step_options, carry, grid)
    tables = []
    try:
        while not run.ended:
            if watch is not None and tables:
                watch(int(run.carry.k))
            tables.append(run.advance())
    except KeyboardInterrupt:
        tables.append(run.give_up())
    tables = tables or [run.nothing()]  # of nodes that are all known before the first step
    return run.carry, {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}


class Chunks:
    """A run that is advanced by chunks of steps, of about SECONDS each. carry: its state; saved: node of its last row."""

    def __init__(self, program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
        self.carry, self.saved = carry, int(carry.k)
        self._given, self._grid, self._steps = (program, step_options), grid, FIRST
        whole = {name: jnp.asarray(getattr(grid, name), dtype=int) for name in ("steps", "every")}
        self._numbers = grid._replace(**whole)

    @property
    def ended(self) -> bool:
        """Whether it has reached its last node, or has an outcome."""
        return int(self.carry.code) != 0 or int(self.carry.k) >= self._grid.steps

    @property
    def unsaved(self) -> bool:
        """Whether it stands at a node that has no row."""
        return int(self.carry.k) > self.saved

    def advance(self) -> dict[str, np.ndarray]:
        """A chunk: the rows that became due."""
        began, start, (_, _, steps, every) = time.perf_counter(), int(self.carry.k), self._grid
        limit = jnp.asarray(min(start + self._steps, steps), dtype=int)
        carry, table = _chunk(*self._given, self.carry, self._numbers, limit)
        rows = jax.tree.map(np.asarray, table)
        new = np.diff(rows["k"], prepend=self.saved) > 0
        due = (rows["k"] % every == 0) | (rows["k"] == steps) | (int(carry.code) != 0)
        kept = {name: column[new & due] for name, column in rows.items()}
        self.carry, self.saved = carry, int(kept["k"][-1]) if len(kept["k"]) else self.saved
        self._steps = paced(max(1, int(carry.k) - start), time.perf_counter() - began)
        return kept

    def give_up(self) -> dict[str, np.ndarray]:
        """The outcome INTERRUPTED, and the row of the last step where it has none."""
        self.carry = self.carry._replace(code=np.asarray(int(Outcome.INTERRUPTED)))
        return jax.tree.map(lambda x: np.asarray(x)[None][: int(self.unsaved)], row_of(self._given[0], self.carry))

    @property
    def state(self) -> dict[str, np.ndarray]:
        """All that the next step depends on."""
        leaves = {f"leaf_{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(self.carry))}
        return leaves | {"saved": np.asarray(self.saved)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """To go on from there."""
        leaves, tree = jax.tree.flatten(self.carry)
        self.carry = jax.tree.unflatten(tree, [jnp.asarray(state[f"leaf_{i}"]) for i in range(len(leaves))])
        self.saved = int(state["saved"])

    def nothing(self) -> dict[str, np.ndarray]:
        """No rows."""
        return jax.tree.map(lambda x: np.asarray(x)[None][:0], row_of(self._given[0], self.carry))

    @property
    def inputs(self) -> np.ndarray:
        """The numbers that the steps read besides the state."""
        leaves = [self._grid.t0, self._grid.h, *jax.tree.leaves(eqx.filter(self._given, eqx.is_array))]
        return np.concatenate([np.ravel(np.asarray(x, float)) for x in leaves])

    @property
    def key(self) -> str:
        """Hash of the equations of a step, as JAX reads them."""
        program, step_options = self._given
        step = functools.partial(_step, program, step_options, self._grid.t0, self._grid.h)
        closed = jax.make_jaxpr(step)(self.carry)
        constants = b"".join(np.asarray(x).tobytes() for x in closed.consts)
        return hashlib.sha256(_ADDRESS.sub("", str(closed.jaxpr)).encode() + constants).hexdigest()
