"""Data given at the ends and between: from the user's arguments to fixed slots, and a first path through them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from dalembert.boundary.data.free_time import Free, spread
from dalembert.discretize import Windows
from dalembert.numbers import MOST_NODES, as_number, as_numbers, as_positive, check_class, described, whole_number
from dalembert.systems.sizes import check_resolved


def at_times(
    times: Float[np.ndarray, "K"], values: Float[np.ndarray, "K m"], wanted: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "... m"]:
    """Linear between the times, constant beyond them, column by column."""
    columns = [np.interp(wanted.ravel(), times, column) for column in values.T]
    return np.stack(columns, axis=1).reshape(*wanted.shape, -1) if columns else np.zeros((*wanted.shape, 0))


class Nodes(eqx.Module):
    """(q₀, …, q_{k-1}), or the last k nodes of a discrete path: an end given by nodes, as in the discrete variational
    principle.

    Args:
        q: (k, n) nodes, in the order of time; (batch, k, n) for `solve_batch`.

    Raises:
        ValueError: q has neither two nor three axes, or is empty.

    Example:
        >>> first, last = da.Nodes([[0.0], [0.0]]), da.Nodes([[0.9], [1.0]])
        >>> da.solve(beam, initial=first, final=last, T=1.0, steps=10).outcome.name
        'SUCCESS'
    """

    q: Float[np.ndarray, "k n"]

    def __init__(self, q):
        self.q = as_numbers(q, "q")
        if self.q.ndim not in (2, 3) or not self.q.size:
            raise ValueError(f"q: found shape {self.q.shape}; give nodes of shape (k, n), for a batch (batch, k, n)")


class EndData(NamedTuple):
    """values: (r, n), q, q̇, … at the end, or its nodes (k, n); given: which of them are, (r,), the others being 0."""

    values: np.ndarray
    nodes: bool
    given: tuple[bool, ...]

    @property
    def position(self) -> np.ndarray | None:
        """(n,): of the end itself, the first of a row of nodes."""
        return self.values[0] if self.given[0] else None

    @property
    def gap(self) -> int | None:
        """The lowest derivative that is free below one that is given."""
        return self.given.index(False) if False in self.given else None

    @property
    def velocity(self) -> np.ndarray | None:
        """(n,), of an end by derivatives."""
        return self.values[1] if not self.nodes and len(self.given) > 1 and self.given[1] else None


def read_end(given: Any, name: str, k: int) -> EndData | None:
    """Derivatives or nodes at an end; errors that name the argument."""
    if given is None:
        return None
    if isinstance(given, Nodes):
        if given.q.ndim != 2 or len(given.q) != k:
            raise ValueError(
                f"{name}: found nodes of shape {given.q.shape}; a problem with {k} derivatives has {k} given nodes "
                f"at an end, ({k}, n)"
            )
        return EndData(given.q, True, (True,) * k)
    check_class(given, list | tuple, name, "a tuple (q,), (q, v), … of arrays (n,), or Nodes(array (k, n))")
    _check_levels(given, name, k)
    known = [x is not None for x in given]
    while known and not known[-1]:
        known.pop()
    rows = [as_numbers(x, f"{name}[{i}]") for i, x in enumerate(given) if x is not None]
    if not rows:
        return None
    if any(r.ndim == 0 for r in rows):  # [0.0, 0.0] may be meant as q of two coordinates, or as (q, q̇) of one
        raise ValueError(
            f"{name}: found a number where an array (n,) belongs; give a tuple of arrays, such as ([x, y],) for q alone, "
            "([x], [v]) for q and its derivative of one coordinate"
        )
    if any(r.shape != rows[0].shape or r.ndim != 1 or not r.size for r in rows):
        raise ValueError(f"{name}: found shapes {[r.shape for r in rows]}; every one is (n,)")
    values = np.zeros((len(known), *rows[0].shape))
    values[known] = rows
    return EndData(values, False, tuple(known))


def _check_levels(given: Sequence, name: str, k: int) -> None:
    """Errors where an end is given more than it has, or coordinate by coordinate."""
    numbers = any(isinstance(x, int | float) for x in given)  # which are refused for what they are
    if not given or (any(x is not None for x in given[k:]) and not numbers):
        least = "q alone" if k == 1 else f"q and at most {k - 1} of its derivatives"
        raise ValueError(f"{name}: found {len(given)} arrays; at an end of a problem of order {k} give {least}")
    for i, x in enumerate(given):
        if isinstance(x, Mapping) or (isinstance(x, list | tuple) and any(one is None for one in x)):
            raise TypeError(
                f"{name}[{i}]: found {described(x)}; of a VariationalProblem all coordinates of a derivative are given, "
                "(n,), or None of them; of single coordinates give a set, On(lambda q, …: q[0] - 1.0)"
            )


class Through(NamedTuple):
    """Times (p,), increasing, and points (p, n) to pass."""

    times: np.ndarray
    points: np.ndarray


def by_time(points: Any, name: str) -> dict[float, Any]:
    """A mapping {t: q}, in the order of its times."""
    check_class(points, Mapping, name, "a mapping {t: q} from times to points")
    found = {as_number(t, f"{name}: a time", "times as keys, {t: q}"): q for t, q in points.items()}
    return {t: found[t] for t in sorted(found)}


def read_through(through: Any, n: int) -> Through:
    """From a mapping {t: q}."""
    given = by_time({} if through is None else through, "through")
    points = {t: np.atleast_1d(as_numbers(q, f"through[{t}]")) for t, q in given.items()}
    for t, q in points.items():
        if q.shape != (n,):
            raise ValueError(f"through: the point at t = {t:g} has shape {q.shape}; the problem has n = {n} coordinates")
    return Through(np.array([*points]), np.array([*points.values()]).reshape(-1, n))


class Request(NamedTuple):
    """Data of one problem of a batch, as `solve` takes them."""

    initial: Any = None
    final: Any = None
    through: Any = None
    guess: Any = None


class TimeGrid(NamedTuple):
    """The nodes' times as `solve` takes them: T and steps, or times."""

    T: Any = None
    steps: Any = None
    times: Any = None


def read_times(grid: TimeGrid, least: int, why: str) -> np.ndarray:
    """The nodes' times (N+1,): equal steps from 0 to T, or those given; of a free T those of its guess."""
    T, steps, times = grid
    if times is not None:
        if (T is not None and not isinstance(T, Free)) or steps is not None:
            raise ValueError("times: found with T or steps; give the times of all nodes, or T and steps")
        t = as_numbers(times, "times")
        if t.ndim != 1 or np.any(np.diff(t) <= 0):
            raise ValueError("times: give the times of all nodes, (N+1,), increasing")
        if len(t) - 1 < least:
            raise ValueError(f"times: found N = {len(t) - 1}; {why}")
        t = spread(T, t) if isinstance(T, Free) else t
        check_resolved("times", np.abs(t).max(), np.diff(t).min(initial=np.inf))
    else:
        if T is None and steps is None:
            raise TypeError("T, steps, times: are missing; give T and steps, or the times of all nodes")
        length = (
            T.guess
            if isinstance(T, Free)
            else as_positive(T, "T", "the time between the ends, positive and finite, or Free(guess)")
        )
        t = np.linspace(0.0, length, whole_number(steps, "steps", most=MOST_NODES) + 1)
    if len(t) - 1 < least:
        raise ValueError(f"steps: found N = {len(t) - 1}; {why}")
    return t


class FilledSlots(NamedTuple):
    """Per slot: whether it is fixed, and the values (slots, n), with a first guess where it is not."""

    fixed: np.ndarray
    values: np.ndarray


def fill_slots(w: Windows, initial: EndData | None, final: EndData | None, through: Through, n: int, guess) -> FilledSlots:
    """Fixed slots and a smooth first path through all that is given. guess: (N+1, n), or None."""
    t, nodes = w.t, w.nodes
    fixed, values = np.zeros(len(w.orders), dtype=bool), np.zeros((len(w.orders), n))
    at = grid_nodes(t, through.times)
    path = smooth_path(t, initial, final, through, n) if guess is None else polynomial_pieces(t, guess)
    for order in range(int(w.orders.max()) + 1):
        slots = w.orders == order
        values[slots] = path(t[w.owners[slots]], order)
    for end, node in ((initial, 0), (final, len(t) - 1)):
        if end is None:
            continue
        if end.nodes:
            where = nodes[: len(end.values)] if node == 0 else nodes[-len(end.values) :]
            fixed[where], values[where] = True, end.values
        else:
            given = (w.owners == node) & np.isin(w.orders, np.flatnonzero(end.given))
            fixed[given], values[given] = True, end.values[w.orders[given]]
    fixed[nodes[at]], values[nodes[at]] = True, through.points
    return FilledSlots(fixed, values)


def grid_nodes(t: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The nodes at the given times; ValueError naming a time that is none."""
    at = np.clip(np.searchsorted(t, times), 1, len(t) - 1)
    at = np.where(np.abs(t[at - 1] - times) < np.abs(t[at] - times), at - 1, at)
    for time, node in zip(times, at, strict=True):
        if abs(t[node] - time) > 1e-9 * (t[-1] - t[0]):
            raise ValueError(
                f"through: the time {time:g} is not the time of a node; the nearest is {t[node]:g}. Choose steps so that "
                "the times are nodes, or give times= with the nodes you want"
            )
        if node in (0, len(t) - 1):
            raise ValueError(f"through: the time {time:g} is an end; give that point by initial= or final=")
    return at


def polynomial_pieces(t: np.ndarray, q: np.ndarray):
    """path(t, order) of a cubic spline through nodes."""
    from scipy.interpolate import CubicSpline

    spline = CubicSpline(t, q) if len(t) > 3 else CubicSpline(t, q, bc_type="natural")
    return lambda s, order: spline(s, order) if order <= 3 else np.zeros((len(s), q.shape[1]))


def smooth_path(t: np.ndarray, initial: EndData | None, final: EndData | None, through: Through, n: int):
    """path(t, order) of the cubic spline through all given points, with the given end velocities."""
    where, what = [float(x) for x in through.times], [*through.points]
    slopes: list[Any] = [(2, np.zeros(n)), (2, np.zeros(n))]
    for side, end in enumerate((initial, final)):
        if end is None:
            continue
        position, velocity = (end.values[-1] if side and end.nodes else end.position), end.velocity
        if position is not None:
            where.append(float(t[-side]))
            what.append(position)
        if end.nodes and len(end.values) > 1:
            step = t[1] - t[0] if side == 0 else t[-1] - t[-2]
            velocity = (end.values[1] - end.values[0] if side == 0 else end.values[-1] - end.values[-2]) / step
        if velocity is not None:
            slopes[side] = (1, velocity)
    if not where:
        return lambda s, order: np.zeros((len(s), n))
    if len(where) == 1:
        speed = next((s[1] for s in slopes if s[0] == 1), np.zeros(n))
        return lambda s, order: (
            what[0] + (s - where[0])[:, None] * speed if order == 0 else np.tile(speed * (order == 1), (len(s), 1))
        )
    order = np.argsort(where)
    times, points = np.array(where)[order], np.array(what)[order]
    if len(times) == 2:
        return functools.partial(
            _cubic, times, [*points, *_natural_slopes(slopes, np.diff(points, axis=0)[0] / np.diff(times))]
        )
    from scipy.interpolate import CubicSpline

    boundary: Any = tuple(slopes)
    spline = CubicSpline(times, points, bc_type=boundary)
    return lambda s, order: spline(s, order) if order <= 3 else np.zeros((len(s), n))


def _natural_slopes(given: list[Any], rise: np.ndarray) -> list[np.ndarray]:
    """Slopes at both ends of one cubic, whose second derivative vanishes where none is given; rise: from end to end."""
    if all(kind == 2 for kind, _ in given):
        return [rise, rise]
    return [slope if kind == 1 else 1.5 * rise - 0.5 * given[1 - k][1] for k, (kind, slope) in enumerate(given)]


def _cubic(ends: np.ndarray, given: list[np.ndarray], s: np.ndarray, order: int) -> np.ndarray:
    """A derivative of Hermite's cubic. given: the values at both ends, then the slopes. SciPy's spline through these two
    takes as long as a good part of a solution with 100 steps, and to load it as long as the rest of a first call."""
    begin, h = ends[0], ends[1] - ends[0]
    first, last, slope, end = given
    rise = (last - first) / h
    coefficients = [first, slope, (3 * rise - 2 * slope - end) / h, (slope + end - 2 * rise) / h**2]
    for _ in range(order):
        coefficients = [k * c for k, c in enumerate(coefficients)][1:]
    found, x = np.zeros((len(s), len(first))), (s - begin)[:, None]
    for c in reversed(coefficients):
        found = found * x + c
    return found
