"""A run that ends at a time, and not after a number of steps: to the first node behind it, and from there back to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.lazy import as_left
from dalembert.native import native_first
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step.begun_run import BegunRun
from dalembert.step.options import RunOptions
from dalembert.step.run.loop import Chunks
from dalembert.step.run.reduced import as_before
from dalembert.step.run.state import RunState
from dalembert.step.stored.steppers import MachineChunks, Stepper

NEAR = 1e-12  # of the time: what is left is no step whose length the times resolve, and its square is below rounding
Rows = dict[str, np.ndarray]


class AtTime(NamedTuple):
    """Where a run ends. step: (q, v, h, t) → the path of one step of the length h from t."""

    begun: BegunRun
    options: RunOptions
    step: Callable[[Any, Any, float, float], Path]

    def stepper(self) -> Stepper:
        """The run, by chunks: nobody knows how many steps it takes."""
        arguments = self.begun.arguments
        return native_first(MachineChunks, Chunks, *arguments) if self.begun.native else Chunks(*arguments)

    def counted(self) -> BegunRun:
        """The same run with its number of steps, found by making them; with one more where the last one fails."""
        grid = self.begun.grid
        stepper = self._replace(begun=self.begun._replace(grid=grid._replace(every=grid.steps))).stepper()
        try:
            while not stepper.ended:
                stepper.advance()
        except KeyboardInterrupt:
            stepper.give_up()
            raise Interrupted(self.begun.ended(self.carried(stepper.carry), stepper.nothing())) from None
        failed = int(stepper.carry.code) != int(Outcome.STOPPED)
        return self.begun._replace(grid=grid._replace(steps=int(stepper.carry.k) + failed))

    def carried(self, carry: RunState) -> RunState:
        """On the way: of the reduced value and the one before it, the first."""
        return carry if self.options.reduce is None else carry._replace(reduced=carry.reduced[0])

    def ended(self, carry: RunState, rows: Rows) -> RunState:
        """The end, with the state at the time in the place of the last row, which changes."""
        until = self.options.until
        end, start = float(rows["clock"][-1, 0]) if len(rows["k"]) else np.nan, float(self.begun.grid.t0)
        if int(carry.code) == int(Outcome.STOPPED) and abs(end - start) >= abs(until - start):
            carry = carry._replace(code=np.asarray(_back(rows, until, self.step)))
        if self.options.reduce is not None:
            carry = carry._replace(reduced=_reduced(carry, rows, self.options.reduce[0]))
        return carry


def run_until(at: AtTime) -> Path:
    """To the first node at or after the time, and then, instead of that node, the state at the time itself."""
    stepper, tables = at.stepper(), []
    try:
        while not stepper.ended:
            tables.append({name: np.array(x) for name, x in stepper.advance().items()})
    except KeyboardInterrupt:
        tables.append(stepper.give_up())
    rows = {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}
    return at.begun.ended(at.ended(stepper.carry, rows), rows)


def _reduced(carry: RunState, rows: Rows, function: Callable) -> Any:
    """Over the nodes before the time, and the state at it: not over the node behind it."""
    latest, before = carry.reduced
    if int(carry.code) != int(Outcome.SUCCESS):
        return latest
    state = (rows["clock"][-1, 0], *(rows[name][-1] for name in ("q", "v", "multipliers")))
    return as_before(function(before, *map(jnp.asarray, state)), before)


def _back(rows: Rows, until: float, step: Callable[[Any, Any, float, float], Path]) -> int:
    """A step of the scheme with the length that is left, backwards from the last row into its place; the outcome. It has the
    order of the scheme and satisfies the constraints, and the nodes before are as they would be in a longer run."""
    q, v, end = rows["q"][-1], rows["v"][-1], float(rows["clock"][-1, 0])
    left = until - end
    if abs(left) <= NEAR * max(abs(until), abs(end)):
        rows["q"][-1] = q + left * v
        rows["clock"][-1, 0] = until
        return int(Outcome.SUCCESS)
    one = step(q.copy(), v.copy(), left, end)
    if code := int(as_left(one, "code")):
        return code
    fields = {"q": "q", "v": "v", "multipliers": "multipliers", "force": "constraint_forces"}
    for name, field in fields.items():
        rows[name][-1] = np.asarray(as_left(one, field))[-1]
    rows["clock"][-1] = until, left
    return int(Outcome.SUCCESS)
