"""Numbers and texts of a page: arrays as base64 of 32 bit floats, everything as JSON that no browser takes for HTML."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

ARRAYS = ("t", "x", "y", "at")  # names under which `packed` stands
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def packed(values: Any) -> str:
    """Floats of 32 bits, little endian: seven digits, more than a screen shows."""
    with np.errstate(over="ignore"):
        return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def shared(data: Any) -> Any:
    """The same with every array only once, its number in `arrays` in its place: lines of a diagram share their times."""
    known: dict[str, int] = {}

    def visit(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: visit(x, key) for key, x in value.items()}
        if isinstance(value, list | tuple):
            return [visit(x) for x in value]
        return known.setdefault(value, len(known)) if name in ARRAYS else value

    found = visit(data)
    return {**found, "arrays": list(known)}


def as_json(data: Any) -> str:
    """JSON inside <script>: no text of a user's can end the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, code in _UNSAFE.items():
        text = text.replace(character, code)
    return text
