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

    function: types.FunctionType
    own: tuple[Any, Any]
    cells: tuple[tuple[types.CellType, Any], ...]
    names: tuple[tuple[str, Any], ...]

    def unchanged(self) -> bool:
        f = self.function
        known = f.__globals__
        try:
            return (
                f.__code__ is self.own[0]
                and f.__defaults__ is self.own[1]
                and all([cell.cell_contents is x for cell, x in self.cells])
                and all([known.get(name, _MISSING) is x for name, x in self.names])
            )
        except ValueError:  # a cell was emptied
            return False


def watch(walk: Walk) -> tuple[Watched, ...] | None:
    """What to look at so as to know that a new walk would give the same key; None where only a new walk can tell.

    It can be known where everything read is a number, a text, a function or an array of JAX, or belongs to a library: what
    these names stand for does not change in place.
    """
    functions = [same.object for same in walk.objects]
    if not (walk.lasting and walk.fixed and all(type(f) is types.FunctionType for f in functions)):
        return None
    try:
        found = [_watched(f) for f in functions]
    except ValueError:  # a cell that is not yet set
        return None
    return None if any(x is None for x in found) else tuple(x for x in found if x is not None)


def _watched(f: types.FunctionType) -> Watched | None:
    known = reads(f.__code__)
    own = not is_library(f.__globals__.get("__name__"))
    if f.__dict__ or f.__kwdefaults__ or (own and known.imports):
        return None
    cells = tuple((cell, cell.cell_contents) for cell in f.__closure__ or ())
    names = tuple((name, f.__globals__.get(name, _MISSING)) for name in known.globals) if own else ()
    return Watched(f, (f.__code__, f.__defaults__), cells, names)
