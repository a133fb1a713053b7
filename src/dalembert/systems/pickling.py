"""Pickling and unpickling of what a user writes: functions travel by their names, and by value only with cloudpickle.

Compiled code is not part of a system and is made again where the system arrives.
"""

from __future__ import annotations

import functools
import inspect
import operator
import pkgutil
import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

_MADE = weakref.WeakKeyDictionary()  # function: the factory and the arguments that it came from


def reduced(self) -> tuple[Any, ...]:
    """`__reduce__` of an object with functions among its fields."""
    name = type(self).__name__
    return _restored, (type(self), {key: _carry(value, f"{name}.{key}") for key, value in vars(self).items()})


def made(factory: Callable[..., Callable]) -> Callable[..., Callable]:
    """A factory whose functions pickle as the call that made them; a function inside another one has no name of its own."""

    @functools.wraps(factory)
    def making(*arguments):
        function = factory(*arguments)
        _MADE[function] = making, arguments
        return function

    return making


class Carried:
    """A function on its way, which pickle would not find by itself; it arrives as the function."""

    def __init__(self, function: Any, place: str):
        self.function, self.place = function, place

    def __reduce__(self):
        if isinstance(self.function, types.FunctionType) and self.function in _MADE:
            factory, arguments = _MADE[self.function]
            return factory, _carry(arguments, self.place)
        if _has_name(self.function):
            return pkgutil.resolve_name, (f"{self.function.__module__}:{self.function.__qualname__}",)
        return _opened, (_disguise(self.function, self.place),)


def _restored(kind: type, fields: dict[str, Any]):
    module = object.__new__(kind)
    vars(module).update({name: _release(value) for name, value in fields.items()})
    return module


def _carry(value: Any, place: str) -> Any:
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_carry(x, place) for x in value)
    plain = isinstance(value, types.FunctionType)
    if plain and _has_name(value):
        return value
    # What a decorator such as jax.jit returns; a method goes with its object.
    decorated = callable(value) and hasattr(value, "__wrapped__") and not isinstance(value, type | types.MethodType)
    return Carried(value, place) if plain or decorated else value


def _release(value: Any) -> Any:
    """copy.copy hands the fields over as they are."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_release, value))
    return value.function if isinstance(value, Carried) else value


def _has_name(function: Callable) -> bool:
    """True if its name in its module is the function itself. In a script only plain functions: cloudpickle carries these by
    value, and knows nothing of the others, such as functions under jax.jit."""
    name = getattr(function, "__module__", None)
    if name not in sys.modules or (name == "__main__" and not isinstance(function, types.FunctionType)):
        return False
    try:
        return operator.attrgetter(function.__qualname__)(sys.modules[name]) is function
    except AttributeError:
        return False


def _disguise(function: Callable, place: str) -> Callable[[], Callable]:
    """A function that returns the function, and whose name is what there is to say.

    Nothing tells `__reduce__` which pickler asks. Plain pickle looks for the name, does not find it, and reports it;
    cloudpickle does not find it either, and carries code and captured values.
    """

    def carrier():
        return function

    code = getattr(inspect.unwrap(function), "__code__", None)
    where = "" if code is None else f" ({File(code.co_filename).name}, line {code.co_firstlineno})"
    name = getattr(function, "__name__", "a function")
    carrier.__name__ = f"{place}, {name}{where}, which has no name in a module (cloudpickle carries it)"
    carrier.__qualname__, carrier.__module__ = carrier.__name__, getattr(function, "__module__", None) or "__main__"
    return carrier


def _opened(carrier: Callable[[], Callable]) -> Callable:
    return carrier()
