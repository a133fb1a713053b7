"""The way to a minimum whose ends are not given: a few steps of Newton's method, then the filter of `boundary.interior`.

An end that may move takes the whole path with it, and constraints that bend make Newton's line search, which weighs them by
one penalty, creep: of a pendulum that turns periodically, 40 steps, it takes more than 1000 iterations, the filter 15.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.boundary.interior.activity import Activity, no_activity
from dalembert.boundary.interior.barrier import placed
from dalembert.boundary.interior.iteration import SHORTEST_FRONTAL, InteriorPoint
from dalembert.boundary.iteration import FEW, Search, search_of
from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton.iterate import Iterate, Settings, Termination
from dalembert.boundary.newton.iteration import BoundaryNewton

OVER = (Termination.CONVERGED, Termination.NOT_FINITE)


def moving_ends(kkt: KKTSystem, z: np.ndarray, settings: Settings, bounds: list, time: int | None) -> Search:
    """As `search_of`, for ends that are not given."""
    if bounds or time is not None or not settings.minimum:
        return search_of(kkt, z, settings, bounds, time)
    own = LinearSolver(kkt, z)
    few = dataclasses.replace(settings, max_iterations=min(FEW, settings.max_iterations))
    first, newton = (BoundaryNewton(kkt, own, chosen) for chosen in (few, settings))

    def filtered(path: np.ndarray, sizes: np.ndarray) -> Iterate:  # what it needs is compiled with its first use
        linear = LinearSolver(kkt, z, SHORTEST_FRONTAL)
        interior = InteriorPoint(kkt, linear, settings, placed(kkt.blocks, kkt.size, []))
        return interior.minimise(path, sizes, None).newton

    def search(path: np.ndarray, sizes: np.ndarray, forces: np.ndarray | None) -> tuple[Iterate, Activity]:
        tried = [first.minimise(path, sizes)]
        if tried[0].end not in OVER and settings.max_iterations > few.max_iterations:
            tried.append(filtered(path, sizes))
            begin = tried[-1].z if tried[-1].end is Termination.CONVERGED else path
            tried.append(newton.minimise(begin, sizes))
        last = tried[-1]
        last.iterations, last.factorizations = (
            sum(getattr(it, name) for it in tried) for name in ("iterations", "factorizations")
        )
        return last, no_activity(kkt)

    return search
