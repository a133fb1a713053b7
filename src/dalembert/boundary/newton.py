"""Newton's method on the KKT equations, from poor guesses.

    [H + δW  Aᵀ] [dx]     [∇L̃]
    [A     -δ_cW] [dν] = - [ c ]     δ raised until dxᵀ(H + δW)dx > 0 along the step; Armijo's condition on Σf + ρ|c|₁

Where the line search fails, Gauss-Newton steps reduce |c|² (restoration); where these stop at |c| > 0 the problem has no
feasible point near, and this point of least violation is returned under that name.
    M(z) = Σf + ρ|c|₁,   M(z + t dx) ≤ M(z) + ηt (∇f·dx - ρ|c|₁) + noise

Source of the curvature test: Chiang, Zavala, An inertia-free filter line-search algorithm (2016), with a merit function for
the filter; of the merit: J. Nocedal, S. J. Wright, Numerical Optimization (2006), section 18.3; of the last step: P.
Deuflhard, Newton Methods for Nonlinear Problems (2004), section 2.1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dalembert.boundary.kkt.linear import BandedFactors, FrontalFactors, LinearSolver, with_least_multipliers
from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.interrupts import Leaving, leave_if_wanted, wanted


class Termination(enum.IntEnum):
    """Reason for which the iteration ended."""

    CONVERGED = 0
    SINGULAR = 1
    NOT_CONVERGED = 2
    NOT_FINITE = 3
    INFEASIBLE = 4
    ALTERNATING = 5
    INTERRUPTED = 6
    UNBOUNDED = 7
    SADDLE = 8


@dataclasses.dataclass(frozen=True)
class Settings:
    """tolerance: on Newton's update and on the constraints, relative to the path. minimum: seek one, or any extremal.
    method: "dalembert", or "ipopt"."""

    tolerance: float = 1e-9
    max_iterations: int = 200
    minimum: bool = True
    method: str = "dalembert"


@dataclasses.dataclass
class Iterate:
    """The state of the iteration. z: the path, at: its evaluation. sizes: (n,), s, typical of its coordinates; update: the
    last change of the path, relative to its reach; linear: what solves for it, with the history of this iteration."""

    kkt: KKTSystem
    linear: LinearSolver
    z: np.ndarray
    at: Evaluation
    sizes: np.ndarray
    penalty: float
    shift: float = 0.0
    iterations: int = 0
    restorations: int = 0
    factorizations: int = 0
    update: float = np.inf
    end: Termination = Termination.NOT_CONVERGED
    method: str = "dalembert"
    minimum: bool = True  # whether one is sought
    _reach: np.ndarray | None = None  # computed where it is asked for

    def move(self, z: np.ndarray, at: Evaluation) -> None:
        """To this point; on groups its unknowns are counted from there."""
        if self.kkt.recentre is not None:
            z = self.kkt.recentre(z)
            at = self.kkt.evaluate(z)
        self.z, self.at, self._reach = z, at, None

    @property
    def reach(self) -> np.ndarray:
        """s + max|q| of the present path, (n,)."""
        if self._reach is None:
            self._reach = self.sizes + self.kkt.max_norms(self.z)
        return self._reach

    def change(self, step: np.ndarray) -> float:
        """The largest change of a position, relative to what it reaches."""
        return float(np.max(self.kkt.max_norms(step) / self.reach))

    @property
    def violation(self) -> float:
        """That of the constraints, relative to what they are where positions are as large as those of the path."""
        return self.at.violation / float(np.max(self.reach / self.kkt.positions)) if self.at.violation else 0.0


FIRST_SHIFT, LARGEST_SHIFT = 1e-4, 1e12
SHORTEST = 1e-7  # step length
RELAX = 1e-8  # of a singular system
PENALTY = 1e-8  # the first one, of the constraints' violation, relative to the action
DAMPING = (1e-12, 1e-8, 1e8)  # of Levenberg and Marquardt: least, first, largest
ARMIJO = 1e-4
NOISE = 1e-13  # of merit and curvature, relative to the objective
CURVATURE = 1e-10  # least dxᵀ(H + δW)dx, relative to dxᵀWdx
FEASIBLE = 1e-14  # |c|₁ that is rounding: no penalty is found from it
DOMINANCE, MARGIN = 0.9, 1.5  # of what the slope of Σf is to be outweighed with, and by how much more the penalty is raised


def noise(objective: float, other: float) -> float:
    """Rounding error that a sum of such terms can have."""
    return NOISE * (abs(objective) + abs(other))


def convex(curvature: float, metric: float, update: float, tolerance: float) -> bool:
    """dxᵀ(H + δW)dx > 0, relative to dxᵀWdx; at the end of the iteration it is rounding and is not asked for."""
    return curvature >= CURVATURE * metric or update <= tolerance


def objective_slope(change: float, curvature: float, product: float) -> float:
    """∇f·dx = ∇L̃·dx - νᵀA dx with A dx = -c, from cᵀdν, the curvature -∇L̃ᵀdx + cᵀdν and cᵀν."""
    return change - curvature + product


def raise_penalty(penalty: float, slope: float, curvature: float, violation: float) -> float:
    """ρ, raised where the merit would not fall by a part of the violation."""
    if not violation > FEASIBLE:
        return penalty
    least = (slope + 0.5 * max(curvature, 0.0)) / (DOMINANCE * violation)
    return MARGIN * least if least > penalty else penalty


def descends(old: Evaluation, new: Evaluation, penalty: float, slope: float, length: float) -> bool:
    """Armijo's condition on the merit after a step of this length."""
    before, after = (at.objective + penalty * at.violation for at in (old, new))
    bound = before + ARMIJO * length * (slope - penalty * old.violation) + noise(old.objective, before)
    return new.finite and after <= bound


def takes_whole(old: Evaluation, new: Evaluation, penalty: float, slope: float) -> bool:
    """True if the whole step is taken: also where it halves the gradient, at the end of the iteration, where merit is
    rounding."""
    return descends(old, new, penalty, slope, 1.0) or (new.finite and new.norm <= 0.5 * old.norm)


def is_small(update: float, violation: float, tolerance: float) -> bool:
    return update <= tolerance and violation <= tolerance


def predicts_small(update: float, before: float, tolerance: float) -> bool:
    """Newton's updates u satisfy u₊ ≈ u (u/u₋)²: whether the next one will be small."""
    return before < math.inf and update**3 <= tolerance * before**2


class Direction(NamedTuple):
    """A step, with the factors it comes from. update: its relative size; curvature: dxᵀ(H + δW)dx, but for rounding, and
    with what rounding can take from it, `noisy`; product: Σ cᵀν."""

    step: np.ndarray
    factors: BandedFactors | FrontalFactors
    update: float
    curvature: float
    noisy: float
    product: float


class Accepted(NamedTuple):
    """An accepted point; whole: after the whole step and nothing else."""

    z: np.ndarray
    at: Evaluation
    whole: bool


class BoundaryNewton:
    """The iteration on one KKT system; `minimise` may be called by several threads. linear: what solves its systems."""

    def __init__(self, kkt: KKTSystem, linear: LinearSolver, settings: Settings):
        self.kkt, self.settings, self._linear = kkt, settings, linear

    def on(self, kkt: KKTSystem, settings: Settings) -> BoundaryNewton:
        """The same on a system with the same matrix."""
        return BoundaryNewton(kkt, self._linear, settings)

    def minimise(self, z: np.ndarray, sizes: np.ndarray | None = None) -> Iterate:
        """From the path z (blocks, b); sizes: (n,), typical of its coordinates, the KKT system's if not given.

        Where any extremal is sought and no multipliers are given it begins with those of least squares: nothing else keeps
        the Hessian's part λᵀΦ'' from being wrong at first.
        """
        kkt = self.kkt
        if not self.settings.minimum and not np.any(np.where(kkt.primal, 0.0, z)):
            z = with_least_multipliers(kkt, self._linear.fresh(), z)
        it = self._start(z, sizes, None)
        self._repeat(it, self._iterate)
        it.end = Termination.INTERRUPTED if wanted() and it.end is Termination.NOT_CONVERGED else it.end
        return it

    def whole_steps(self, z: np.ndarray, sizes: np.ndarray | None = None, known: Evaluation | None = None) -> Iterate:
        """The same as long as whole steps without a shift are taken. known: z evaluated, where it is."""
        it = self._start(z, sizes, known)
        self._repeat(it, self._iterate_whole)
        return it

    def _start(self, z: np.ndarray, sizes: np.ndarray | None, known: Evaluation | None) -> Iterate:
        kkt = self.kkt
        at = kkt.evaluate(z) if known is None else known
        sizes = kkt.positions if sizes is None else sizes
        it = Iterate(kkt, self._linear.fresh(), z.copy(), at, sizes, PENALTY * kkt.action)
        it.end = Termination.NOT_CONVERGED if at.finite else Termination.NOT_FINITE
        it.minimum = self.settings.minimum
        return it

    def _repeat(self, it: Iterate, step: Callable[[Iterate], bool]) -> None:
        """Iterations until one is the last."""
        with contextlib.suppress(Leaving):
            while it.end is Termination.NOT_CONVERGED and it.iterations < self.settings.max_iterations and not wanted():
                if step(it):
                    break

    def _iterate(self, it: Iterate) -> bool:
        """One iteration; whether it was the last."""
        settings = self.settings
        direction = self._direction(it)
        if direction is None:
            it.end = Termination.SINGULAR
            if it.violation > settings.tolerance and self._restore(it):
                it.end = Termination.NOT_CONVERGED
                return False
            return True
        moved = self._move(it, direction, self._search if settings.minimum else self._damp)
        return it.end is Termination.CONVERGED or not (moved or (settings.minimum and self._restore(it)))

    def _iterate_whole(self, it: Iterate) -> bool:
        """One iteration, where it is a whole step; whether it is none."""
        direction = self._direction(it, 0.0)
        return direction is None or not self._move(it, direction, self._whole)

    def _move(self, it: Iterate, direction: Direction, search: Callable[[Iterate, Direction], Accepted | None]) -> bool:
        """To the point that is accepted; whether there is one."""
        settings, kkt = self.settings, self.kkt
        before, it.update = it.update, direction.update
        small = is_small(it.update, it.violation, settings.tolerance) and (
            it.shift == 0.0 or kkt.residual(it.at.gradient, kkt.matrix(it.z)) <= 1e-3 * settings.tolerance
        )  # a large shift: a short step
        found = search(it, direction)
        it.iterations += 1
        whole = found is not None and found.whole
        if not whole or it.shift:
            it.linear.trusted = False
        if found is not None:
            it.move(found.z, found.at)
        if small or (whole and self._nearly(it, before, direction)):
            it.end = Termination.CONVERGED
        return found is not None

    def _nearly(self, it: Iterate, before: float, direction: Direction) -> bool:
        """True if a step with the factors that are there ends the iteration; tried where quadratic convergence predicts it.

        The simplified step is Newton's next one but for a factor 1 + O(u). Source: see `predicts_small`.
        """
        tolerance = self.settings.tolerance
        if it.shift or not predicts_small(it.update, before, tolerance):
            return False
        step = direction.factors.solve(-it.at.gradient)
        update = it.change(step)
        if not is_small(update, it.violation, tolerance):
            return False
        new = self.kkt.evaluate(it.z + step)
        if not new.finite:
            return False
        it.update = update
        it.move(it.z + step, new)
        return True

    def _direction(self, it: Iterate, largest: float = LARGEST_SHIFT) -> Direction | None:
        """Newton's step, the shift raised until the curvature along it is positive; None: singular.

        dxᵀ(H + δW)dx = -∇L̃ᵀdx + cᵀdν, from the equations that the step solves, where linear constraints hold but for
        rounding; what rounding can take from it is added.
        """
        kkt, settings = self.kkt, self.settings
        it.shift = 0.0 if it.shift < FIRST_SHIFT else it.shift / 3.0
        relax, gradient = 0.0, it.at.gradient.ravel()
        product = kkt.product(it.at.gradient, it.z)
        lost = noise(it.at.objective, product)
        while it.shift <= largest:
            leave_if_wanted()
            factors = it.linear.factor(it.z, it.shift, relax)
            it.factorizations += 1
            step = factors.solve(-it.at.gradient)
            flat = step.ravel()
            if factors.singular or not np.isfinite(flat @ flat):
                relax = RELAX
            else:
                update, curvature = it.change(step), float((gradient * kkt.sign) @ flat)
                direction = Direction(step, factors, update, curvature, curvature + lost, product)
                metric = float((flat * kkt.metric) @ flat)
                if not settings.minimum or convex(direction.noisy, metric, update, settings.tolerance):
                    return direction
            it.shift = max(8.0 * it.shift, FIRST_SHIFT)
        return None

    def _whole_step(self, it: Iterate, direction: Direction) -> tuple[np.ndarray, Evaluation, float]:
        """The point after the whole step, and the slope of Σf along it; the penalty is raised to what these need."""
        kkt, (step, _, _, curvature, noisy, product) = self.kkt, direction
        slope = objective_slope(kkt.product(it.at.gradient, step), curvature, product)
        it.penalty = raise_penalty(it.penalty, slope, noisy, it.at.violation)
        z = it.z + step
        return z, kkt.evaluate(z), slope

    def _whole(self, it: Iterate, direction: Direction) -> Accepted | None:
        """The whole step, where it is accepted."""
        z, new, slope = self._whole_step(it, direction)
        return Accepted(z, new, True) if takes_whole(it.at, new, it.penalty, slope) else None

    def _search(self, it: Iterate, direction: Direction) -> Accepted | None:
        """The first point on the step, halved from full length, that is accepted, see `descends`.

        Where a full step is refused for its constraints one correction of second order is tried.
        """
        kkt, step, factors = self.kkt, direction.step, direction.factors
        z, new, slope = self._whole_step(it, direction)
        if takes_whole(it.at, new, it.penalty, slope):
            return Accepted(z, new, True)
        if new.finite and new.violation >= it.at.violation:
            z = z + _correction(kkt, new, factors)
            new = kkt.evaluate(z)
            if descends(it.at, new, it.penalty, slope, 1.0):
                return Accepted(z, new, False)
        length = 0.5
        while length >= SHORTEST:
            leave_if_wanted()
            z = it.z + length * step
            new = kkt.evaluate(z)
            if descends(it.at, new, it.penalty, slope, length):
                return Accepted(z, new, False)
            length *= 0.5
        return None

    def _damp(self, it: Iterate, direction: Direction) -> Accepted | None:
        """The first point on the halved step at which the next simplified step is shorter: Deuflhard's natural
        monotonicity."""
        kkt, step, factors = self.kkt, direction.step, direction.factors
        length, size = 1.0, _norm(step / kkt.units)
        while length >= SHORTEST:
            leave_if_wanted()
            z = it.z + length * step
            new = kkt.evaluate(z)
            if new.finite:
                following = _norm(factors.solve(-new.gradient) / kkt.units)
                if following <= (1.0 - 0.5 * length) * size or size <= 1e-12 * (1.0 + _norm(z / kkt.units)):
                    return Accepted(z, new, length == 1.0)
            length *= 0.5
        return None

    def _restore(self, it: Iterate) -> bool:
        """Levenberg-Marquardt steps on |c|² until it has fallen to a tenth; False where it has a minimum first."""
        kkt, settings = self.kkt, self.settings
        it.restorations += 1
        begin, damping = it.at.violation, DAMPING[1]
        while it.at.violation > 0.1 * begin and damping <= DAMPING[2] and it.iterations < settings.max_iterations:
            leave_if_wanted()
            factors = it.linear.factor(it.z, 1.0, damping, plain=True)
            it.factorizations += 1
            step = _correction(kkt, it.at, factors)
            new = kkt.evaluate(it.z + step)
            before, after = (_norm((at.gradient * kkt.units)[:, ~kkt.primal]) for at in (it.at, new))
            if new.finite and after < before * (1.0 - 1e-3):
                it.move(it.z + step, new)
                damping = max(damping / 10.0, DAMPING[0])
                it.iterations += 1
            else:
                damping *= 10.0
        if it.at.violation > 0.1 * begin:
            violated = it.violation > 1e3 * settings.tolerance
            it.end = Termination.INFEASIBLE if violated and damping > DAMPING[2] else Termination.NOT_CONVERGED
            return False
        z = with_least_multipliers(kkt, it.linear, it.z)
        if z is not it.z:
            it.move(z, kkt.evaluate(z))
            it.penalty = PENALTY * kkt.action
        return True


def _correction(kkt: KKTSystem, new: Evaluation, factors: BandedFactors | FrontalFactors) -> np.ndarray:
    """The change that returns to the constraints, by the factors of the step: Aᵀ and A as they were before it."""
    right = np.where(kkt.primal, 0.0, -new.gradient)
    return np.where(kkt.primal, factors.solve(right), 0.0)


def _norm(gradient: np.ndarray) -> float:
    return float(np.linalg.norm(gradient))
