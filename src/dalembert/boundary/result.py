"""From the end of an iteration to a Solution."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.data.end_sets import slots_of_node
from dalembert.boundary.data.free_time import Horizon
from dalembert.boundary.interior.activity import Activity, kind_of
from dalembert.boundary.kkt.multipliers import (
    Sequence,
    alternating,
    differential,
    holonomic,
    refine_multipliers,
    sequences_of,
)
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.kkt.unknowns import PathUnknowns
from dalembert.boundary.kkt.window_unknowns import Transcription
from dalembert.boundary.newton import Iterate, Termination
from dalembert.discretize import WindowMap, Windows
from dalembert.interrupts import wanted
from dalembert.lazy import fields_as_left
from dalembert.outcome import Outcome
from dalembert.solution import FAR, BoundaryStatistics, FinalTime, Solution

OUTCOMES = {end: Outcome["SUCCESS" if end is Termination.CONVERGED else end.name] for end in Termination}
BOTTOMLESS = 1e4  # times the size of the action: what has fallen below that has no minimum
MOVES = 1e-3  # of θ in a step: a larger one tells that nothing holds the final time


class Judged(NamedTuple):
    """Assessment of the end of an iteration. alternation: see `multipliers.alternating`; inertia: see `kind_of`; later:
    residual and condition by name, since many never ask for them and they take up to a third of a call."""

    it: Iterate
    activity: Activity
    alternation: float
    inertia: tuple[int, int]
    later: Callable[[], dict[str, Any]]
    final_time: FinalTime | None

    def numbers(self, violated_at: float = np.nan) -> dict[str, Any]:
        """Those of a solution of any kind."""
        it = self.it
        found: Any = {
            "iterations": it.iterations, "factorizations": it.factorizations, "restorations": it.restorations,
            "update": it.update, "violation": it.at.violation, "shift": it.shift,
            "alternation": abs(self.alternation), "violated_at": violated_at,
        }  # fmt: skip
        known = {name: np.asarray(x) for name, x in found.items()}
        statistics = BoundaryStatistics.later(self.later, **known)
        _limit_unasked(statistics)
        return {
            "negative_directions": np.asarray(self.inertia[0]), "flat_directions": np.asarray(self.inertia[1]),
            "code": np.asarray(int(OUTCOMES[it.end])), "statistics": statistics,
            "final_time": self.final_time, "method": it.method,
        }  # fmt: skip


_UNASKED: deque[weakref.ref[BoundaryStatistics]] = deque()
MOST_UNASKED = 16


def _limit_unasked(statistics: BoundaryStatistics) -> None:
    """Finds the oldest numbers that nobody has asked for: each holds the equations of its problem."""
    _UNASKED.append(weakref.ref(statistics))
    if len(_UNASKED) > MOST_UNASKED and (oldest := _UNASKED.popleft()()) is not None:
        fields_as_left(oldest)


def judge(
    it: Iterate,
    activity: Activity,
    unknowns: PathUnknowns,
    sequences: Callable[[np.ndarray], list[Sequence]],
    certify: bool,
) -> Judged:
    """Assessment of the end of an iteration: values that alternate from node to node, to which it has converged, are no
    solution. sequences: of a path, which may not; certify: with the kind of the extremal and the condition of its
    equations."""
    certify = certify and not wanted()
    kkt, pinned = it.kkt, activity.pins(it.kkt, it.z)
    gradient = it.at.gradient + activity.multipliers
    time = _final_time(unknowns.horizon, unknowns.time_place, kkt, it.z, activity) if unknowns.horizon else None
    if it.end is Termination.INTERRUPTED:  # Ctrl-C is to be answered now
        return Judged(
            it, activity, 0.0, (-1, -1), lambda: dict.fromkeys(("residual", "condition"), np.asarray(np.nan)), time
        )
    alternation = alternating(it, sequences, gradient, pinned) if it.end is Termination.CONVERGED else 0.0
    it.end = Termination.ALTERNATING if alternation > 0.0 else it.end
    stuck = it.end in (Termination.NOT_CONVERGED, Termination.SINGULAR, Termination.INFEASIBLE)
    if stuck and it.at.objective < -BOTTOMLESS * kkt.action:
        it.end = Termination.UNBOUNDED
    if time is not None and unknowns.horizon:
        pull = 0.0 if time.active else float(time.slope) * unknowns.horizon.length * np.exp(it.z.flat[unknowns.time_place])
        _check_held(it, unknowns.time_place, gradient, pinned, pull)
    inertia = kind_of(it, activity, pinned) if certify and it.end is Termination.CONVERGED else (-1, -1)
    if inertia[0] > 0 and it.minimum:
        it.end = Termination.SADDLE
    z, linear = it.z, it.linear  # alone: the assessment holds more

    def end_values() -> dict[str, Any]:
        residual = kkt.residual(gradient, kkt.matrix(z, added=pinned))
        found = {"residual": residual, "condition": linear.condition(z, pinned) if certify else np.nan}
        return {name: np.asarray(x) for name, x in found.items()}

    return Judged(it, activity, alternation, inertia, end_values, time)


def judge_end(made: Transcription, it: Iterate, certify: bool, activity: Activity) -> Judged:
    """certify: see `judge`."""
    refine_multipliers(made, it, activity.multipliers, activity.pins(made.kkt, it.z))
    return judge(it, activity, made, partial(sequences_of, made), certify)


def _check_held(it: Iterate, place: int, gradient: np.ndarray, pinned: np.ndarray | None, pull: float) -> None:
    """A final time far from its guess that another step would move farther, or that changes the value by more than a part of
    it, is no solution: gradients vanish on the way to 0 and to infinity. pull: dJ/dθ, 0 where a bound holds T."""
    if it.end is Termination.CONVERGED and abs(it.z.flat[place]) > np.log(FAR):
        step = it.linear.factor(it.z, added=pinned).solve(-gradient * it.kkt.free)
        if not (abs(step.flat[place]) <= MOVES and abs(pull) <= MOVES * abs(it.at.objective)):
            it.end = Termination.NOT_CONVERGED


def _final_time(horizon: Horizon, place: int, kkt: KKTSystem, z: np.ndarray, activity: Activity) -> FinalTime:
    """place: of the first block's θ. Multipliers of θ_{i+1} = θ_i cancel in the sum over all blocks."""
    found = {"guess": horizon.free.guess, "lower": horizon.limits[0], "upper": horizon.limits[1]}
    slope = kkt.raw_gradient(z)[:, place].sum() / (horizon.length * np.exp(z[0, place]))
    numbers = {name: np.asarray(value) for name, value in found.items()}
    return FinalTime(**numbers, slope=np.asarray(slope), active=np.asarray(activity.active[0, place]))


def solutions_of(made: Transcription, found: list[Judged], scheme: WindowMap) -> list[Solution]:
    """The ends of iterations as Solutions."""
    if made.horizon is not None:  # every one on windows of its own
        each = [made.at(e.it.z) for e in found]
        return [_solution(m, e, m.jets(e.it.z[None])[0], scheme) for m, e in zip(each, found, strict=True)]
    jets = made.jets(np.stack([e.it.z for e in found]))
    return [_solution(made, e, j, scheme) for e, j in zip(found, jets, strict=True)]


def _solution(made: Transcription, end: Judged, jets: np.ndarray, scheme: WindowMap) -> Solution:
    w, it, z = made.windows, end.it, end.it.z
    q, v, _ = made.motion(z)
    jets[:, 0 if w.differenced else slice(None)] += made.origin
    raw = made.slots(made.kkt.raw_gradient(made.without_end_multipliers(z)))  # momenta of ends are those of all else
    nu = made.end_multipliers(z)
    return Solution.of(
        end_multipliers_initial=nu[0], end_multipliers_final=nu[1],
        t=w.t.copy(), q=q, v=v, t_multipliers=w.times.flatten(), jets=jets, multipliers=differential(made, z),
        holonomic_multipliers=holonomic(made, z), momenta_initial=_momenta(w, raw, 0, -1.0, made.layout.k),
        momenta_final=_momenta(w, raw, len(w.t) - 1, 1.0, made.layout.k), action=np.asarray(it.at.objective),
        **end.numbers(), scheme=scheme.name, coordinates=made.given.coordinates or (),
        bounds=end.activity.bounds_of(made, it, q, v, {"q": q}),
    )  # fmt: skip


def _momenta(w: Windows, gradient: np.ndarray, node: int, sign: float, k: int):
    """p⁽ʲ⁾ = ∓ ∂(Σ L̃_d)/∂q⁽ʲ⁾ at an end that holds its derivatives."""
    own = slots_of_node(w, node)
    return None if len(own) < k else sign * gradient[own]
