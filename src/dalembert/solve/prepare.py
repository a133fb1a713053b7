"""From the arguments of a boundary problem to its windows, its fixed slots and a first path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dalembert.discretize.windows import Interpolated, Points, WindowMap, Windows, as_windows, windows
from dalembert.numbers import as_numbers
from dalembert.solution import Solution
from dalembert.solve.checks import check_end_constraints, check_problem
from dalembert.solve.ends import End, Nodes, fill_slots, grid_nodes, read_end, read_through, read_times
from dalembert.solve.linear import Linear
from dalembert.solve.lower import check_given_windows
from dalembert.solve.manifold import check_points, onto_constraints
from dalembert.solve.newton import Settings, minimise
from dalembert.solve.redundant import check_met, redundant
from dalembert.solve.result import Ended, ended, solutions_of
from dalembert.solve.transcription import Transcription, first_values, slot_jets, transcribe
from dalembert.systems import check_x64
from dalembert.systems.orders import true_orders
from dalembert.systems.variational import VariationalProblem, constraint_numbers
from dalembert.systems.variational import check_problem as check_variational


class Prepared(NamedTuple):
    """Boundary problems that differ in what is given, checked. values: (batch, slots, n), the first paths."""

    problem: VariationalProblem
    windows: Windows
    fixed: np.ndarray
    values: np.ndarray
    scheme: WindowMap
    guesses: list[Any]


class Request(NamedTuple):
    """What one problem of a batch is given, as `solve` takes it."""

    initial: Any = None
    final: Any = None
    through: Any = None
    guess: Any = None


def prepare(problem, requests: Sequence[Request], T, steps, times, scheme) -> Prepared:
    """Arguments as `solve` takes them; requests give the same derivatives at the same times."""
    check_x64()
    check_variational(problem)
    scheme = Interpolated() if scheme is None else as_windows(scheme)
    k = problem.derivatives
    ends = [[read_end(r.initial, "initial", k), read_end(r.final, "final", k)] for r in requests]
    n = _dimension(problem, ends[0][0], ends[0][1], requests[0].through, requests[0].guess)
    for name, e in (pair for both in ends for pair in zip(("initial", "final"), both, strict=True)):
        if e is not None and e.values.shape[1] != n:
            raise ValueError(f"{name}: found {e.values.shape[1]} numbers; the problem has n = {n} coordinates")
    constraint_numbers(problem, n)
    problem = true_orders(problem, n) if scheme.differenced else problem
    least, why = (1, "at least one step is needed") if scheme.repeats(k) > 1 else (2 * k + 1, f"N > 2k = {2 * k} is needed")
    t = read_times(T, steps, times, least, why)
    between = [read_through(r.through, n) for r in requests]
    where = between[0][0]
    if isinstance(scheme, Points) and not all(isinstance(e, Nodes) for e in (requests[0].initial, requests[0].final)):
        raise ValueError("initial, final: a discrete Lagrangian given directly (scheme=Points()) needs Nodes at both ends")
    start, end = (_side([both[i] for both in ends]) for i in (0, 1))
    w = windows(scheme, k, t, (start is None or not start.nodes, end is None or not end.nodes))
    guesses = [_guess_nodes(r.guess, t, n) for r in requests if r.guess is not None]
    guess = np.concatenate(guesses, axis=1) if guesses else None
    points = np.concatenate([p for _, p in between], axis=1)
    given = fill_slots(w, start, end, where, points, n * len(requests), guess)
    values = np.ascontiguousarray(np.moveaxis(given.values.reshape(len(w.orders), len(requests), n), 1, 0))
    check_points(problem, w, given.fixed, values, grid_nodes(t, where))
    values = onto_constraints(problem, w, given.fixed, values)
    if w.differenced:
        check_problem(problem, slot_jets(w, values[0]), w.times.ravel())
    for i, (name, time) in enumerate((("initial", t[0]), ("final", t[-1]))):
        check_end_constraints(problem, [both[i] for both in ends], name, time)
    return Prepared(problem, w, given.fixed, values, scheme, [r.guess for r in requests])


def _side(ends: list[End | None]) -> End | None:
    """The ends of all requests side by side, as if they were coordinates of one."""
    if ends[0] is None:
        return None
    return End(np.concatenate([e.values for e in ends if e is not None], axis=1), ends[0].nodes)


def extremals(prepared: Prepared, settings: Settings, certify: bool, threads: int = 1) -> list[Solution]:
    """The ends of Newton's iterations."""
    problem, w, fixed, values, scheme, guesses = prepared
    made = transcribe(problem, w, values.shape[2], fixed, values[0])
    left_out = redundant(problem, made, values[0][w.nodes]) if problem.differential and w.differenced else None
    if left_out is not None:
        made = transcribe(problem, w, values.shape[2], fixed, values[0], left_out)
    z = first_values(problem, made, values)
    for path, guess in zip(z, guesses, strict=True):
        if not all(group.free.all() for group in made.groups):
            check_given_windows(made.groups, made.chain.raw_gradient(path), made.chain.extent(path))
        if isinstance(guess, Solution):
            _warm_multipliers(made, path, guess)

    linear = Linear(made.chain, z[0])

    def one(path: np.ndarray) -> Ended:
        solver = linear.fresh()
        return ended(made, minimise(made.chain, path, settings, solver), solver, certify)

    if threads == 1 or len(z) == 1:
        ends = [one(path) for path in z]
    else:
        with ThreadPoolExecutor(threads) as pool:
            ends = list(pool.map(one, z))
    if left_out is not None:
        for end, given in zip(ends, values, strict=True):
            check_met(made, left_out, end.it.z, given)
    return solutions_of(made, ends, scheme)


def _dimension(problem, start, end, through, guess) -> int:
    """n, from whatever was given."""
    if problem.coordinates is not None:
        n = len(problem.coordinates)
    else:
        candidates = [e.values.shape[1] for e in (start, end) if e is not None]
        candidates += [np.size(q) for q in through.values()] if isinstance(through, Mapping) else []
        candidates += [] if guess is None else [_guess_path(guess).shape[-1]]
        if not candidates:
            raise TypeError("initial: give something at an end, a point between, a guess, or the problem's coordinates=")
        n = int(candidates[0])
        if n == 0:
            raise ValueError("initial, final, through, guess: found an array without numbers; a point has n coordinates")
    return n


def _guess_path(guess) -> np.ndarray:
    """The guess's own nodes, (…, n)."""
    path = as_numbers(guess.q if isinstance(guess, Solution) else guess, "guess")
    if path.ndim != 2:
        raise ValueError(f"guess: found shape {path.shape}; give a path (N+1, n), one row per node, or a Solution")
    return path


def _guess_nodes(guess, t: np.ndarray, n: int) -> np.ndarray:
    path = _guess_path(guess)
    if isinstance(guess, Solution):
        if path.shape[1] != n:
            raise ValueError(f"guess: found a Solution of {path.shape[1]} coordinates; the problem has n = {n}")
        return guess.interpolate(np.clip(t, float(guess.t[0]), float(guess.t[-1])))
    if path.shape != (len(t), n):
        raise ValueError(f"guess: found shape {path.shape}; give a path {(len(t), n)}, one row per node")
    return path


def _warm_multipliers(made: Transcription, z: np.ndarray, guess: Solution) -> None:
    """The multipliers of a known solution, at the times of this one."""
    w, layout = made.windows, made.layout
    known, found = guess.t_multipliers, np.asarray(guess.multipliers)
    for group in made.groups:
        own = _at(known, found[:, group.equations], group.windows.times)
        blocks = group.first + group.attached + np.arange(len(own))
        z[blocks, group.begin : group.begin + group.size] = own.reshape(len(own), -1)
    parts = (
        (known, found[:, list(made.equations)], w.times, made.carriers, "multipliers"),
        (guess.t, np.asarray(guess.holonomic_multipliers), w.t, made.blocks_of_nodes, "holonomic"),
    )
    for times, values, wanted, block, part in parts:
        if values.shape[1]:
            new = _at(times, values, wanted).reshape(len(wanted), -1)
            begin = layout.part(part).start
            z[block, begin : begin + new.shape[1]] = new


def _at(times: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Values (K, m) at other times, (*wanted, m)."""
    columns = [np.interp(wanted.ravel(), times, column) for column in values.T]
    return np.stack(columns, axis=1).reshape(*wanted.shape, -1) if columns else np.zeros((*wanted.shape, 0))
