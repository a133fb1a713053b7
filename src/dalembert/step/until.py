"""A run that ends at a time, and not after a number of steps: to the first node behind it, and from there back to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

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


def run_until(begun: BegunRun, options: RunOptions, step: Callable[[Any, Any, float, float], Path]) -> Path:
    """To the first node at or after the time, chunk by chunk: nobody knows how many steps that takes. Then, instead of that
    node, the state at the time itself.

    step: (q, v, h, t) → the path of one step of the length h from t.
    """
    arguments, until = begun.arguments, options.until
    stepper: Stepper = native_first(MachineChunks, Chunks, *arguments) if begun.native else Chunks(*arguments)
    tables = []
    try:
        while not stepper.ended:
            tables.append({name: np.array(x) for name, x in stepper.advance().items()})
    except KeyboardInterrupt:
        tables.append(stepper.give_up())
    carry, rows = stepper.carry, {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}
    end, start = float(rows["clock"][-1, 0]) if len(rows["k"]) else np.nan, float(begun.grid.t0)
    if int(carry.code) == int(Outcome.STOPPED) and abs(end - start) >= abs(until - start):
        carry = carry._replace(code=np.asarray(_back(rows, until, step)))
    if options.reduce is not None:
        carry = carry._replace(reduced=_reduced(carry, rows, options.reduce[0]))
    return begun.ended(carry, rows)


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
