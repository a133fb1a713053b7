"""Optimal control problems for `dalembert.solve`: from the arguments over the KKT system to a ControlSolution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.data.boundary_data import Through, grid_nodes, read_through, read_times
from dalembert.boundary.data.bounds import Bounded, check_given, read_bounds
from dalembert.boundary.data.columns import at_times
from dalembert.boundary.data.free_time import fitted, horizon_of
from dalembert.boundary.data.inequalities import Asking, read_inequalities
from dalembert.boundary.data.sizes import extents_of, origin_of
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.iteration import Search, search_of
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton.iterate import Iterate
from dalembert.boundary.prepare import Request
from dalembert.boundary.solve import Asked, extremal
from dalembert.control.bounded import Starts, bounds_of, minimised, place_values
from dalembert.control.ends import Ends, check_ends, first_path, read_partly, size_of_end
from dalembert.control.problem import OptimalControl, counted
from dalembert.control.result import control_solution
from dalembert.control.sizes import ControlSizes, check_controls, control_sizes, sampled
from dalembert.control.terms import ControlLayout
from dalembert.control.transcription import ControlData, transcribed
from dalembert.discretize import Scheme
from dalembert.discretize.scheme import check_maps
from dalembert.numbers import as_numbers, described
from dalembert.solution import ControlSolution
from dalembert.systems import check_x64
from dalembert.systems.sizes import as_scales


class ControlStart(NamedTuple):
    """A checked problem, its first path (blocks, b), and sizes. smooth: path and velocities (N+1, n) without the guess."""

    data: ControlData
    z: np.ndarray
    sizes: ControlSizes
    smooth: tuple[np.ndarray, np.ndarray] | None = None


class ControlSearch(NamedTuple):
    """A checked problem, ready to be solved from any path. sizes: of what convergence is judged by."""

    start: ControlStart
    kkt: KKTSystem
    search: Search
    sizes: np.ndarray


@extremal.register
def _(problem: OptimalControl, asked: Asked) -> ControlSolution:
    ready = control_search(problem, asked)
    (data, z, _, smooth), kkt, _, sizes = ready
    assert smooth is not None
    it, activity = searched(ready, Starts(z, asked.request.guess, smooth), sizes)
    return control_solution(data, kkt, it, asked.certify, activity)


def searched(ready: ControlSearch, starts: Starts, sizes: np.ndarray) -> tuple[Iterate, Activity]:
    """What the search comes to from these paths; sizes: of what convergence is judged by."""
    data = ready.start.data
    return minimised(data, ready.search, starts, sizes) if bounds_of(data) else ready.search(starts.z, sizes, None)


def control_search(problem: OptimalControl, asked: Asked) -> ControlSearch:
    """The filter's line search, or inside bounds on anything the interior point method."""
    start = prepare_control(problem, asked)
    data = start.data
    kkt = transcribed(data, start.z, start.sizes, asked.settings.tolerance)
    least = 4 * np.finfo(float).eps / asked.settings.tolerance * np.abs(data.origin)
    sizes = kkt.positions + (least if data.horizon is None else np.append(least, 0.0))
    time = None if data.horizon is None else data.time_place
    search = search_of(kkt, start.z, asked.settings, bounds_of(data), time, filtered=True)
    return ControlSearch(start, kkt, search, sizes)


class GivenPath(NamedTuple):
    """What is given, and a path (N+1, n) with its velocities that has it. given: which positions of the nodes are; smooth:
    path and velocities without the guess."""

    ends: Ends
    given: np.ndarray
    path: np.ndarray
    v: np.ndarray
    smooth: tuple[np.ndarray, np.ndarray]

    @property
    def held(self) -> np.ndarray:
        """Positions that are given in full."""
        return self.path[self.given.all(axis=1)]


def given_path(problem: OptimalControl, request: Request, t: np.ndarray, n: int) -> GivenPath:
    """What a request gives, read, and its first path."""
    ends = (
        read_partly(request.initial, "initial", n, problem.coordinates),
        read_partly(request.final, "final", n, problem.coordinates),
    )
    between = read_through(request.through, n)
    given = np.zeros((len(t), n), dtype=bool)
    given[0], given[-1] = (end.given[0] for end in ends)
    given[grid_nodes(t, between.times)] = True
    path = _path(t, ends, between, request.guess, n)
    smooth = path if request.guess is None else _path(t, ends, between, None, n)
    return GivenPath(ends, given, path, _velocities(path, t, ends), (smooth, _velocities(smooth, t, ends)))


def prepare_control(problem: OptimalControl, asked: Asked) -> ControlStart:
    """Everything checked, and a first path."""
    check_x64()
    initial, final, _, guess = asked.request
    if isinstance(guess, tuple) and len(guess) != 2:
        raise ValueError(f"guess: found a tuple of {len(guess)}; give (q, u), path and controls, one row per node each")
    n = _dimension(problem, initial, final, guess)
    r, equations = counted(problem, n)
    scheme = _checked_scheme(asked.scheme, n)
    t = read_times(asked.grid, 2, "at least two steps are needed")
    horizon = horizon_of(asked.grid.T, t)
    guess = guess if horizon is None else fitted(guess, t)
    own = given_path(problem, asked.request._replace(guess=guess), t, n)
    ends, given, path, v, smooth = own
    check_ends(problem, ends, t)
    of_coordinates = Bounded(n, problem.coordinates)
    bounds = read_bounds(asked.bounds, {"q": of_coordinates, "v": of_coordinates, "u": Bounded(r)}, len(t))
    asking = Asking(problem.system, n, r, t, (True, True))
    paths = read_inequalities(asking, asked.inequalities, bounds.pop("v", None))
    if "q" in bounds:
        check_given(bounds["q"], path, given, t, problem.coordinates)
    held = own.held
    holonomic = np.repeat(np.array([c.order == 0 for c in problem.system.constraints], dtype=bool), equations)
    origin = origin_of(held, path)
    layout = ControlLayout(n, r, len(holonomic), sum(one.size for one in paths), horizon is not None)
    data = ControlData(problem, scheme, layout, t, given, ends, origin, holonomic, bounds, paths, horizon)
    found = sampled(problem, path, v, r, t)
    limits = bounds.get("u", np.full((1, 1, r), np.inf))
    check_controls(found, np.asarray(np.isfinite(limits).all(axis=(0, 1))))
    scales = as_scales(asked.scales, n)
    bounded = bool(bounds or paths)
    extents = np.ptp(path, axis=0) if bounded else extents_of(held, path)  # a barrier knows no other scale
    told = np.full(n, guess is not None or scales is not None) | (given.sum(axis=0) > 1)
    extents = extents if scales is None else scales
    sizes = control_sizes(found, extents, told, float(t[-1] - t[0]), horizon is not None)
    z = first_values(data, own, guess)
    points, rows, of_nodes = place_values(data, z), [], (sizes.positions, sizes.positions / sizes.time, sizes.controls)
    for one, at, places in zip(paths, points, data.path_places("values"), strict=True):
        rows.append(one.sizes(problem.parameters, at, of_nodes))
        one.check_settled(z.ravel()[places], data.settled(one), rows[-1])
    sizes = sizes._replace(values=np.concatenate([np.zeros(0), *rows]))
    return ControlStart(data, z, sizes, smooth)


def _dimension(problem: OptimalControl, initial, final, guess) -> int:
    """n, from whatever was given."""
    if problem.coordinates is not None:
        return len(problem.coordinates)
    found = [n for n in (size_of_end(initial, "initial"), size_of_end(final, "final")) if n]
    if guess is not None:
        path = guess.q if isinstance(guess, ControlSolution) else guess[0] if isinstance(guess, tuple) else guess
        found += as_numbers(path, "guess").shape[1:2]
    if not found:
        raise TypeError("initial: give all coordinates of something at an end, a guess, or the system's coordinates=")
    return int(found[0])


def _checked_scheme(scheme: Any, n: int) -> Scheme:
    if scheme is None:
        return Scheme()
    if not isinstance(scheme, Scheme):
        raise TypeError(
            f"scheme: found {described(scheme)}; the equations of motion of a plant are those of a Scheme, and windows "
            "belong to a VariationalProblem"
        )
    if scheme.order != 2:
        raise ValueError(f"scheme: found order {scheme.order}, a composition of steps; optimal control has order 2")
    check_maps(scheme, n)
    return scheme


def _path(t, ends, between: Through, guess: Any, n: int) -> np.ndarray:
    """The first path (N+1, n): through all that is given."""
    if guess is None:
        path = first_path(t, ends, between)
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
