"""A run whose rows go into a store, chunk by chunk, with its whole state from time to time: it can be taken up again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dalembert.interrupts import Interrupted, held_back, wanted
from dalembert.native import native_first
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step.begun_run import BegunRun
from dalembert.step.run.assemble import Levels
from dalembert.step.run.loop import Chunks, rows_of
from dalembert.step.run.state import Grid, RunState, Watch
from dalembert.step.stored.determined import determined
from dalembert.step.stored.sink import Opening, Sink
from dalembert.step.stored.steppers import MachineChunks, Stepper
from dalembert.step.until import AtTime


def streamed(begun: BegunRun, watch: Watch, sink: Sink, at: AtTime | None = None) -> Path:
    """The first and the last state of a run, from where the sink says: its beginning, or the state after the rows it has.
    at: where a run ends at a time, of which the number of steps is known."""
    if begun.record is None:
        raise TypeError("store: a traced run has no values yet; save what the jitted function returns")
    grid, step_options, arguments = begun.grid, begun.step_options, begun.arguments
    program = begun.prepared.program
    stepper: Stepper = native_first(MachineChunks, Chunks, *arguments) if begun.native else Chunks(*arguments)
    plain = Grid(np.asarray(grid.t0), np.asarray(grid.h), grid.steps, grid.every)
    begun = begun._replace(grid=plain)

    end: list[RunState] = []  # at a time

    def path(rows: dict) -> Path:
        carry = stepper.carry if at is None else at.carried(stepper.carry)
        return begun.ended(end[0] if end else carry, rows)

    def advance() -> dict[str, np.ndarray]:
        rows = stepper.advance()
        if at is not None and stepper.ended:
            rows = {name: np.array(x) for name, x in rows.items()}
            end.append(at.ended(stepper.carry, rows))
        return rows

    def fields(rows: dict) -> dict[str, Any]:
        return Levels.of(program, step_options).fields(jax.tree.map(np.asarray, rows), plain.t0, plain.h)

    before, number = rows_of(program.starting_nodes, grid.steps, grid.every)
    resumed = sink.begin(Opening(path(stepper.nothing()), number - before, stepper.state, fingerprint(stepper)))
    taken, state = resumed or (0, None)
    if state is not None:
        stepper.restore(state)
    return path(_run(stepper, advance, Taken(sink, fields, taken), watch, path))


class Taken:
    """Rows on their way into a sink: how many there are, and the last one."""

    def __init__(self, sink: Sink, fields: Callable[[dict], dict], rows: int):
        self.sink, self.rows, self.last, self._fields = sink, rows, None, fields

    def take(self, rows: dict[str, np.ndarray]) -> None:
        """At the end."""
        if len(rows["k"]):
            self.sink.take(self._fields(rows), self.rows)
            self.rows += len(rows["k"])
            self.last = {name: np.array(x[-1:]) for name, x in rows.items()}


def _run(
    stepper: Stepper, advance: Callable[[], dict], taken: Taken, watch: Watch, path: Callable[[dict], Path]
) -> dict[str, np.ndarray]:
    """All steps that are left; the last row."""
    sink = taken.sink
    with held_back() as noted:
        while not (stepper.ended or wanted()):
            taken.take(advance())
            if watch is not None:
                watch(int(stepper.carry.k))
            if sink.due():
                sink.commit(path(stepper.nothing()), taken.rows, stepper.state)
        rows, state = taken.rows, stepper.state
        if not stepper.ended:
            taken.take(stepper.give_up())
        last = taken.last or stepper.nothing()
        sink.finish(path(last), rows, taken.rows, state)
    if noted.pressed and stepper.carry.code != int(Outcome.INTERRUPTED):  # after the last step
        raise Interrupted(path(last))
    return last


def fingerprint(stepper: Stepper) -> dict[str, str]:
    """What determines the bits of a run besides its record."""
    return determined(isinstance(stepper, MachineChunks), stepper.key, stepper.inputs)
