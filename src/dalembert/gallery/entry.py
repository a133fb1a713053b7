"""Entry: a system with its formula, source, typical data and, if there is one, its closed form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from dalembert.systems import System


@dataclasses.dataclass(frozen=True)
class Entry:
    """One system of the gallery.

    system: with default parameters. q0, v0, h, time: a typical run. exact(t, **parameters) → (q, v) from q0, v0, or None.
    formula and source are for people; they are printed by `dalembert list` and on the gallery page.
    """

    name: str
    title: str
    formula: str
    source: str
    system: System
    q0: tuple[float, ...]
    v0: tuple[float, ...]
    h: float
    time: float
    exact: Callable | None = None
