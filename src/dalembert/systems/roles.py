"""Which of the user's functions a piece of code belongs to, for messages."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from types import CodeType
from typing import Any

import equinox as eqx

from dalembert.systems.constraints import Constraint


def role_of(codes: Collection[CodeType], system: Any, others: Mapping[str, Any]) -> str:
    """The name of the first function among whose calls are these; empty if it is none of them.

    codes: of all functions that were being called. system: anything whose fields are functions and constraints. others: more
    functions by name, None where there is none.
    """
    for name, function in (*_functions(system), *others.items()):
        if function is not None and _code(function) in codes:
            return name
    return ""


def _functions(value: Any, name: str = "") -> Iterator[tuple[str, Callable]]:
    """Functions in the fields of a system and of its constraints, with the names they have there."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            kind = f" ({type(item).__name__})" if isinstance(item, Constraint) else ""
            yield from _functions(item, f"{name}[{i}]{kind}")
    elif callable(value):
        yield name, value
    elif isinstance(value, eqx.Module):
        for field in dataclasses.fields(value):
            yield from _functions(getattr(value, field.name), f"{name} {field.name}".strip())


def _code(function: Any) -> CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):
        function = getattr(function, "__func__", getattr(function, "__call__", None))  # noqa: B004
    return getattr(getattr(function, "__func__", function), "__code__", None)
