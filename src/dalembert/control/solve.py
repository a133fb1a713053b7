"""Optimal control problems for `dalembert.solve`: from the arguments over the KKT system to a ControlSolution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.data.boundary_data import Through, grid_nodes, read_through, read_times
from dalembert.boundary.data.bounds import Bounded, check_given, read_bounds
from dalembert.boundary.data.end_sets import EndState, check_rank
from dalembert.boundary.data.free_time import fitted, horizon_of
from dalembert.boundary.data.inequalities import Asking, read_inequalities
from dalembert.boundary.data.sizes import extents_of, origin_of
from dalembert.boundary.iteration import Search, search_of
from dalembert.boundary.kkt.end_terms import carry
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.solve import Asked, extremal
from dalembert.control.bounded import Starts, bounds_of, minimised, place_values
from dalembert.control.ends import begun_on, check_ends, first_path, read_ends, size_of_end
from dalembert.control.problem import OptimalControl, counted, plant_scheme
from dalembert.control.result import control_solution
from dalembert.control.sizes import ControlSizes, check_controls, control_sizes, sampled
from dalembert.control.terms import ControlLayout
from dalembert.control.transcription import ControlData, transcribed
from dalembert.discretize import Scheme
from dalembert.discretize.scheme import check_maps
from dalembert.numbers import as_numbers
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
    (data, z, _, smooth), kkt, search, sizes = control_search(problem, asked)
    assert smooth is not None
    starts = Starts(z, asked.request.guess, smooth)
    it, activity = minimised(data, search, starts, sizes) if bounds_of(data) else search(z, sizes, None)
    for end, function in zip((0, -1), data.sets.on, strict=True):
        if function is not None:
            at = data.at(it.z).end_state(it.z, end, kkt.positions[: data.layout.n])
            check_rank(function, problem.system, at, "at the end of the iteration")
    return control_solution(data, kkt, it, asked.certify, activity)


def control_search(problem: OptimalControl, asked: Asked) -> ControlSearch:
    """Newton's method, or inside bounds on anything the interior point method."""
    start = prepare_control(problem, asked)
    data = start.data
    kkt = transcribed(data, start.z, start.sizes, asked.settings.tolerance)
    least = 4 * np.finfo(float).eps / asked.settings.tolerance * np.abs(data.origin)
    sizes = kkt.positions + (least if data.horizon is None else np.append(least, 0.0))
    time = None if data.horizon is None else data.time_place
    return ControlSearch(start, kkt, search_of(kkt, start.z, asked.settings, bounds_of(data), time), sizes)


def prepare_control(problem: OptimalControl, asked: Asked) -> ControlStart:
    """Everything checked, and a first path."""
    check_x64()
    initial, final, through, guess = asked.request
    if isinstance(guess, tuple) and len(guess) != 2:
        raise ValueError(f"guess: found a tuple of {len(guess)}; give (q, u), path and controls, one row per node each")
    n = _dimension(problem, initial, final, guess)
    r, equations = counted(problem, n)
    scheme = _checked_scheme(asked.scheme, n)
    t = read_times(asked.grid, 2, "at least two steps are needed")
    horizon = horizon_of(asked.grid.T, t)
    guess = guess if horizon is None else fitted(guess, t)
    asked_ends = read_ends(problem, initial, final, n)
    ends, sets = asked_ends
    between = read_through(through, n)
    check_ends(problem, ends, t)
    given = np.zeros((len(t), n), dtype=bool)
    given[0], given[-1] = (end.given[0] for end in ends)
    given[grid_nodes(t, between.times)] = True
    begun = ends
    path = _path(t, begun, between, guess, sets.shift[0])
    if any(sets.on):
        begun = begun_on(problem, asked_ends, _states(t, path, _velocities(path, t, ends), ends))
        path = _path(t, begun, between, guess, sets.shift[0])
    of_coordinates = Bounded(n, problem.coordinates)
    bounds = read_bounds(asked.bounds, {"q": of_coordinates, "v": of_coordinates, "u": Bounded(r)}, len(t))
    asking = Asking(problem.system, n, r, t, (True, True))
    paths = read_inequalities(asking, asked.inequalities, bounds.pop("v", None))
    if "q" in bounds:
        check_given(bounds["q"], path, given, t, problem.coordinates)
    held = path[given.all(axis=1)]
    holonomic = np.repeat(np.array([c.order == 0 for c in problem.system.constraints], dtype=bool), equations)
    origin = origin_of(held, path)
    layout = ControlLayout(n, r, len(holonomic), sum(one.size for one in paths), horizon is not None, sets.size)
    v = _velocities(path, t, begun)
    data = ControlData(problem, scheme, layout, t, given, ends, origin, holonomic, bounds, paths, horizon, sets)
    found = sampled(problem, path, v, r, t)
    limits = bounds.get("u", np.full((1, 1, r), np.inf))
    check_controls(found, np.asarray(np.isfinite(limits).all(axis=(0, 1))))
    scales = as_scales(asked.scales, n)
    whole = bool(bounds or paths or sets.size)  # a barrier, and an end that moves, know no other scale
    extents = np.ptp(path, axis=0) if whole else extents_of(held, path)
    told = np.full(n, guess is not None or scales is not None) | (given.sum(axis=0) > 1)
    extents = extents if scales is None else scales
    sizes = control_sizes(found, extents, told, float(t[-1] - t[0]), horizon is not None)
    z = _first_values(data, path, v, guess)
    smooth = path if guess is None else _path(t, begun, between, None, sets.shift[0])
    points, rows, of_nodes = place_values(data, z), [], (sizes.positions, sizes.positions / sizes.time, sizes.controls)
    for one, at, places in zip(paths, points, data.path_places("values"), strict=True):
        rows.append(one.sizes(problem.parameters, at, of_nodes))
        one.check_settled(z.ravel()[places], data.settled(one), rows[-1])
    sizes = sizes._replace(values=np.concatenate([np.zeros(0), *rows]))
    return ControlStart(data, z, sizes, (smooth, _velocities(smooth, t, begun)))


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
    found = plant_scheme(scheme)
    check_maps(found, n)
    return found


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


def _first_values(data: ControlData, path: np.ndarray, v: np.ndarray, guess: Any) -> np.ndarray:
    """(blocks, b): the path and its velocities at the ends; controls and multipliers zero, or those of a known solution."""
    layout, t = data.layout, data.t
    z = np.zeros((len(t) + 2, layout.size))
    z[1:-1, layout.part("state")] = path - data.origin
    z[[0, -1], layout.part("state")] = v[[0, -1]]
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
        z[1:-1, layout.part("controls")] = _at(guess.t, guess.u, t)
        z[2:, layout.part("reactions")] = _at(guess.t, guess.multipliers, t)
        z[2:, layout.part("adjoints")] = _at(guess.t, guess.adjoints, t)
        z[2:-1, layout.part("steps")] = _at(middle, guess.step_multipliers, 0.5 * (t[1:] + t[:-1]))
    return z


def _at(times: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Values (K, m) at other times."""
    return (
        np.stack([np.interp(wanted, times, column) for column in values.T], axis=1)
        if values.shape[1]
        else np.zeros((len(wanted), 0))
    )
