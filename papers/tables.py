"""Tables of the reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def number(value: float) -> str:
    """Two digits, with the sign of a rounded zero left out; a dash for NaN."""
    return "–" if np.isnan(value) else f"{value + 0.0:.2f}".replace("-0.00", "0.00")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
