"""What is shown: one result or several, each with its name and the problem that it is of."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dalembert.drawing.subject import Depicted
from dalembert.numbers import described
from dalembert.path import Path, Study
from dalembert.show.panels import names_of
from dalembert.solution import CriticalPoint
from dalembert.systems import is_traced
from dalembert.systems.problem import Problem

MOST_RUNS = 12  # of an ensemble or a study: more would hide each other

Result = Path | CriticalPoint


class Shown(NamedTuple):
    """A path or a solution. problem: None where it is not known, as of one that was loaded; subject: as it carries it;
    among: of how many runs of an ensemble or a study it is one."""

    name: str
    result: Result
    problem: Any
    subject: Depicted
    among: int = 1

    @property
    def t(self) -> np.ndarray:
        return np.asarray(self.result.t, dtype=float)

    @property
    def q(self) -> np.ndarray:
        return np.asarray(self.result.q, dtype=float)

    @property
    def names(self) -> list[str]:
        """Of the coordinates."""
        return names_of(self.result)


def results_of(given: Any, system: Any = None) -> list[Shown]:
    """One path or solution, an ensemble or a study (its first MOST_RUNS runs), a sequence or a mapping of names to them.

    system: takes the place of the problem that a result carries, such as for a path that was loaded.
    """
    if system is not None and not isinstance(system, Problem):
        raise TypeError(f"system: found {described(system)}; give a System, a DiscreteSystem or a VariationalProblem")
    if isinstance(given, Path | CriticalPoint):
        return _one("", given, system)
    if isinstance(given, Study):
        return _of_study(given, system)
    if isinstance(given, Mapping):
        named = [(str(name), result) for name, result in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        named = [(str(i + 1), result) for i, result in enumerate(given)]
    else:
        raise TypeError(
            f"path: found {described(given)}; give a Path, a Solution, a Study, a list of them or a mapping of names to them"
            + ("; dalembert.load reads what was stored" if isinstance(given, str | os.PathLike) else "")
        )
    if not named:
        raise ValueError("path: found nothing in it; give at least one Path or Solution")
    for name, result in named:
        if not isinstance(result, Path | CriticalPoint):
            raise TypeError(f"path: item {name} is {described(result)}; give Paths or Solutions")
    return [shown for name, result in named for shown in _one(name, result, system)]


def _one(name: str, result: Result, system: Any) -> list[Shown]:
    if is_traced(result):
        raise ValueError("path: is traced and has no values yet; return it from the jitted function, then show it")
    record = getattr(result, "provenance", None)
    subject = getattr(result, "subject", None) or (record.subject if record is not None else None) or Depicted()
    if isinstance(result, Path) and np.ndim(result.code) == 1:
        lanes = range(min(len(result.code), MOST_RUNS))
        prefix = f"{name}, " if name else ""
        count = len(result.code)
        return [Shown(f"{prefix}run {i}", result.lane(i), system or subject.lane(i), subject, count) for i in lanes]
    if np.ndim(result.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(result.code)}; show its members one by one, in a list")
    # One lane of an ensemble with parameters of its own does not say which they were.
    return [Shown(name, result, system or (None if subject.parameters else subject.problem), subject)]


def _of_study(study: Study, system: Any) -> list[Shown]:
    """Its first runs, each named by the values that were swept."""
    places = itertools.product(*(range(study.data.sizes[axis]) for axis in study.axes))
    swept = [one for one in study.swept.values() if one.axis in study.axes]
    found = []
    for place, path in itertools.islice(zip(places, study, strict=True), MOST_RUNS):
        at = study.data.isel(dict(zip(study.axes, place, strict=True)))
        name = ", ".join(f"{one.name} = {' '.join(f'{x:.6g}' for x in np.ravel(one.value(at)))}" for one in swept)
        found += [one._replace(among=len(study)) for one in _one(name, path, system)]
    return found
