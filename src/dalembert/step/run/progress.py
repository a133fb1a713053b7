"""How far a long run is: a line on the terminal, or a call of the user's function."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from dalembert.numbers import described
from dalembert.step.run.state import Watch

Progress = bool | Callable[[int, int], None]


class Bar:
    """steps done, rate, remaining time: one line on the terminal or in a notebook; nothing where standard error is neither.

    after: seconds of work before it is shown; unit: what is counted.
    """

    def __init__(self, after: float = 0.0, unit: str = "steps"):
        self._from, self._bar, self._task, self._unit = time.monotonic() + after, None, None, unit

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if time.monotonic() < self._from or not (sys.stderr.isatty() or "ipykernel" in sys.modules):
                return
            self._bar = _rich(self._unit)
            self._bar.start()
            self._task = self._bar.add_task(self._unit, total=total, rate="")
        self._bar.update(self._task, completed=done, rate=f"{done / max(self._bar.tasks[0].elapsed or 0.0, 1e-3):.3g}/s")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _rich(unit: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn(f"{{task.completed:,}} {unit}, {{task.fields[rate]}}"))
    console = Console(stderr=True)
    return Progress(*columns, TextColumn("remaining"), TimeRemainingColumn(), console=console, transient=True)


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
