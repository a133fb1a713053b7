"""Which iteration finds the extremal: Newton's, or the interior point method where there are bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dalembert.boundary.interior.activity import Activity, activity_of, no_activity
from dalembert.boundary.interior.barrier import placed
from dalembert.boundary.interior.iteration import SHORTEST_FRONTAL, InteriorPoint
from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton.iterate import Iterate, Settings, Termination
from dalembert.boundary.newton.iteration import BoundaryNewton

Search = Callable[[np.ndarray, np.ndarray], tuple[Iterate, Activity]]


def search_of(
    kkt: KKTSystem, z: np.ndarray, settings: Settings, bounds: Sequence[tuple[np.ndarray, np.ndarray]], timed: bool
) -> Search:
    """(path, sizes) → (Iterate, Activity). z: a path near which pivots are chosen; bounds: see `placed`; timed: whether the
    final time is free."""
    if not bounds:
        newton = BoundaryNewton(kkt, LinearSolver(kkt, z), settings)
        found = _filtered(newton) if timed and settings.minimum else newton.minimise
        return lambda path, sizes: (found(path, sizes), no_activity(kkt))
    interior = InteriorPoint(
        kkt, LinearSolver(kkt, z, SHORTEST_FRONTAL), settings, placed(kkt.blocks, kkt.size, bounds)
    )  # fmt: skip

    def bounded(path: np.ndarray, sizes: np.ndarray) -> tuple[Iterate, Activity]:
        end = interior.minimise(path, sizes)
        return end.newton, activity_of(end)

    return bounded


def _filtered(newton: BoundaryNewton) -> Callable[[np.ndarray, np.ndarray], Iterate]:
    """Newton's method, and where its merit function stops short the filter's way from the same guess, which Newton's method
    ends: a final time multiplies everything, and steps that change it are seldom taken whole."""
    kkt, settings = newton.kkt, newton.settings

    def found(path: np.ndarray, sizes: np.ndarray) -> Iterate:
        first = newton.minimise(path, sizes)
        if first.end in (Termination.CONVERGED, Termination.NOT_FINITE):
            return first
        linear = LinearSolver(kkt, path, SHORTEST_FRONTAL)
        other = InteriorPoint(kkt, linear, settings, placed(kkt.blocks, kkt.size, [])).minimise(path, sizes).newton
        if other.end is not Termination.CONVERGED:
            return first
        last = newton.minimise(other.z, sizes)
        for it in (first, other):
            last.iterations += it.iterations
            last.factorizations += it.factorizations
            last.restorations += it.restorations
        return last

    return found
