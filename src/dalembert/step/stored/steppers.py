"""A run that is advanced chunk by chunk by whoever keeps its rows, in machine code: the twin of `Chunks`, which is JAX's."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from dalembert.native import COUNTED, COUNTS, counts
from dalembert.native.chunks import CODE, FIRST, LAST, UNTIL, K, ended, paced
from dalembert.native.stepper.arrays import kept
from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.native import BOTH, columns_of, compiled, empty_rows, packed, told, unpacked
from dalembert.step.run.state import Grid, RunState, StepOptions

TABLE = 2**20  # numbers in the rows of a chunk, at most
ROWS = COUNTED.offset("rows")
RESTORED = (*BOTH, "k", "slow", "saved", "target")


class Stepper(Protocol):
    """What `Chunks` and `MachineChunks` have in common."""

    carry: RunState

    @property
    def ended(self) -> bool: ...
    @property
    def state(self) -> dict[str, np.ndarray]: ...
    @property
    def key(self) -> str: ...
    def restore(self, state: dict[str, np.ndarray]) -> None: ...
    def advance(self) -> dict[str, np.ndarray]: ...
    def give_up(self) -> dict[str, np.ndarray]: ...
    def nothing(self) -> dict[str, np.ndarray]: ...
    @property
    def inputs(self) -> np.ndarray: ...


class MachineChunks:
    """Machine code, a chunk of steps with each call; Unsupported where the program cannot be translated."""

    def __init__(self, program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
        native = compiled(program, step_options, carry, grid.t0, grid.h)
        self._code, self._begin, self._grid, self._steps = native.code, carry, grid, FIRST
        self._state, inputs = packed(np, native, step_options, carry, grid)
        self._count = counts(
            **told(program, step_options, int(carry.k), grid), **{name: int(getattr(carry, name)) for name in BOTH}
        )
        rows = max(2, TABLE // native.code.row_size)
        self._table = empty_rows((rows, native.code.row_size))
        self._call = native.code.chunk(self._state, self._count, inputs)
        self._most = (rows - 1) * grid.every
        self._inputs, self.carry = inputs, carry

    @property
    def ended(self) -> bool:
        """Whether it has reached its last node, or has an outcome."""
        return ended(self._count)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """All that the next step depends on: the carry of machine code, compensations of rounding too, and its counts."""
        return {"carry": self._state.copy(), "count": self._count.copy()}

    @property
    def key(self) -> str:
        """Hash of the machine code: of its text, the processor and the compiler."""
        return self._code.key

    @property
    def inputs(self) -> np.ndarray:
        """The numbers that the steps read besides the state."""
        return self._inputs

    def nothing(self) -> dict[str, np.ndarray]:
        """No rows."""
        return columns_of(self._code, self._table[:0])

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """To go on from there. ValueError for counts that no run of these steps has: machine code believes its counts."""
        found, own = (dict(zip(COUNTS, x.tolist(), strict=True)) for x in (state["count"], self._count))
        k, saved, every = found["k"], found["saved"], own["every"]
        sound = (
            own["first"] <= k <= own["last"] and 0 <= found["known"] <= kept(self._code.layout.stages) and 0 <= saved <= k
            and found["target"] == min((saved // every + 1) * every, own["last"]) and found["code"] in set(Outcome)
        )  # fmt: skip
        if not sound:
            raise ValueError("store: its checkpoint does not fit this run")
        self._state[:] = state["carry"]
        for name in RESTORED:
            self._count[COUNTED.offset(name)] = found[name]
        self._count[UNTIL] = k
        self._take()

    def advance(self) -> dict[str, np.ndarray]:
        """A chunk: the rows that became due, valid until the next one."""
        start = self._count.item(K)
        self._count[UNTIL] = min(start + min(self._steps, self._most) * self._code.layout.stages, self._count.item(LAST))
        began = time.perf_counter()
        rows = self._take()
        made = max(1, (self._count.item(K) - start) // self._code.layout.stages)
        self._steps = paced(made, time.perf_counter() - began)
        return rows

    def give_up(self) -> dict[str, np.ndarray]:
        """The outcome INTERRUPTED, and the row of the last step where it has none."""
        self._count[CODE] = int(Outcome.INTERRUPTED)
        return self._take()

    def _take(self) -> dict[str, np.ndarray]:
        self._count[ROWS] = 0
        self._call(self._table.ctypes.data)
        rows = columns_of(self._code, self._table[: self._count.item(ROWS)])
        self.carry = unpacked(np, self._code, self._begin, self._state.copy(), self._count.copy(), rows)
        return rows
