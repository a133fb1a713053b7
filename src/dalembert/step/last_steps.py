"""Runs in lanes that end at a time: each goes to its first node behind it, and from there back by one step of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.native import COUNTED, CompiledStep, counts
from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import DENSITY, STAGE, TIME
from dalembert.step.run.native import told
from dalembert.step.run.reduced import as_doubles, from_doubles
from dalembert.step.run.state import Grid, RunState, StepOptions
from dalembert.step.until import NEAR

CODE = COUNTED.offset("code")


class LaneArrays(NamedTuple):
    """What machine code reads and writes of many runs, each with one leading axis; rows: (B, 1, ·), of the last states."""

    state: np.ndarray
    counted: np.ndarray
    inputs: np.ndarray
    rows: np.ndarray


def end_at(
    until: float,
    code: CompiledStep,
    begun: tuple[StepProgram, StepOptions, RunState, Grid],
    arrays: LaneArrays,
    threads: int | None,
) -> None:
    """The last rows become those at the time, with the outcome of the step back, SUCCESS where it could be solved.

    begun: the program, the options of a step, the states before the first step and the grid. The step is that of the run's
    own code with ε turned round and the density ε/h of the length h that is left: it has the order of the scheme.
    """
    program, step_options, carry, grid = begun
    h, layout = float(grid.h), code.layout
    ends = layout.packed_carry.unpack(arrays.state)["s"][:, TIME]
    reached = (arrays.counted[:, CODE] == int(Outcome.STOPPED)) & ((ends - until) * h >= 0)
    left, near = until - ends, np.abs(until - ends) <= NEAR * np.maximum(abs(until), np.abs(ends))
    _move(layout, arrays, np.flatnonzero(reached & near), left, until)
    lanes = np.flatnonzero(reached & ~near)
    if not len(lanes):
        return
    state, inputs = arrays.state[lanes], np.broadcast_to(arrays.inputs, (len(ends), arrays.inputs.shape[-1]))[lanes].copy()
    part = layout.packed_carry.unpack(state)
    part["s"][:, DENSITY], part["s"][:, STAGE] = -h / left[lanes], 0.0
    part["s_compensation"][:, DENSITY], part["sign"][:] = 0.0, 0.0
    if step_options.reduce is not None:
        _latest_is_before(part["reduced"], jax.tree.map(lambda x: np.asarray(x)[lanes], carry.reduced))
    layout.packed_inputs.unpack(inputs)["h"][...] = -h
    one = counts(**told(program, step_options, 0, Grid(grid.t0, -h, 1, 1)))
    count, rows = np.repeat(one[None], len(lanes), axis=0), np.empty((len(lanes), 1, code.row_size))
    code.run_many(state, count, inputs, rows, threads)
    solved = np.isin(count[:, CODE], (int(Outcome.SUCCESS), int(Outcome.STOPPED)))
    arrays.counted[lanes, CODE] = np.where(solved, int(Outcome.SUCCESS), count[:, CODE])
    lanes, rows, state = lanes[solved], rows[solved], state[solved]
    old, new = (layout.packed_row.unpack(x) for x in (arrays.rows, rows))
    for name in ("q", "v", "multipliers", "force"):
        old[name][lanes] = new[name]
    old["clock"][lanes, 0] = np.stack([np.full(len(lanes), until), left[lanes]], axis=-1)
    whole = layout.packed_carry.unpack(arrays.state)
    whole["reduced"][lanes] = layout.packed_carry.unpack(state)["reduced"]


def _move(layout, arrays: LaneArrays, lanes: np.ndarray, left: np.ndarray, until: float) -> None:
    """Where what is left is no step."""
    row = layout.packed_row.unpack(arrays.rows)
    row["q"][lanes, 0] += left[lanes, None] * row["v"][lanes, 0]
    row["clock"][lanes, 0, 0] = until
    arrays.counted[lanes, CODE] = int(Outcome.SUCCESS)


def _latest_is_before(reduced: np.ndarray, like: Any) -> None:
    """Of (value, value before the last step): both as it was before, so that the step back is the one that is reduced."""
    _, before = from_doubles(np, reduced.copy(), like, 1)
    reduced[:] = np.concatenate([x.reshape(len(reduced), -1) for x in as_doubles(np, (before, before))], axis=-1)
