"""How far a long run is: a line on the terminal, or a call of the user's function."""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from dalembert.numbers import described
from dalembert.step.run.state import Watch

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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    text = TextColumn(f"{{task.completed:,}} {unit}{{task.fields[rate]}}")
    columns = (BarColumn(), TaskProgressColumn(), text, TextColumn("remaining"), TimeRemainingColumn())
    console = Console(stderr=True)
    if not console.is_jupyter:
        if sys.stderr is None or not sys.stderr.isatty():
            return (lambda **_: None), lambda: None
        bar = Progress(*columns, console=console, transient=True)
        bar.start()
        return functools.partial(bar.update, bar.add_task(unit, completed=done, total=total, rate="")), bar.stop
    from IPython.display import DisplayHandle  # pyright: ignore[reportMissingImports]

    handle = DisplayHandle()  # rich itself needs ipywidgets there
    handle.display({"text/plain": ""}, raw=True)
    console = Console(file=io.StringIO(), force_jupyter=False, width=100)
    bar = Progress(*columns, console=console)
    task = bar.add_task(unit, completed=done, total=total, rate="")

    def update(**fields: Any) -> None:
        bar.update(task, **fields)
        with console.capture() as line:
            console.print(bar.get_renderable())
        handle.update({"text/plain": line.get().rstrip()}, raw=True)

    return update, lambda: handle.update({"text/plain": ""}, raw=True)


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
