"""The state of the interior point iteration."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from dalembert.boundary.interior import rules
from dalembert.boundary.interior.barrier import Barrier
from dalembert.boundary.interior.filter import Filter
from dalembert.boundary.interior.rules import LastStep, Standing
from dalembert.boundary.kkt.linear import BandedFactors, FrontalFactors
from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.boundary.newton.iterate import Iterate

FIRST_BARRIER = 0.1  # μ₀


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
