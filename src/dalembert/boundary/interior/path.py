"""The state of the interior point iteration: its path, and a filter, which points a line search takes, by violation θ and
barrier function ϕ, without a penalty.

A point is taken where it lowers one of θ and ϕ against the present point, and against every point of the filter. Where θ is
small and ϕ falls along the step, Armijo's condition on ϕ is asked for and the filter stays as it is.
Source: A. Wächter, L. T. Biegler, Math. Program. 106 (2006), section 2.3, with its constants.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from dalembert.boundary.interior import rules
from dalembert.boundary.interior.barrier import Barrier
from dalembert.boundary.interior.rules import LastStep, Standing
from dalembert.boundary.iterate import Iterate
from dalembert.boundary.kkt.linear import BandedFactors, FrontalFactors
from dalembert.boundary.kkt.system import Evaluation, KKTSystem

FIRST_BARRIER = 0.1  # μ₀
SMALL, LARGE = 1e-4, 1e4  # of the first violation: below which ϕ decides, above which nothing is taken


class Seen(NamedTuple):
    """A point with its slacks, its violation and Σ log s; infinite where it is outside or not finite."""

    z: np.ndarray
    at: Evaluation
    slacks: np.ndarray
    violation: float
    logarithms: float


class BarrierStep(NamedTuple):
    """A step with its factors; slope: of the barrier function along it."""

    step: np.ndarray
    factors: BandedFactors | FrontalFactors
    residual: np.ndarray
    slope: float


class Watch(NamedTuple):
    """Where a step begins, and what is asked of it. length: the longest inside; dual: change of the multipliers; whole:
    whether nothing shortens either; fraction: τ; trials: whole steps that were taken since, see `StepSearch`."""

    where: Seen
    multipliers: np.ndarray
    direction: BarrierStep
    at: Standing
    length: float
    dual: np.ndarray
    whole: bool
    fraction: float
    trials: int = 0


class Filter:
    """The points that no other may be as bad as.

    first: the violation of the first path; tolerance: the violation that is none, so that ϕ alone decides.
    """

    def __init__(self, first: float, tolerance: float):
        self.small, self.largest, self.tolerance = SMALL * max(1.0, first), LARGE * max(1.0, first), tolerance
        self.corners: list[tuple[float, float]] = []

    def clear(self) -> None:
        self.corners = []

    def add(self, at: Standing) -> None:
        self.corners.append((float(rules.corner_violation(at, self.tolerance, xp=np)), rules.corner_barrier(at)))

    def allows(self, new: Standing) -> bool:
        """Whether no point of the filter is as good."""
        if not new.finite or new.violation > self.largest:
            return False
        return all(rules.better(new, *corner) for corner in self.corners)

    def remembers(self, at: Standing, reached: Standing, slope: float, length: float) -> None:
        """Adds the point that is left, unless ϕ falls as it has to."""
        if rules.remembered(at, reached, slope, length, self.small, self.tolerance, xp=np):
            self.add(at)

    def accepts(self, at: Standing, new: Standing, slope: float, length: float) -> bool:
        """Whether a step of this length from `at` to `new` is taken. slope: of ϕ along the whole step."""
        return self.allows(new) and bool(rules.taken(at, new, slope, length, self.small, self.tolerance, xp=np))


@dataclasses.dataclass
class InteriorPath:
    """A path inside its bounds. multipliers: z of the bounds, barrier: μ. newton: the rest."""

    newton: Iterate
    bounds: Barrier
    multipliers: np.ndarray
    slacks: np.ndarray
    filter: Filter
    barrier: float = FIRST_BARRIER
    last_shift: float = 0.0
    jammed: int = 0  # steps, one after the other, that slacks have stopped
    raises: int = 0  # of μ
    shortened: int = 0  # steps, one after the other, that the filter has shortened
    watch: Watch | None = None  # where to go back to, while whole steps are tried
    residual: tuple[float, float] | None = None  # of the gradient, and what it is relative to, once it is computed
    whole: bool = False  # whether the last step was Newton's, neither shortened nor corrected
    _points: tuple[Seen, ...] = ()

    @property
    def seen(self) -> Seen:
        """The present point."""
        return self._seen(self.newton.at, self.newton.z)

    @property
    def violation(self) -> float:
        return self.seen.violation

    @property
    def last(self) -> LastStep:
        return LastStep(self.newton.update, self.newton.shift, self.whole)

    def standing(self, at: Evaluation, z: np.ndarray) -> Standing:
        """θ and ϕ of a point."""
        seen = self._seen(at, z)
        return Standing(seen.violation, at.objective / self.newton.kkt.curvature - self.barrier * seen.logarithms)

    def _seen(self, at: Evaluation, z: np.ndarray) -> Seen:
        """The numbers of a point, found once: the present one and the last that was tried are asked for several times."""
        for seen in self._points:
            if seen.z is z and seen.at is at:
                return seen
        kkt, slacks = self.newton.kkt, self.bounds.slacks(z)
        inside = at.finite and np.min(slacks, initial=1.0) > 0.0
        theta, sum_of_logarithms = violation(kkt, at), float(np.log(slacks).sum()) if inside else -np.inf
        found = Seen(z, at, slacks, theta if inside else np.inf, sum_of_logarithms)
        self._points = (self._points[-1], found) if self._points else (found,)
        return found

    def move(self, z: np.ndarray, at: Evaluation) -> None:
        self.arrive(self._seen(z=z, at=at))

    def arrive(self, here: Seen) -> None:
        """At a point whose numbers are known."""
        self.newton.move(here.z, here.at)
        self.slacks, self.residual, self._points = here.slacks, None, (here,)

    def begin_anew(self) -> None:
        """With another μ: what was said of points with the last one is of no use."""
        self.filter.clear()
        self.shortened, self.watch = 0, None

    def clip(self) -> None:
        """Multipliers back to where they are near μ/s."""
        self.multipliers = rules.clipped(self.multipliers, self.slacks, self.barrier, xp=np)


def violation(kkt: KKTSystem, at: Evaluation) -> float:
    """Σ|c| of all constraints, linear ones too, by what their units make of the action."""
    return float(np.abs(at.gradient.ravel()) @ kkt.per_action)
