"""Many optimal control problems that differ in what is given: one KKT system, prepared once, for all of them.

What is given stands in the fixed components of a path, so that equations, machine code, pivots and units are those of one
problem, that whose ends are farthest apart. Continued, an entry begins at the solution of its neighbour, moved as the smooth
paths through what is given differ, with its multipliers: a tree of nearest neighbours is walked from one entry to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.boundary.data.drawn import slopes_of_intervals
from dalembert.boundary.data.free_time import fitted
from dalembert.boundary.data.limits import check_given
from dalembert.boundary.data.sizes import extents_of
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.newton import Iterate, Termination
from dalembert.boundary.prepare import Request
from dalembert.boundary.solve import Asked, SmoothStart, extremals_of, smooth_start
from dalembert.control.bounded import Starts, place_values
from dalembert.control.first_values import GivenPath, first_values, given_path
from dalembert.control.problem import OptimalControl
from dalembert.control.result import control_solution
from dalembert.control.solve import ControlSearch, control_search, prepare_control, searched
from dalembert.control.transcription import ControlData
from dalembert.native.threads import on_threads
from dalembert.solution import ControlSolution
from dalembert.systems import System
from dalembert.systems.equations import value
from dalembert.tracing import seldom


@smooth_start.register
def _(problem: OptimalControl, asked: Asked) -> SmoothStart:
    start = prepare_control(problem, asked)
    assert start.smooth is not None
    t, system = start.data.t, problem.system
    rows = (lambda paths: _intervals(system, paths, t)) if system.constraints else None
    return SmoothStart(t, start.smooth[0], start.sizes.positions, start.data.given, rows)


@seldom
def _intervals(system: System, paths, t):
    """φ(q, v) of each interval, and φ(q) of its end, with their slopes."""

    def rows(a, b, s, h):
        v, middle = (b - a) / h, 0.5 * (a + b)
        found = [
            value(system, c, b, v, v, s + h) if c.order == 0 else value(system, c, middle, v, v, s + 0.5 * h)
            for c in system.constraints
        ]
        return jnp.concatenate(found)

    return slopes_of_intervals(rows, paths, t)


@extremals_of.register
def _(
    problem: OptimalControl, asked: Asked, requests: Sequence[Request], threads: int, continued: bool = False
) -> list[ControlSolution]:
    data = prepare_control(problem, asked._replace(request=requests[0])).data
    own = [_own_path(data, request) for request in requests]
    extents = np.array([extents_of(path.held, path.path) for path in own])
    farthest = int(np.argmax((extents / np.maximum(extents.max(axis=0), np.finfo(float).tiny)).sum(axis=1)))
    ready = control_search(problem, asked._replace(request=requests[farthest]))
    batch = _Batch(ready, requests, own, extents, asked.certify)
    if not continued:
        return [end.solution for end in on_threads(batch.found, range(len(requests)), threads)]
    ends: dict[int, _End] = {}

    def begun(pair: tuple[int, int]) -> _End:
        return batch.found(pair[0], ends.get(pair[1]))

    for level in _levels(np.array([np.concatenate([e.values.ravel() for e in path.ends]) for path in own])):
        ends.update(zip((i for i, _ in level), on_threads(begun, level, threads), strict=True))
    return [ends[i].solution for i in range(len(requests))]


def _own_path(data: ControlData, request: Request) -> GivenPath:
    """The first path of a request, checked."""
    problem, t = data.problem, data.t
    guess = request.guess if data.horizon is None else fitted(request.guess, t)
    own = given_path(problem, request._replace(guess=guess), t, data.layout.n, data.horizon is not None)
    if not (np.array_equal(own.settled, data.settled_ends) and np.array_equal(own.given, data.given)):
        raise ValueError(
            "initial, final: the data of an entry leave other equations of the plant's constraints open than those of the "
            "first, for example because velocities are zero; solve such entries separately"
        )
    if "q" in data.bounds:
        check_given(data.bounds["q"], own.path, own.given, t, problem.coordinates)
    return own


def _levels(points: Float[np.ndarray, "batch k"]) -> list[list[tuple[int, int]]]:
    """A tree of least length through the points, by Prim: pairs of a point and the one before it, level by level, -1 before
    the first, which is nearest to the mean."""
    spread = points.std(axis=0)
    scaled = (points - points.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    root = int(np.argmin((scaled**2).sum(axis=1)))  # by hand: SciPy's tree wants all pairs, 800 MB of 10⁴ points
    distance, before = np.full(len(points), np.inf), np.full(len(points), -1)
    level, outside = np.zeros(len(points), dtype=int), np.ones(len(points), dtype=bool)
    distance[root] = 0.0
    for _ in points:
        new = int(np.argmin(np.where(outside, distance, np.inf)))
        outside[new] = False
        level[new] = 0 if before[new] < 0 else level[before[new]] + 1
        apart = ((scaled - scaled[new]) ** 2).sum(axis=1)
        nearer = outside & (apart < distance)
        distance[nearer], before[nearer] = apart[nearer], new
    return [[(int(i), int(before[i])) for i in np.flatnonzero(level == k)] for k in range(level.max() + 1)]


class _End(NamedTuple):
    """A solved entry. first: the path it would have begun with on its own."""

    solution: ControlSolution
    it: Iterate
    activity: Activity
    first: np.ndarray


class _Batch(NamedTuple):
    """A search that serves all requests. extents: (batch, n), of what each is given."""

    ready: ControlSearch
    requests: Sequence[Request]
    paths: list[GivenPath]
    extents: np.ndarray
    certify: bool

    def found(self, i: int, neighbour: _End | None = None) -> _End:
        """The end of one entry, begun at the solution of a neighbour where there is one."""
        ready, request = self._placed(i)
        z, sizes = ready.start.z, self._sizes(i)
        it = activity = None
        if neighbour is not None and neighbour.it.end is Termination.CONVERGED:
            moved = neighbour.it.z + z - neighbour.first
            it, activity = ready.search(moved, sizes, neighbour.activity.multipliers)
        if it is None or activity is None or it.end is not Termination.CONVERGED:
            it, activity = searched(ready, Starts(z, request.guess, self.paths[i].smooth), sizes)
        return _End(control_solution(ready.start.data, ready.kkt, it, self.certify, activity), it, activity, z)

    def _sizes(self, i: int) -> np.ndarray:
        """Of what convergence is judged by: no larger than what this entry is given."""
        positions, all_sizes, extent = self.ready.start.sizes.positions, self.ready.sizes, self.extents[i]
        own = np.where(extent > 0.0, np.minimum(extent, positions), positions)
        return np.append(own + all_sizes[: len(own)] - positions, all_sizes[len(own) :])

    def _placed(self, i: int) -> tuple[ControlSearch, Request]:
        """The search with the first path of an entry."""
        data, own, request = self.ready.start.data, self.paths[i], self.requests[i]
        request = request if data.horizon is None else request._replace(guess=fitted(request.guess, data.t))
        data = data._replace(ends=own.ends, leaf=own.leaf)
        z = first_values(data, own, request.guess)
        place_values(data, z)
        sizes = np.split(self.ready.start.sizes.values, np.cumsum([one.size for one in data.paths]))
        for one, places, size in zip(data.paths, data.path_places("values"), sizes[:-1], strict=True):
            one.check_settled(z.ravel()[places], data.settled(one), size)
        return self.ready._replace(start=self.ready.start._replace(data=data, z=z)), request
