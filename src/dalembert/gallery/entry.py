"""Entry and BoundaryEntry: a problem with its formula, source, typical data and, if there is one, its closed form."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dalembert.control import OptimalControl
from dalembert.systems import System, VariationalProblem


@dataclasses.dataclass(frozen=True)
class Entry:
    """One system of the gallery: its formula, its source, typical data and, if there is one, its closed form.

    Attributes:
        name: the name on the command line.
        title: in words.
        formula: as text; shown by `dalembert list` and on the gallery page.
        source: as text.
        system: the System with default parameters.
        q0: initial positions of a typical run.
        v0: initial velocities of a typical run.
        h: time step of a typical run.
        time: duration of a typical run.
        exact: exact(t, **parameters) → (q, v), the closed form of the motion from q0, v0, or None.

    Example:
        >>> from dalembert.gallery import ENTRIES
        >>> ENTRIES["pendulum"].q0
        (1.0,)
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

    Attributes:
        name: the name on the command line.
        title: in words.
        formula: as text.
        source: as text.
        problem: the VariationalProblem or OptimalControl with default parameters.
        boundary: the arguments of `dalembert.solve` other than steps and guess: initial, final, through, T, bounds,
            inequalities.
        steps: number of steps of a typical solution; with multiples of it the times of the points to pass are nodes,
            too.
        exact: exact(t, **parameters) → q, the closed form, or None.
        guess: guess(t) → q or (q, u), a first path, or None.
        cost: the minimal cost in the limit of small steps, or None.

    Example:
        >>> from dalembert.gallery import PROBLEMS
        >>> sorted(PROBLEMS)[:3]
        ['brachistochrone', 'bryson_denham', 'cart_pole']
    """

    name: str
    title: str
    formula: str
    source: str
    problem: VariationalProblem | OptimalControl
    boundary: Mapping[str, Any]
    steps: int
    exact: Callable | None = None
    guess: Callable | None = None
    cost: float | None = None

    def first_guess(self, steps: int) -> Any:
        """The first path at the nodes of N equal steps, or None."""
        T = self.boundary["T"]
        return None if self.guess is None else self.guess(np.linspace(0.0, getattr(T, "guess", T), steps + 1))
