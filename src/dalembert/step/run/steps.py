"""Steps: what a back-end does with a run; and who is told how far it is."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from dalembert.native import FIRST_STEPS, host
from dalembert.numbers import described
from dalembert.step.run.state import Grid, RunState, Watch
from dalembert.terminal import show_line

Rows = dict[str, Any]


class Steps(abc.ABC):
    """The steps of a run, made in chunks: between two of them Ctrl-C is answered, and rows are taken away.

    grid: its nodes; carry: its state; pace: steps of the next chunk, so that one takes about SECONDS.
    """

    native: ClassVar[bool]
    carry: RunState

    def __init__(self, grid: Grid):
        self.grid, self.pace = grid, FIRST_STEPS

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
        """True if it has reached its last node, or has an outcome."""
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


def fingerprint_of(native: bool, equations: str, inputs: np.ndarray) -> dict[str, str]:
    """Fingerprint of a run, which determines its bits besides its record: back-end, equations as they are computed, the
    numbers that they read, processor.

    equations: hash of the machine code, or of what JAX reads; inputs: the numbers that they read.
    """
    return {
        "backend": "native" if native else "jax", "equations": equations,
        "inputs": hashlib.sha256(np.ascontiguousarray(inputs).tobytes()).hexdigest(),
        "processor": processor(),
    }  # fmt: skip


def processor() -> str:
    """By what it rounds: the features of this one, and the C library."""
    return json.dumps([*host(), *platform.libc_ver()])


Progress = bool | Callable[[int, int], None]


class Bar:
    """Steps done, rate and remaining time: one line on the terminal or in a notebook; nothing where there is neither.

    after: seconds of work before it is shown; unit: what is counted.
    """

    def __init__(self, after: float = 0.0, unit: str = "steps"):
        self._from, self._unit = time.monotonic() + after, unit
        self._first, self._show, self.close = None, None, lambda: None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        self._first = begun, before = self._first or (now, done)
        if self._show is None and now >= self._from:
            self._show, self.close = _show(self._unit, done, total)
        if self._show is not None:
            self._show(completed=done, rate=f", {(done - before) / (now - begun):.3g}/s" if now > begun else "")


def _show(unit: str, done: int, total: int) -> tuple[Callable[..., None], Callable[[], None]]:
    """Functions that update the progress line, and that remove it."""

    def columns(rich: Any) -> tuple:
        text = rich.TextColumn(f"{{task.completed:,}} {unit}{{task.fields[rate]}}")
        return rich.BarColumn(), rich.TaskProgressColumn(), text, rich.TextColumn("remaining"), rich.TimeRemainingColumn()

    return show_line(columns, completed=done, total=total, rate="")


def check_progress(progress: Any) -> None:
    """TypeError for what is neither a truth value nor a function."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress: found {described(progress)}; give True, False, or a function of (done, total)")


@contextlib.contextmanager
def report_progress(progress: Progress, total: int, unit: str = "steps") -> Iterator[Watch]:
    """Context of the function that is told now and then how many of `total` steps, or of another unit, are done; None where
    nobody asks."""
    check_progress(progress)
    told = Bar(unit=unit) if progress is True else progress or None
    try:
        yield None if told is None else lambda done: told(int(done), int(total))
    finally:
        if isinstance(told, Bar):
            told.close()
