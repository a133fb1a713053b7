"""The state of the interior point iteration: its path, the barrier, and a filter.

    min Σf - μκ Σ_j log s_j,   s_j = ±(x_j - bound_j)/U_j > 0,   ∇Σf ∓ κ z_j/U_j = 0,   s_j z_j = μ

The barrier is what bounds add to the KKT equations, in the units of the path. κ is the curvature of a node
(`KKTSystem.curvature`), so that μ means the same for every unit, number of nodes and time.

The filter says which points a line search takes, by violation θ and barrier function ϕ, without a penalty. A point is taken
where it lowers one of θ and ϕ against the present point, and against every point of the filter. Where θ is small and ϕ falls
along the step, Armijo's condition on ϕ is asked for and the filter stays as it is.
Source: A. Wächter, L. T. Biegler, Math. Program. 106 (2006), section 2.3, with its constants.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.boundary.interior import rules
from dalembert.boundary.interior.rules import LastStep, Standing
from dalembert.boundary.kkt.linear import BandedFactors, FrontalFactors
from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.boundary.newton import Iterate

PUSH = 1e-2  # how far inside the first path begins, in units or of the bound, and of the distance of two bounds


class Bounds(NamedTuple):
    """lower, upper: (blocks, b), of the components of a path, infinite where there is none."""

    lower: Float[np.ndarray, "blocks b"]
    upper: Float[np.ndarray, "blocks b"]


def place_bounds(blocks: int, size: int, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Bounds:
    """Of a path (blocks, size). parts: places in the flat path, and (2, *places) lower and upper bounds there."""
    both = np.full((2, blocks * size), [[-np.inf], [np.inf]])
    for places, limits in parts:
        both[:, places] = limits
    return Bounds(*both.reshape(2, blocks, size))


class Snapshot(NamedTuple):
    """A point with its slacks, its violation and Σ log s; infinite where it is outside or not finite."""

    z: np.ndarray
    at: Evaluation
    slacks: np.ndarray
    violation: float
    logarithms: float


@dataclasses.dataclass(frozen=True)
class Barrier:
    """Finite bounds one after the other, first all lower ones. places: in the flat path; signs: 1 of lower ones, -1 of upper
    ones; limits: the bounds; units: U."""

    kkt: KKTSystem
    bounds: Bounds
    places: np.ndarray
    signs: np.ndarray
    limits: np.ndarray
    units: np.ndarray

    @functools.cached_property
    def sides(self) -> tuple[tuple[float, slice, np.ndarray], ...]:
        """(sign, which, places) of the lower and of the upper bounds; no place stands twice in one of them."""
        lower = int(np.count_nonzero(self.signs > 0.0))
        parts = slice(None, lower), slice(lower, None)
        return tuple((sign, part, self.places[part]) for sign, part in zip((1.0, -1.0), parts, strict=True))

    def slacks(self, z: np.ndarray) -> np.ndarray:
        return self.signs * (z.ravel()[self.places] - self.limits) / self.units

    def snapshot(self, z: np.ndarray) -> Snapshot:
        at, slacks = self.kkt.evaluate(z), self.slacks(z)
        inside = at.finite and np.min(slacks, initial=1.0) > 0.0
        theta, logarithms = violation(self.kkt, at), float(np.log(slacks).sum()) if inside else -np.inf
        return Snapshot(z, at, slacks, theta if inside else np.inf, logarithms)

    def changes(self, step: np.ndarray) -> np.ndarray:
        """Of the slacks."""
        return self.signs * step.ravel()[self.places] / self.units

    def slope(self, multipliers: np.ndarray) -> np.ndarray:
        """∓κ z/U, (blocks, b): what multipliers add to the gradient."""
        return self._sum_by_place(-self.signs * multipliers * self.kkt.curvature / self.units)

    def pulls(self, multipliers: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """∓z of lower and of upper bounds, with their places: `slope` in the units of the path, divided by κ."""
        return [(places, -sign * multipliers[part]) for sign, part, places in self.sides]

    def diagonal(self, weights: np.ndarray) -> np.ndarray:
        """κ w/U², (blocks, b): what weights w of squared slacks add to the second derivatives."""
        return self._sum_by_place(weights * self.kkt.curvature / self.units**2)

    def _sum_by_place(self, values: np.ndarray) -> np.ndarray:
        kkt = self.kkt
        return np.bincount(self.places, values, kkt.blocks * kkt.size).reshape(kkt.blocks, kkt.size)

    def of_forces(self, forces: Float[np.ndarray, "blocks b"]) -> np.ndarray:
        """The multipliers that add these forces to the gradient, see `slope`: those of the side that they press against."""
        return np.maximum(-self.signs * forces.ravel()[self.places] * self.units / self.kkt.curvature, 0.0)

    def apart(self, z: Float[np.ndarray, "blocks b"], least: np.ndarray) -> Float[np.ndarray, "blocks b"]:
        """The path, moved where a slack is smaller than least, but no farther than a part of the distance of two bounds."""
        lower, upper = self.bounds
        with np.errstate(invalid="ignore"):
            width = np.where(np.isfinite(lower) & np.isfinite(upper), PUSH * (upper - lower), np.inf).ravel()[self.places]
        slacks, flat = self.slacks(z), z.ravel().copy()
        wanted = np.maximum(slacks, np.minimum(least, width / self.units))
        moved = wanted > slacks
        flat[self.places[moved]] = (self.limits + self.signs * self.units * wanted)[moved]
        return flat.reshape(z.shape)

    def cut(self, z: np.ndarray, step: np.ndarray, slacks: np.ndarray, fraction: float) -> Float[np.ndarray, "blocks b"]:
        """The path after the whole step, every slack for itself keeping a part 1 - fraction."""
        flat = (z + step).ravel()
        short = np.maximum((1.0 - fraction) * slacks - (slacks + self.changes(step)), 0.0)
        flat += np.bincount(self.places, self.signs * self.units * short, flat.size)
        return flat.reshape(z.shape)

    def inside(self, z: np.ndarray) -> np.ndarray:
        """The path, moved inside where it is not, or too near a bound."""
        low, high = self._nearest
        return np.minimum(np.maximum(z, low), high)

    @functools.cached_property
    def _nearest(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest values of a first path, as near to the bounds as it comes, infinite where there is no bound."""
        units, (lower, upper) = self.kkt.units, self.bounds
        with np.errstate(invalid="ignore"):
            width = np.where(np.isfinite(lower) & np.isfinite(upper), PUSH * (upper - lower), np.inf)
            low = lower + np.minimum(PUSH * np.maximum(units, np.abs(lower)), width)
            high = upper - np.minimum(PUSH * np.maximum(units, np.abs(upper)), width)
        return np.where(np.isfinite(lower), low, -np.inf), np.where(np.isfinite(upper), high, np.inf)


def barrier_of(kkt: KKTSystem, bounds: Bounds) -> Barrier:
    """Of the bounds on what is not fixed."""
    lower, upper = (np.where(kkt.fixed, infinite, b) for b, infinite in zip(bounds, (-np.inf, np.inf), strict=True))
    below, above = (np.flatnonzero(np.isfinite(b)) for b in (lower, upper))
    places = np.concatenate([below, above])
    signs = np.repeat([1.0, -1.0], [len(below), len(above)])
    limits = np.concatenate([lower.ravel()[below], upper.ravel()[above]])
    return Barrier(kkt, Bounds(lower, upper), places, signs, limits, kkt.flat_units[places])


def longest(values: np.ndarray, changes: np.ndarray, fraction: float) -> float:
    """The longest step α ≤ 1 with values + α changes ≥ (1 - fraction) values."""
    falling = changes < 0.0
    return float(np.min(-fraction * values[falling] / changes[falling], initial=1.0))


FIRST_BARRIER = 0.1  # μ₀
SMALL, LARGE = 1e-4, 1e4  # of the first violation: below which ϕ decides, above which nothing is taken


class BarrierStep(NamedTuple):
    """A step with its factors; slope: of the barrier function along it; update: how far it moves positions."""

    step: np.ndarray
    factors: BandedFactors | FrontalFactors
    residual: np.ndarray
    slope: float
    update: float


class Watch(NamedTuple):
    """A step and the point where it begins, also the reference of a watchdog. length: the longest inside; dual: change of
    the multipliers; whole: whether nothing shortens either; fraction: τ; trials: whole steps that were taken since, see
    `StepSearch`."""

    where: Snapshot
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
        """True if no point of the filter is as good."""
        if not new.finite or new.violation > self.largest:
            return False
        return all(rules.better(new, *corner) for corner in self.corners)

    def remembers(self, at: Standing, reached: Standing, slope: float, length: float) -> None:
        """Adds the point that is left, unless ϕ falls as it has to."""
        if rules.augments_filter(at, reached, slope, length, self.small, self.tolerance, xp=np):
            self.add(at)

    def accepts(self, at: Standing, new: Standing, step: BarrierStep, length: float) -> bool:
        """True if this length of the step, which leads from `at` to `new`, is acceptable."""
        told = step.slope, length, step.update, self.small, self.tolerance
        return self.allows(new) and bool(rules.acceptable(at, new, *told, xp=np))


@dataclasses.dataclass
class InteriorPath:
    """A path inside its bounds. here: the present point; multipliers: z of the bounds; limit: of iterations; barrier: μ.
    newton: the rest."""

    newton: Iterate
    bounds: Barrier
    here: Snapshot
    multipliers: np.ndarray
    filter: Filter
    limit: int
    barrier: float = FIRST_BARRIER
    last_shift: float = 0.0
    jammed: int = 0  # steps, one after the other, that slacks have stopped
    raises: int = 0  # of μ
    shortened: int = 0  # steps, one after the other, that the filter has shortened
    watch: Watch | None = None  # where to go back to, while whole steps are tried
    returns: int = 0  # ways back from whole steps, one after the other
    residual: tuple[float, float] | None = None  # of the gradient, and what it is relative to, once it is computed
    whole: bool = False  # whether the last step was Newton's, neither shortened nor corrected

    @property
    def slacks(self) -> np.ndarray:
        return self.here.slacks

    @property
    def violation(self) -> float:
        return self.here.violation

    @property
    def last(self) -> LastStep:
        return LastStep(self.newton.update, self.newton.shift, self.whole)

    def standing(self, point: Snapshot) -> Standing:
        """θ and ϕ of a point."""
        barrier = point.at.objective / self.newton.kkt.curvature - self.barrier * point.logarithms
        return Standing(point.violation, barrier)

    def move(self, here: Snapshot) -> None:
        self.newton.move(here.z, here.at)
        self.here, self.residual = here, None

    def begin_anew(self) -> None:
        """With another μ: what was said of points with the last one is of no use."""
        self.filter.clear()
        self.shortened, self.watch = 0, None

    def clip(self) -> None:
        """Multipliers back to where they are near μ/s."""
        self.multipliers = rules.clip_multiplier(self.multipliers, self.slacks, self.barrier, xp=np)


def violation(kkt: KKTSystem, at: Evaluation) -> float:
    """Σ|c| of all constraints, linear ones too, by what their units make of the action."""
    with np.errstate(over="ignore", invalid="ignore"):  # see `Evaluation.finite`
        return float(np.abs(at.gradient.ravel()) @ kkt.per_action)
