"""A line on the terminal or in a notebook that says what a long call is doing; it goes when the work is done."""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE = 2.0  # seconds of compiling without a word
_compiling = threading.Lock()  # held while one call watches: what it compiles in turn belongs to it


def show_line(columns: Callable[[Any], tuple], **fields: Any) -> tuple[Callable[..., None], Callable[[], None]]:
    """Show a line of rich's columns: how to update its fields, and how to remove it; nothing happens where stderr is a file.

    columns: of the module rich.progress, which is loaded here.
    """
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_jupyter:
        if sys.stderr is None or not sys.stderr.isatty():
            return (lambda **_: None), lambda: None
        bar = progress.Progress(*columns(progress), console=console, transient=True)
        bar.start()
        return functools.partial(bar.update, bar.add_task("", **fields)), bar.stop
    from IPython.display import DisplayHandle  # pyright: ignore[reportMissingImports]

    handle = DisplayHandle()  # rich itself needs ipywidgets there
    handle.display({"text/plain": ""}, raw=True)
    console = Console(file=io.StringIO(), force_jupyter=False, width=100)
    bar = progress.Progress(*columns(progress), console=console)
    task = bar.add_task("", **fields)

    def update(**changed: Any) -> None:
        bar.update(task, **changed)
        with console.capture() as line:
            console.print(bar.get_renderable())
        handle.update({"text/plain": line.get().rstrip()}, raw=True)

    return update, lambda: handle.update({"text/plain": ""}, raw=True)


@contextlib.contextmanager
def announce_compiling() -> Iterator[None]:
    """Say so on the terminal when what is inside compiles for longer than two seconds."""
    notebook = "ipykernel" in sys.modules
    if not (notebook or (sys.stderr is not None and sys.stderr.isatty())) or not _compiling.acquire(blocking=False):
        yield
        return
    close: list[Callable[[], None]] = []

    def say() -> None:
        update, remove = show_line(lambda rich: (rich.TextColumn("compiling"), rich.TimeElapsedColumn()), total=None)
        update()
        close.append(remove)

    timer = threading.Timer(PATIENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for remove in close:
            remove()
        _compiling.release()
