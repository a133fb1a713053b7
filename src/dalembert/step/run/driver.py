"""Run: a run before its first step, and what leads from there to a Path, in memory or in a store."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.interrupts import Interrupted, held_back, wanted
from dalembert.native import native_first
from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance
from dalembert.step.programs.varying import DENSITY, STAGE, TIME
from dalembert.step.run.assemble import Levels, is_resolved, path_of
from dalembert.step.run.diagnose import diagnosis
from dalembert.step.run.loop import JaxSteps, rows_of, traced_run
from dalembert.step.run.machine import machine_steps, native_traced_run
from dalembert.step.run.state import Grid, Prepared, RunState, StepOptions, Watch
from dalembert.step.run.steps import Opening, Rows, Sink, Steps, fingerprint, run_all
from dalembert.tracing import Jitted

NEAR = 1e-12  # of the time: what is left is no step whose length the times resolve, and its square is below rounding
FIELDS = ("q", "v", "multipliers", "force")  # of a row, that a step gives


class Run(NamedTuple):
    """The program with the data of its first step, and the state before it.

    native: whether machine code is to run it. record: of the call, None where something has no value yet. until: the time at
    which it ends, and not after a number of steps; its states then reduce to (value, value before the last step).
    """

    prepared: Prepared
    carry: RunState
    grid: Grid
    step_options: StepOptions
    native: bool
    record: Provenance | None
    until: float | None = None

    def steps(self, keep: bool = False) -> Steps:
        """The steps by either back-end. keep: all rows in one table."""
        given = self.prepared.program, self.step_options, self.carry, self.grid
        by_machine = lambda *x: machine_steps(*x, keep=keep)  # noqa: E731
        return native_first(by_machine, JaxSteps, *given) if self.native else JaxSteps(*given)

    def in_memory(self, watch: Watch = None) -> tuple[Path, bool]:
        """The path of all steps, traced or not, however the run ended, without provenance where it is traced; and whether
        there is nothing to say of it."""
        if self.record is None:
            return _run_traced(self.prepared, self.step_options, self.carry, self.grid, self.native), True
        steps = self.steps(keep=self.until is None)
        rows = run_all(steps, watch)
        carry = self.at_end(steps, rows)
        counted = (int(x) for x in (carry.turns, carry.crossings, carry.leaps))
        calm = int(carry.code) == 0 and is_resolved(steps.k - self.prepared.program.starting_nodes, *counted)
        return self.ended(carry, rows), calm

    def into(self, sink: Sink, watch: Watch) -> Path:
        """The first and the last state, with all rows in the sink, from where that says: the beginning, or the state after
        the rows it has. Of a run that ends at a time the number of steps is known, see `counted`."""
        if self.record is None:
            raise TypeError("store: a traced run has no values yet; save what the jitted function returns")
        run, steps = (
            self._replace(grid=self.grid._replace(t0=np.asarray(self.grid.t0), h=np.asarray(self.grid.h))),
            self.steps(),
        )
        (t0, h, last, every), program, taken, carry, row = run.grid, run.prepared.program, 0, None, steps.no_rows()
        before, number = rows_of(program.starting_nodes, last, every)
        levels = Levels.of(program, run.step_options)

        def path(rows: Rows) -> Path:
            return run.ended(run.latest(steps.carry) if carry is None else carry, rows)

        def take(rows: Rows) -> None:
            nonlocal taken, row
            if len(rows["k"]):
                sink.take(levels.fields(jax.tree.map(np.asarray, rows), t0, h), taken)
                taken += len(rows["k"])
                row = {name: np.array(x[-1:]) for name, x in rows.items()}

        resumed = sink.begin(Opening(path(row), number - before, steps.state, fingerprint(steps)))
        if resumed is not None:
            taken, state = resumed
            steps.restore(state)
        with held_back() as noted:
            while not (steps.ended or wanted()):
                rows = steps.advance()
                if steps.ended and run.until is not None:
                    carry = run.at_end(steps, rows)
                take(rows)
                if watch is not None:
                    watch(steps.k)
                if sink.due():
                    sink.commit(path(steps.no_rows()), taken, steps.state)
            rows, state = taken, steps.state
            if not steps.ended:
                take(steps.interrupt())
            sink.finish(path(row), rows, taken, state)
        if noted.pressed and steps.code != int(Outcome.INTERRUPTED):  # after the last step
            raise Interrupted(path(row))
        return path(row)

    def counted(self) -> Run:
        """The same run with the number of steps to its time, found by making them; and one more where the last one fails."""
        alone = self._replace(grid=self.grid._replace(every=self.grid.steps))
        steps = alone.steps()
        run_all(steps)
        if steps.code == int(Outcome.INTERRUPTED):
            raise Interrupted(self.ended(self.latest(steps.carry), steps.no_rows()))
        failed = steps.code != int(Outcome.STOPPED)
        return self._replace(grid=self.grid._replace(steps=steps.k + failed))

    def latest(self, carry: RunState) -> RunState:
        """On the way to a time: of the reduced value and the one before it, the first."""
        return carry if self.until is None or carry.reduced is None else carry._replace(reduced=carry.reduced[0])

    def at_end(self, steps: Steps, rows: Rows) -> RunState:
        """The state at the end; of a run to a time the last row, of the node behind it, becomes that of the time, by a step
        of the scheme with the length that is left."""
        carry, until, (t0, h, _, _) = steps.carry, self.until, self.grid
        if until is None:
            return carry
        end = float(rows["clock"][-1, 0]) if len(rows["k"]) else math.nan
        if int(carry.code) != int(Outcome.STOPPED) or not abs(end - t0) >= abs(until - t0):
            return self.latest(carry)
        left, code = until - end, Outcome.SUCCESS
        if abs(left) <= NEAR * max(abs(until), abs(end)):
            rows["q"][-1] += left * rows["v"][-1]
            rows["clock"][-1, 0] = until
        else:
            back = self._replace(carry=turned_back(carry, until, h), grid=Grid(t0, -h, 1, 1)).steps()
            row = back.advance()
            code = outcome_back(back.code)
            if code == Outcome.SUCCESS:
                carry = carry._replace(reduced=back.carry.reduced)
                rows["clock"][-1] = until, left
                for name in FIELDS:
                    rows[name][-1] = row[name][-1]
        return self.latest(carry._replace(code=np.asarray(int(code))))

    def ended(self, carry: RunState, rows: Rows) -> Path:
        """The path, with the outcome told apart where a step could not be solved."""
        grid = self.grid
        code = int(diagnosis(self.prepared.program, self.step_options, carry, grid.t0, grid.h))
        # By NumPy: every small operation of JAX is compiled when it is first met, jnp.asarray too, for every shape.
        run = self._replace(prepared=jax.tree.map(np.asarray, self.prepared))
        carry, rows = jax.tree.map(np.asarray, (carry._replace(code=np.asarray(code)), rows))
        # After Ctrl-C arrays of all rows are made when they are looked at, and not before it is answered.
        if code == int(Outcome.INTERRUPTED):
            return Path.later(lambda: vars(run.path(carry, rows)), code=carry.code, provenance=self.record)
        return run.path(carry, rows)

    def path(self, carry: RunState, rows: Rows) -> Path:
        """The path of numbers."""
        return path_of(np, self.prepared, carry, rows, self.grid, self.step_options, provenance=self.record)


def with_one_before(step_options: StepOptions, initial: Any) -> tuple[StepOptions, Any]:
    """A reducer of (value, value before the last step) with its initial value, for a run whose last step is taken back."""
    function = step_options.reduce
    if function is None:
        return step_options, initial
    both = lambda values, *rest: (function(values[0], *rest), values[0])  # noqa: E731
    return dataclasses.replace(step_options, reduce=both), (initial, initial)


def turned_back(carry: RunState, until: float, h: float) -> RunState:
    """The state, or states, before a step from the end of a run back to a time, by the run's own equations with ε turned
    round: the density is ε/h of the length h that is left. It has the order of the scheme and satisfies the constraints, and
    the nodes before are as they would be in a longer run."""
    s, zero = np.array(carry.s), np.zeros_like(carry.k)
    s[..., DENSITY], s[..., STAGE] = -h / (until - s[..., TIME]), 0.0
    reduced = None if carry.reduced is None else (carry.reduced[1], carry.reduced[1])
    fresh = dict.fromkeys(("k", "known", "code", "iterations", "max_iterations", "crossings", "turns", "leaps"), zero)
    return carry._replace(s=s, sign=np.zeros_like(carry.sign), reduced=reduced, **fresh)


def outcome_back(code: Any) -> Any:
    """The outcome of a run to a time from that of its last step: what the user would stop at is no matter there."""
    solved = (np.asarray(code) == int(Outcome.SUCCESS)) | (np.asarray(code) == int(Outcome.STOPPED))
    return np.where(solved, int(Outcome.SUCCESS), code)


@Jitted
def _run_traced(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, native: bool) -> Path:
    """The run under tracing, as one program: under grad or vmap alone, without jit, it would be traced and compiled anew by
    every call, and its last operations one by one."""
    arguments = (prepared.program, step_options, carry, grid)
    carry, rows = native_first(native_traced_run, traced_run, *arguments) if native else traced_run(*arguments)
    return path_of(jnp, prepared, carry, rows, grid, step_options)
