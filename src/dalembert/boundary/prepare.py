"""From the arguments of a boundary problem to its windows, its fixed slots and a first path, and to what searches from
there; once for all calls with the same arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.data.around import (
    Centred,
    around_origin,
    check_on_group,
    coordinates_of,
    on_path,
    path_velocities,
    slots_around,
)
from dalembert.boundary.data.checks import (
    SAMPLES,
    check_gap,
    check_given_rates,
    check_problem,
    densities,
    onto_constraints,
)
from dalembert.boundary.data.end_sets import (
    NAMES,
    Periodic,
    check_ends_agree,
    ends_on_sets,
    holonomic_at_end,
    plain,
    repeat_first_end,
    sets_of,
)
from dalembert.boundary.data.ends import (
    FilledSlots,
    Nodes,
    Request,
    TimeGrid,
    at_times,
    fill_slots,
    grid_nodes,
    read_end,
    read_through,
    read_times,
)
from dalembert.boundary.data.free_time import fit_times, horizon_of
from dalembert.boundary.data.limits import Asking, Bounded, check_given, read_bounds, read_inequalities
from dalembert.boundary.data.redundant import check_met, redundant
from dalembert.boundary.data.sizes import SLIGHT, Densities, Sizes, extents_of, origin_of, sizes_of
from dalembert.boundary.iteration import Search, leave_saddles, search_of
from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.kkt.terms import check_given_windows
from dalembert.boundary.kkt.transcription import first_values, sampled_jets, transcribe
from dalembert.boundary.kkt.window_unknowns import Transcription, WindowUnknowns, unknowns_of
from dalembert.boundary.newton import Settings, Termination
from dalembert.boundary.result import Judged, judge_end, solutions_of
from dalembert.discretize import Interpolated, Points, WindowMap, as_windows, windows
from dalembert.discretize.time import has_time
from dalembert.discretize.window_maps import check_stretchable
from dalembert.groups import Product
from dalembert.interrupts import keep
from dalembert.native import on_threads
from dalembert.numbers import as_numbers
from dalembert.solution import Solution
from dalembert.systems import InconsistentDataError, check_x64, constraint_numbers, true_orders, with_inertia
from dalembert.systems.higher.variational import check_problem as check_variational
from dalembert.systems.sizes import as_scales


def warm_multipliers(made: Transcription, z: np.ndarray, guess: Solution) -> None:
    """The multipliers of a known solution, at the times of this one."""
    w, layout = made.windows, made.layout
    known, found = guess.t_multipliers, np.asarray(guess.multipliers)
    if guess.q.shape[1] < layout.n:  # a solution without its times: windows of (t, q) are counted by their first node
        known = guess.t[: len(found)]
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


def guess_path(guess) -> np.ndarray:
    """The guess's own nodes, (…, n)."""
    path = as_numbers(guess.q if isinstance(guess, Solution) else guess, "guess")
    if path.ndim != 2:
        raise ValueError(f"guess: found shape {path.shape}; give a path (N+1, n), one row per node, or a Solution")
    return path


def guess_nodes(guess, t: np.ndarray, n: int, timed: bool = False) -> np.ndarray:
    """The guess at the times t, (N+1, n). timed: whether n counts the time, which a solution without it has beside q."""
    path = guess_path(guess)
    if isinstance(guess, Solution):
        inside = np.clip(t, float(guess.t[0]), float(guess.t[-1]))
        if timed and path.shape[1] == n - 1:
            return np.column_stack([inside, guess.interpolate(inside)])
        if path.shape[1] != n:
            raise ValueError(f"guess: found a Solution of {path.shape[1]} coordinates; the problem has n = {n}")
        return guess.interpolate(inside)
    if path.shape != (len(t), n):
        raise ValueError(f"guess: found shape {path.shape}; give a path {(len(t), n)}, one row per node")
    return path


class PreparedProblem(NamedTuple):
    """Boundary problems that differ in what is given, checked. values: (batch, slots, n), the first paths, with positions
    counted from the origin; extents: (batch, n), of what is given; scales: (n,), the user's sizes, or None; densities: what
    else the sizes are made of; bases: (1, N+1, size), on groups the path around which positions are counted."""

    unknowns: WindowUnknowns
    values: np.ndarray
    scheme: WindowMap
    guesses: list[Any]
    extents: np.ndarray
    scales: np.ndarray | None
    densities: Densities
    bases: np.ndarray | None = None

    def typical_sizes(self, extents: np.ndarray) -> Sizes:
        """All typical sizes, from the extents (n,) of positions; the user's in their place."""
        return sizes_of(self.positions(extents), self.unknowns.windows, self.densities)

    def positions(self, extents: np.ndarray) -> np.ndarray:
        """(n,): those of the coordinates alone."""
        given = with_inertia(extents, self.densities.inertia) if self.scales is None else self.scales
        return np.where(given > 0.0, given, 1.0)


def prepare_problem(
    problem, requests: Sequence[Request], grid: TimeGrid, scheme=None, *, scales=None, bounds=None, inequalities=None
) -> PreparedProblem:
    """Arguments as `solve` takes them; requests give the same derivatives at the same times."""
    check_x64()
    check_variational(problem, None)
    given, space, bases, k = problem, problem.space, None, problem.derivatives
    if isinstance(space, Product):
        check_on_group(requests[0], scheme, bounds)
        scheme = Centred()
        base, own = on_path(space, requests[0], read_times(grid, 2 * k - 1, f"N > 2k - 2 = {2 * k - 2} is needed"), k)
        bases, requests, problem = base[None], [own], around_origin(problem, space, base[0])
    scheme = Interpolated() if scheme is None else as_windows(scheme)
    first = requests[0]
    check_ends_agree(first.initial, first.final)
    ends = [(read_end(plain(r.initial), "initial", k), read_end(plain(r.final), "final", k)) for r in requests]
    n = _dimension(problem, *ends[0], first.through, first.guess)
    for name, e in (pair for both in ends for pair in zip(NAMES, both, strict=True)):
        if e is not None and e.values.shape[1] != n:
            raise ValueError(f"{name}: found {e.values.shape[1]} numbers; the problem has n = {n} coordinates")
    ends = [repeat_first_end(both, r.final, problem, n) for both, r in zip(ends, requests, strict=True)]
    constraint_numbers(problem, n)
    problem = true_orders(problem, n) if scheme.differenced else problem
    for name, end in zip(NAMES, ends[0], strict=True):
        check_gap(problem, end, name)
    free = np.ones((k, n), dtype=bool)
    if ends[0][0] is not None:
        free[np.flatnonzero(ends[0][0].given)] = False
    if isinstance(first.final, Periodic) and any(0 < order < k for order, _ in problem.differential):
        raise ValueError(
            "final: found Periodic together with constraints of lower order than L, whose equations at one end repeat those "
            "at the other; give both ends"
        )
    sets = sets_of(problem, (first.initial, first.final), free, holonomic_at_end)
    scales = as_scales(scales, n)
    least, why = (1, "at least one step is needed") if scheme.repeats(k) > 1 else (2 * k + 1, f"N > 2k = {2 * k} is needed")
    t = read_times(grid, least, why)
    horizon = horizon_of(grid.T, t)
    if horizon is not None:
        check_stretchable(scheme)
        requests = [r._replace(guess=fit_times(r.guess, t)) for r in requests]
    between = [read_through(r.through, n) for r in requests]
    if isinstance(scheme, Points) and not all(isinstance(e, Nodes) for e in (first.initial, first.final)):
        raise ValueError("initial, final: a discrete Lagrangian given directly (scheme=Points()) needs Nodes at both ends")
    start, end = ends[0]
    w = windows(scheme, k, t, (start is None or not start.nodes, end is None or not end.nodes))
    if bases is None:
        guesses = [None if r.guess is None else guess_nodes(r.guess, t, n, has_time(problem)) for r in requests]
    else:
        guesses = [np.zeros((len(t), n))]
    filled = [
        fill_slots(w, *both, points._replace(times=between[0].times), n, guess)
        for both, points, guess in zip(ends, between, guesses, strict=True)
    ]
    fixed, values = filled[0].fixed, np.array([each.values for each in filled])
    if guesses[0] is None and start is None:
        values[:, w.nodes] += sets.shift[0] * ((t - t[0]) / np.ptp(t))[:, None]
    if isinstance(space, Product) and bases is not None:
        kept = (fixed | (w.orders == 0))[:, None]
        values[0] = np.where(kept, values[0], path_velocities(space, t, bases[0])[w.owners])
    if any(sets.on):
        values = np.stack([ends_on_sets(problem, w, sets, fixed, path) for path in values])
    paths = values[:, w.nodes] if bases is None else coordinates_of(space, bases)
    held = paths[:, fixed[w.nodes]]
    origin = origin_of(held.reshape(-1, n), paths.reshape(-1, n)) if bases is None else np.zeros(n)
    limits = read_bounds(bounds, dict.fromkeys(("q", "v"), Bounded(n, problem.coordinates)), len(t))
    jets: Any = tuple(bool((w.orders[w.owners == node] == 1).any()) for node in (0, len(t) - 1))
    owner = problem if bases is None else given
    watched = read_inequalities(Asking(owner, n, None, t, jets, w.stride > 1), inequalities, limits.pop("v", None))
    for path in paths if limits else ():
        check_given(limits["q"], path, fixed[w.nodes][:, None], t, problem.coordinates)
    if limits or watched or sets.size:
        held = paths  # a barrier, and an end that moves, know no other scale than the first path
    extents = np.array([extents_of(*each) for each in zip(held, paths, strict=True)])
    values[:, w.orders == 0] -= origin
    near = around_origin(problem, space, origin, not w.differenced) if np.any(origin) else problem
    seen = values[0] if bases is None else slots_around(w, values[0], paths[0])
    found = densities(near, *sampled_jets(w, seen, SAMPLES), horizon is not None)
    unknowns = unknowns_of(
        near,
        owner,
        w,
        fixed,
        origin=origin,
        bounds=limits,
        paths=watched,
        horizon=horizon,
        sets=sets,
    )
    made = PreparedProblem(unknowns, values, scheme, [r.guess for r in requests], extents, scales, found, bases)
    sizes = made.typical_sizes(extents.max(axis=0))
    at = lambda node: near if bases is None else around_origin(given, space, bases[0, node])  # noqa: E731
    given_slots = FilledSlots(fixed, values)
    values = onto_constraints(near, w, fixed, values) if bases is None else values
    if w.differenced:
        bounded = np.isfinite(limits["q"]).all(axis=(0, 1)) if limits else np.zeros(n, dtype=bool)
        check_problem(near, *sampled_jets(w, seen, SAMPLES), sizes, np.asarray(bounded))
    check_given_rates(at, w, given_slots, grid_nodes(t, between[0].times), sizes, origin)
    return made._replace(values=values)


class ReadyProblem(NamedTuple):
    """Boundary problems with their KKT system, and what searches extremals of it. z: (batch, blocks, b), first paths;
    extents: (batch, n), of positions; least: (n,), what moves o + x by its last digits, against the tolerance."""

    prepared: PreparedProblem
    made: Transcription
    z: np.ndarray
    extents: np.ndarray
    search: Search
    least: np.ndarray

    @property
    def kkt(self) -> KKTSystem:
        return self.made.kkt


def ready_problem(prepared: PreparedProblem, settings: Settings) -> ReadyProblem:
    """Ready for the iteration. Where nothing moves on a first path and the user gives no sizes, the extents are those of
    Newton's first step."""
    extents = prepared.extents.copy()
    space = prepared.unknowns.space
    far = space.magnitudes(prepared.bases) if isinstance(space, Product) else 0.0
    over = far / settings.tolerance
    made, z = _transcribe(prepared, extents, over)
    still = np.flatnonzero(~extents.any(axis=1))
    if prepared.scales is None and len(still):
        linear = LinearSolver(made.kkt, z[0])
        for i in still:
            step = linear.factor(z[i], plain=False).solve(-made.kkt.evaluate(z[i]).gradient)
            moved_by = made.kkt.max_norms(step)[: made.layout.n]
            extents[i] = SLIGHT * np.where(np.isfinite(moved_by), moved_by, 0.0)
        made, z = _transcribe(prepared, extents, over)
    time = None if made.horizon is None else made.time_place
    search = search_of(made.kkt, z[0], settings, made.bounded_places(), time)
    least = 4 * np.finfo(float).eps / settings.tolerance * np.maximum(np.abs(made.origin), far)
    return ReadyProblem(prepared, made, z, extents, search, least)


def _transcribe(prepared: PreparedProblem, extents: np.ndarray, far: np.ndarray | float) -> tuple[Transcription, np.ndarray]:
    """The KKT system of a problem, and its first paths (batch, blocks, b). far: see `transcribe`."""
    own, values, sizes = prepared.unknowns, prepared.values, prepared.typical_sizes(extents.max(axis=0))
    made = transcribe(own, values[0], sizes, prepared.bases, far)
    if own.problem.differential and own.windows.differenced and not own.sets.size and own.space.flat:
        left_out = redundant(made, values[0][own.windows.nodes])
        made = made if left_out is None else transcribe(dataclasses.replace(own, left_out=left_out), values[0], sizes)
    z = first_values(made, values, prepared.bases)
    for path, guess in zip(z, prepared.guesses, strict=True):
        if made.paths:
            made.check_values(path, made.kkt.units[0, made.layout.part("values")])
        if not all(group.free.all() for group in made.groups):
            check_given_windows(made.groups, made.kkt.raw_gradient(path), sizes, made.kkt.max_norm(path))
        if isinstance(guess, Solution):
            warm_multipliers(made, path, guess)
    return made, z


def extremals(ready: ReadyProblem, certify: bool, threads: int = 1) -> list[Solution]:
    """The ends of the iterations."""
    prepared, made, z, extents, search, least = ready
    keep()

    def one(given: tuple[np.ndarray, np.ndarray, Any]) -> Judged:
        path, extent, guess = given
        sizes = prepared.positions(extent) + least
        sizes = sizes if made.horizon is None else np.append(sizes, 1.0)
        path = path.copy()  # known forces are put into it
        end = search(path, sizes, made.known_forces(path, guess.bounds) if isinstance(guess, Solution) else None)
        return leave_saddles(search, end, sizes, lambda it, activity: judge_end(made, it, certify, activity))

    found = on_threads(one, list(zip(z, extents, prepared.guesses, strict=True)), threads)
    if made.left_out is not None:
        missed = []
        for end, given in zip(found, prepared.values, strict=True):
            try:
                check_met(made.at(end.it.z), made.left_out, end.it.z, given)
            except InconsistentDataError as error:
                end.it.end = Termination.INFEASIBLE if end.it.end is Termination.CONVERGED else end.it.end
                missed.append(error)
        if len(missed) == len(found):  # of several guesses one may have led to another value of the function that is fixed
            raise missed[0]
    for end in found:
        made.check_ranks(end.it.z, made.positions)
    return solutions_of(made, found, prepared.scheme)


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
