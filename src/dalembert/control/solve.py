"""Optimal control problems for `dalembert.solve`: from the arguments over the KKT system to a ControlSolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.end_sets import check_rank
from dalembert.boundary.data.ends import read_times
from dalembert.boundary.data.free_time import fitted, horizon_of
from dalembert.boundary.data.limits import Asking, Bounded, check_given, read_bounds, read_inequalities
from dalembert.boundary.data.sizes import extents_of, origin_of
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.iteration import Search, search_of
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton import Iterate
from dalembert.boundary.solve import Asked, extremal
from dalembert.control.bounded import Starts, bounds_of, minimised, place_values
from dalembert.control.ends import size_of_end
from dalembert.control.first_values import first_values, given_path
from dalembert.control.lobatto import check_parabolas
from dalembert.control.problem import Lobatto, OptimalControl, actuation, counted, plant_scheme, scheme_name
from dalembert.control.result import control_solution
from dalembert.control.sizes import ControlSizes, check_controls, control_sizes, sampled
from dalembert.control.terms import ControlLayout
from dalembert.control.transcription import ControlData, transcribed
from dalembert.discretize import Scheme
from dalembert.discretize.scheme import check_maps
from dalembert.interrupts import keep
from dalembert.messages import warn
from dalembert.numbers import as_numbers
from dalembert.outcome import Outcome
from dalembert.solution import ControlSolution
from dalembert.systems import check_x64
from dalembert.systems.equations import kkt_residual, value
from dalembert.systems.sizes import as_scales
from dalembert.tracing import seldom

UNRESOLVED = 0.25  # of the path, by which an integrated step may end off the next node
PARTS = 4  # of a step that is integrated


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
    keep()
    it, activity = searched(ready, Starts(z, asked.request.guess, smooth), sizes)
    for end, function in zip((0, -1), data.sets.on, strict=True):
        if function is not None:
            at = data.at(it.z).end_state(it.z, end, kkt.positions[: data.layout.n])
            check_rank(function, problem.system, at, "at the end of the iteration")
    found = control_solution(data, kkt, it, asked.certify, activity)
    if asked.certify and found.outcome is Outcome.SUCCESS:
        _warn_of_resolution(problem, found, kkt.positions[: data.layout.n])
    return found


def _warn_of_resolution(problem: OptimalControl, found: ControlSolution, sizes: np.ndarray) -> None:
    """A warning where the plant, integrated over single steps, ends far from the nodes: see `step/run/resolution`."""
    h = np.diff(found.t)
    ends = np.asarray(_integrated(problem, found.q[:-1], found.v[:-1], found.u[:-1], found.u[1:], found.t[:-1], h))
    off = (np.abs(ends - found.q[1:]) / np.maximum(sizes, np.ptp(found.q, axis=0))).max(axis=1)
    if np.any(off > UNRESOLVED):
        k = int(np.nanargmax(off))
        warn(
            f"steps: found {len(h)}; the plant, integrated over step {k} with the controls of its ends, is off by "
            f"{100 * off[k]:.0f} % of the path. The solution solves the discrete equations, but its steps do not "
            "resolve the motion: use more steps"
        )


@seldom
def _integrated(problem: OptimalControl, q, v, u0, u1, t, h):
    """q at the ends of steps, by Runge and Kutta's method over parts of each, with u linear."""
    system = problem.system

    def rate(state, s, u):
        x, w = state
        push = actuation(problem, x, s) @ u
        balance = lambda z: kkt_residual(system, x, w, s, z).at[: x.shape[0]].add(-push)  # noqa: E731, linear in z
        zero = jnp.zeros(x.shape[0] + sum(value(system, c, x, w, w, s).shape[0] for c in system.constraints))
        return jnp.stack([w, -jnp.linalg.solve(jax.jacfwd(balance)(zero), balance(zero))[: x.shape[0]]])

    def one(q, v, u0, u1, t, h):
        state, part = jnp.stack([q, v]), h / PARTS
        for i in range(PARTS):
            at = lambda y, c, i=i: rate(y, t + (i + c) * part, u0 + (i + c) / PARTS * (u1 - u0))  # noqa: E731
            k1 = at(state, 0.0)
            k2 = at(state + 0.5 * part * k1, 0.5)
            k3 = at(state + 0.5 * part * k2, 0.5)
            state = state + part / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + at(state + part * k3, 1.0))
        return state[0]

    return jax.vmap(one)(q, v, u0, u1, t, h)


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
    if isinstance(scheme, Lobatto):
        velocities = asked.bounds.get("v") if isinstance(asked.bounds, Mapping) else None
        check_parabolas(problem, t, {"bounds['v']": velocities, "inequalities": asked.inequalities})
    horizon = horizon_of(asked.grid.T, t)
    guess = guess if horizon is None else fitted(guess, t)
    own = given_path(problem, asked.request._replace(guess=guess), t, n, horizon is not None)
    given, path, v, sets = own.given, own.path, own.v, own.sets
    of_coordinates = Bounded(n, problem.coordinates)
    bounds = read_bounds(asked.bounds, {"q": of_coordinates, "v": of_coordinates, "u": Bounded(r)}, len(t))
    asking = Asking(problem.system, n, r, t, (True, True))
    paths = read_inequalities(asking, asked.inequalities, bounds.pop("v", None))
    if "q" in bounds:
        check_given(bounds["q"], path, given, t, problem.coordinates)
    held = own.held
    holonomic = np.repeat(np.array([c.order == 0 for c in problem.system.constraints], dtype=bool), equations)
    origin = origin_of(held, path)
    layout = ControlLayout(n, r, len(holonomic), sum(one.size for one in paths), horizon is not None, sets.size)
    name = scheme_name(scheme, problem.system)
    data = ControlData(
        problem, scheme, layout, t, given, own.ends, origin, holonomic, bounds, paths, horizon, sets, name, own.settled,
        own.leaf,
    )  # fmt: skip
    found = sampled(problem, path, v, r, t)
    limits = bounds.get("u", np.full((1, 1, r), np.inf))
    check_controls(found, np.asarray(np.isfinite(limits).all(axis=(0, 1))), asked.settings.minimum)
    scales = as_scales(asked.scales, n)
    whole = bool(bounds or paths or sets.size)  # a barrier, and an end that moves, know no other scale
    extents = np.ptp(path, axis=0) if whole else extents_of(held, path)
    told = np.full(n, guess is not None or scales is not None) | (given.sum(axis=0) > 1)
    extents = extents if scales is None else scales
    sizes = control_sizes(found, extents, told, float(t[-1] - t[0]), horizon is not None)
    z = first_values(data, own, guess)
    points, rows, of_nodes = place_values(data, z), [], (sizes.positions, sizes.positions / sizes.time, sizes.controls)
    for one, at, places in zip(paths, points, data.path_places("values"), strict=True):
        rows.append(one.sizes(problem.parameters, at, of_nodes))
        one.check_settled(z.ravel()[places], data.settled(one), rows[-1])
    sizes = sizes._replace(values=np.concatenate([np.zeros(0), *rows]))
    return ControlStart(data, z, sizes, own.smooth)


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


def _checked_scheme(scheme: Any, n: int) -> Scheme | Lobatto:
    if isinstance(scheme, Lobatto):
        return scheme
    found = plant_scheme(scheme)
    check_maps(found, n)
    return found
