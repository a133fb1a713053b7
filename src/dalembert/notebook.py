"""A result in words, and the small table of HTML that a notebook shows for it instead of a dump of its arrays."""

from __future__ import annotations

import dataclasses
import html
import re
from typing import Any, TypeVar

import numpy as np

NAMED = re.compile(r"(?P<name>\S[^:]{0,30}): (?P<value>\S.*)")  # "outcome: success"
CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0;"
FIXED = f"{CELL}white-space:pre;font-family:monospace"
FEW = 6  # numbers of an array that are written out

C = TypeVar("C", bound=type)


class Described:
    """A result that says in words what it is."""

    def describe(self) -> str:
        """In words: what `str` has for a class with one of its own, otherwise each field by name; of an array its numbers if
        they are few, or its shape and range."""
        if type(self).__str__ is not Described.__str__:
            return str(self)
        names = getattr(self, "_fields", None) or [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return "\n".join(f"{name}: {_in_words(getattr(self, name))}" for name in names)

    def __str__(self) -> str:
        from jax.errors import JAXTypeError

        try:
            return self.describe()
        except JAXTypeError:  # a traced result has no numbers yet
            return repr(self)

    def _repr_html_(self) -> str:
        return card(type(self).__name__, self.describe())


def described_by_fields(cls: C) -> C:
    """The NamedTuple, whose class can have no base, as one that is `Described`."""
    for name in {"describe", "__str__", "_repr_html_"} - vars(cls).keys():
        setattr(cls, name, vars(Described)[name])
    return cls


def _in_words(value: Any) -> str:
    if isinstance(value, str | None):
        return str(value)
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError):  # a traced value, or rows of several lengths
        return type(value).__name__
    if numbers.dtype.kind not in "biuf":
        return f"{len(value)} of {type(value[0]).__name__}" if isinstance(value, tuple) and value else type(value).__name__
    if numbers.size <= FEW:
        return " ".join(f"{x:.6g}" if numbers.dtype.kind == "f" else str(x) for x in numbers.ravel()) or "none"
    finite = numbers[np.isfinite(numbers)].astype(float)
    extent = f" from {finite.min():.6g} to {finite.max():.6g}" if finite.size else ""
    return f"{' × '.join(map(str, numbers.shape))} numbers{extent}"


def words_of(result: object) -> str:
    """What a result says of itself."""
    return getattr(result, "describe", result.__str__)()


def card(title: str, text: str) -> str:
    """A table with a row for each line; of a line "name: value" the name stands in a column of its own.

    A line that begins with blanks or has several in a row belongs to a table of its own, and keeps them. Colours are the
    notebook's, light or dark.
    """
    rows = "".join(map(_table_row, text.splitlines()))
    return f'<div><strong>{html.escape(title)}</strong><table style="border-collapse:collapse">{rows}</table></div>'


def _table_row(line: str) -> str:
    fixed = line.startswith(" ") or "  " in line
    named = None if fixed else NAMED.fullmatch(line)
    if named is None:
        return f'<tr><td colspan="2" style="{FIXED if fixed else CELL}">{html.escape(line)}</td></tr>'
    name, value = (html.escape(named[part]) for part in ("name", "value"))
    return f'<tr><th scope="row" style="{CELL}">{name}</th><td style="{CELL}">{value}</td></tr>'
