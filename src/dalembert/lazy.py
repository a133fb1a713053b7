"""Results of NumPy's arrays, which may be made when somebody asks for them, and public names, whose room loads when they are
first asked for."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

F = TypeVar("F", bound=Callable[..., Any])
_LATER = "_fields_later"


class Later(eqx.Module):
    """Fields of which some are made when they are first asked for; a dataclass would ask for all of them."""

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """From all fields as they are, in a tenth of the time that a dataclass takes."""
        return with_state(cls, _defaults(cls) | fields)

    @classmethod
    def later(cls, fields: Callable[[], dict[str, Any]], **known: Any) -> Self:
        """One whose other fields are made when the first of them is asked for; `fields` gives the same whenever it
        is called."""
        return with_state(cls, {**known, _LATER: fields})

    if not TYPE_CHECKING:

        def __getattribute__(self, name: str) -> Any:
            state = object.__getattribute__(self, "__dict__")
            if _LATER in state and name not in state and name != "__class__":  # JAX flattens it by __dict__
                fields_as_left(self)
            return super().__getattribute__(name)


L = TypeVar("L", bound=Later)
M = TypeVar("M", bound=eqx.Module)


def with_state(kind: type[M], state: dict[str, Any]) -> M:
    """An object of this class with these fields, unchecked; static ones too, which equinox has no function to replace."""
    made = object.__new__(kind)
    object.__getattribute__(made, "__dict__").update(state)
    return made


@functools.cache
def _defaults(kind: type[Later]) -> dict[str, Any]:
    return {f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}


def fields_as_left(one: Later) -> dict[str, Any]:
    """All fields, which are made now if nobody has asked for one."""
    state = object.__getattribute__(one, "__dict__")
    later = state.get(_LATER)
    if later is not None:
        state.update(later())
        state.pop(_LATER, None)  # another thread may have been first
    return state


def with_fields(one: M, **fields: Any) -> M:
    """The same with other values of some fields, unchecked; what is not made stays so."""
    return with_state(type(one), object.__getattribute__(one, "__dict__") | fields)


def on_host(function: F) -> F:
    """The function, whose result holds arrays of NumPy where it is not traced."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return jax.tree.map(_as_numpy, function(*args, **kwargs))

    return cast(F, call)


def _as_numpy(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) else leaf


def front_door(name: str) -> Any:
    """A public name of the package, such as "store.to_xarray", for a method that belongs to a higher room: its room loads
    with its first use.

    An import at the top of a module would be a loop, and the method is no part of what stands below.
    """
    return functools.reduce(getattr, name.split("."), sys.modules[__name__.partition(".")[0]])


def groups_of(columns: Any) -> Any:
    """The groups whose stored numbers have these names; None for coordinates of Rⁿ."""
    return front_door("groups.space_of_columns")(columns) if any("." in column for column in columns) else None
