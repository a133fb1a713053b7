"""Many boundary problems at once: other ends, or other guesses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from dalembert.boundary.data.boundary_data import Nodes, TimeGrid
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.prepare import PathLimits, PreparedProblem, Request, extremals, prepare_problem
from dalembert.boundary.solve import check_seek, settings
from dalembert.native import processors
from dalembert.numbers import MOST_THREADS, as_flag, as_numbers, as_positive, described, whole_number
from dalembert.outcome import Outcome
from dalembert.solution import Solution
from dalembert.systems.higher.variational import VariationalProblem, check_problem

WAVES = 6  # sines in a drawn guess
MOST_STARTS = 100_000
SAME = 1e-6  # relative difference of two paths that count as one


def solve_batch(
    problem: VariationalProblem,
    *,
    initial: Sequence | Nodes | None = None,
    final: Sequence | Nodes | None = None,
    through: Mapping[float, Any] | None = None,
    guess: Float[Array, "batch N+1 n"] | None = None,
    T: float | Free | None = None,
    steps: int | None = None,
    times: Float[Array, "N+1"] | None = None,
    scheme=None,
    scales: Float[Array, "n"] | None = None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
    seek: str = "minimum",
    certify: bool = False,
    threads: int | None = None,
) -> list[Solution]:
    """Σⱼ Dⱼ L̃_d = 0 and Φ_d = 0, as `solve`, for every entry of a batch: ends, points and guesses of their own.

    The problem and the times are the same for all. Nothing is thrown where one is not solved: see Solution.outcome.

    Args:
        problem: a VariationalProblem of order k.
        initial: as in `solve`; the arrays have a leading axis (batch,).
        final: as in `solve`; the arrays have a leading axis (batch,).
        through: as in `solve`; the arrays have a leading axis (batch,).
        guess: (batch, N+1, n).
        T: as in `solve`.
        steps: as in `solve`.
        times: as in `solve`.
        scheme: as in `solve`.
        scales: as in `solve`.
        bounds: as in `solve`, the same for all.
        inequalities: as in `solve`, the same for all.
        tolerance: as in `solve`.
        max_iterations: as in `solve`.
        seek: as in `solve`.
        certify: as in `solve`, off by default.
        threads: how many are solved at once, all processors if None.

    Returns:
        A list of Solution, one for each entry.

    Raises:
        ValueError: as `solve`, for the first entry that is wrong; where the leading axes differ.
        TypeError: as `solve`.

    Example:
        >>> rest, ends = np.zeros((2, 1)), np.array([[1.0], [2.0]])  # two of them, n = 1
        >>> several = da.solve_batch(beam, initial=(rest, rest), final=(ends, rest), T=1.0, steps=10)
        >>> [round(float(s.q[5, 0]), 9) for s in several]
        [0.5, 1.0]
    """
    options, workers = settings(tolerance, max_iterations, seek), _threads(threads)
    check_seek(options, bounds, inequalities)
    as_flag(certify, "certify")
    check_problem(problem)
    initial, final = _read_ends(initial, "initial"), _read_ends(final, "final")
    points = _read_points(through)
    guesses = _read_guesses(guess)
    size = _batch_size(initial, final, points, guesses)
    requests = [
        Request(
            _entry(initial, i), _entry(final, i), {t: q[i] for t, q in points.items()} or None,
            None if guesses is None else guesses[i],
        )
        for i in range(size)
    ]  # fmt: skip
    if not requests:
        return []
    grid, limits = TimeGrid(T, steps, times), PathLimits(bounds, inequalities)
    return extremals(prepare_problem(problem, requests, grid, scheme, scales, limits), options, certify, workers)


class Extremals(NamedTuple):
    """Σⱼ Dⱼ L̃_d = 0 solved from many guesses: what a multi-start found.

    Attributes:
        solutions: different solutions, that of least action first.
        hits: how often each of them was found.
        failed: how many starts failed.
    """

    solutions: list[Solution]
    hits: list[int]
    failed: int


def multistart(
    problem: VariationalProblem,
    starts: int | Float[Array, "starts N+1 n"] = 20,
    *,
    spread: float = 0.5,
    seed: int = 0,
    initial=None,
    final=None,
    through: Mapping[float, Any] | None = None,
    T: float | Free | None = None,
    steps: int | None = None,
    times: Float[Array, "N+1"] | None = None,
    scheme=None,
    scales: Float[Array, "n"] | None = None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
    seek: str = "minimum",
    threads: int | None = None,
) -> Extremals:
    """Σⱼ Dⱼ L̃_d = 0 and Φ_d = 0: extremals of the same boundary problem from many guesses.

    Drawn guesses add Σⱼ aⱼ sin(jπt/T)/j with normal aⱼ to the smooth path through the given points.

    Args:
        problem: a VariationalProblem of order k.
        starts: guesses (starts, N+1, n), or their number.
        spread: size of the aⱼ, times the extent of the path (or its typical size, for a coordinate that does not move).
        seed: of the random numbers.
        initial: as in `solve`.
        final: as in `solve`.
        through: as in `solve`.
        T: as in `solve`.
        steps: as in `solve`.
        times: as in `solve`.
        scheme: as in `solve`.
        scales: as in `solve`.
        bounds: as in `solve`, the same for all.
        inequalities: as in `solve`, the same for all.
        tolerance: as in `solve`.
        max_iterations: as in `solve`.
        seek: as in `solve`.
        threads: how many are solved at once, all processors if None.

    Returns:
        Extremals, those that differ.

    Raises:
        ValueError: as `solve`, naming the argument.
        TypeError: as `solve`.

    Example:
        >>> found = da.multistart(beam, 3, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=10)
        >>> len(found.solutions), found.hits, found.failed
        (1, [3], 0)
    """
    options, workers = settings(tolerance, max_iterations, seek), _threads(threads)
    check_seek(options, bounds, inequalities)
    as_positive(spread, "spread")
    whole_number(seed, "seed", 0)
    drawn = np.ndim(starts) == 0
    guesses = whole_number(starts, "starts", 0, MOST_STARTS) if drawn else as_numbers(starts, "starts")
    if not isinstance(guesses, int) and guesses.ndim != 3:
        raise ValueError(f"starts: found shape {guesses.shape}; give the number of starts, or guesses (starts, N+1, n)")
    given, limits = Request(initial, final, through), PathLimits(bounds, inequalities)

    def prepared(guesses, T=T) -> PreparedProblem:
        requests = [given._replace(guess=g) for g in guesses]
        return prepare_problem(problem, requests, TimeGrid(T, steps, times), scheme, scales, limits)

    def certified(s: Solution) -> Solution:
        near = dataclasses.replace(T, guess=float(s.t[-1])) if isinstance(T, Free) else T
        return extremals(prepared([s], near), options, True)[0]

    base = prepared([None])
    paths = _draw(base, guesses, spread, seed) if isinstance(guesses, int) else guesses
    found = extremals(prepared(paths), options, False, workers) if len(paths) else []
    sizes = base.sizes(base.extents[0]).positions
    return _distinct(found, sizes, certified)


def _draw(base: PreparedProblem, starts: int, spread: float, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    t, path = base.windows.t, base.origin + base.values[0][base.windows.nodes]
    extent = np.ptp(path, axis=0)
    scale = spread * np.where(extent > 0, extent, base.sizes(base.extents[0]).positions)
    waves = np.sin(np.pi * np.arange(1, WAVES + 1)[:, None] * (t - t[0]) / (t[-1] - t[0]))
    heights = random.standard_normal((starts, WAVES, path.shape[1])) * scale / np.arange(1, WAVES + 1)[:, None]
    return path + np.einsum("swn,wt->stn", heights, waves)


def _distinct(found: list[Solution], sizes: np.ndarray, certified: Callable[[Solution], Solution]) -> Extremals:
    solved = sorted((s for s in found if s.outcome is Outcome.SUCCESS), key=lambda s: float(s.action))
    different: list[Solution] = []
    hits: list[int] = []
    for s in solved:
        for i, other in enumerate(different):
            near = abs(s.t[-1] - other.t[-1]) <= SAME * (s.t[-1] - s.t[0])
            if near and np.all(np.abs(s.q - other.q) <= SAME * (sizes + np.ptp(s.q, axis=0))):
                hits[i] += 1
                break
        else:
            different.append(s)
            hits.append(1)
    return Extremals([certified(s) for s in different], hits, len(found) - len(solved))


def _threads(threads: int | None) -> int:
    return processors() if threads is None else whole_number(threads, "threads", most=MOST_THREADS)


def _read_ends(end, name: str):
    """What is given at an end, its arrays as numbers with a leading axis."""
    if end is None or isinstance(end, Nodes):
        return end
    if not isinstance(end, list | tuple):
        raise TypeError(f"{name}: found {described(end)}; give a tuple of arrays (batch, n), or Nodes(array (batch, k, n))")
    arrays = tuple(as_numbers(x, f"{name}[{i}]") for i, x in enumerate(end))
    if any(x.ndim < 2 for x in arrays):
        raise ValueError(f"{name}: found shapes {[x.shape for x in arrays]}; every one is (batch, n)")
    return arrays


def _read_guesses(guess):
    """A path, or a Solution, for each entry."""
    if guess is None or (isinstance(guess, list | tuple) and guess and all(isinstance(x, Solution) for x in guess)):
        return guess
    paths = as_numbers(guess, "guess")
    if paths.ndim != 3:
        raise ValueError(f"guess: found shape {paths.shape}; give paths (batch, N+1, n), or a list of Solutions")
    return paths


def _read_points(through) -> dict[Any, np.ndarray]:
    if not isinstance(through, Mapping | None):
        raise TypeError(f"through: found {described(through)}; give a mapping {{t: q}} from times to points (batch, n)")
    points = {t: as_numbers(q, f"through[{t!r}]") for t, q in (through or {}).items()}
    if any(q.ndim < 1 for q in points.values()):
        raise ValueError(f"through: found shapes {[q.shape for q in points.values()]}; every point is (batch, n)")
    return points


def _entry(end, i: int):
    if end is None:
        return None
    return Nodes(end.q[i]) if isinstance(end, Nodes) else tuple(x[i] for x in end)


def _batch_size(initial, final, points: dict[Any, np.ndarray], guess) -> int:
    """The common leading axis."""
    sizes = {}
    for name, end in (("initial", initial), ("final", final)):
        if end is not None:
            for x in (end.q,) if isinstance(end, Nodes) else end:
                sizes.setdefault(len(x), name)
    for q in points.values():
        sizes.setdefault(len(q), "through")
    if guess is not None:
        sizes.setdefault(len(guess), "guess")
    if len(sizes) != 1:
        found = ", ".join(f"{name} {size}" for size, name in sizes.items()) or "none"
        raise ValueError(
            f"initial, final, through, guess: found leading axes {found}; give arrays with one common leading axis"
        )
    return next(iter(sizes))
