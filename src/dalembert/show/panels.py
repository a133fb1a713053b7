"""Panels of a figure: which lines share one, and which points of a long series are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalembert.path import Path
from dalembert.solution import CriticalPoint

COLUMNS = 2000  # of a time axis: more than a printed figure has dots
MOST = 24  # panels of coordinates; more coordinates share panels
SEEN = 150  # turning points that can be told apart; curves with more would hide each other in one panel

Line = tuple[str, np.ndarray]  # name, values
Panel = tuple[str, np.ndarray, list[Line]]  # label of the axis, times, (name, values) of each line


def panels(path: Path, velocities: bool, places: Sequence[int]) -> list[Panel]:
    """One panel per coordinate, then velocities, multipliers and constraint forces, each over its own times. places: of the
    coordinates in q."""
    names, t = names_of(path), np.asarray(path.t)
    shared = -(-len(places) // MOST)
    groups = [places[i : i + shared] for i in range(0, len(places), shared)]
    found: list[Panel] = [
        (" ".join(names[i] for i in g), t, [(names[i], np.asarray(path.q)[:, i]) for i in g]) for g in groups
    ]
    if velocities:
        lines = [(f"d{names[i]}/dt", np.asarray(path.v)[:, i]) for i in places]
        found += _together("velocities", np.asarray(path.t_velocity), lines)
    return found + _force_panels(path, names, places)


def _together(label: str, t: np.ndarray, lines: list[Line]) -> list[Panel]:
    """One panel for all lines, or one for each where they oscillate too fast to be seen behind each other."""
    turns = max((np.count_nonzero(np.diff(np.sign(np.diff(y)))) for _, y in lines), default=0)
    if len(lines) == 1 or turns <= SEEN:
        return [(label, t, lines)] if lines else []
    return [(name, t, [(name, y)]) for name, y in lines]


def _force_panels(path: Path, names: list[str], places: Sequence[int]) -> list[Panel]:
    """Multipliers and constraint forces; one panel where a single multiplier is, up to sign, the only force."""
    t, multipliers = np.asarray(path.t_multipliers), np.asarray(path.multipliers)
    forces, m = np.asarray(path.constraint_forces), multipliers.shape[1]
    if m == 0 or t.size == 0:
        return []
    acting = [i for i in places if np.any(forces[:, i] != 0)]
    if m == 1 and len(acting) == 1 and np.array_equal(np.abs(forces[:, acting[0]]), np.abs(multipliers[:, 0])):
        return [(f"force on {names[acting[0]]} (λ)", t, [("", multipliers[:, 0])])]
    labels = [f"λ{subscript(i + 1)}" for i in range(m)] if m > 1 else ["λ"]
    return [
        *_together("λ" if m == 1 else "multipliers", t, list(zip(labels, multipliers.T, strict=True))),
        *_together("force Rᵀλ", t, [(f"force on {names[i]}", forces[:, i]) for i in acting]),
    ]


def envelope(t: np.ndarray, y: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
    """Indices of the first, least, largest and last point in each of `columns` equal intervals of t, all if few.

    t: (K,) increasing, y: (K,). Points that are not finite are kept, as they break the line.
    """
    if t.size <= 8 * columns:
        return np.arange(t.size)
    column = np.minimum((columns * (t - t[0]) / (t[-1] - t[0])).astype(int), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(starts[1:], t.size)
    by_value = np.lexsort((y, column))  # sorted by column, then by value; not finite values come last
    finite = np.add.reduceat(np.isfinite(y).astype(int), starts)
    largest = by_value[np.minimum(starts + np.maximum(finite - 1, 0), ends - 1)]
    return np.unique(np.concatenate([starts, by_value[starts], largest, ends - 1, np.flatnonzero(~np.isfinite(y))]))


def names_of(path: Path | CriticalPoint) -> list[str]:
    """The names of q given with the system, or q₀, q₁, …"""
    return list(path.coordinates) or [f"q{subscript(i)}" for i in range(np.shape(path.q)[1])]


def subscript(i: int) -> str:
    return "".join(chr(ord("₀") + int(digit)) for digit in str(i))
