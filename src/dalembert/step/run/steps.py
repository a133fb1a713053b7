"""Steps: what a back-end does with a run, and the loop that makes all of its steps."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np

from dalembert.native.chunks import FIRST
from dalembert.step.run.state import Grid, RunState, Watch

Rows = dict[str, Any]


class Steps(abc.ABC):
    """The steps of a run, made in chunks: between two of them Ctrl-C is answered, and rows are taken away.

    grid: its nodes; carry: its state; pace: steps of the next chunk, so that one takes about SECONDS.
    """

    native: ClassVar[bool]
    carry: RunState

    def __init__(self, grid: Grid):
        self.grid, self.pace = grid, FIRST

    @property
    @abc.abstractmethod
    def code(self) -> int:
        """The outcome, 0 as long as there is none."""

    @property
    @abc.abstractmethod
    def k(self) -> int:
        """The node that it has come to."""

    @property
    def ended(self) -> bool:
        """Whether it has reached its last node, or has an outcome."""
        return self.code != 0 or self.k >= self.grid.steps

    @abc.abstractmethod
    def advance(self) -> Rows:
        """A chunk: the rows that became due."""

    @abc.abstractmethod
    def interrupt(self) -> Rows:
        """The outcome INTERRUPTED, and the row of the last step where it has none."""

    def join(self, tables: list[Rows]) -> Rows:
        """All rows from those of the chunks."""
        return tables[0] if len(tables) == 1 else {name: np.concatenate([x[name] for x in tables]) for name in tables[0]}

    @abc.abstractmethod
    def no_rows(self) -> Rows:
        """The rows of no step."""

    @property
    @abc.abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """All that the next step depends on."""

    @abc.abstractmethod
    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from such a state. ValueError where it is none of this run."""

    @property
    @abc.abstractmethod
    def inputs(self) -> np.ndarray:
        """The numbers that the steps read besides the state."""

    @property
    @abc.abstractmethod
    def key(self) -> str:
        """Hash of the equations of a step, as the back-end computes them."""


def run_all(steps: Steps, watch: Watch = None) -> Rows:
    """All steps, and all rows; Ctrl-C ends them with Outcome.INTERRUPTED. watch: is told between two chunks."""
    tables = []
    try:
        while not steps.ended:
            if watch is not None and tables:
                watch(steps.k)
            tables.append(steps.advance())
    except KeyboardInterrupt:
        tables.append(steps.interrupt())
    return steps.join(tables or [steps.no_rows()])  # none: all nodes are known before the first step
