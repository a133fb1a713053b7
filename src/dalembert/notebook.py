"""A small table of HTML that a notebook shows for a result, instead of a dump of its arrays."""

from __future__ import annotations

import html
import re

NAMED = re.compile(r"(?P<name>\S[^:]{0,30}): (?P<value>\S.*)")  # "outcome: success"
CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0;"
FIXED = f"{CELL}white-space:pre;font-family:monospace"


class Described:
    """A result that says in words what it is: `describe`, or `str` where there is none."""

    def _repr_html_(self) -> str:
        return card(type(self).__name__, words_of(self))


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
