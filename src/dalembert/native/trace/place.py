"""Place in a user's program of what could not be translated: the words, the line, and the functions they stand in."""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import sysconfig
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax

from dalembert.messages import warn
from dalembert.native.graph.graph import Unsupported
from dalembert.terminal import announce_compiling

LONGEST = 60  # characters of the user's words in a message
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_GALLERY = _OWN + "gallery" + os.sep  # written like a user's
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_OTHERS = tuple(os.sep + name + os.sep for name in ("jax", "jaxlib", "equinox"))

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Place(NamedTuple):
    """words: the expression, or the name of JAX's function where the source is not at hand. codes: of all functions that
    were being called there."""

    words: str
    file: str
    line: int
    codes: tuple[CodeType, ...]

    def __str__(self) -> str:
        return f"`{self.words}` ({os.path.basename(self.file)}, line {self.line})"


def place_of(equations: list[Any]) -> Place | None:
    """Place where the user wrote the innermost of some nested equations of a jaxpr."""
    for eqn in reversed(equations):
        frames = list(_frames(eqn))
        at = next((k for k, (code, _) in enumerate(frames) if _is_users(code)), None)
        if at is not None:
            code, instruction = frames[at]
            line, words = _words(code, instruction)
            called = next((c.co_name for c, _ in reversed(frames[:at]) if f"{os.sep}_src{os.sep}" in c.co_filename), "")
            codes = tuple(c for e in equations for c, _ in _frames(e))
            return Place(words or called or eqn.primitive.name, code.co_filename, line, codes)
    return None


def _frames(eqn: Any) -> Iterator[tuple[CodeType, int]]:
    """Code and instruction of every call that led to an equation, the innermost first."""
    traceback: Any = getattr(eqn.source_info, "traceback", None)
    return zip(*traceback.raw_frames(), strict=True) if hasattr(traceback, "raw_frames") else iter(())


def _is_users(code: CodeType) -> bool:
    file = code.co_filename
    own = file.startswith(_OWN) and not file.startswith(_GALLERY)
    python = file.startswith((_PYTHON, "<frozen")) and "site-packages" not in file
    return not own and not python and not any(part in file for part in _OTHERS)


def _words(code: CodeType, instruction: int) -> tuple[int, str]:
    """Line and text of the expression that an instruction belongs to."""
    found = next(itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    first, last, start, end = found
    if first is None or last is None or start is None or end is None:
        return first or code.co_firstlineno, ""
    lines = [linecache.getline(code.co_filename, i).encode() for i in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    text = " ".join(b" ".join(lines).decode(errors="replace").split())
    return first, text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def refusing(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function with every error as Unsupported: what the translator cannot do another back-end can."""

    @functools.wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            with announce_compiling():
                return function(*arguments, **options)
        except Unsupported:
            raise
        except jax.errors.TracerArrayConversionError as error:
            raise Unsupported(
                "constant", "a function closes over a value that is being traced; make it a parameter"
            ) from error
        except Exception as error:
            raise Unsupported("translation", describe_error(error)) from error

    return call


TOLD: set[str] = set()  # reasons of which there was a warning


def native_first(
    native: Callable[Arguments, Result],
    other: Callable[Arguments, Result],
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> Result:
    """native(*arguments); other(*arguments), with one warning for each reason, where the program cannot be translated."""
    try:
        return native(*arguments, **options)
    except Unsupported as reason:
        if str(reason) not in TOLD:
            TOLD.add(str(reason))
            warn(f"backend: the slower JAX back-end is used, because of {reason}")
        return other(*arguments, **options)


def describe_error(error: Exception) -> str:
    """An error in one line."""
    first = (str(error).splitlines() or [""])[0]
    return f"failed with {type(error).__name__}: {first}"
