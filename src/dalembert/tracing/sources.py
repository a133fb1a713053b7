"""A function as text: its source, with the values that it reads from around it, which the same words may mean."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from dalembert.tracing.cache import Remembered
from dalembert.tracing.reads import MISSING, content_of, is_library, reads

SHOWN = 64  # numbers of an array that are written out
_TEXTS: Remembered[str] = Remembered(1024)  # reading a file and finding a function in it is slow
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def source(function: Any, above: tuple = ()) -> str:
    """The text of a function, then a line for each value that it reads."""
    values = _values_read(function)
    return "\n".join([_source_text(function), *(f"# {name} = {_show(value, (*above, function))}" for name, value in values)])


def _source_text(function: Any) -> str:
    wrapped = inspect.unwrap(function) if callable(function) else function
    plain = wrapped if hasattr(wrapped, "__code__") or isinstance(wrapped, types.MethodType | type) else type(wrapped)
    code = getattr(plain, "__code__", None)
    if isinstance(code, types.CodeType):
        return _TEXTS.of((code.co_filename, code), lambda: _source_of(plain, code))
    try:
        return inspect.getsource(plain).rstrip()
    except (OSError, TypeError):
        return ADDRESS.sub("", repr(function))


def _source_of(function: Any, code: types.CodeType) -> str:
    """Its lines, or what the compiler made of them where they are in no file."""
    try:
        return inspect.getsource(function).rstrip()
    except (OSError, TypeError):
        return f"{code.co_code.hex()} {code.co_consts} {code.co_names}"


def _values_read(function: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of what is read: closures, defaults, globals, attributes of an object."""
    if isinstance(function, types.MethodType):
        yield from ((f"self.{name}", value) for name, value in getattr(function.__self__, "__dict__", {}).items())
        yield from _values_read(function.__func__)
        return
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType):
        if not isinstance(function, type):
            yield from ((f"self.{name}", value) for name, value in getattr(function, "__dict__", {}).items())
        return
    known = reads(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = content_of(cell)
        yield name, "not yet set" if value is MISSING else value
    parameters = inspect.signature(function).parameters.items()
    yield from ((f"default {name}", p.default) for name, p in parameters if p.default is not inspect.Parameter.empty)
    if is_library(function.__globals__.get("__name__")):
        return
    for name, chains in known.globals.items():
        if name in function.__globals__:
            yield from _of_chains(name, function.__globals__[name], chains)


def _of_chains(name: str, value: Any, chains: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, types.ModuleType):
        if not is_library(getattr(value, "__module__", "")) or not callable(value):
            yield name, value
        return
    for chain in () if is_library(value.__name__) else chains:
        if chain and hasattr(value, chain[0]):
            yield from _of_chains(f"{name}.{chain[0]}", getattr(value, chain[0]), (chain[1:],))


def _show(value: Any, above: tuple) -> str:
    if callable(value) and not isinstance(value, type):
        inner = inspect.unwrap(value)
        return "a function above" if any(inner is f or value is f for f in above) else source(value, above)
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        if array.size <= SHOWN and array.dtype.kind in "iufb":
            return json.dumps(array.tolist())
        return f"{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    if type(value).__repr__ is object.__repr__:
        return f"{type(value).__qualname__} {ADDRESS.sub('', repr(getattr(value, '__dict__', {})))}"
    return ADDRESS.sub("", repr(value))
