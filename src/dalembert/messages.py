"""Messages that reach the user where the mistake is: warnings at the user's line, and the argument that was meant."""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = str(Path(__file__).parent)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the line outside of this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


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


def accept_moved(
    names: Collection[str], advise: Callable[[dict[str, Any]], str], move: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[F], F]:
    """A function that still takes arguments which now stand elsewhere, with a DeprecationWarning.

    names: of these arguments; advise: all arguments → what to write instead; move: → those that the function has.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args, **kwargs):
            if any(name in names for name in kwargs):
                warn(f"{function.__name__}: {advise(kwargs)}", DeprecationWarning)
                kwargs = move(kwargs)
            return function(*args, **kwargs)

        return cast(F, call)

    return decorate
