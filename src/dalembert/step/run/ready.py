"""A run whose equations are machine code already: from numbers to a path, with nothing looked at but the numbers.

What is the same in every call is found once: the root that gives (a, λ) and proves that no check would find anything, the
code of the steps, and where each number stands in its arrays. Rows are written where the path holds them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from dalembert.native import COUNTED, CompiledStep, counts
from dalembert.outcome import Outcome
from dalembert.path import Path, Statistics
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.diagnose import diagnosis
from dalembert.step.run.native import Limits, columns_of, empty_rows, told_in_stages, unpacked
from dalembert.step.run.provenance import Words
from dalembert.step.run.state import Choices, Grid, RunState, initial_state
from dalembert.step.start.prepared import Prepared

COUNT = {name: COUNTED.offset(name) for name in COUNTED.fields}
NOTHING = np.empty(0)


class Bound(NamedTuple):
    """What belongs to the function objects of a call: its program, with whatever arrays, and the words of its record."""

    program: StepProgram
    words: Words

    def with_arrays(self, leaves: list) -> StepProgram:
        """The program with these arrays."""
        arrays, static = eqx.partition(self.program, eqx.is_array)
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), static)


class Done(NamedTuple):
    """The arrays after a run. table: all rows, those of the nodes before the first step included."""

    state: np.ndarray
    counted: np.ndarray
    table: np.ndarray


class ReadySteps:
    """The steps of one program as machine code, between arrays that hold all numbers of a run.

    nodes: how many are known before the first step and have rows of their own; at: of every name of a row its columns.
    """

    def __init__(self, code: CompiledStep, program: StepProgram, sampled: bool):
        layout = code.layout
        carry = layout.packed_carry.fields
        self.code, self.sampled, self.stages = code, sampled, layout.stages
        self.lead, self.mid, self.levels = program.lead, program.levels[0] == "mid", program.levels
        self.multiplier_time = program.multiplier_time
        self.at = {name: slice(f.offset, f.offset + f.length) for name, f in layout.packed_row.fields.items()}
        self._k = layout.packed_row.offset("k")
        names = {"q": 0, "before_q": 0, "begin_q": 0, "begin_before_q": 0, "s": 1, "before_s": 1, "begin_s": 1,
                 "begin_before_s": 1, "history": 2, "begin_w": 2}  # fmt: skip
        lengths = {0: layout.n, 1: layout.k, 2: layout.z}
        self._places = [(slice(carry[name].offset, carry[name].offset + lengths[which]), which)
                        for name, which in names.items() if name in carry]  # fmt: skip
        self._state = np.zeros(layout.packed_carry.size)
        self._state[carry["failed_residual"].offset] = np.nan
        self._residuals = carry["residual"].offset, carry["failed_residual"].offset
        self._counted: tuple[tuple, np.ndarray] = ((), NOTHING)

    def inputs(self, grid: Grid, tolerance: float, leaves: list) -> np.ndarray:
        """What the machine code reads. leaves: the arrays of the program."""
        given = [np.ravel(np.asarray(x, float)) for x in leaves]
        return np.concatenate([(grid.t0, grid.h, tolerance), *given, self.code.captured])

    def code_of(self, done: Done) -> int:
        """The outcome as the machine code found it."""
        return int(done.counted[COUNT["code"]])

    def run(self, made: Prepared, grid: Grid, inputs: np.ndarray, limits: Limits) -> Done:
        """All steps."""
        _, nodes, q, s, expected = made
        state, count = self._state.copy(), self._counts(grid, limits)
        for place, which in self._places:
            state[place] = (q, s, expected)[which]
        ahead = 1 + self.lead // grid.every
        table = empty_rows((ahead + math.ceil(grid.steps / grid.every) + 1, self.code.row_size))
        for i in range(ahead):
            k = i * grid.every
            table[i, self.at["q"]] = nodes[k]
            table[i, self.at["v"]] = (nodes[k] - nodes[k - 1]) / grid.h if k else s
            table[i, self._k] = k * self.stages
        self.code.run(state, count, inputs, table[ahead:])
        return Done(state, count, table[: ahead + count[COUNT["rows"]]])

    def _counts(self, grid: Grid, limits: Limits) -> np.ndarray:
        """What the machine code counts by, of its own; that of the last call is kept."""
        key = grid.steps, grid.every, limits
        before = self._counted
        if before[0] != key:
            nodes = told_in_stages(self.stages, self.lead, self.lead, grid, limits)
            before = self._counted = key, counts(**nodes, known=1)
        return before[1].copy()

    def path(self, done: Done, grid: Grid, code: int, provenance: Any) -> Path:
        """The path, its arrays views of the rows."""
        state, count, table = done
        t0, h, _, every = grid
        ahead = 1 + self.lead // every
        velocities = ahead - 1 if self.mid else ahead
        k = table[:, self._k]
        t = t0 + (k if self.stages == 1 else k // self.stages) * h
        reached = int(count[COUNT["k"]]) // self.stages
        failed = code not in (0, int(Outcome.STOPPED))
        statistics = Statistics.of(
            **{name: np.asarray(count[COUNT[name]]) for name in _COUNTED},
            residual=np.asarray(state[self._residuals[0]]),
            failed_step=np.asarray(reached if failed else -1),
            failed_time=np.asarray(t0 + reached * h if failed else np.nan),
            failed_residual=np.asarray(state[self._residuals[1]]),
        )
        steps = t[ahead:]
        at_velocities = t[ahead - velocities :]
        return Path.of(
            t=t, q=table[:, self.at["q"]], t_velocity=at_velocities - 0.5 * h if self.mid else at_velocities,
            v=table[ahead - velocities :, self.at["v"]], t_multipliers=steps + (self.multiplier_time - 1.0) * h,
            multipliers=table[ahead:, self.at["multipliers"]], constraint_forces=table[ahead:, self.at["force"]],
            h=np.asarray(h), steps_done=np.asarray(reached - self.lead), code=np.asarray(code), statistics=statistics,
            t_feedback=steps - h if self.sampled else None,
            feedback=table[ahead:, self.at["held"]] if self.sampled else None,
            reduced=None, levels=self.levels, provenance=provenance,
        )  # fmt: skip

    def outcome(self, made: Prepared, grid: Grid, choices: Choices, done: Done) -> int:
        """How a run ended that did not reach its end, see `diagnosis`."""
        start = initial_state(made, grid.t0, grid.h, None)
        rows = columns_of(self.code, done.table[1 + self.lead // grid.every :])
        carry: RunState = unpacked(np, self.code, start, done.state, done.counted, rows)
        return int(diagnosis(made.program, choices, carry, grid.t0, grid.h))


_COUNTED = ("iterations", "max_iterations", "crossings", "turns", "leaps")
