"""Whether a fingerprint can have changed, by a look at what functions name: a tenth of the time of making it again."""

from __future__ import annotations

import types
from typing import Any, NamedTuple

from dalembert.tracing.fingerprint import Walk
from dalembert.tracing.libraries import is_library
from dalembert.tracing.reads import reads

_MISSING = object()


class Watched(NamedTuple):
    """A function with all that it read by its names, each the same object as then."""

    function: Any
    own: tuple[Any, Any]
    cells: tuple[tuple[types.CellType, Any], ...]
    names: tuple[tuple[str, Any], ...]


def unchanged(watched: tuple[Watched, ...] | None) -> bool:
    """Whether all of them still read the same objects by their names. In loops: a generator would take as long again."""
    for f, (code, defaults), cells, names in watched or ():
        if f.__code__ is not code or f.__defaults__ is not defaults:
            return False
        known = f.__globals__
        for name, x in names:
            if known.get(name, _MISSING) is not x:
                return False
        for cell, x in cells:
            if _content(cell) is not x:
                return False
    return True


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _MISSING


def watch(walk: Walk) -> tuple[Watched, ...] | None:
    """What to look at so as to know that a new walk would give the same key; None where only a new walk can tell.

    It can be known where everything read is a number, a text, a function or an array of JAX, or belongs to a library: what
    these names stand for does not change in place.
    """
    functions = [same.object for same in walk.objects]
    if not (walk.lasting and walk.fixed and all(type(f) is types.FunctionType for f in functions)):
        return None
    found = [_watched(f) for f in functions]
    return None if any(x is None for x in found) else tuple(x for x in found if x is not None)


def _watched(f: Any) -> Watched | None:
    known = reads(f.__code__)
    own = not is_library(f.__globals__.get("__name__"))
    if f.__dict__ or f.__kwdefaults__ or (own and known.imports):
        return None
    cells = tuple((cell, _content(cell)) for cell in f.__closure__ or ())
    names = tuple((name, f.__globals__.get(name, _MISSING)) for name in known.globals) if own else ()
    return Watched(f, (f.__code__, f.__defaults__), cells, names)
