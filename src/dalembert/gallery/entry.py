"""Entry and BoundaryEntry: a problem with its formula, source, typical data and, if there is one, its closed form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dalembert.systems import System, VariationalProblem


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


@dataclasses.dataclass(frozen=True)
class BoundaryEntry:
    """One boundary problem of the gallery.

    problem: with default parameters. boundary: what `dalembert.solve` is given besides steps: initial, final, through, T.
    steps: of a typical solution; times of points between are nodes for its multiples. exact(t, **parameters) → q, or None.
    """

    name: str
    title: str
    formula: str
    source: str
    problem: VariationalProblem
    boundary: Mapping[str, Any]
    steps: int
    exact: Callable | None = None
