"""Ctrl-C that is noted and answered where the work can be left: what has been computed stays whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class Noted:
    """Whether Ctrl-C was pressed since it was held back."""

    pressed = False


_HELD: list[Noted] = []


def wanted() -> bool:
    """Whether Ctrl-C was pressed inside `held_back`: whoever asks has to come to an end. Of any thread."""
    return bool(_HELD) and _HELD[0].pressed


@contextlib.contextmanager
def held_back() -> Iterator[Noted]:
    """Ctrl-C does not break off what is inside, which asks `wanted` now and then; who holds it back answers it at the end.

    Pressed again it breaks off. Where another handler than Python's own answers it, and in other threads than the first,
    nothing changes.
    """
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not plain or threading.current_thread() is not threading.main_thread():
        yield Noted()
        return
    noted = Noted()
    _HELD.append(noted)
    signal.signal(signal.SIGINT, _note)
    try:
        yield noted
    finally:
        _HELD.remove(noted)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _note(number: int, frame: Any) -> None:
    if wanted():
        raise KeyboardInterrupt
    if _HELD:
        _HELD[0].pressed = True


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run, an ensemble or a solution: N′ < N steps, and what was computed until then.

    A KeyboardInterrupt: who catches no such thing ends as by any Ctrl-C. The process can be used on.

    Attributes:
        path: everything computed before it: a Path, a Study, a ClosedLoop, or a Solution whose iteration had not ended.

    Example:
        >>> try:
        ...     raise da.Interrupted(path)  # as Ctrl-C does in a run
        ... except KeyboardInterrupt as error:
        ...     error.path.steps
        20
    """

    def __init__(self, path: object):
        self.path = path
        super().__init__(str(path.describe()) if hasattr(path, "describe") else "")  # type: ignore[attr-defined]

    def __reduce__(self):
        return type(self), (self.path,), vars(self)
