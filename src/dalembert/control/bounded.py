"""Optimal control under bounds: the interior point method from the first path, and from others where that one leads nowhere.

Where a path that was given as guess leads nowhere, the iteration begins again nearer to the smooth path through what is
given, and at last from that path: a guess may wind a pendulum more often than bounded forces can.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dalembert.boundary.data.limits import PathPoints, continued_forces
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.interior.path import violation
from dalembert.boundary.iteration import Search
from dalembert.boundary.newton import Iterate, Termination
from dalembert.control.transcription import ControlData
from dalembert.solution import ControlSolution

NEARER = (0.5, 1.0)  # to the smooth path
FAILED = (Termination.INFEASIBLE, Termination.NOT_CONVERGED)


def minimised(data: ControlData, search: Search, starts: Starts, sizes: np.ndarray) -> tuple[Iterate, Activity]:
    """The end of the iteration; where all have failed, the one that violates least."""
    best = search(starts.z, sizes, _known_forces(data, starts))
    used, count = best[0].iterations, best[0].restorations
    for share in () if starts.guess is None or isinstance(starts.guess, ControlSolution) else NEARER:
        if best[0].end not in FAILED:
            break
        other = search(starts.nearer(data, share), sizes, None)
        used, count = used + other[0].iterations, count + other[0].restorations + 1
        if other[0].end is Termination.CONVERGED or _violation(other[0]) < _violation(best[0]):
            best = other
    best[0].iterations, best[0].restorations = used, count
    return best


def _violation(it: Iterate) -> float:
    return violation(it.kkt, it.at)


@dataclasses.dataclass(frozen=True)
class Starts:
    """First paths. z: (blocks, b), from the guess; guess: that of the user, or None; smooth: (N+1, n), the path and its
    velocities without it."""

    z: np.ndarray
    guess: Any
    smooth: tuple[np.ndarray, np.ndarray]

    def nearer(self, data: ControlData, share: float) -> np.ndarray:
        """A path that much nearer to the smooth one, with neither controls nor multipliers."""
        state, z = data.layout.part("state"), np.zeros(self.z.shape)
        path, v = self.smooth
        z[1:-1, state] = (1.0 - share) * self.z[1:-1, state] + share * (path - data.origin)
        z[[0, -1], state] = (1.0 - share) * self.z[[0, -1], state] + share * v[[0, -1]]
        place_values(data, z)
        return z


def place_values(data: ControlData, z: np.ndarray) -> list[PathPoints]:
    """The values of path inequalities on a path, put where they belong; and where they are taken."""
    state, found = data.layout.part("state"), []
    path = z[1:-1, state] + data.origin
    v = np.gradient(path, data.t, axis=0, edge_order=2)
    v[[0, -1]] = z[[0, -1], state]
    for one, places in zip(data.paths, data.path_places("values"), strict=True):
        level = one.level
        u = np.zeros((len(level.times), data.layout.r)) if level.steps else z[1:-1, data.layout.part("controls")]
        found.append(PathPoints(level.on(path), level.rates(path, v), u, level.times))
        z.ravel()[places] = one.values(data.problem.parameters, found[-1])
    return found


def _known_forces(data: ControlData, starts: Starts) -> np.ndarray | None:
    """What the multipliers of the bounds add to the gradient on a known solution of the same bounds; those of path
    inequalities go into the path."""
    guess, z = starts.guess, starts.z
    names = {*data.bounds, *(one.name for one in data.paths)}
    if not isinstance(guess, ControlSolution) or not names <= guess.bounds.keys():
        return None
    forces = np.zeros(z.shape)
    for name in data.bounds:
        forces.ravel()[data.places(name)] = continued_forces(guess.bounds[name], data.nodes)
    places = data.path_places("values"), data.path_places("inequalities")
    for one, values, own in zip(data.paths, *places, strict=True):
        found = one.known_forces(guess.bounds[one.name])
        forces.ravel()[values] = found
        z.ravel()[own] = found / one.level.weights[:, None]
    return forces


def bounds_of(data: ControlData) -> list[tuple[np.ndarray, np.ndarray]]:
    """Places in the flat path, and their bounds."""
    origins = {"q": data.origin, "u": np.zeros(data.layout.r)}
    parts = [(data.places(name), both - origins[name]) for name, both in data.bounds.items()]
    parts += [(at, one.limits) for at, one in zip(data.path_places("values"), data.paths, strict=True)]
    if data.horizon is not None and data.horizon.bounded:
        parts.append((np.array([data.time_place]), data.horizon.bounds))
    return parts
