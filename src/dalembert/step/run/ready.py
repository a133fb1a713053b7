"""Steps whose equations are machine code already, between arrays that are filled with the numbers of a run and nothing else.

What is the same in every run is found once: where each number stands in its arrays, and their addresses. Rows are written
where the path holds them, and the path's arrays are made when the first of them is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dalembert.native import COUNTED, CompiledStep, counts
from dalembert.outcome import UNFAILED, Outcome
from dalembert.path import Path, Provenance, Statistics
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.assemble import Levels, saved_ahead
from dalembert.step.run.diagnose import diagnosis
from dalembert.step.run.native import Limits, columns_of, empty_rows, told_in_stages, unpacked
from dalembert.step.run.state import Grid, RunState, StepOptions, initial_state
from dalembert.step.start.prepared import Prepared

COUNT = {name: COUNTED.offset(name) for name in COUNTED.fields}
WARNED_OF = [COUNT[name] for name in ("turns", "crossings", "leaps")]
_STATISTICS = ("iterations", "max_iterations", "crossings", "turns", "leaps")


class Told(NamedTuple):
    """What a run is told besides its data. settings: t0, h and the tolerance; ahead: which nodes before the first step have
    rows; rows: as many as it may fill."""

    grid: Grid
    settings: tuple[float, float, float]
    counts: np.ndarray
    ahead: list[int]
    rows: int


class Done(NamedTuple):
    """What is left of a run. table: all rows, those of the nodes before the first step included; counted: by COUNT."""

    table: np.ndarray
    counted: list[int]
    residual: float
    failed_residual: float
    code: int

    @property
    def calm(self) -> bool:
        """Whether it reached its end, and nothing was counted that is warned of."""
        return self.code == 0 and not any(self.counted[i] for i in WARNED_OF)


class StepArrays:
    """The arrays of one run at a time, for one thread; what is the same in every run is written into them once."""

    def __init__(self, code: CompiledStep, places: list[tuple[slice, int]], leaves: list):
        parts = [np.ravel(np.asarray(x, float)) for x in leaves]
        self.state, self.count = np.empty(code.carry_size), np.empty(COUNTED.size, np.int64)
        self._inputs, self._settings = np.concatenate([np.empty(3), *parts, code.captured]), None
        self._places = [(self.state[place], which) for place, which in places]
        self.call = code.over(self.state, self.count, self._inputs)

    def fill(self, state: np.ndarray, data: tuple, told: Told) -> None:
        """With the state before any step, data = (q, s, z) and what the run is told."""
        self.state[:], self.count[:] = state, told.counts
        for place, which in self._places:
            place[:] = data[which]
        if self._settings is not told.settings:
            self._settings, self._inputs[:3] = told.settings, told.settings


class ReadySteps:
    """The steps of one program as machine code, between arrays that hold all numbers of a run.

    starting_nodes: nodes before the first step, which have rows of their own.
    """

    def __init__(self, code: CompiledStep, program: StepProgram, sampled: bool):
        layout = code.layout
        carry = layout.packed_carry.fields
        self.code, self._stages = code, layout.stages
        self.starting_nodes, self._levels = program.starting_nodes, Levels(program.levels, program.multiplier_time, sampled)
        self._at = {name: slice(f.offset, f.offset + f.length) for name, f in layout.packed_row.fields.items()}
        self._k = layout.packed_row.offset("k")
        names = {"q": 0, "before_q": 0, "begin_q": 0, "begin_before_q": 0, "s": 1, "before_s": 1, "begin_s": 1,
                 "begin_before_s": 1, "history": 2, "begin_w": 2}  # fmt: skip
        lengths = {0: layout.n, 1: layout.k, 2: layout.z}
        self._places = [(slice(carry[name].offset, carry[name].offset + lengths[which]), which)
                        for name, which in names.items() if name in carry]  # fmt: skip
        self._state = np.zeros(layout.packed_carry.size)
        self._state[carry["failed_residual"].offset] = np.nan
        self._residuals = carry["residual"].offset, carry["failed_residual"].offset

    def arrays(self, leaves: list) -> StepArrays:
        """Arrays to run in. leaves: the arrays of the program."""
        return StepArrays(self.code, self._places, leaves)

    def told(self, grid: Grid, tolerance: float, limits: Limits) -> Told:
        """What every run on these nodes is told."""
        plain = Grid(float(grid.t0), float(grid.h), grid.steps, grid.every)
        count = counts(**told_in_stages(self._stages, self.starting_nodes, self.starting_nodes, grid, limits), known=1)
        ahead = saved_ahead(self.starting_nodes, plain)
        rows = len(ahead) + math.ceil(grid.steps / grid.every) + 1
        return Told(plain, (plain.t0, plain.h, float(tolerance)), count, ahead, rows)

    def run(self, made: Prepared, told: Told, arrays: StepArrays) -> Done:
        """All steps."""
        _, nodes, q, s, expected = made
        h, ahead = told.grid.h, len(told.ahead)
        at_q, at_v, at_k = self._at["q"], self._at["v"], self._k
        arrays.fill(self._state, (q, s, expected), told)
        table = empty_rows((told.rows, self.code.row_size))
        for k, row in zip(told.ahead, table, strict=False):
            row[at_q] = nodes[k]
            row[at_v] = (nodes[k] - nodes[k - 1]) / h if k else s
            row[at_k] = k * self._stages
        arrays.call(table[ahead:])
        counted = arrays.count.tolist()
        residual, failed = (arrays.state.item(i) for i in self._residuals)
        return Done(table[: ahead + counted[COUNT["rows"]]], counted, residual, failed, counted[COUNT["code"]])

    def path(self, done: Done, told: Told, record: Callable[[], Provenance]) -> Path:
        """The path, whose arrays are made, and are views of the rows, when one of them is asked for."""
        interrupted = done.code == int(Outcome.INTERRUPTED)  # the rows may be many, and Ctrl-C is to be answered at once
        known = {"code": np.asarray(done.code), "provenance": record()} if interrupted else {}
        return Path.later(lambda: self._fields(done, told, record()), **known)

    def _fields(self, done: Done, told: Told, record: Provenance) -> dict[str, Any]:
        table, count, residual, failed_residual, code = done
        t0, h = told.grid.t0, told.grid.h
        columns = {name: table[:, place] for name, place in self._at.items()}
        k = table[:, self._k]
        columns["k"] = k if self._stages == 1 else k // self._stages
        reached = count[COUNT["k"]] // self._stages
        failed = code not in UNFAILED
        statistics = Statistics.of(
            **{name: np.asarray(count[COUNT[name]]) for name in _STATISTICS},
            residual=np.asarray(residual),
            failed_step=np.asarray(reached if failed else -1),
            failed_time=np.asarray(t0 + reached * h if failed else np.nan),
            failed_residual=np.asarray(failed_residual),
        )
        rows = self._levels.fields(columns, t0, h)
        return self._levels.with_nodes_ahead(rows, len(told.ahead)) | {
            "h": np.asarray(h), "steps_done": np.asarray(reached - self.starting_nodes), "code": np.asarray(code),
            "statistics": statistics, "reduced": None, "h_last": None, "levels": self._levels.names,
            "provenance": record,
        }  # fmt: skip

    def explained(self, done: Done, made: Prepared, told: Told, arrays: StepArrays, step_options: StepOptions) -> Done:
        """With the outcome of a run that did not reach its end, see `diagnosis`; right after it, in the same arrays."""
        t0, h = told.grid.t0, told.grid.h
        start = initial_state(made, np.asarray(t0), np.asarray(h), None)
        rows = columns_of(self.code, done.table[len(told.ahead) :][-1:])
        carry: RunState = unpacked(np, self.code, start, arrays.state.copy(), arrays.count.copy(), rows)
        return done._replace(code=int(diagnosis(made.program, step_options, carry, np.asarray(t0), np.asarray(h))))
