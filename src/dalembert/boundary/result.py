"""From the end of an iteration to a Solution."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.data.inequalities import nodes_of
from dalembert.boundary.interior.activity import Activity, kind_of
from dalembert.boundary.kkt.multipliers import alternating, differential, holonomic, refined, sequences_of
from dalembert.boundary.kkt.path_terms import velocities
from dalembert.boundary.kkt.transcription import Transcription
from dalembert.boundary.newton.iterate import Iterate, Termination
from dalembert.discretize.window_maps import WindowMap
from dalembert.discretize.windows import Windows
from dalembert.outcome import Outcome
from dalembert.solution import BoundaryStatistics, Solution
from dalembert.solution_bounds import ActiveBounds

OUTCOMES = {end: Outcome["SUCCESS" if end is Termination.CONVERGED else end.name] for end in Termination}


class Ended(NamedTuple):
    """The end of an iteration, and what was measured there. alternation: see `multipliers.alternating`."""

    it: Iterate
    residual: float
    alternation: float
    inertia: tuple[int, int]
    condition: float
    bounds: dict[str, ActiveBounds]


def ended(made: Transcription, it: Iterate, certify: bool, activity: Activity, limits: np.ndarray | None) -> Ended:
    """certify: with the kind of the extremal and the condition of its equations. limits: (2, N+1, n), the bounds on q. What
    has converged to multipliers that alternate from node to node is no solution."""
    kkt, linear, pinned = made.kkt, it.linear, activity.pinned(made.kkt, it.z)
    refined(made, it, activity.multipliers, pinned)
    gradient, band = it.at.gradient + activity.multipliers, kkt.matrix(it.z, added=pinned)
    residual = kkt.residual(gradient, band)
    alternation = alternating(it, partial(sequences_of, made), gradient, pinned) if it.end is Termination.CONVERGED else 0.0
    it.end = Termination.ALTERNATING if alternation > 0.0 else it.end
    inertia = kind_of(kkt, linear, it.z, band, activity) if certify and it.end is Termination.CONVERGED else (-1, -1)
    bounds = {}
    if limits is not None:
        bounds["q"] = activity.part(made.places, limits, nodes_of(made.windows.t), it.z.ravel()[made.places])
    if made.watched is not None:
        places = made.watched_places("values"), made.watched_places("inequalities")
        slots = it.z[:, made.layout.part("slots")].reshape(-1, made.layout.n)
        moving = slots[made.windows.nodes], velocities(made.windows, slots)
        bounds |= activity.path_parts(made.watched.paths, places, it, *moving)
    return Ended(it, residual, alternation, inertia, linear.condition(band) if certify else np.nan, bounds)


def solutions_of(made: Transcription, found: list[Ended], scheme: WindowMap) -> list[Solution]:
    """The ends of iterations as Solutions."""
    jets = made.jets(np.stack([e.it.z for e in found]))
    return [_solution(made, e, j, scheme.name) for e, j in zip(found, jets, strict=True)]


def _solution(made: Transcription, end: Ended, jets: np.ndarray, scheme: str) -> Solution:
    kkt, layout, w, it, z = made.kkt, made.layout, made.windows, end.it, end.it.z
    slots = z[:, layout.part("slots")].reshape(-1, layout.n)
    raw = kkt.raw_gradient(z)[:, layout.part("slots")].reshape(-1, layout.n)
    values: dict[str, Any] = {
        "t": w.t, "q": slots[w.nodes], "v": velocities(w, slots), "t_multipliers": w.times.ravel(), "jets": jets,
        "multipliers": differential(made, z), "holonomic_multipliers": holonomic(made, z),
        "momenta_initial": _momenta(w, raw, 0, -1.0, layout.k),
        "momenta_final": _momenta(w, raw, len(w.t) - 1, 1.0, layout.k),
        "action": np.asarray(it.at.objective), "negative_directions": np.asarray(end.inertia[0]),
        "flat_directions": np.asarray(end.inertia[1]), "code": np.asarray(int(OUTCOMES[it.end])),
    }  # fmt: skip
    numbers: Any = (
        it.iterations, it.factorizations, it.restorations, it.update, end.residual, it.at.violation, it.shift, end.condition,
        abs(end.alternation),
    )  # fmt: skip
    return Solution(
        **values, statistics=BoundaryStatistics(*(np.asarray(x) for x in numbers)), scheme=scheme, bounds=end.bounds
    )


def _momenta(w: Windows, gradient: np.ndarray, node: int, sign: float, k: int):
    """p⁽ʲ⁾ = ∓ ∂(Σ L̃_d)/∂q⁽ʲ⁾ at an end that holds its derivatives."""
    run = np.flatnonzero(w.owners == node)
    return None if len(run) < k else sign * gradient[run[np.argsort(w.orders[run])]]
