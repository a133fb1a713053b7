"""multistart: the extremals of one boundary problem that many guesses lead to."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import one_blas_thread
from dalembert.boundary.data.drawn import sine_waves
from dalembert.boundary.data.ends import Request, TimeGrid
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.kinds import Asked, S, SmoothStart, Solvable, extremal, extremals_of, smooth_start
from dalembert.boundary.solver import check_seek, settings
from dalembert.native import as_threads
from dalembert.notebook import described_by_fields
from dalembert.numbers import as_numbers, as_positive, whole_number
from dalembert.options import Solver, accept_single_options
from dalembert.outcome import Outcome
from dalembert.solution import CriticalPoint

WAVES = 6  # sines in a drawn guess
MOST_STARTS = 100_000
SAME = 1e-6  # relative difference of two paths that count as one


@described_by_fields
class Extremals(NamedTuple):
    """The different solutions of a boundary problem, and how often each was found.

    Σⱼ Dⱼ L̃_d = 0 solved from many guesses: what `multistart` returns.

    Attributes:
        solutions: the different solutions; the one of least action or cost is first.
        hits: how often each of them was found.
        failed: how many starts failed.
        outcomes: how the failed starts ended, and how many ended so.
    """

    solutions: list[Any]
    hits: list[int]
    failed: int
    outcomes: dict[Outcome, int]


@accept_single_options
def multistart(
    problem: Solvable[S],
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
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    solver: Solver | None = None,
    seek: str = "minimum",
) -> Extremals:
    """Solve a boundary problem from many guesses, and keep the different solutions.

    Σⱼ Dⱼ L̃_d = 0 and Φ_d = 0: extremals of the same problem from many guesses.

    Random guesses are the smooth path through the given data plus Σⱼ aⱼ sin(jπt/T)/j with normally distributed aⱼ, and
    zero controls. They are then moved onto the constraints, of any order and those of a plant too, as near as the given
    data allow, but for those on groups, where aⱼ are ways along the axes of the velocities. The same seed gives the same
    guesses.

    Args:
        problem: a VariationalProblem of order k, or an OptimalControl.
        starts: guesses (starts, N+1, n), on groups also by name, or their number.
        spread: standard deviation of the aⱼ, in units of the extent of the path (of its typical size, for a coordinate
            that does not move).
        seed: of the random numbers.
        initial: as in `solve`.
        final: as in `solve`.
        through: as in `solve`.
        T: as in `solve`.
        steps: as in `solve`.
        times: as in `solve`.
        scheme: as in `solve`.
        bounds: as in `solve`, the same for all.
        inequalities: as in `solve`, the same for all.
        solver: a Solver: tolerance, max_iterations, scales, and threads, how many guesses are tried at once.
        seek: as in `solve`.

    Returns:
        Extremals: the different solutions that were found.

    Raises:
        ValueError: as `solve`, naming the argument.
        TypeError: as `solve`.

    Example:
        >>> found = da.multistart(beam, 3, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=10)
        >>> len(found.solutions), found.hits, found.failed
        (1, [3], 0)
    """
    solver = Solver.of(solver, "multistart")
    options, workers = check_seek(settings(solver, seek), bounds, inequalities), as_threads(solver.threads)
    as_positive(spread, "spread")
    whole_number(seed, "seed", 0)
    given = Request(initial, final, through)
    asked = Asked(given, TimeGrid(T, steps, times), scheme, solver.scales, options, False, bounds, inequalities)

    def certify_again(s: CriticalPoint) -> CriticalPoint:
        near = dataclasses.replace(T, guess=float(s.t[-1])) if isinstance(T, Free) else T
        again = asked._replace(request=given._replace(guess=s), grid=TimeGrid(near, steps, times), certify=True)
        return extremal(problem, again)

    base = smooth_start(problem, asked)
    if isinstance(starts, Mapping) or np.ndim(starts):
        paths = as_numbers(base.space.read_named(starts, None, ("starts", ""))[0], "starts")
        if paths.ndim != 3:
            raise ValueError(f"starts: found shape {paths.shape}; give the number of starts, or guesses (starts, N+1, n)")
    else:
        paths = _draw(base, whole_number(starts, "starts", 0, MOST_STARTS), spread, seed)
    requests = [given._replace(guess=g) for g in paths]
    with one_blas_thread():
        found = extremals_of(problem, asked, requests, workers) if requests else []
        return _distinct(found, base, certify_again)


def _draw(base: SmoothStart, starts: int, spread: float, seed: int) -> np.ndarray:
    random, extent = np.random.default_rng(seed), base.space.extent(base.path)[1]
    scale = spread * np.where(extent > 0, extent, base.sizes)
    heights = random.standard_normal((starts, WAVES, len(scale))) * scale / np.arange(1, WAVES + 1)[:, None]
    return base.beside(np.einsum("swn,wt->stn", heights, sine_waves(base.t, WAVES)))


def _distinct(
    found: Sequence[CriticalPoint], base: SmoothStart, certify_again: Callable[[CriticalPoint], CriticalPoint]
) -> Extremals:
    solved = sorted((s for s in found if s.outcome is Outcome.SUCCESS), key=lambda s: s.value[1])
    failed = collections.Counter(s.outcome for s in found if s.outcome is not Outcome.SUCCESS)
    different: list[CriticalPoint] = []
    hits: list[int] = []
    for s in solved:
        for i, other in enumerate(different):
            near = abs(s.t[-1] - other.t[-1]) <= SAME * (s.t[-1] - s.t[0])
            apart = np.abs(base.space.differences(s.q, other.q))
            if near and np.all(apart <= SAME * (base.sizes + base.space.extent(s.q)[1])):
                hits[i] += 1
                break
        else:
            different.append(s)
            hits.append(1)
    return Extremals([certify_again(s) for s in different], hits, failed.total(), dict(failed))
