"""How far a long run is: a line on the terminal, or a call of the user's function."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from dalembert.numbers import described
from dalembert.step.run.state import Watch
from dalembert.terminal import show_line

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
            self._show, self.close = _shown(self._unit, done, total)
        if self._show is not None:
            self._show(completed=done, rate=f", {(done - before) / (now - begun):.3g}/s" if now > begun else "")


def _shown(unit: str, done: int, total: int) -> tuple[Callable[..., None], Callable[[], None]]:
    """How to update the line, and how to remove it."""

    def columns(rich: Any) -> tuple:
        text = rich.TextColumn(f"{{task.completed:,}} {unit}{{task.fields[rate]}}")
        return rich.BarColumn(), rich.TaskProgressColumn(), text, rich.TextColumn("remaining"), rich.TimeRemainingColumn()

    return show_line(columns, completed=done, total=total, rate="")


def check_progress(progress: Any) -> None:
    """TypeError for what is neither a truth value nor a function."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress: found {described(progress)}; give True, False, or a function of (done, total)")


@contextlib.contextmanager
def reported(progress: Progress, total: int, unit: str = "steps") -> Iterator[Watch]:
    """What is told now and then how many of `total` steps, or of another unit, are done; None where nobody asks."""
    check_progress(progress)
    told = Bar(unit=unit) if progress is True else progress or None
    try:
        yield None if told is None else lambda done: told(int(done), int(total))
    finally:
        if isinstance(told, Bar):
            told.close()
