"""The first path of an optimal control problem, through all that is given, and the unknowns that it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.data.end_sets import EndSets, EndState
from dalembert.boundary.data.ends import Through, at_times, grid_nodes, read_through
from dalembert.boundary.kkt.shared_unknowns import carry
from dalembert.boundary.prepare import Request
from dalembert.control.ends import Ends, begun_on, first_path, read_ends
from dalembert.control.given_states import SharedLeaf, check_states, shared_leaf
from dalembert.control.problem import OptimalControl
from dalembert.control.transcription import ControlData
from dalembert.numbers import as_numbers
from dalembert.solution import ControlSolution


class GivenPath(NamedTuple):
    """What is given, and a path (N+1, n) with its velocities that has it. given: which positions of the nodes are; sets:
    what else holds at the ends; smooth: path and velocities without the guess; settled, leaf: see `check_states` and
    `shared_leaf`."""

    ends: Ends
    sets: EndSets
    given: np.ndarray
    path: np.ndarray
    v: np.ndarray
    smooth: tuple[np.ndarray, np.ndarray]
    settled: np.ndarray
    leaf: SharedLeaf | None

    @property
    def held(self) -> np.ndarray:
        """Positions that are given in full."""
        return self.path[self.given.all(axis=1)]


def given_path(problem: OptimalControl, request: Request, t: np.ndarray, n: int, timed: bool) -> GivenPath:
    """What a request gives, read and checked, and its first path. timed: whether the final time is free."""
    asked = read_ends(problem, request.initial, request.final, n)
    ends, sets = asked
    between = read_through(request.through, n)
    given = np.zeros((len(t), n), dtype=bool)
    given[0], given[-1] = (end.given[0] for end in ends)
    given[grid_nodes(t, between.times)] = True
    begun, shift = ends, sets.shift[0]
    path = _path(t, begun, between, request.guess, shift)
    if any(sets.on):
        begun = begun_on(problem, asked, _states(t, path, _velocities(path, t, ends), ends))
        path = _path(t, begun, between, request.guess, shift)
    smooth = path if request.guess is None else _path(t, begun, between, None, shift)
    v = _velocities(path, t, begun)
    held_to = lambda held: check_states(problem, _states(t, path, v, held), between, float(np.ptp(t)))  # noqa: E731
    settled = held_to(ends)
    leaf = shared_leaf(problem, path, t, given, sets, timed)
    for function, state in zip(sets.on, _states(t, path, v, ends), strict=True):
        if leaf and function:
            leaf.check_set(function, problem, state)
    for node in leaf.nodes if leaf else ():
        given[node.place, node.dependent] = False
        if node.place == len(t) - 1:
            sets.tied[0, node.dependent] = False
            ends, settled = _without(node.dependent, ends, held_to)
    return GivenPath(ends, sets, given, path, v, (smooth, _velocities(smooth, t, begun)), settled, leaf)


def _without(following: list[int], ends: Ends, settled: Callable[[Ends], np.ndarray]) -> tuple[Ends, np.ndarray]:
    """The last end without positions that follow from others, and without their velocities where the constraints there read
    these positions; and what is settled then."""
    for levels in (1, 2):
        last = ends[1].given.copy()
        last[:levels, following] = False
        held = ends[0], ends[1]._replace(given=last)
        found = settled(held)
        if found[1, 1].all():
            break
    return held, found


def _states(t: np.ndarray, path: np.ndarray, v: np.ndarray, ends) -> list[EndState]:
    """The ends of a first path, from where those on a set are sought."""
    extent = np.ptp(path, axis=0)
    size = np.where(extent > 0.0, extent, np.maximum(extent.max(), 1.0 * (extent.max() == 0.0)))
    sizes = np.array([size, size / np.ptp(t)])
    every = zip(("initial", "final"), (0, -1), ends, strict=True)
    return [EndState(name, np.array([path[i], v[i]]), ~end.given, sizes, float(t[i])) for name, i, end in every]


def _path(t, ends, between: Through, guess: Any, shift: np.ndarray) -> np.ndarray:
    """The first path (N+1, n): through all that is given. shift: by which the ends of a periodic one differ."""
    n = between.points.shape[1]
    if guess is None:
        path = first_path(t, ends, between)
        if shift.any():
            path += np.where(ends[0].given[0], 0.0, shift) * ((t - t[0]) / np.ptp(t))[:, None]
    elif isinstance(guess, ControlSolution):
        if guess.q.shape[1] != n:
            raise ValueError(f"guess: found a ControlSolution of {guess.q.shape[1]} coordinates; the system has n = {n}")
        path = guess.interpolate(np.clip(t, float(guess.t[0]), float(guess.t[-1])))
    else:
        path = _rows(guess[0] if isinstance(guess, tuple) else guess, "guess", (len(t), n))
    for node, end in zip((0, -1), ends, strict=True):
        path[node] = np.where(end.given[0], end.values[0], path[node])
    path[grid_nodes(t, between.times)] = between.points
    return path


def _rows(given: Any, name: str, shape: tuple[int, int]) -> np.ndarray:
    """One row per node."""
    found = np.array(as_numbers(given, name))
    if found.shape != shape:
        raise ValueError(
            f"{name}: found shape {found.shape}; give one row per node: a path (N+1, n), a tuple (q, u) of path and "
            f"controls, or a ControlSolution; shape {shape} is needed"
        )
    return found


def _velocities(path: np.ndarray, t: np.ndarray, ends) -> np.ndarray:
    v = np.gradient(path, t, axis=0, edge_order=2)
    for node, end in zip((0, -1), ends, strict=True):
        v[node] = np.where(end.given[1], end.values[1], v[node])
    return v


def first_values(data: ControlData, told: GivenPath, guess: Any) -> np.ndarray:
    """(blocks, b): the path and its velocities at the ends; controls and multipliers zero, or those of a known solution."""
    layout, t = data.layout, data.t
    z = np.zeros((len(t) + 2, layout.size))
    z[1:-1, layout.part("state")] = told.path - data.origin
    z[[0, -1], layout.part("state")] = told.v[[0, -1]]
    if data.tie is not None:
        carry(z, layout.part("ends").start, data.tie)
    if isinstance(guess, tuple):
        z[1:-1, layout.part("controls")] = _rows(guess[1], "guess[1]", (len(t), layout.r))
    if isinstance(guess, ControlSolution):
        own = (guess.u.shape[1], guess.multipliers.shape[1])
        if own != (layout.r, layout.m):
            raise ValueError(
                f"guess: found a ControlSolution with {own[0]} controls and {own[1]} constraints; the problem has "
                f"{layout.r} and {layout.m}"
            )
        middle = 0.5 * (guess.t[1:] + guess.t[:-1])
        z[1:-1, layout.part("controls")] = at_times(guess.t, guess.u, t)
        z[2:, layout.part("reactions")] = at_times(guess.t, guess.multipliers, t)
        z[2:, layout.part("adjoints")] = at_times(guess.t, guess.adjoints, t)
        z[2:-1, layout.part("steps")] = at_times(middle, guess.step_multipliers, 0.5 * (t[1:] + t[:-1]))
    return z
