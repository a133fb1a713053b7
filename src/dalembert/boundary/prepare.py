"""From the arguments of a boundary problem to its windows, its fixed slots and a first path, and to what searches from
there; once for all calls with the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import numpy as np

from dalembert.boundary.data.checks import (
    SAMPLES,
    check_end_constraints,
    check_gap,
    check_points,
    check_problem,
    densities,
    onto_constraints,
)
from dalembert.boundary.data.end_sets import MovingEnds, begun_on, check_ends_agree, check_ranks, plain, repeated, sets_of
from dalembert.boundary.data.ends import (
    EndData,
    Nodes,
    Through,
    TimeGrid,
    at_times,
    fill_slots,
    grid_nodes,
    read_end,
    read_through,
    read_times,
)
from dalembert.boundary.data.free_time import Horizon, fitted, horizon_of
from dalembert.boundary.data.limits import (
    Asking,
    Bounded,
    check_given,
    continued_forces,
    nodes_of,
    read_bounds,
    read_inequalities,
)
from dalembert.boundary.data.redundant import check_met, redundant
from dalembert.boundary.data.sizes import SLIGHT, Densities, Sizes, extents_of, origin_of, shift_back, shift_origin, sizes_of
from dalembert.boundary.iteration import Search, search_of
from dalembert.boundary.kkt.assembly import CompiledAssembly
from dalembert.boundary.kkt.linear import LinearSolver, chooses_own_pivots
from dalembert.boundary.kkt.path_terms import WatchedPaths
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.kkt.terms import check_given_windows
from dalembert.boundary.kkt.transcription import FixedSlots, Transcription, Watching, first_values, sampled_jets, transcribe
from dalembert.boundary.newton import Settings, Termination
from dalembert.boundary.result import Ended, EndLimits, judge_end, solutions_of
from dalembert.discretize.window_maps import Interpolated, Points, WindowMap, Windows, as_windows, check_stretchable, windows
from dalembert.interrupts import keep
from dalembert.native.threads import on_threads
from dalembert.numbers import as_numbers
from dalembert.solution import CriticalPoint, Solution
from dalembert.systems import InconsistentDataError, check_x64
from dalembert.systems.higher.variational import VariationalProblem, constraint_numbers, true_orders
from dalembert.systems.higher.variational import check_problem as check_variational
from dalembert.systems.sizes import as_scales, with_inertia
from dalembert.tracing import Remembered, Walk

MOST_KEPT = 10_000  # steps of a problem that is kept as it was prepared
DATA = (list, dict, np.ndarray)


class HasSystem(Protocol):
    @property
    def kkt(self) -> KKTSystem: ...


T = TypeVar("T", bound=HasSystem)


def warm_multipliers(made: Transcription, z: np.ndarray, guess: Solution) -> None:
    """The multipliers of a known solution, at the times of this one."""
    w, layout = made.windows, made.layout
    known, found = guess.t_multipliers, np.asarray(guess.multipliers)
    for group in made.groups:
        own = at_times(known, found[:, group.equations], group.windows.times)
        blocks = group.first + group.attached + np.arange(len(own))
        z[blocks, group.begin : group.begin + group.size] = own.reshape(len(own), -1)
    parts = (
        (known, found[:, list(made.equations)], w.times, made.carriers, "multipliers"),
        (guess.t, np.asarray(guess.holonomic_multipliers), w.t, made.blocks_of_nodes, "holonomic"),
    )
    for times, values, wanted, block, part in parts:
        if values.shape[1]:
            new = at_times(times, values, wanted).reshape(len(wanted), -1)
            begin = layout.part(part).start
            z[block, begin : begin + new.shape[1]] = new


def known_forces(made: Transcription, positions: bool, z: np.ndarray, guess: Any) -> np.ndarray | None:
    """Bound-multiplier gradient on a known solution of the same bounds, or None; multipliers of path inequalities go
    into the path z, too. positions: whether positions have bounds."""
    paths = () if made.watched is None else made.watched.paths
    names = {*(["q"] if positions else []), *(path.name for path in paths)}
    if not isinstance(guess, Solution) or not names <= guess.bounds.keys():
        return None
    forces = np.zeros(z.shape)
    if positions:
        forces.ravel()[made.places] = continued_forces(guess.bounds["q"], nodes_of(made.windows.t))
    for path, values, own in zip(paths, made.watched_places("values"), made.watched_places("inequalities"), strict=True):
        found = path.known_forces(guess.bounds[path.name])
        forces.ravel()[values] = found
        z.ravel()[own] = found / path.level.weights[:, None]
    return forces


def guess_path(guess) -> np.ndarray:
    """The guess's own nodes, (…, n)."""
    path = as_numbers(guess.q if isinstance(guess, Solution) else guess, "guess")
    if path.ndim != 2:
        raise ValueError(f"guess: found shape {path.shape}; give a path (N+1, n), one row per node, or a Solution")
    return path


def guess_nodes(guess, t: np.ndarray, n: int) -> np.ndarray:
    """The guess at the times t, (N+1, n)."""
    path = guess_path(guess)
    if isinstance(guess, Solution):
        if path.shape[1] != n:
            raise ValueError(f"guess: found a Solution of {path.shape[1]} coordinates; the problem has n = {n}")
        return guess.interpolate(np.clip(t, float(guess.t[0]), float(guess.t[-1])))
    if path.shape != (len(t), n):
        raise ValueError(f"guess: found shape {path.shape}; give a path {(len(t), n)}, one row per node")
    return path


class PreparedProblem(NamedTuple):
    """Boundary problems that differ in what is given, checked. values: (batch, slots, n), the first paths.

    problem, values: with positions counted from `origin` (n,). extents: (batch, n), of what is given; scales: (n,), the
    user's sizes, or None. found: what else the sizes are made of. bounds: (2, N+1, n), those on q, or None; watched: what
    else has bounds; horizon: a free final time, or None; ends: what is not given but holds at the ends, or None.
    """

    problem: VariationalProblem
    windows: Windows
    fixed: np.ndarray
    values: np.ndarray
    scheme: WindowMap
    guesses: list[Any]
    origin: np.ndarray
    extents: np.ndarray
    scales: np.ndarray | None
    found: Densities
    bounds: np.ndarray | None
    watched: WatchedPaths | None
    horizon: Horizon | None
    ends: MovingEnds | None = None

    def sizes(self, extents: np.ndarray) -> Sizes:
        """All typical sizes, from the extents (n,) of positions; the user's in their place."""
        return sizes_of(self.positions(extents), self.windows, self.found)

    def positions(self, extents: np.ndarray) -> np.ndarray:
        """(n,): those of the coordinates alone."""
        given = with_inertia(extents, self.found.inertia) if self.scales is None else self.scales
        return np.where(given > 0.0, given, 1.0)


class Request(NamedTuple):
    """Data of one problem of a batch, as `solve` takes them."""

    initial: Any = None
    final: Any = None
    through: Any = None
    guess: Any = None


class Asked(NamedTuple):
    """Arguments of `solve` besides the problem, its settings checked."""

    request: Request
    grid: TimeGrid
    scheme: Any
    scales: Any
    settings: Settings
    certify: bool
    bounds: Any = None
    inequalities: Any = None


class PathLimits(NamedTuple):
    """Limits that a solution keeps within, as `solve` takes them."""

    bounds: Any = None
    inequalities: Any = None


def prepare_problem(
    problem, requests: Sequence[Request], grid: TimeGrid, scheme, scales=None, limits: PathLimits | None = None
) -> PreparedProblem:
    """Arguments as `solve` takes them; requests give the same derivatives at the same times."""
    check_x64()
    check_variational(problem)
    scheme = Interpolated() if scheme is None else as_windows(scheme)
    k = problem.derivatives
    check_ends_agree(requests[0].initial, requests[0].final)
    boundary_data = [(read_end(plain(r.initial), "initial", k), read_end(plain(r.final), "final", k)) for r in requests]
    n = _dimension(problem, *boundary_data[0], requests[0].through, requests[0].guess)
    for name, e in (pair for both in boundary_data for pair in zip(("initial", "final"), both, strict=True)):
        if e is not None and e.values.shape[1] != n:
            raise ValueError(f"{name}: found {e.values.shape[1]} numbers; the problem has n = {n} coordinates")
    boundary_data = [repeated(both, r.final, problem, n) for both, r in zip(boundary_data, requests, strict=True)]
    constraint_numbers(problem, n)
    problem = true_orders(problem, n) if scheme.differenced else problem
    for name, end in zip(("initial", "final"), boundary_data[0], strict=True):
        check_gap(problem, end, name)
    sets = sets_of(problem, (requests[0].initial, requests[0].final), boundary_data[0][0], n)
    scales = as_scales(scales, n)
    least, why = (1, "at least one step is needed") if scheme.repeats(k) > 1 else (2 * k + 1, f"N > 2k = {2 * k} is needed")
    t = read_times(grid, least, why)
    horizon = horizon_of(grid.T, t)
    if horizon is not None:
        check_stretchable(scheme)
        requests = [r._replace(guess=fitted(r.guess, t)) for r in requests]
    between = [read_through(r.through, n) for r in requests]
    if isinstance(scheme, Points) and not all(isinstance(e, Nodes) for e in (requests[0].initial, requests[0].final)):
        raise ValueError("initial, final: a discrete Lagrangian given directly (scheme=Points()) needs Nodes at both ends")
    start, end = (_side([both[i] for both in boundary_data]) for i in (0, 1))
    w = windows(scheme, k, t, (start is None or not start.nodes, end is None or not end.nodes))
    guesses = [guess_nodes(r.guess, t, n) for r in requests if r.guess is not None]
    guess = np.concatenate(guesses, axis=1) if guesses else None
    through = Through(between[0].times, np.concatenate([b.points for b in between], axis=1))
    given = fill_slots(w, start, end, through, n * len(requests), guess)
    values = np.ascontiguousarray(np.moveaxis(given.values.reshape(len(w.orders), len(requests), n), 1, 0))
    if guess is None and start is None:
        values[:, w.nodes] += sets.shift[0] * ((t - t[0]) / np.ptp(t))[:, None]
    if any(sets.on):
        values = np.stack([begun_on(problem, w, sets, given.fixed, path) for path in values])
    held, paths = values[:, given.fixed & (w.orders == 0)], values[:, w.nodes]
    origin = origin_of(held.reshape(-1, n), paths.reshape(-1, n))
    limits = limits or PathLimits()
    bounds = read_bounds(limits.bounds, dict.fromkeys(("q", "v"), Bounded(n, problem.coordinates)), len(t))
    ends: Any = tuple(bool((w.orders[w.owners == node] == 1).any()) for node in (0, len(t) - 1))
    watched = read_inequalities(Asking(problem, n, None, t, ends, w.stride > 1), limits.inequalities, bounds.get("v"))
    both = bounds.get("q")
    if both is not None:
        for path in paths:
            check_given(both, path, given.fixed[w.nodes][:, None], t, problem.coordinates)
    if both is not None or watched or sets.size:
        held = paths  # a barrier, and an end that moves, know no other scale than the first path
    extents = np.array([extents_of(*each) for each in zip(held, paths, strict=True)])
    values[:, w.orders == 0] -= origin
    near = shift_origin(problem, origin, not w.differenced)
    found = densities(near, *sampled_jets(w, values[0], SAMPLES), horizon is not None)
    made = PreparedProblem(
        near, w, given.fixed, values, scheme, [r.guess for r in requests], origin, extents, scales, found, both,
        WatchedPaths(watched, problem.parameters, origin) if watched else None, horizon,
        MovingEnds(sets, problem, origin) if sets.size else None,
    )  # fmt: skip
    sizes = made.sizes(extents.max(axis=0))
    check_points(near, w, given._replace(values=values), grid_nodes(t, through.times), sizes, origin)
    values = onto_constraints(near, w, given.fixed, values)
    if w.differenced:
        check_problem(near, *sampled_jets(w, values[0], SAMPLES), sizes, _bounded(both, n))
    for i, (name, time) in enumerate((("initial", t[0]), ("final", t[-1]))):
        check_end_constraints(problem, [both[i] for both in boundary_data], name, time, sizes)
    return made._replace(values=values)


def _bounded(both: np.ndarray | None, n: int) -> np.ndarray:
    """(n,): coordinates with bounds on both sides, at every node."""
    return np.zeros(n, dtype=bool) if both is None else np.asarray(np.isfinite(both).all(axis=(0, 1)))


def _side(batch: list[EndData | None]) -> EndData | None:
    """The ends of all requests side by side, as if they were coordinates of one."""
    if batch[0] is None:
        return None
    return batch[0]._replace(values=np.concatenate([e.values for e in batch if e is not None], axis=1))


class Transcribed(NamedTuple):
    """The KKT system; first paths (batch, blocks, b); extents (batch, n) of the positions; the components of what is given
    that follow from the others, or None."""

    made: Transcription
    z: np.ndarray
    extents: np.ndarray
    left_out: np.ndarray | None


class ReadyProblem(NamedTuple):
    """Boundary problems with their KKT system, and what searches extremals of it. least: (n,), what moves o + x by its last
    digits, against the tolerance."""

    prepared: PreparedProblem
    transcribed: Transcribed
    search: Search
    least: np.ndarray

    @property
    def kkt(self) -> KKTSystem:
        return self.transcribed.made.kkt


def ready_problem(prepared: PreparedProblem, settings: Settings) -> ReadyProblem:
    """Ready for the iteration."""
    transcribed = _transcribed(prepared)
    search = _search(prepared, transcribed.made, transcribed.z[0], settings)
    least = 4 * np.finfo(float).eps / settings.tolerance * np.abs(prepared.origin)
    return ReadyProblem(prepared, transcribed, search, least)


def extremals(ready: ReadyProblem, certify: bool, threads: int = 1) -> list[Solution]:
    """The ends of the iterations."""
    prepared, (made, z, extents, left_out), search, least = ready
    w, scheme = prepared.windows, prepared.scheme
    keep()

    def one(given: tuple[np.ndarray, np.ndarray, Any]) -> Ended:
        path, extent, guess = given
        sizes = prepared.positions(extent) + least
        sizes = sizes if prepared.horizon is None else np.append(sizes, 1.0)
        path = path.copy()  # known forces are put into it
        it, activity = search(path, sizes, known_forces(made, prepared.bounds is not None, path, guess))
        return judge_end(made, it, certify, activity, EndLimits(prepared.bounds, prepared.horizon))

    found = on_threads(one, list(zip(z, extents, prepared.guesses, strict=True)), threads)
    if left_out is not None:
        missed = []
        for end, given in zip(found, prepared.values, strict=True):
            try:
                check_met(made.at(end.it.z), left_out, end.it.z, given)
            except InconsistentDataError as error:
                end.it.end = Termination.INFEASIBLE if end.it.end is Termination.CONVERGED else end.it.end
                missed.append(error)
        if len(missed) == len(found):  # of several guesses one may have led to another value of the function that is fixed
            raise missed[0]
    if prepared.ends is not None:
        for end in found:
            slots = end.it.z[:, made.layout.part("slots")].reshape(len(w.orders), -1)
            check_ranks(prepared.ends, made.at(end.it.z).windows, prepared.fixed, slots)
    solutions = solutions_of(made, found, scheme, prepared.problem.coordinates)
    return [shift_back(s, prepared.origin, not w.differenced) for s in solutions]


def _search(prepared: PreparedProblem, made: Transcription, z: np.ndarray, settings: Settings) -> Search:
    """Search that finds the extremal, inside the bounds."""
    bounds = [] if prepared.bounds is None else [(made.places, prepared.bounds - prepared.origin)]
    if prepared.watched is not None:
        bounds += [(at, p.limits) for at, p in zip(made.watched_places("values"), prepared.watched.paths, strict=True)]
    horizon = prepared.horizon
    if horizon is not None and horizon.bounded:
        bounds.append((np.array([made.time_place]), horizon.bounds))
    return search_of(made.kkt, z, settings, bounds, None if horizon is None else made.time_place)


def _transcribed(prepared: PreparedProblem) -> Transcribed:
    """Transcription of a problem with its first paths. Where nothing moves on one and the user gives no sizes, the extents
    are those of Newton's first step."""
    problem, w, fixed, values, _, guesses = prepared[:6]
    timed = prepared.horizon is not None

    def begun(extents: np.ndarray) -> Transcribed:
        sizes = prepared.sizes(extents.max(axis=0))
        watched = prepared.watched
        asked = Watching(watched, timed, prepared.ends)
        made, left_out = transcribe(problem, w, FixedSlots(fixed), values[0], sizes, asked), None
        if problem.differential and w.differenced and prepared.ends is None:
            left_out = redundant(problem, made, values[0][w.nodes])
        if left_out is not None:
            made = transcribe(problem, w, FixedSlots(fixed, left_out), values[0], sizes, asked)
        z = first_values(problem, made, values)
        if watched is not None:
            _check_watched(made, z)
        for path, guess in zip(z, guesses, strict=True):
            if not all(group.free.all() for group in made.groups):
                check_given_windows(made.groups, made.kkt.raw_gradient(path), sizes, made.kkt.max_norm(path))
            if isinstance(guess, Solution):
                warm_multipliers(made, path, guess)
        return Transcribed(made, z, extents, left_out)

    first = begun(prepared.extents)
    still = np.flatnonzero(~prepared.extents.any(axis=1))
    if prepared.scales is not None or not len(still):
        return first
    made, z, extents = first.made, first.z, prepared.extents.copy()
    linear = LinearSolver(made.kkt, z[0])
    for i in still:
        step = linear.factor(z[i], plain=False).solve(-made.kkt.evaluate(z[i]).gradient)
        moved_by = made.kkt.max_norms(step)[: made.layout.n]
        extents[i] = SLIGHT * np.where(np.isfinite(moved_by), moved_by, 0.0)
    return begun(extents)


def _check_watched(made: Transcription, z: np.ndarray) -> None:
    """ValueError where what is given is outside, whatever the rest does."""
    assert made.watched is not None
    for path, at in zip(made.watched.paths, made.watched_places("values"), strict=True):
        settled, sizes = made.kkt.fixed.ravel()[at], made.kkt.flat_units[at[0]]
        for one in z:
            path.check_settled(one.ravel()[at], settled, sizes)


def _dimension(problem, start, end, through, guess) -> int:
    """n, from whatever was given."""
    if problem.coordinates is not None:
        n = len(problem.coordinates)
    else:
        candidates = [e.values.shape[1] for e in (start, end) if e is not None]
        candidates += [np.size(q) for q in through.values()] if isinstance(through, Mapping) else []
        candidates += [] if guess is None else [guess_path(guess).shape[-1]]
        if not candidates:
            raise TypeError("initial: give something at an end, a point between, a guess, or the problem's coordinates=")
        n = int(candidates[0])
        if n == 0:
            raise ValueError("initial, final, through, guess: found an empty array; a point has n coordinates")
    return n


def prepare_once(prepare: Callable[[Any, Asked], T], problem: Any, asked: Asked) -> T:
    """prepare(problem, asked), or what it gave to an earlier call with the same numbers and the same functions, which still
    read the same."""
    check_x64()
    key = _key_of(prepare, problem, asked)
    if key is None:
        return prepare(problem, asked)
    found = _READY.get(key)
    if found is None:
        try:
            own = asked._replace(request=Request(*map(_copied, asked.request)), bounds=_copied(asked.bounds))
            own = own._replace(grid=TimeGrid(*map(_copied, asked.grid)), scales=_copied(asked.scales))
        except RecursionError:  # a list that holds itself
            return prepare(problem, asked)
        found = prepare(problem, own)
        if isinstance(found.kkt.assembly, CompiledAssembly):  # what runs on JAX gives a warning at every call
            _READY.put(key, found)
    return found


def _key_of(prepare: Callable, problem: Any, asked: Asked) -> Any:
    """Equal for equal calls; None where calls cannot be compared, or are too large to keep, or where data are wrong, which
    `prepare` explains."""
    functions, numbers = Walk(), Walk()
    try:
        steps = asked.grid.steps if asked.grid.times is None else len(asked.grid.times)
        read = functions.of((problem, asked.scheme, asked.inequalities))
        given = numbers.of((asked.request, asked.grid, asked.scales, asked.settings, asked.bounds))
        others = [same for same in numbers.objects if not isinstance(same.object, DATA)]
    except (TypeError, ValueError):  # of arrays that hold no numbers
        return None
    kept = functions.lasting and numbers.lasting and isinstance(steps, int) and steps <= MOST_KEPT
    return (prepare, read, given, (*functions.objects, *others), chooses_own_pivots()) if kept else None


_READY: Remembered[Any] = Remembered(8)


def _copied(x: Any) -> Any:
    """Numbers that nobody else can change."""
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, Mapping):
        return {key: _copied(value) for key, value in x.items()}
    if type(x) in (list, tuple):
        return type(x)(map(_copied, x))
    return jax.tree.map(_copied, x) if isinstance(x, Nodes | CriticalPoint) else x
