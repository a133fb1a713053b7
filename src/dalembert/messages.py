"""Messages that reach the user where the mistake is: warnings at the user's line, and the argument that was meant."""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = str(Path(__file__).parent)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the line outside of this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


HIDDEN = ("dalembert", "jax", "equinox", "functools", "contextlib")  # packages whose frames say nothing of a user's mistake
_AT_USER = "_raised_at_users_line"


def at_users_line(error: Exception, cause: Exception) -> Exception:
    """The error to raise `from None` in the place of one that a function of the user's raised: its traceback ends in that
    function, without the frames of JAX below it."""
    setattr(error, _AT_USER, True)
    return error.with_traceback(_users_frames(cause.__traceback__))


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that are neither this package's nor JAX's."""
    if traceback is None:
        return None
    rest, frame = _users_frames(traceback.tb_next), traceback.tb_frame
    hidden = frame.f_globals.get("__name__", "").partition(".")[0] in HIDDEN
    return rest if hidden else TracebackType(rest, frame, traceback.tb_lasti, traceback.tb_lineno)


def _call_door(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """function(*args, **kwargs): of the traceback of `at_users_line` only the user's frames are left."""
    __tracebackhide__ = True
    try:
        return function(*args, **kwargs)
    except Exception as error:
        if hasattr(error, _AT_USER):
            vars(error).pop("__notes__", None)  # in which JAX says that it has removed frames of its own
            error.__traceback__ = _users_frames(error.__traceback__)
        raise


def check_names(
    function: str,
    given: Iterable[str],
    names: Collection[str],
    meant: Mapping[str, str] | None = None,
    listed: Sequence[str] = (),
) -> None:
    """TypeError for a keyword argument that the function has not.

    meant: unknown name → what to write; listed: the names in the message where none is near, by default all.
    """
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            known = f"did you mean {near[0]}=?" if near else f"there are {', '.join(listed or sorted(names))}"
            raise TypeError(f"{name}: {function} has no such argument; {(meant or {}).get(name, known)}")


def suggesting(**meant: str) -> Callable[[F], F]:
    """A function whose TypeError for an unknown argument says what was meant. meant: unknown name → what to write."""

    def decorate(function: F) -> F:
        names = frozenset(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*args, **kwargs):
            check_names(function.__name__, kwargs, names, meant)
            return _call_door(function, args, kwargs)

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
            return _call_door(function, args, kwargs)

        return cast(F, call)

    return decorate
