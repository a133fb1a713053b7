"""Many boundary problems at once: other ends, or other guesses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from dalembert.path import Outcome
from dalembert.solution import Solution
from dalembert.solve.boundary import settings
from dalembert.solve.ends import Nodes
from dalembert.solve.prepare import Prepared, Request, extremals, prepare
from dalembert.systems.variational import VariationalProblem

WAVES = 6  # sines in a drawn guess
SAME = 1e-6  # relative difference of two paths that count as one


def solve_batch(
    problem: VariationalProblem,
    *,
    initial: Sequence | Nodes | None = None,
    final: Sequence | Nodes | None = None,
    through: Mapping[float, Any] | None = None,
    guess: Float[Array, "batch N+1 n"] | None = None,
    T: float | None = None,
    steps: int | None = None,
    times: Float[Array, "N+1"] | None = None,
    scheme=None,
    scales: Float[Array, "n"] | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
    seek: str = "minimum",
    certify: bool = False,
    threads: int | None = None,
) -> list[Solution]:
    """`solve` for every entry of a batch: the same problem and times, ends, points and guesses of their own.

    Arguments are those of `solve`; the arrays in initial, final, through and guess have a leading axis (batch,). threads:
    how many are solved at once, all processors if not given. Nothing is thrown where one is not solved: see
    Solution.outcome.
    Errors: as `solve`, for the first entry that is wrong; ValueError where the leading axes differ.
    """
    options = settings(tolerance, max_iterations, seek)
    size = _batch_size(initial, final, through, guess)
    points = {t: np.asarray(q) for t, q in (through or {}).items()}
    requests = [
        Request(
            _entry(initial, i), _entry(final, i), {t: q[i] for t, q in points.items()} or None,
            None if guess is None else guess[i],
        )
        for i in range(size)
    ]  # fmt: skip
    if not requests:
        return []
    return extremals(prepare(problem, requests, T, steps, times, scheme, scales), options, certify, _threads(threads))


class Extremals(NamedTuple):
    """What a multi-start found: different solutions, that of least action first; how often each; how many starts failed."""

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
    T: float | None = None,
    steps: int | None = None,
    times: Float[Array, "N+1"] | None = None,
    scheme=None,
    scales: Float[Array, "n"] | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
    seek: str = "minimum",
    threads: int | None = None,
) -> Extremals:
    """Extremals of the same boundary problem from many guesses.

    starts: guesses, or their number; drawn ones add Σⱼ aⱼ sin(jπt/T)/j with normal aⱼ to the smooth path through the given
    points, `spread` times its extent (or its typical size, for a coordinate that does not move). The other arguments are
    those of `solve`.
    """
    options = settings(tolerance, max_iterations, seek)
    given = Request(initial, final, through)

    def prepared(guesses) -> Prepared:
        return prepare(problem, [given._replace(guess=g) for g in guesses], T, steps, times, scheme, scales)

    base = prepared([None])
    paths = _draw(base, starts, spread, seed) if isinstance(starts, int) else np.asarray(starts, dtype=float)
    found = extremals(prepared(paths), options, False, _threads(threads)) if len(paths) else []
    sizes = base.sizes(base.extents[0]).positions
    return _distinct(found, sizes, lambda s: extremals(prepared([s]), options, True)[0])


def _draw(base: Prepared, starts: int, spread: float, seed: int) -> np.ndarray:
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
            if np.all(np.abs(s.q - other.q) <= SAME * (sizes + np.ptp(s.q, axis=0))):
                hits[i] += 1
                break
        else:
            different.append(s)
            hits.append(1)
    return Extremals([certified(s) for s in different], hits, len(found) - len(solved))


def _threads(threads: int | None) -> int:
    return threads or len(os.sched_getaffinity(0))


def _entry(end, i: int):
    if end is None:
        return None
    return Nodes(np.asarray(end.q)[i]) if isinstance(end, Nodes) else tuple(np.asarray(x)[i] for x in end)


def _batch_size(initial, final, through, guess) -> int:
    """The common leading axis."""
    sizes = {}
    for name, end in (("initial", initial), ("final", final)):
        if end is not None:
            for x in (end.q,) if isinstance(end, Nodes) else end:
                sizes.setdefault(len(np.asarray(x)), name)
    for q in (through or {}).values():
        sizes.setdefault(len(np.asarray(q)), "through")
    if guess is not None:
        sizes.setdefault(len(np.asarray(guess)), "guess")
    if len(sizes) != 1:
        found = ", ".join(f"{name} {size}" for size, name in sizes.items()) or "none"
        raise ValueError(
            f"initial, final, through, guess: found leading axes {found}; give arrays with one common leading axis"
        )
    return next(iter(sizes))
