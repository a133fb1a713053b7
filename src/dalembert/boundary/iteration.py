"""Which iteration finds the extremal: Newton's, or the interior point method where there are bounds; and the way to a free
final time.

A final time multiplies everything, so that steps far from a solution that change it are seldom good ones: from the guess the
problem is solved with T held near its own guess, and from there with T free. Measured on knife edge, vertical take-off, two
rods, cart-pole and orbit transfer with a price of time, 60 steps and 26 guesses, of T up to four times too large or small:
Newton's line search solved 11, the filter of the interior point method 17, T held first 24, one after the other 25.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from dalembert.boundary.interior.activity import Activity, activity_of, leave_saddle, no_activity
from dalembert.boundary.interior.ipopt import IpoptSearch
from dalembert.boundary.interior.iteration import SHORTEST_FRONTAL, InteriorPoint
from dalembert.boundary.interior.path import FIRST_BARRIER, Bounds, InteriorPath, place_bounds
from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton import BoundaryNewton, Iterate, Settings, Termination
from dalembert.interrupts import wanted

FEW = 8  # iterations that Newton's method is given at first: a warm start takes one or two
FIRST, LEAST = 0.125, 1e-3  # of the steps on the way from a path whose equations do not hold
SAME = 1e-6  # relative difference of two costs that count as one
RANGE, RANGES = 0.25, 20  # of θ in one search, and how many of these there are at most
HELD = 1e-2  # how far θ = log T goes from its guess where T is held

T = TypeVar("T")
Search = Callable[[np.ndarray, np.ndarray, np.ndarray | None], tuple[Iterate, Activity]]


def search_of(
    kkt: KKTSystem,
    z: np.ndarray,
    settings: Settings,
    bounds: Sequence[tuple[np.ndarray, np.ndarray]],
    time: int | None,
    filtered: bool = False,
) -> Search:
    """(path, sizes, forces) → (Iterate, Activity), see `InteriorPoint.minimise`. z: a path near which pivots are chosen;
    bounds: see `place_bounds`; time: the place of θ in the flat path where the final time is free, or None; filtered:
    the filter judges steps also without bounds."""
    if bounds and not settings.minimum:
        raise ValueError(
            "seek: found 'extremal' together with bounds of T; with these only minima are sought: give seek='minimum'"
        )
    if settings.method == "ipopt":
        ipopt = IpoptSearch(kkt, z, settings, place_bounds(kkt.blocks, kkt.size, bounds))
        return lambda path, sizes, forces: _with_activity(ipopt.minimise(path, sizes, forces))
    if time is not None and settings.minimum:
        return FreeTimeSearch(kkt, z, settings, place_bounds(kkt.blocks, kkt.size, bounds), time, filtered)
    if not bounds and filtered and settings.minimum:
        return FilteredSearch(kkt, z, settings)
    if not bounds:
        newton = BoundaryNewton(kkt, LinearSolver(kkt, z), settings)
        way = newton.minimise if settings.minimum else functools.partial(_extremal, newton)
        return lambda path, sizes, forces: (way(path, sizes), no_activity(kkt))
    return BoundedSearch(kkt, z, settings, place_bounds(kkt.blocks, kkt.size, bounds))


def _extremal(newton: BoundaryNewton, path: np.ndarray, sizes: np.ndarray) -> Iterate:
    """Any extremal: by Newton's method; where this fails from multipliers that are known, by the way from there.

    ∇L̃ = (1-s) ∇L̃(z₀), s from 0 to 1 by steps, from each solution to the next by a few iterations. The times of nodes need
    it: from the extremal with equal steps, whose equations of the energy alone fail, Newton's method goes astray.
    """
    tried, kkt = [newton.minimise(path, sizes)], newton.kkt
    if _over(tried[0]) or kkt.recentre is not None or not np.any(path[:, ~kkt.primal]):
        return tried[0]
    start = np.where(kkt.primal, kkt.evaluate(path).gradient, 0.0).ravel()
    few = dataclasses.replace(newton.settings, max_iterations=min(FEW, newton.settings.max_iterations))
    z, reached, step = path, 0.0, FIRST
    while reached < 1.0 and step >= LEAST and not wanted():
        ahead = min(1.0, reached + step)
        here = newton if ahead == 1.0 else newton.on(kkt.loaded((1.0 - ahead) * start), few)
        tried.append(here.minimise(z, sizes))
        if tried[-1].end is Termination.CONVERGED:
            z, reached, step = tried[-1].z, ahead, 2.0 * step
        else:
            step *= 0.25
    return count_all(tried if reached == 1.0 else [*tried[1:], tried[0]])


def _with_activity(end: InteriorPath) -> tuple[Iterate, Activity]:
    return end.newton, activity_of(end)


class BoundedSearch:
    """A minimum inside bounds. Where the path of a search reaches a bound while μ is small, the node of the contact is soon
    settled, and with it one of several minima that differ by this node alone."""

    def __init__(self, kkt: KKTSystem, z: np.ndarray, settings: Settings, bounds: Bounds):
        self._interior = InteriorPoint(kkt, LinearSolver(kkt, z, SHORTEST_FRONTAL), settings, bounds)

    def __call__(self, path: np.ndarray, sizes: np.ndarray, forces: np.ndarray | None) -> tuple[Iterate, Activity]:
        return _with_activity(self._interior.minimise(path, sizes, forces))

    def search_briefly(self, path: np.ndarray, sizes: np.ndarray, limit: int) -> tuple[Iterate, Activity]:
        """With so many iterations at most."""
        return _with_activity(self._interior.minimise(path, sizes, limit=limit))

    def search_again(self, end: tuple[Iterate, Activity], sizes: np.ndarray) -> tuple[Iterate, Activity]:
        """The end of a search, or of a second one from there, if it costs less. Its first barrier is worth as much as the
        cost: it moves the path off its bounds, so that a contact may slide to other nodes as μ falls."""
        it, activity = end
        barrier = it.at.objective / (it.kkt.curvature * it.kkt.blocks)
        if barrier <= FIRST_BARRIER:  # the first search began with as much
            return end
        second = _with_activity(self._interior.minimise(it.z.copy(), sizes, activity.multipliers, barrier))
        better = second[0].end is Termination.CONVERGED and second[0].at.objective < (1.0 - SAME) * it.at.objective
        first, last = (end, second) if better else (second, end)
        count_all([first[0], last[0]])
        return last


class FilteredSearch:
    """A minimum without bounds: the filter, whose end Newton's whole steps make exact where its last step was none of these.
    From a solution, whose multipliers are known, Newton's whole steps first, as in the warm starts of a controller."""

    def __init__(self, kkt: KKTSystem, z: np.ndarray, settings: Settings):
        linear, none = LinearSolver(kkt, z, SHORTEST_FRONTAL), place_bounds(kkt.blocks, kkt.size, [])
        self._newton, self._filter = BoundaryNewton(kkt, linear, settings), InteriorPoint(kkt, linear, settings, none)

    def __call__(self, path: np.ndarray, sizes: np.ndarray, forces: np.ndarray | None) -> tuple[Iterate, Activity]:
        kkt, tried = self._newton.kkt, []
        if np.any(path[:, ~kkt.primal]):
            tried.append(self._newton.whole_steps(path, sizes))
        if not tried or not _over(tried[0]):
            end = self._filter.minimise(path, sizes)
            it = end.newton
            tried.append(it)
            if it.iterations < self._newton.settings.max_iterations and not (_over(it) and end.whole and it.shift == 0.0):
                exact = self._newton.whole_steps(it.z, sizes, it.at)
                tried.insert(len(tried) if _over(exact) else 0, exact)
        return count_all(tried), no_activity(kkt)


class FreeTimeSearch:
    """A minimum with the final time: the ways to it, one after the other until one arrives.

    Without bounds: a few whole steps of Newton's method; T held first; T free at once; unless the filter is asked for,
    Newton's method to its end, which also ends what the others found. With bounds: T free at once, as least time may have no
    solution with T held; T held first.
    """

    def __init__(self, kkt: KKTSystem, z: np.ndarray, settings: Settings, bounds: Bounds, time: int, filtered: bool):
        linear = LinearSolver(kkt, z, SHORTEST_FRONTAL)
        self._filtered = filtered
        self._within = lambda limits: InteriorPoint(kkt, linear, settings, limits)
        self._bounds, self._time = bounds, time
        self._held, self._free = self._within(self._near(0.0, HELD)), self._within(bounds)
        self._bounded = bool(np.isfinite(bounds).any())
        own = LinearSolver(kkt, z)
        few = dataclasses.replace(settings, max_iterations=min(FEW, settings.max_iterations))
        self._few, self._newton = (BoundaryNewton(kkt, own, chosen) for chosen in (few, settings))

    def __call__(self, path: np.ndarray, sizes: np.ndarray, forces: np.ndarray | None) -> tuple[Iterate, Activity]:
        return self._inside(path, sizes, forces) if self._bounded else self._without_bounds(path, sizes)

    def search_briefly(self, path: np.ndarray, sizes: np.ndarray, limit: int) -> tuple[Iterate, Activity]:
        """T free at once, with so many iterations at most."""
        return _with_activity(self._free.minimise(path, sizes, limit=limit))

    def _inside(self, path: np.ndarray, sizes: np.ndarray, forces: np.ndarray | None) -> tuple[Iterate, Activity]:
        first = end = self._free.minimise(path, sizes, forces)
        if not _over(first.newton):
            end = self._held_first(path, sizes)
            end = end if _over(end.newton) else first
        return end.newton, activity_of(end)

    def _without_bounds(self, path: np.ndarray, sizes: np.ndarray) -> tuple[Iterate, Activity]:
        newton = self._newton
        nothing, tried = no_activity(newton.kkt), [self._few.whole_steps(path, sizes)]
        if _over(tried[0]):
            return tried[0], nothing
        for way in (self._held_first, self._free.minimise):
            tried.append(way(path, sizes).newton)
            if tried[-1].end is Termination.CONVERGED:
                tried.append(newton.minimise(tried[-1].z, sizes))
                if tried[-1].end is Termination.CONVERGED:
                    return count_all(tried), nothing
        if not self._filtered:
            tried.append(newton.minimise(path, sizes))
        return count_all(tried), nothing

    def _near(self, theta: float, width: float) -> Bounds:
        """The bounds, with T near a value."""
        lower, upper = (b.copy() for b in self._bounds)
        lower.flat[self._time] = max(lower.flat[self._time], theta - width)
        upper.flat[self._time] = min(upper.flat[self._time], theta + width)
        return Bounds(lower, upper)

    def _held_first(self, path: np.ndarray, sizes: np.ndarray) -> InteriorPath:
        before, then = self._held.minimise(path, sizes), self._by_ranges if self._bounded else self._free.minimise
        end = then(before.newton.z, sizes)
        count_all([before.newton, end.newton])
        return end

    def _by_ranges(self, path: np.ndarray, sizes: np.ndarray) -> InteriorPath:
        """T free in a range around where it is, then around where that ends, until a range does not hold it: where the cost
        has no curvature in T, steps of any length lower it."""
        tried = list[Iterate]()
        for _ in range(RANGES):
            theta = path.flat[self._time]
            end = self._within(self._near(theta, RANGE)).minimise(path, sizes)
            path = end.newton.z
            tried.append(end.newton)
            if end.newton.end is not Termination.CONVERGED or abs(path.flat[self._time] - theta) < 0.99 * RANGE:
                break
        else:
            end = self._free.minimise(path, sizes)
            tried.append(end.newton)
        count_all(tried)
        return end


def _over(it: Iterate) -> bool:
    """True if another way to a minimum is of no use."""
    return it.end in (Termination.CONVERGED, Termination.NOT_FINITE, Termination.INTERRUPTED)


def leave_saddles(
    search: Search, end: tuple[Iterate, Activity], sizes: np.ndarray, assess: Callable[[Iterate, Activity], T]
) -> T:
    """What `assess` says of the end of a search; where that is a saddle, of what a search that begins beside it comes to, if
    it is a minimum."""
    first, before = assess(*end), end[0]
    if before.end is Termination.SADDLE:
        off = leave_saddle(*end)
        for z in (before.z + off, before.z - off):
            it, activity = search(z, sizes, None)
            before = count_all([before, it])
            found = assess(it, activity)
            if it.end is Termination.CONVERGED:
                return found
    return first


def count_all(tried: list[Iterate]) -> Iterate:
    """The last of them, with the counts of all."""
    last = tried[-1]
    last.iterations = sum(it.iterations for it in tried)
    last.factorizations = sum(it.factorizations for it in tried)
    last.restorations = sum(it.restorations for it in tried)
    return last
