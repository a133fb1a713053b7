"""What is given at the ends of an optimal control problem, coordinate by coordinate, and a first path through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.end_sets import (
    EndFunction,
    EndSets,
    EndState,
    On,
    Periodic,
    check_ends_agree,
    coordinate_at,
    equations_of,
    onto_set,
)
from dalembert.boundary.data.ends import EndData, Nodes, Through, smooth_path
from dalembert.control.problem import OptimalControl, with_plant_parameters
from dalembert.control.terms import state_constraints
from dalembert.numbers import as_number, as_numbers, described

LEVELS = ("q", "v")


class PartlyGiven(NamedTuple):
    """Position and velocity at an end, (2, n) each: which of them are given, and their values, 0 where they are not."""

    given: Bool[np.ndarray, "2 n"]
    values: Float[np.ndarray, "2 n"]


Ends = tuple[PartlyGiven, PartlyGiven]


def read_partly(end: Any, name: str, n: int, coordinates: tuple[str, ...] | None) -> PartlyGiven:
    """(q,) or (q, v), each an array (n,), a mapping from coordinates to numbers, or None; None and a set give nothing."""
    found = PartlyGiven(np.zeros((2, n), dtype=bool), np.zeros((2, n)))
    if end is None or isinstance(end, On | Periodic):
        return found
    if isinstance(end, Nodes) or not isinstance(end, list | tuple) or not 1 <= len(end) <= 2:
        raise TypeError(
            f"{name}: found {described(end)}; give a tuple (q, v), each an array (n,), a mapping {{coordinate: number}} of "
            "those that are given, or None where it is free; or On(psi), or Periodic() at the end"
        )
    for level, given in enumerate(end):
        place = f"{name}[{level}]"
        if given is None:
            continue
        if _with_gaps(given):
            raise TypeError(
                f"{place}: found {described(given)}; give a mapping {{coordinate: number}} of those that are given, or None "
                "where all are free"
            )
        if isinstance(given, Mapping):
            for coordinate, number in given.items():
                at = coordinate_at(coordinate, place, n, coordinates)
                if found.given[level, at]:
                    raise ValueError(f"{place}: found coordinate {coordinate!r} twice, by name and by index; give it once")
                found.given[level, at] = True
                found.values[level, at] = as_number(number, f"{place}[{coordinate!r}]")
            continue
        row = as_numbers(given, place)
        if row.shape != (n,):
            raise ValueError(
                f"{place}: found shape {row.shape}; give the {LEVELS[level]} of all n = {n} coordinates, shape ({n},), or a "
                "mapping {coordinate: number} of those that are given"
            )
        found.given[level], found.values[level] = True, row
    return found


def _with_gaps(given: Any) -> bool:
    """Whether None stands among numbers."""
    return isinstance(given, list | tuple) and any(x is None for x in given)


class EndsAsked(NamedTuple):
    """What holds at the ends: what is given, coordinate by coordinate, and what else."""

    given: Ends
    sets: EndSets


def read_ends(problem: OptimalControl, initial: Any, final: Any, n: int) -> EndsAsked:
    """With Periodic what is given of the first end is given of the last one, and the rest is tied."""
    check_ends_agree(initial, final)
    first, last = (read_partly(end, name, n, problem.coordinates) for name, end in (("initial", initial), ("final", final)))
    pairs = ("initial", initial), ("final", final)
    equations = [equations_of(end, name, problem.system, 2, n) for name, end in pairs]
    bare = with_plant_parameters(problem, None).system
    on = [EndFunction(bare, end.psi, state_constraints) if isinstance(end, On) else None for end in (initial, final)]
    tied, shift = np.zeros((2, n), dtype=bool), np.zeros((2, n))
    if isinstance(final, Periodic):
        shift[0] = final.of(n, problem.coordinates)
        tied = ~first.given
        last = PartlyGiven(first.given.copy(), np.where(first.given, first.values + shift, 0.0))
    return EndsAsked((first, last), EndSets((on[0], on[1]), (equations[0], equations[1]), tied, shift))


def begun_on(problem: OptimalControl, asked: EndsAsked, states: list[EndState]) -> Ends:
    """The ends for a first path: those on a set as states of it near the given ones."""
    found = []
    for end, function, state in zip(asked.given, asked.sets.on, states, strict=True):
        if function is None:
            found.append(end)
        else:
            found.append(PartlyGiven(np.ones_like(end.given), onto_set(function, problem.system, state)))
    return found[0], found[1]


def size_of_end(end: Any, name: str) -> int | None:
    """n, where an end tells it."""
    if isinstance(end, Periodic):
        return len(end.shift) if isinstance(end.shift, np.ndarray) else None
    given = enumerate(end) if isinstance(end, list | tuple) else ()
    whole = [(i, x) for i, x in given if not (x is None or isinstance(x, Mapping) or _with_gaps(x))]
    rows = [as_numbers(x, f"{name}[{i}]").shape for i, x in whole]
    return rows[0][0] if rows and len(rows[0]) == 1 and rows[0][0] else None


def first_path(t: Float[np.ndarray, "N+1"], ends: Ends, through: Through) -> Float[np.ndarray, "N+1 n"]:
    """Of every coordinate the cubic spline through what is given of it."""
    columns = []
    for j in range(through.points.shape[1]):
        initial, final = (_end_of(end, j) for end in ends)
        points = Through(through.times, through.points[:, [j]])
        columns.append(smooth_path(t, initial, final, points, 1)(t, 0)[:, 0])
    return np.stack(columns, axis=1)


def _end_of(end: PartlyGiven, j: int) -> EndData | None:
    """One coordinate as `smooth_path` takes it; a velocity without a position tells a path nothing."""
    if not end.given[0, j]:
        return None
    return EndData(end.values[:, [j]], False, (True, bool(end.given[1, j])))
