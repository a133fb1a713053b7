"""Messages that reach the user where the mistake is: warnings at the user's line, and the argument that was meant."""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = str(Path(__file__).parent)


def warn(text: str) -> None:
    """A UserWarning at the line outside of this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def suggesting(**meant: str) -> Callable[[F], F]:
    """A function whose TypeError for an unknown argument says what was meant. meant: unknown name → what to write."""

    def decorate(function: F) -> F:
        names = frozenset(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*args, **kwargs):
            if not names.issuperset(kwargs):
                raise TypeError(_unknown_argument(next(name for name in kwargs if name not in names)))
            return function(*args, **kwargs)

        def _unknown_argument(name: str) -> str:
            near = difflib.get_close_matches(name, names, 1)
            known = f"did you mean {near[0]}=?" if near else f"there are {', '.join(sorted(names))}"
            return f"{name}: {function.__name__} has no such argument; {meant.get(name, known)}"

        return cast(F, call)

    return decorate


def accept_moved(into: str, *names: str) -> Callable[[F], F]:
    """A function that still takes arguments which are now items of its argument `into`: each comes with a
    DeprecationWarning."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args, **kwargs):
            moved = {name: kwargs.pop(name) for name in [*kwargs] if name in names}
            if moved:
                text = f"{', '.join(moved)}: of {function.__name__} give {into}={{{', '.join(f'{x!r}: …' for x in moved)}}}"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                kwargs[into] = {**(kwargs.get(into) or {}), **moved}
            return function(*args, **kwargs)

        return cast(F, call)

    return decorate
