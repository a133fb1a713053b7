"""Where the search of an optimal control begins, and limits that are brought in by steps.

A search begins at the first path, with the controls that the motion along it needs unless the guess has some. Where that
leads nowhere it begins again without controls, then nearer to the smooth path through what is given, and at last from that
path: a guess may wind a pendulum more often than bounded forces can. The smooth path may be too symmetric, as a line through
the middle of an obstacle, so that at last it, or a path near it, is bent to either side. Where the steps do not resolve
the motion that is found, the others are tried, too: a motion whose steps do is preferred.

A motion stays on the side of an obstacle that its first steps lead to: one that is touched is tried on its other side.

Limits are bounds and inequalities. Without any the least cost leads to a motion that violates them by m at most, and from
there they are brought in by steps:

    lower - (1 - s)m ≤ x ≤ upper + (1 - s)m,   s = 0 … 1

Every step begins at the solution of the last one, then beside it. The next step is twice as long where there is a solution,
and half as long where there is none.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dalembert.boundary import Iterate, KKTSystem, Settings, Termination
from dalembert.boundary.data.drawn import sine_waves
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.interior.path import violation
from dalembert.boundary.iteration import SAME, BoundedSearch, FreeTimeSearch, Search, count_all, search_of
from dalembert.control.transcription import ControlStart, balance_controls
from dalembert.interrupts import wanted
from dalembert.solution import ControlSolution

NEARER = (0.5, 1.0)  # to the smooth path
BENDS = (0.5, -0.5, 0.25, -0.25)  # heights, in typical sizes
WAVES, DRAWN = 3, 4  # half periods of waves beside a path, and how many of these are drawn
FAILED = (Termination.INFEASIBLE, Termination.NOT_CONVERGED, Termination.SINGULAR)
FIRST, SHORTEST = 0.25, 0.03  # steps of s
BRIEF = 50  # iterations that another side is given at least, else as many as the first search took
SLIDES = 2e-3  # of the cost: where a touch might gain less by sliding, it gains less than 5e-4
REACHED = (
    "homotopy: came {:.0f} % of the way from no bounds and inequalities to the given ones. This is the motion there, which "
    "still violates them: look where, give it more time, or give a path as guess"
)
NOWHERE = "homotopy: found no motion even without the bounds and inequalities: give more time, or a path as guess"

End = tuple[Iterate, Activity]
First = tuple[np.ndarray, np.ndarray | None]  # a path, and the forces of bounds on it


@dataclasses.dataclass(frozen=True)
class ControlSearch:
    """A checked problem, ready to be solved from any path. sizes: of what convergence is judged by."""

    start: ControlStart
    kkt: KKTSystem
    search: Search
    sizes: np.ndarray

    @functools.cached_property
    def balanced(self) -> np.ndarray:
        """The first path with the controls that the motion along it needs, found once for all calls."""
        return balance_controls(self.start.data, self.kkt, self.start.z)

    def minimise(self, sizes: np.ndarray, starts: Iterator[First]) -> End:
        """The end of the search from the first path; where others have to be tried and all have failed, the one that
        violates least. sizes: of what convergence is judged by. starts: those that are not needed are left."""
        best, tried = None, list[Iterate]()
        for z, forces in starts:
            found = self.search(z, sizes, forces)
            tried.append(found[0])
            if best is None or found[0].end is Termination.CONVERGED or _violation(found[0]) < _violation(best[0]):
                best = found
            if found[0].end not in FAILED:
                break
        assert best is not None
        count_all([*(it for it in tried if it is not best[0]), best[0]])
        best[0].restorations += len(tried) - 1
        return best

    def slide_contacts(self, end: End) -> End:
        """The end of a search, or of further ones, see `BoundedSearch.search_again`, as long as positions touch their bounds
        and these searches find less cost."""
        search = self.search
        while isinstance(search, BoundedSearch) and self._slides(end):
            found = search.search_again(end, self.sizes)
            if found is end:
                break
            end = found
        return end

    def _slides(self, end: End) -> bool:
        """True if a contact might gain by sliding to the next node: the multiplier times the slack there."""
        (it, activity), state = end, self.start.data.layout.part("state")
        if it.end is not Termination.CONVERGED:
            return False
        active = activity.active[:, state] != 0
        slacks = np.where(active, np.inf, activity.margins[:, state] * it.kkt.units[:, state])
        beside = np.minimum(slacks[:-2], slacks[2:])
        ends = active[1:-1] & np.isfinite(beside)  # of runs of nodes at a bound
        return bool(np.abs(activity.multipliers[1:-1, state])[ends] @ beside[ends] > SLIDES * it.at.objective)

    def pass_other_sides(self, end: End) -> End:
        """The end of a search, or of others from paths that pass a touched obstacle on its other side, as long as these
        find less cost."""
        search, limit, tried = self.search, max(BRIEF, end[0].iterations), list[Iterate]()
        if not isinstance(search, BoundedSearch | FreeTimeSearch):
            return end
        ways = self._other_sides(end)
        while (z := next(ways, None)) is not None and not wanted():
            found = self.slide_contacts(search.search_briefly(z, self.sizes, limit))
            tried.append(found[0])
            if found[0].end is Termination.CONVERGED and found[0].at.objective < (1.0 - SAME) * end[0].at.objective:
                tried[-1], end, ways = end[0], found, self._other_sides(found)
        count_all([*tried, end[0]])
        return end

    def _other_sides(self, end: End) -> Iterator[np.ndarray]:
        """For every inequality of positions that the end of a search touches, and that keeps something out: the path with
        these nodes on the other side of it; the ends and what touches others stay, what is between moves in proportion."""
        (it, activity), data = end, self.start.data
        if it.end is not Termination.CONVERGED:
            return
        n, sizes = data.layout.n, self.start.sizes.positions
        for path, places in zip(data.paths, data.path_places("values"), strict=True):
            positions = (path.name == "inequalities") & ~path.reads[:, n:].any(axis=1)
            touched = (activity.active.ravel()[places] != 0) & positions
            if not touched.any():
                continue
            ways = path.across(data.problem.parameters, data.path_points(path, it.z), sizes, touched)
            for i in np.flatnonzero(touched.any(axis=0)):
                held = ways[:, i].any(axis=1) | (touched.any(axis=1) & ~touched[:, i])
                held[[0, -1]] = True
                if ways[:, i].any():
                    yield self._moved(it.z, np.stack([np.interp(data.t, data.t[held], x) for x in ways[held, i].T], axis=1))

    def starts(self) -> Iterator[First]:
        """First paths with the forces of bounds, one after the other until one leads somewhere."""
        (data, first, _, _, guess), kkt = self.start, self.kkt
        if isinstance(guess, ControlSolution):
            z = first.copy()
            yield z, data.known_forces(z, guess.bounds)  # which are put into the path
            return
        if not isinstance(guess, tuple):
            yield self.balanced.copy(), None
        yield first.copy(), None
        shares = () if guess is None else NEARER
        for share in shares:
            yield balance_controls(data, kkt, self.start.nearer(share)), None
        if data.horizon is None:  # with a free time it is fixed first, and paths are bent then
            for path in [first] if guess is None else map(self.start.nearer, shares):
                yield from ((z, None) for z in self.beside(path))

    def beside(self, z: np.ndarray, random: np.random.Generator | None = None) -> Iterator[np.ndarray]:
        """The path z, bent to either side where it is free, and with random waves, each with the controls that it needs."""
        data, sizes = self.start.data, self.start.sizes.positions
        order, sines = np.arange(1, WAVES + 1), sine_waves(data.t, WAVES).T
        waves = [height * sines[:, :1] for height in BENDS]
        if random is not None:
            waves += [BENDS[0] * sines @ x for x in random.standard_normal((DRAWN, WAVES, len(sizes))) / order[:, None]]
        for wave in waves:
            yield self._moved(z, wave * sizes)

    def _moved(self, z: np.ndarray, by: np.ndarray) -> np.ndarray:
        """The path z, moved where it is free, with the controls that it needs."""
        data = self.start.data
        moved, state = np.zeros_like(z), data.layout.part("state")
        for part in (state, data.layout.part("base"), data.layout.part("time")):
            moved[:, part] = z[:, part]
        moved[1:-1, state] += np.where(data.given, 0.0, by)
        data.place_values(moved)
        return balance_controls(data, self.kkt, moved)


def _violation(it: Iterate) -> float:
    return violation(it.kkt, it.at)


class Limits(NamedTuple):
    """Bounds and inequalities. parts: places in the flat path with (2, *places) lower and upper ones; beyond: by how much a
    motion without any violates them at most, for every component."""

    parts: list[tuple[np.ndarray, np.ndarray]]
    beyond: list[np.ndarray]

    def bounds_at(self, share: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """What is to be kept where this share is brought in."""
        wider = ((1.0 - share) * by * np.array([-1.0, 1.0]).reshape(2, *[1] * (by.ndim - 1)) for by in self.beyond)
        return [(at, both + more) for (at, both), more in zip(self.parts, wider, strict=True)]


def limits_of(parts: list[tuple[np.ndarray, np.ndarray]], z: np.ndarray) -> Limits:
    """z: a path that may lie outside."""
    beyond = []
    for at, both in parts:
        x = z.ravel()[at]
        over = np.maximum([both[0] - x, x - both[1]], 0.0)
        beyond.append(over.max(axis=1, keepdims=True))
    return Limits(parts, beyond)


def bring_in_limits(ready: ControlSearch, settings: Settings) -> tuple[End, str]:
    """The end of the homotopy, and where it kept only a part of the limits, how far it came."""
    data, kkt, sizes, parts = ready.start.data, ready.kkt, ready.sizes, ready.start.data.bounded_places()
    time = None if data.horizon is None else data.time_place
    if not parts:
        raise ValueError(
            "guess: found 'homotopy' without bounds= and inequalities=, which it brings in by steps; leave guess out, or "
            "give a path"
        )

    def search(kept: list[tuple[np.ndarray, np.ndarray]]) -> Search:
        return search_of(kkt, ready.start.z, settings, kept, time, filtered=True)

    of_time = parts[-1:] if data.horizon is not None and data.horizon.has_bounds else []
    end = dataclasses.replace(ready, search=search(of_time)).minimise(sizes, ready.starts())
    tried, share, step = [end[0]], 0.0, FIRST
    limits, random = limits_of(parts, end[0].z), np.random.default_rng(0)
    while share < 1.0 and step >= SHORTEST and end[0].end is Termination.CONVERGED and not wanted():
        next_share = min(1.0, share + step)
        own = search(limits.bounds_at(next_share))
        found = own(end[0].z.copy(), sizes, end[1].multipliers)
        tried.append(found[0])
        for z in ready.beside(end[0].z, random):
            if found[0].end is Termination.CONVERGED:
                break
            found = own(z, sizes, None)
            tried.append(found[0])
        if found[0].end is Termination.CONVERGED:
            end, share, step = found, next_share, 2.0 * step
        else:
            step *= 0.5
    count_all([*(it for it in tried if it is not end[0]), end[0]])
    if share == 1.0:
        return end, ""
    if end[0].end is not Termination.CONVERGED:
        return end, NOWHERE
    end[0].end = Termination.NOT_CONVERGED
    return end, REACHED.format(100.0 * share)
