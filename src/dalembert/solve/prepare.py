"""From the arguments of a boundary problem to its windows, its fixed slots and a first path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dalembert.discretize.windows import Interpolated, Points, WindowMap, Windows, windows
from dalembert.solution import Solution
from dalembert.solve.checks import check_end_constraints, check_problem
from dalembert.solve.ends import Given, Nodes, fill_slots, grid_nodes, read_end, read_through, read_times
from dalembert.solve.linear import Linear
from dalembert.solve.manifold import check_points, onto_constraints
from dalembert.solve.newton import Settings, minimise
from dalembert.solve.result import solution_of
from dalembert.solve.transcription import Transcription, first_values, slot_jets, transcribe
from dalembert.systems import check_x64
from dalembert.systems.variational import VariationalProblem, constraint_numbers


class Prepared(NamedTuple):
    """A boundary problem, checked."""

    problem: VariationalProblem
    windows: Windows
    given: Given
    scheme: WindowMap
    guess: Any

    @property
    def path(self) -> np.ndarray:
        """The first path, (N+1, n)."""
        return self.given.values[self.windows.nodes]


def prepare(problem, initial, final, through, T, steps, times, scheme, guess) -> Prepared:
    """Arguments as `solve` takes them."""
    check_x64()
    scheme = Interpolated() if scheme is None else scheme
    start, end = read_end(initial, "initial", problem.derivatives), read_end(final, "final", problem.derivatives)
    n = _dimension(problem, start, end, through, guess)
    constraint_numbers(problem, n)
    k = problem.derivatives
    least, why = (1, "at least one step is needed") if scheme.repeats(k) > 1 else (2 * k + 1, f"N > 2k = {2 * k} is needed")
    t = read_times(T, steps, times, least, why)
    where, points = read_through(through, n)
    if isinstance(scheme, Points) and not all(isinstance(e, Nodes) for e in (initial, final)):
        raise ValueError("initial, final: a discrete Lagrangian given directly (scheme=Points()) needs Nodes at both ends")
    w = windows(scheme, k, t, (start is None or not start.nodes, end is None or not end.nodes))
    given = fill_slots(w, start, end, where, points, n, _guess_nodes(guess, t, n))
    check_end_constraints(problem, start, "initial", t[0])
    check_end_constraints(problem, end, "final", t[-1])
    check_points(problem, w, given, grid_nodes(t, where))
    given = Given(given.fixed, onto_constraints(problem, w, given))
    if w.differenced:
        check_problem(problem, slot_jets(w, given.values), w.times.ravel())
    return Prepared(problem, w, given, scheme, guess)


def extremal(prepared: Prepared, settings: Settings, certify: bool, made: Transcription | None = None) -> Solution:
    """The end of Newton's iteration. made: of another problem that differs in the values of its fixed slots alone."""
    problem, w, given, scheme, guess = prepared
    if made is None:
        made = transcribe(problem, w, given.values.shape[1], given.fixed, given.values)
    z = first_values(problem, made, given.values)
    if isinstance(guess, Solution):
        _warm_multipliers(made, z, guess)
    linear = Linear(made.chain)
    return solution_of(made, minimise(made.chain, z, settings, linear), scheme, linear, certify)


def _dimension(problem, start, end, through, guess) -> int:
    """n, from whatever was given."""
    if problem.coordinates is not None:
        n = len(problem.coordinates)
    else:
        candidates = [e.values.shape[1] for e in (start, end) if e is not None]
        candidates += [np.size(q) for q in (through or {}).values()] if isinstance(through, Mapping) else []
        candidates += [np.shape(guess.q if isinstance(guess, Solution) else guess)[-1]] if guess is not None else []
        if not candidates:
            raise TypeError("initial: give something at an end, a point between, a guess, or the problem's coordinates=")
        n = int(candidates[0])
    for name, e in (("initial", start), ("final", end)):
        if e is not None and e.values.shape[1] != n:
            raise ValueError(f"{name}: found {e.values.shape[1]} numbers; the problem has n = {n} coordinates")
    return n


def _guess_nodes(guess, t: np.ndarray, n: int):
    if guess is None:
        return None
    if isinstance(guess, Solution):
        inside = np.clip(t, float(guess.t[0]), float(guess.t[-1]))
        return guess.interpolate(inside)
    path = np.asarray(guess, dtype=float)
    if path.shape != (len(t), n):
        raise ValueError(f"guess: found shape {path.shape}; give a path {(len(t), n)}, one row per node")
    if not np.all(np.isfinite(path)):
        raise ValueError("guess: found NaN or infinity; every number must be finite")
    return path


def _warm_multipliers(made: Transcription, z: np.ndarray, guess: Solution) -> None:
    """The multipliers of a known solution, at the times of this one."""
    w, layout = made.windows, made.layout
    for values, known, times, block, part in (
        (guess.multipliers, guess.t_multipliers, w.times, made.carriers, "multipliers"),
        (guess.holonomic_multipliers, guess.t, w.t, made.blocks_of_nodes, "holonomic"),
    ):
        if values.shape[1]:
            new = np.stack([np.interp(times.ravel(), known, column) for column in np.asarray(values).T], axis=1)
            new = new.reshape(len(times), -1)
            begin = layout.part(part).start
            z[block, begin : begin + new.shape[1]] = new
