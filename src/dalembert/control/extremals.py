"""Optimal control problems for `dalembert.solve`: from the arguments over the KKT system to a ControlSolution, or to many.

Of many problems that differ in what is given one KKT system is prepared. What is given stands in the fixed components of a
path, so that equations, machine code, pivots and units are those of one problem, that whose ends are farthest apart.
Continued, an entry begins at the solution of its neighbour, moved as the smooth paths through what is given differ, with its
multipliers: a tree of nearest neighbours is walked from one entry to all.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.boundary import Asked, Iterate, Request, Termination, TimeGrid, extremal, smooth_start
from dalembert.boundary.data.around import check_on_group, coordinates_of
from dalembert.boundary.data.drawn import onto_constraints
from dalembert.boundary.data.ends import read_times
from dalembert.boundary.data.free_time import fit_times, horizon_of
from dalembert.boundary.data.limits import Asking, Bounded, check_given, read_bounds, read_inequalities
from dalembert.boundary.data.sizes import extents_of, origin_of
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.iteration import leave_saddles, search_of
from dalembert.boundary.kinds import SmoothStart, extremals_of, prepare_once
from dalembert.control.given import GivenPath, given_on_group, given_path, size_of_end
from dalembert.control.problem import Lobatto, OptimalControl, count_equations, plant_scheme, scheme_name
from dalembert.control.resolution import unresolved
from dalembert.control.result import control_solution
from dalembert.control.search import FAILED, ControlSearch, First, bring_in_limits
from dalembert.control.terms import ControlLayout, check_parabolas
from dalembert.control.transcription import (
    ControlData,
    ControlStart,
    check_controls,
    control_sizes,
    first_values,
    path_values,
    sample_path,
    transcribe,
)
from dalembert.discretize import Scheme, check_maps
from dalembert.groups import Product
from dalembert.interrupts import keep
from dalembert.messages import warn
from dalembert.native import on_threads
from dalembert.numbers import as_choice, as_numbers
from dalembert.outcome import Outcome
from dalembert.solution import ControlSolution
from dalembert.systems import check_x64
from dalembert.systems.sizes import as_scales

LONGER = (1.0, 2.0, 4.0)  # times the guess of the final time
OTHER = (
    "the steps do not resolve the motion that the first path led to, of cost {:.6g}: this one was found from another path. "
    "Give more steps if the first is wanted"
)


@extremal.register
def _extremal(problem: OptimalControl, asked: Asked, sides: bool = True) -> ControlSolution:
    """sides: whether obstacles are tried on their other sides, too."""
    by_steps = isinstance(asked.request.guess, str)
    if by_steps:
        as_choice(asked.request.guess, "guess", ("homotopy",), "guesses by name")
        asked = asked._replace(request=asked.request._replace(guess=None))
    ready = prepare_once(control_search, problem, asked)
    data, kkt = ready.start.data, ready.kkt
    keep()
    starts = ready.starts()
    timed = data.horizon is not None and not isinstance(asked.request.guess, ControlSolution)
    tried = itertools.islice(starts, 1) if timed else starts
    end, remark = bring_in_limits(ready, asked.settings) if by_steps else (ready.minimise(ready.sizes, tried), "")
    if not isinstance(asked.request.guess, ControlSolution):
        end = ready.slide_contacts(end)
        end = ready.pass_other_sides(end) if sides else end
    data.check_ranks(end[0].z, kkt.positions[: data.layout.n])
    assess = lambda it, activity: control_solution(data, kkt, it, asked.certify, activity)  # noqa: E731
    found = leave_saddles(ready.search, end, ready.sizes, assess)
    found = dataclasses.replace(found, remark=remark) if remark else found
    if timed and end[0].end in FAILED:
        found = _fix_time_first(problem, asked, data, found)
        if found.outcome is not Outcome.SUCCESS and not by_steps:
            other = leave_saddles(ready.search, ready.minimise(ready.sizes, starts), ready.sizes, assess)
            found = _count_searches([found, other]) if other.outcome is Outcome.SUCCESS else found
    return _prefer_resolved(ready, starts, found, assess) if asked.certify and found.outcome is Outcome.SUCCESS else found


def _prefer_resolved(
    ready: ControlSearch, starts: Iterator[First], found: ControlSolution, assess: Callable
) -> ControlSolution:
    """The solution; where its steps do not resolve the motion, that from another first path, if its steps do. starts: the
    paths that have not been tried."""
    data, sizes = ready.start.data, ready.kkt.positions[: ready.start.data.layout.n]
    text = unresolved(data.accelerations, found, sizes)
    tried = [found]
    for z, forces in starts if text else ():
        tried.append(leave_saddles(ready.search, ready.search(z, ready.sizes, forces), ready.sizes, assess))
        if tried[-1].outcome is Outcome.SUCCESS and not unresolved(data.accelerations, tried[-1], sizes):
            return dataclasses.replace(_count_searches(tried), remark=OTHER.format(float(found.cost)))
        if tried[-1].outcome is Outcome.INTERRUPTED:
            break
    if text:
        warn(text)
    return found


def _fix_time_first(problem: OptimalControl, asked: Asked, data: ControlData, failed: ControlSolution) -> ControlSolution:
    """With a free final time: from the solution at its guess, or at a longer time, where both exist; otherwise what has
    failed. A time that is only held near its guess, as `FreeTimeSearch` does first, still changes every constraint of the
    search."""
    tried, horizon = [failed], data.horizon
    assert horizon is not None
    for factor in LONGER:
        t = horizon.times(data.t, factor)
        if t[-1] > horizon.limits[1]:
            break
        tried.append(extremal(problem, asked._replace(grid=TimeGrid(None, None, t), certify=False)))
        if tried[-1].outcome is Outcome.SUCCESS:
            grid = asked.grid._replace(T=dataclasses.replace(horizon.free, guess=float(t[-1])))
            tried.append(extremal(problem, asked._replace(grid=grid, request=asked.request._replace(guess=tried[-1]))))
            break
    time = tried[-1].final_time
    if time is None or tried[-1].outcome is not Outcome.SUCCESS:
        return failed
    guess = np.asarray(horizon.free.guess)
    return dataclasses.replace(_count_searches(tried), final_time=dataclasses.replace(time, guess=guess))


def _count_searches(tried: Sequence[ControlSolution]) -> ControlSolution:
    """The last of them, with the counts of all."""
    names = "iterations", "factorizations", "restorations"
    counts = {name: np.asarray(sum(getattr(s.statistics, name) for s in tried)) for name in names}
    return dataclasses.replace(tried[-1], statistics=dataclasses.replace(tried[-1].statistics, **counts))


def control_search(problem: OptimalControl, asked: Asked) -> ControlSearch:
    """The filter's line search, or inside bounds on anything the interior point method."""
    start = prepare_control(problem, asked)
    data = start.data
    kkt = transcribe(data, start.z, start.sizes, asked.settings.tolerance)
    least = 4 * np.finfo(float).eps / asked.settings.tolerance * data.magnitudes(start.z)
    sizes = kkt.positions + (least if data.horizon is None else np.append(least, 0.0))
    time = None if data.horizon is None else data.time_place
    search = search_of(kkt, start.z, asked.settings, data.bounded_places(), time, filtered=True)
    return ControlSearch(start, kkt, search, sizes)


def prepare_control(problem: OptimalControl, asked: Asked) -> ControlStart:
    """Everything checked, and a first path."""
    check_x64()
    initial, final, _, guess = asked.request
    space = problem.system.space
    if isinstance(space, Product):
        check_on_group(asked.request, None, asked.bounds)
        if isinstance(asked.scheme, Lobatto):
            raise ValueError("scheme: found Lobatto() for a plant on groups; leave it out, give more steps, or refine")
    if isinstance(guess, tuple) and len(guess) != 2:
        raise ValueError(f"guess: found a tuple of {len(guess)}; give (q, u), path and controls, one row per node each")
    n = dimension_of(problem, initial, final, guess)
    r, equations = count_equations(problem, n)
    scheme = _checked_scheme(asked.scheme, n)
    t = read_times(asked.grid, 2, "at least two steps are needed")
    if isinstance(scheme, Lobatto):
        velocities = asked.bounds.get("v") if isinstance(asked.bounds, Mapping) else None
        check_parabolas(problem, t, {"bounds['v']": velocities, "inequalities": asked.inequalities})
    horizon = horizon_of(asked.grid.T, t)
    guess = guess if horizon is None else fit_times(guess, t)
    own = _read_request(problem, asked.request._replace(guess=guess), t, n, horizon is not None)
    given, path, v, sets = own.given, own.path, own.v, own.sets
    of_coordinates = Bounded(n, problem.system.velocities)
    bounds = read_bounds(asked.bounds, {"q": of_coordinates, "v": of_coordinates, "u": Bounded(r)}, len(t))
    asking = Asking(problem.system, n, r, t, (True, True))
    paths = read_inequalities(asking, asked.inequalities, bounds.pop("v", None))
    if "q" in bounds:
        check_given(bounds["q"], path, given, t, problem.coordinates)
    held, reached = own.whole_positions, path
    if isinstance(space, Product):
        reached = coordinates_of(space, path[None])[0]
        held = reached[given.all(axis=1)]
    holonomic = np.repeat(np.array([c.order == 0 for c in problem.system.constraints], dtype=bool), equations)
    origin = origin_of(held, path) if space.flat else np.zeros(n)
    base = 0 if space.flat else space.stored_size(n)
    layout = ControlLayout(n, r, len(holonomic), sum(one.size for one in paths), horizon is not None, sets.size, base)
    data = ControlData(
        problem=problem, scheme=scheme, layout=layout, t=t, given=given, ends=own.ends, origin=origin, holonomic=holonomic,
        bounds=bounds, paths=paths, horizon=horizon, sets=sets, scheme_name=scheme_name(scheme, problem.system),
        settled_ends=own.settled, leaf=own.leaf,
    )  # fmt: skip
    found = sample_path(problem, path, v, r, t)
    limits = bounds.get("u", np.full((1, 1, r), np.inf))
    check_controls(found, np.asarray(np.isfinite(limits).all(axis=(0, 1))), asked.settings.minimum)
    scales = as_scales(asked.scales, n)
    whole = bool(bounds or paths or sets.size)  # a barrier, and an end that moves, know no other scale
    extents = np.ptp(reached, axis=0) if whole else extents_of(held, reached)
    time, timed = float(t[-1] - t[0]), horizon is not None
    sizes = control_sizes(found, extents, time, timed, 1.0) if scales is None else control_sizes(found, scales, time, timed)
    z = first_values(data, own, guess)
    of_nodes = sizes.positions, sizes.positions / sizes.time, sizes.controls
    sizes = sizes._replace(values=data.value_sizes(data.place_values(z), of_nodes))
    data.check_values(z, sizes.values)
    return ControlStart(data, z, sizes, path_values(data, *own.smooth), guess)


def _read_request(problem: OptimalControl, request: Request, t: np.ndarray, n: int, timed: bool) -> GivenPath:
    """The data of a request, read and checked, and its first path. timed: whether the final time is free."""
    space = problem.system.space
    if isinstance(space, Product):
        return given_on_group(problem, space, request, t)
    return given_path(problem, request, t, n, timed)


def dimension_of(problem: OptimalControl, initial, final, guess) -> int:
    """n, from whatever was given."""
    if problem.system.velocities is not None:
        return len(problem.system.velocities)
    found = [n for n in (size_of_end(initial, "initial"), size_of_end(final, "final")) if n]
    if guess is not None:
        path = guess.q if isinstance(guess, ControlSolution) else guess[0] if isinstance(guess, tuple) else guess
        found += as_numbers(path, "guess").shape[1:2]
    if not found:
        raise TypeError("initial: give all coordinates of something at an end, a guess, or the system's coordinates=")
    return int(found[0])


def _checked_scheme(scheme: Any, n: int) -> Scheme | Lobatto:
    if isinstance(scheme, Lobatto):
        return scheme
    found = plant_scheme(scheme)
    check_maps(found, n)
    return found


@smooth_start.register
def _(problem: OptimalControl, asked: Asked) -> SmoothStart:
    ready = control_search(problem, asked)
    data, smooth, space = ready.start.data, ready.start.smooth, problem.system.space
    assert smooth is not None
    kept = np.zeros(data.layout.size, dtype=bool)
    kept[data.layout.part("state")] = kept[data.layout.part("steps")] = True

    def onto(paths: np.ndarray) -> np.ndarray:
        begun = [path_values(data, path, data.motion(smooth)[1]) for path in paths]
        return np.stack([data.motion(onto_constraints(ready.kkt, z, kept))[0] for z in begun])

    constrained = problem.system.constraints and space.flat
    return SmoothStart(data.t, data.motion(smooth)[0], ready.start.sizes.positions, onto if constrained else None, space)


@extremals_of.register
def _(
    problem: OptimalControl, asked: Asked, requests: Sequence[Request], threads: int, continued: bool = False
) -> list[ControlSolution]:
    if not problem.system.space.flat:  # each is counted from a path of its own
        return [_extremal(problem, asked._replace(request=request), sides=False) for request in requests]
    data = prepare_control(problem, asked._replace(request=requests[0])).data
    own = [_own_path(data, request) for request in requests]
    extents = np.array([extents_of(path.whole_positions, path.path) for path in own])
    farthest = int(np.argmax((extents / np.maximum(extents.max(axis=0), np.finfo(float).tiny)).sum(axis=1)))
    ready = control_search(problem, asked._replace(request=requests[farthest]))
    batch = _Batch(ready, requests, own, extents, asked.certify)
    if not continued:
        return [end.solution for end in on_threads(batch.solve_entry, range(len(requests)), threads)]
    ends: dict[int, _End] = {}

    def solve_after(pair: tuple[int, int]) -> _End:
        return batch.solve_entry(pair[0], ends.get(pair[1]))

    for level in _levels(np.array([np.concatenate([e.values.ravel() for e in path.ends]) for path in own])):
        ends.update(zip((i for i, _ in level), on_threads(solve_after, level, threads), strict=True))
    return [ends[i].solution for i in range(len(requests))]


def _own_path(data: ControlData, request: Request) -> GivenPath:
    """The first path of a request, checked."""
    problem, t = data.problem, data.t
    guess = request.guess if data.horizon is None else fit_times(request.guess, t)
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

    def solve_entry(self, i: int, neighbour: _End | None = None) -> _End:
        """The end of one entry, begun at the solution of a neighbour where there is one."""
        ready = self._place_entry(i)
        z, sizes = ready.start.z, self._judged_sizes(i)
        it = activity = None
        if neighbour is not None and neighbour.it.end is Termination.CONVERGED:
            moved = neighbour.it.z + z - neighbour.first
            it, activity = ready.search(moved, sizes, neighbour.activity.multipliers)
        if it is None or activity is None or it.end is not Termination.CONVERGED:
            it, activity = ready.minimise(sizes, ready.starts())

        def assess(it: Iterate, activity: Activity) -> _End:
            return _End(control_solution(ready.start.data, ready.kkt, it, self.certify, activity), it, activity, z)

        return leave_saddles(ready.search, (it, activity), sizes, assess)

    def _judged_sizes(self, i: int) -> np.ndarray:
        """Of what convergence is judged by: no larger than what this entry is given."""
        positions, all_sizes, extent = self.ready.start.sizes.positions, self.ready.sizes, self.extents[i]
        own = np.where(extent > 0.0, np.minimum(extent, positions), positions)
        return np.append(own + all_sizes[: len(own)] - positions, all_sizes[len(own) :])

    def _place_entry(self, i: int) -> ControlSearch:
        """The search with the first path of an entry."""
        start, own, guess = self.ready.start, self.paths[i], self.requests[i].guess
        data = dataclasses.replace(start.data, ends=own.ends, leaf=own.leaf)
        guess = guess if data.horizon is None else fit_times(guess, data.t)
        z = first_values(data, own, guess)
        data.place_values(z)
        data.check_values(z, start.sizes.values)
        own_start = ControlStart(data, z, start.sizes, path_values(data, *own.smooth), guess)
        return dataclasses.replace(self.ready, start=own_start)
