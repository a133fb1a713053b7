"""From the end of an iteration to a Solution."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.data.free_time import Horizon
from dalembert.boundary.data.limits import nodes_of
from dalembert.boundary.interior.activity import Activity, kind_of
from dalembert.boundary.kkt.multipliers import (
    Sequence,
    alternating,
    differential,
    holonomic,
    refine_multipliers,
    sequences_of,
)
from dalembert.boundary.kkt.path_terms import velocities
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.kkt.transcription import Transcription, end_multipliers
from dalembert.boundary.newton import Iterate, Termination
from dalembert.discretize.window_maps import WindowMap, Windows
from dalembert.interrupts import wanted
from dalembert.outcome import Outcome
from dalembert.solution import FAR, ActiveBounds, BoundaryStatistics, FinalTime, Solution

OUTCOMES = {end: Outcome["SUCCESS" if end is Termination.CONVERGED else end.name] for end in Termination}
BOTTOMLESS = 1e4  # times the size of the action: what has fallen below that has no minimum
MOVES = 1e-3  # of θ in a step: a larger one tells that nothing holds the final time


class Judged(NamedTuple):
    """Assessment of the end of an iteration. alternation: see `multipliers.alternating`; inertia: see `kind_of`."""

    it: Iterate
    residual: float
    alternation: float
    inertia: tuple[int, int]
    condition: float
    final_time: FinalTime | None

    def numbers(self, violated_at: float = np.nan) -> dict[str, Any]:
        """Those of a solution of any kind."""
        it = self.it
        found: Any = (
            it.iterations, it.factorizations, it.restorations, it.update, self.residual, it.at.violation, it.shift,
            self.condition, abs(self.alternation), violated_at,
        )  # fmt: skip
        return {
            "negative_directions": np.asarray(self.inertia[0]), "flat_directions": np.asarray(self.inertia[1]),
            "code": np.asarray(int(OUTCOMES[it.end])), "statistics": BoundaryStatistics(*(np.asarray(x) for x in found)),
            "final_time": self.final_time, "method": it.method,
        }  # fmt: skip


class FreeTimeAt(NamedTuple):
    """A free final time, and the place of the first block's θ in the flat path."""

    horizon: Horizon
    place: int


def judge(
    it: Iterate,
    activity: Activity,
    sequences: Callable[[np.ndarray], list[Sequence]],
    free: FreeTimeAt | None,
    certify: bool,
) -> Judged:
    """Assessment of the end of an iteration: values that alternate from node to node, to which it has converged, are no
    solution. sequences: of a path, which may not; certify: with the kind of the extremal and the condition of its
    equations."""
    certify = certify and not wanted()
    kkt, pinned = it.kkt, activity.pinned(it.kkt, it.z)
    gradient = it.at.gradient + activity.multipliers
    time = None if free is None else _final_time(free, kkt, it.z, activity)
    if it.end is Termination.INTERRUPTED:  # Ctrl-C is to be answered now
        return Judged(it, np.nan, 0.0, (-1, -1), np.nan, time)
    band = kkt.matrix(it.z, added=pinned)
    residual = kkt.residual(gradient, band)
    alternation = alternating(it, sequences, gradient, pinned) if it.end is Termination.CONVERGED else 0.0
    it.end = Termination.ALTERNATING if alternation > 0.0 else it.end
    if it.end in (Termination.NOT_CONVERGED, Termination.SINGULAR) and it.at.objective < -BOTTOMLESS * kkt.action:
        it.end = Termination.UNBOUNDED
    if free is not None:
        _check_held(it, free.place, gradient, pinned)
    inertia = kind_of(kkt, it.linear, it.z, band, activity) if certify and it.end is Termination.CONVERGED else (-1, -1)
    condition = it.linear.condition(it.z, band, pinned) if certify and not wanted() else np.nan
    return Judged(it, residual, alternation, inertia, condition, time)


class Ended(NamedTuple):
    """The end of an iteration, judged, and what has bounds there."""

    judged: Judged
    bounds: dict[str, ActiveBounds]

    @property
    def it(self) -> Iterate:
        return self.judged.it


class EndLimits(NamedTuple):
    """bounds: (2, N+1, n), on q, or None. horizon: a free final time, or None."""

    bounds: np.ndarray | None
    horizon: Horizon | None


def judge_end(made: Transcription, it: Iterate, certify: bool, activity: Activity, limits: EndLimits) -> Ended:
    """certify: see `judge`."""
    refine_multipliers(made, it, activity.multipliers, activity.pinned(made.kkt, it.z))
    free = None if limits.horizon is None else FreeTimeAt(limits.horizon, made.time_place)
    found = judge(it, activity, partial(sequences_of, made), free, certify)
    return Ended(found, _bounds(made.at(it.z), it, activity, limits.bounds))


def _bounds(made: Transcription, it: Iterate, activity: Activity, positions: np.ndarray | None) -> dict[str, ActiveBounds]:
    """Of everything that has some, at the final time. positions: (2, N+1, n), those on q, or None."""
    found = {}
    if positions is not None:
        found["q"] = activity.part(made.places, positions, nodes_of(made.windows.t), it.z.ravel()[made.places])
    if made.watched is not None:
        places = made.watched_places("values"), made.watched_places("inequalities")
        slots = it.z[:, made.layout.part("slots")].reshape(-1, made.layout.n)
        moving = slots[made.windows.nodes], velocities(made.windows, slots)
        found |= activity.path_parts(made.watched.paths, places, it, *moving)
    return found


def _check_held(it: Iterate, place: int, gradient: np.ndarray, pinned: np.ndarray | None) -> None:
    """A final time far from its guess that another step would move farther is no solution: gradients vanish on the way
    to 0 and to infinity."""
    if it.end is Termination.CONVERGED and abs(it.z.ravel()[place]) > np.log(FAR):
        step = it.linear.factor(it.z, added=pinned).solve(-gradient * it.kkt.free)
        if not abs(step.ravel()[place]) <= MOVES:
            it.end = Termination.NOT_CONVERGED


def _final_time(free: FreeTimeAt, kkt: KKTSystem, z: np.ndarray, activity: Activity) -> FinalTime:
    """Multipliers of θ_{i+1} = θ_i cancel in the sum over all blocks."""
    horizon, place = free
    found = {"guess": horizon.free.guess, "lower": horizon.limits[0], "upper": horizon.limits[1]}
    slope = kkt.raw_gradient(z)[:, place].sum() / (horizon.length * np.exp(z[0, place]))
    numbers = {name: np.asarray(value) for name, value in found.items()}
    return FinalTime(**numbers, slope=np.asarray(slope), active=np.asarray(activity.active[0, place]))


def solutions_of(
    made: Transcription, found: list[Ended], scheme: WindowMap, coordinates: tuple[str, ...] | None
) -> list[Solution]:
    """The ends of iterations as Solutions."""
    named = {"scheme": scheme.name, "coordinates": coordinates or ()}
    if made.layout.timed:  # every one on windows of its own
        each = [made.at(e.it.z) for e in found]
        return [_solution(m, e, m.jets(e.it.z[None])[0], named) for m, e in zip(each, found, strict=True)]
    jets = made.jets(np.stack([e.it.z for e in found]))
    return [_solution(made, e, j, named) for e, j in zip(found, jets, strict=True)]


def _solution(made: Transcription, end: Ended, jets: np.ndarray, named: dict[str, Any]) -> Solution:
    kkt, layout, w, it, z = made.kkt, made.layout, made.windows, end.it, end.it.z
    slots = z[:, layout.part("slots")].reshape(-1, layout.n)
    unheld = z.copy()
    unheld[:, layout.part("ends")] = 0.0  # the momenta of ends that are not given are those of the rest
    raw = kkt.raw_gradient(unheld)[:, layout.part("slots")].reshape(-1, layout.n)
    nu = end_multipliers(made.ends, w, layout, z)
    values: dict[str, Any] = {
        "end_multipliers_initial": nu[0], "end_multipliers_final": nu[1],
        "t": w.t.copy(), "q": slots[w.nodes], "v": velocities(w, slots), "t_multipliers": w.times.flatten(), "jets": jets,
        "multipliers": differential(made, z), "holonomic_multipliers": holonomic(made, z),
        "momenta_initial": _momenta(w, raw, 0, -1.0, layout.k),
        "momenta_final": _momenta(w, raw, len(w.t) - 1, 1.0, layout.k),
        "action": np.asarray(it.at.objective),
    }  # fmt: skip
    return Solution(**values, **end.judged.numbers(), **named, bounds=end.bounds)


def _momenta(w: Windows, gradient: np.ndarray, node: int, sign: float, k: int):
    """p⁽ʲ⁾ = ∓ ∂(Σ L̃_d)/∂q⁽ʲ⁾ at an end that holds its derivatives."""
    run = np.flatnonzero(w.owners == node)
    return None if len(run) < k else sign * gradient[run[np.argsort(w.orders[run])]]
