"""A primal-dual interior point method on the KKT equations, from poor guesses.

    [H + Σ + δW  Aᵀ ] [dx]     [∇L̃ - κμ/(Us)]
    [A         -δ_cW] [dν] = - [      c      ],   Σ = κz/(U²s) for the bounds, which enter the diagonal alone

δ is raised until K has as many negative eigenvalues as constraints; steps keep 1 - τ of every slack; a filter takes them; μ
falls where the equations of the present μ are solved. Where the filter has shortened several steps one after the other it is
asked of nothing for a few whole ones: what they come to is taken if it is better than where they began, and otherwise the
path goes back there. At a bound of the state paths of small steps go on for hundreds of iterations, where whole ones leave
them.
Source: A. Wächter, L. T. Biegler, On the implementation of an interior-point filter line-search algorithm for large-scale
nonlinear programming, Math. Program. 106 (2006); the watchdog of Chamberlain, Powell, Lemaréchal and Pedersen, Math.
Program. Study 16 (1982), begins after 5 steps here, in IPOPT after 10.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import numpy as np

from dalembert.algebra import inertia
from dalembert.boundary.interior import rules
from dalembert.boundary.interior.machine import InteriorMachine
from dalembert.boundary.interior.path import (
    FIRST_BARRIER,
    Barrier,
    BarrierStep,
    Bounds,
    Filter,
    InteriorPath,
    Snapshot,
    Watch,
    barrier_of,
    longest,
    violation,
)
from dalembert.boundary.interior.restoration import restore
from dalembert.boundary.interior.rules import BarrierErrors
from dalembert.boundary.kkt.linear import FrontalFactors, LinearSolver, with_least_multipliers
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton import NOISE, Iterate, Settings, Termination
from dalembert.interrupts import Leaving, leave_if_wanted, wanted
from dalembert.tracing import Remembered

WARM_BARRIER = 1e-7  # least μ of a warm start
RELAX = 1e-8  # of a singular system
SHORTEST_FRONTAL = 30  # blocks: the inertia that every iteration asks for costs more in a band


class StepSearch:
    """Which point of a step is taken, on one KKT system with bounds: halved from the longest inside, by the filter, and what
    is tried before and after."""

    def __init__(self, kkt: KKTSystem, settings: Settings, bounds: Barrier):
        self.kkt, self.settings, self.bounds = kkt, settings, bounds

    def move(self, path: InteriorPath, direction: BarrierStep | None) -> bool:
        """True if a point on the step is accepted; the path moves there. None: there is no step, and only the way back."""
        if path.watch is None and rules.watches(path.shortened) and direction is not None:
            path.watch = self._begin(path, direction)
        if path.watch is not None:
            return self._watch(path, path.watch, direction)
        return direction is not None and self._search_step(path, self._begin(path, direction), first=True)

    def _begin(self, path: InteriorPath, direction: BarrierStep) -> Watch:
        """A step and the point where it begins, with the longest part of it inside the bounds."""
        bounds, slacks = self.bounds, path.slacks
        fraction = float(rules.fraction(path.barrier, xp=np))
        changes = bounds.changes(direction.step)
        dual = (path.barrier - path.multipliers * changes) / slacks - path.multipliers
        own, length = longest(path.multipliers, dual, fraction), longest(slacks, changes, fraction)
        at = path.standing(path.here)
        return Watch(path.here, path.multipliers, direction, at, length, own * dual, length == own == 1.0, fraction)

    def _watch(self, path: InteriorPath, before: Watch, direction: BarrierStep | None) -> bool:
        """The whole step, whatever the filter says of it; accepted for good where it is better than the point before. Back
        there where that takes too long, and no step at all where it did so several times."""
        if direction is not None:
            now = self._begin(path, direction)
            path.whole, path.jammed = False, int(rules.count_tiny_steps(now.length, path.jammed, xp=np))
            new = self.bounds.snapshot(path.newton.z + now.length * direction.step)
            standing = path.standing(new)
            if path.filter.accepts(before.at, standing, before.direction, before.length):
                path.filter.remembers(before.at, standing, before.direction.slope, before.length)
                path.watch, path.shortened, path.returns = None, 0, 0
                return self._arrive(path, now, new)
            if standing.finite and before.trials < rules.TRIALS:
                path.watch = before._replace(trials=before.trials + 1)
                return self._arrive(path, now, new)
        path.watch, path.shortened, path.multipliers = None, 0, before.multipliers
        path.move(before.where)
        path.returns += 1
        if path.returns >= rules.RETURNS and path.violation > self.settings.tolerance:
            path.returns = 0
            return False
        return self._search_step(path, before, first=False)

    def _search_step(self, path: InteriorPath, given: Watch, first: bool) -> bool:
        """The first point that is accepted; first: the whole step has not been tried."""
        z, step, at, length = path.newton.z, given.direction.step, given.at, given.length
        path.whole = False
        found, halved = None, not first
        if first:
            path.jammed = int(rules.count_tiny_steps(length, path.jammed, xp=np))
            found = self._cut(path, given) if rules.slack_stops(length, at.violation, self.settings.tolerance) else None
            path.jammed = 0 if found is not None else path.jammed
        else:
            length = 0.5 * length
        while found is None and rules.long_enough(length):
            leave_if_wanted()
            new = self.bounds.snapshot(z + length * step)
            standing = path.standing(new)
            if path.filter.accepts(at, standing, given.direction, length):
                found, path.whole = new, given.whole and not halved
            elif not halved and standing.finite and standing.violation >= at.violation:
                found = self._correct(path, given, new)
            if found is None:
                length, halved = 0.5 * length, True
        if found is None:
            return False
        path.shortened = int(rules.shortens(float(halved), path.shortened, xp=np))
        path.filter.remembers(at, path.standing(found), given.direction.slope, length)
        return self._arrive(path, given, found)

    def _arrive(self, path: InteriorPath, given: Watch, found: Snapshot) -> bool:
        path.jammed = int(rules.patient(path.jammed, path.barrier, path.raises, xp=np))
        path.multipliers = path.multipliers + given.dual
        path.move(found)
        path.clip()
        return True

    def _cut(self, path: InteriorPath, given: Watch) -> Snapshot | None:
        """The whole step with every slack cut for itself, where that lowers the violation, which one slack would stop."""
        new = self.bounds.snapshot(self.bounds.cut(path.newton.z, given.direction.step, path.slacks, given.fraction))
        standing = path.standing(new)
        return new if rules.much_better(given.at, standing) and path.filter.allows(standing) else None

    def _correct(self, path: InteriorPath, given: Watch, new: Snapshot) -> Snapshot | None:
        """Corrections of second order: the step towards c(z) + c(z + step) = 0 by the same factors."""
        kkt, it, direction, length = self.kkt, path.newton, given.direction, given.length
        constraints, before = length * it.at.gradient, given.at.violation
        for _ in range(rules.CORRECTIONS):
            constraints = constraints + new.at.gradient
            step = direction.factors.solve(np.where(kkt.primal, -direction.residual, -constraints * kkt.free))
            if not np.all(np.isfinite(step)):
                return None
            short = longest(path.slacks, self.bounds.changes(step), given.fraction)
            new = self.bounds.snapshot(it.z + short * step)
            standing = path.standing(new)
            if path.filter.accepts(given.at, standing, direction, length):
                return new
            if not standing.finite or rules.no_better(standing, before):
                return None
            before, constraints = standing.violation, short * constraints
        return None


class InteriorPoint:
    """The iteration on one KKT system with bounds."""

    def __init__(self, kkt: KKTSystem, linear: LinearSolver, settings: Settings, bounds: Bounds):
        self.kkt, self.settings, self._linear = kkt, settings, linear
        self.bounds = barrier_of(kkt, bounds)
        self._constraints = int(np.sum(~kkt.fixed & ~kkt.primal))
        self._unknowns = np.ravel(~kkt.fixed & kkt.primal).astype(float)
        self._dual, self._held = self._unknowns * kkt.flat_units / kkt.curvature, kkt.held / kkt.flat_units
        self._least = settings.tolerance / 10.0
        self._search = StepSearch(kkt, settings, self.bounds)
        self._first: Remembered[tuple[np.ndarray, np.ndarray]] = Remembered(4)  # of first paths, which further calls share

    @functools.cached_property
    def _machine(self) -> InteriorMachine | None:
        """Machine code of the loop, compiled when it is first needed."""
        if self._linear.frontal is None:
            return None
        return InteriorMachine(self.kkt, self._linear, self.settings, self.bounds)

    def minimise(
        self,
        z: np.ndarray,
        sizes: np.ndarray | None = None,
        forces: np.ndarray | None = None,
        barrier: float | None = None,
        limit: int | None = None,
    ) -> InteriorPath:
        """From the path z (blocks, b), moved inside the bounds; sizes: see `BoundaryNewton.minimise`; forces: (blocks, b),
        what the multipliers of the bounds add to the gradient, where they are known: a warm start. barrier: the first μ of
        such a start, found from the errors where it is not given; limit: of iterations, if less than the setting."""
        kkt, most = self.kkt, self.settings.max_iterations
        z, multipliers, barrier = self._begin(z, forces, barrier)
        here = self.bounds.snapshot(z)
        it = Iterate(kkt, self._linear.fresh(), z, here.at, kkt.positions if sizes is None else sizes, 0.0)
        first = Filter(violation(kkt, here.at), self.settings.tolerance)
        path = InteriorPath(it, self.bounds, here, multipliers, first, min(limit or most, most), barrier)
        if not here.at.finite:
            it.end = Termination.NOT_FINITE
            return path
        with contextlib.suppress(Leaving):
            while it.iterations < path.limit and not wanted() and not self._advance(path):
                pass
        it.end = Termination.INTERRUPTED if wanted() and it.end is Termination.NOT_CONVERGED else it.end
        return path

    def _advance(self, path: InteriorPath) -> bool:
        """True if this was the end: machine code as far as it goes, then one iteration."""
        if self._machine is not None and path.watch is None and self._machine.run(path):
            return True
        leave_if_wanted()
        return self._iterate(path)

    def _begin(
        self, z: np.ndarray, forces: np.ndarray | None, barrier: float | None
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """(path, multipliers, μ). Where multipliers are known μ is as small as the equations are solved there, and slacks
        are s = μ/z: what is active stays at its bound."""
        kkt, bounds = self.kkt, self.bounds
        if forces is None or not np.any(forces):
            z, multipliers = self._first.of(z.tobytes(), lambda: self._with_multipliers(z))
            return z.copy(), multipliers.copy(), FIRST_BARRIER
        known, at = bounds.of_forces(forces), kkt.evaluate(z)
        dual = np.abs((at.gradient + bounds.slope(known)).ravel() * self._dual)
        error = max(float(dual.max()), violation(kkt, at))
        if barrier is None:
            barrier = float(np.clip(error, WARM_BARRIER, FIRST_BARRIER)) if at.finite else FIRST_BARRIER
        z = bounds.apart(z, barrier / np.maximum(known, np.sqrt(barrier)))
        middle = barrier / bounds.slacks(z)
        return z, np.clip(known, middle / 10.0, 10.0 * middle), barrier

    def _with_multipliers(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The path inside the bounds with multipliers of constraints, and those of the bounds."""
        z = self.bounds.inside(z) if len(self.bounds.places) else z
        multipliers = FIRST_BARRIER / self.bounds.slacks(z)
        if not np.any(z.ravel()[self._held > 0.0]):  # of constraints
            z = with_least_multipliers(self.kkt, self._linear.fresh(), z, self.bounds.slope(multipliers))
        return z, multipliers

    def _iterate(self, path: InteriorPath) -> bool:
        """One iteration; whether it was the last."""
        it = path.newton
        errors = self._errors(path, 0.0)
        if self._meets_tolerance(path, errors):
            it.end = Termination.CONVERGED
            return True
        self._lower(path)
        direction = self._direction(path)
        if direction is None and path.watch is None:
            it.end = Termination.SINGULAR
            return True
        it.iterations += 1
        if self._search.move(path, None if direction is None or self._contradictory(path) else direction):
            self._unjam(path)
            return False
        if direction is not None and self._left_to_rounding(path):
            it.end = Termination.CONVERGED
            return True
        it.restorations += 1
        path.shortened = 0
        brief = path.limit < self.settings.max_iterations  # where constraints would have to be restored it is of no use
        if path.violation > self.settings.tolerance and not brief and restore(path):
            return False
        infeasible = path.violation > 1e3 * self.settings.tolerance and it.iterations < path.limit
        it.end = Termination.INFEASIBLE if infeasible else Termination.NOT_CONVERGED
        return True

    def _left_to_rounding(self, path: InteriorPath) -> bool:
        """True if the whole step, no part of which is taken, changes nothing: on long paths a filter compares rounding, and
        the slack of a bound that is touched at one node, with a multiplier that grows with N, has no more digits."""
        it, tolerance = path.newton, self.settings.tolerance
        off = self._errors(path, 0.0).complementarity
        return it.shift == 0.0 and bool(max(it.update, it.violation, off / rules.SOLVED) <= tolerance)

    def _contradictory(self, path: InteriorPath) -> bool:
        """True if locally infeasible: the linearized constraints have no solution near, and no line search makes a step of
        it."""
        it = path.newton
        return bool(rules.locally_infeasible(path.violation, it.shift, it.update, self.settings.tolerance, xp=np))

    def _errors(self, path: InteriorPath, barrier: float) -> BarrierErrors:
        it = path.newton
        if path.residual is None:
            gradient = it.at.gradient.ravel() * self._dual
            for part, pull in self.bounds.pulls(path.multipliers):
                gradient[part] += pull * self._unknowns[part]
            own = float(np.abs(it.z.ravel()) @ self._held)
            count = max(1, self._constraints + len(path.multipliers))
            size = float(rules.magnitude(own, float(path.multipliers.sum()), count, xp=np))
            path.residual = max(float(gradient.max()), -float(gradient.min())) / size, size
        dual, size = path.residual
        products = np.abs(path.slacks * path.multipliers - barrier)
        return BarrierErrors(dual, path.violation, float(np.max(products, initial=0.0)) / size)

    def _meets_tolerance(self, path: InteriorPath, errors: BarrierErrors) -> bool:
        tolerance = self.settings.tolerance
        largest = np.inf if len(path.slacks) else tolerance
        return bool(rules.meets_tolerance(errors, path.last, path.newton.violation, largest, tolerance))

    def _lower(self, path: InteriorPath) -> None:
        """The next μ, as long as the equations of the present one are solved."""
        before = path.barrier
        while path.barrier > self._least:
            errors = self._errors(path, path.barrier)
            if rules.exceeds_barrier(path.barrier, errors, path.last, self.settings.tolerance, xp=np):
                break
            path.barrier = float(rules.lower_barrier(path.barrier, self._least, xp=np))
        if path.barrier < before:
            path.begin_anew()

    def _unjam(self, path: InteriorPath) -> None:
        """A larger μ where slacks have stopped several steps one after the other: the path touches a bound at single nodes,
        and the place of contact would move from node to node."""
        if not rules.takes_tiny_steps(path.jammed):
            return
        path.jammed, path.raises = 0, path.raises + 1
        path.barrier = float(rules.raise_barrier(path.barrier, xp=np))
        path.begin_anew()

    def _direction(self, path: InteriorPath) -> BarrierStep | None:
        """Newton's step, the shift raised until the inertia is that of a minimum; None: singular."""
        bounds = self.bounds
        added = bounds.diagonal(path.multipliers / path.slacks)
        residual = (path.newton.at.gradient + bounds.slope(path.barrier / path.slacks)) * self.kkt.free
        return self._search_step(path, path.newton.z, added, residual)

    def _search_step(self, path: InteriorPath, z: np.ndarray, added: np.ndarray, residual: np.ndarray) -> BarrierStep | None:
        """The step of such a residual at z, added being on the diagonal of K."""
        it, kkt = path.newton, self.kkt
        it.shift, relax = 0.0, 0.0
        while rules.affordable(it.shift):
            leave_if_wanted()
            it.linear.trusted = False
            factors = it.linear.factor(z, it.shift, relax, added=added)
            it.factorizations += 1
            told = factors.negative_pivots(-residual) if isinstance(factors, FrontalFactors) else None
            if told is not None and told > self._constraints:
                it.shift = float(rules.raise_shift(it.shift, path.last_shift, xp=np))
                continue
            step = factors.solve(-residual)
            it.update = it.change(step)
            matrix = functools.partial(kkt.matrix, z, it.shift, relax, added=added)
            negative = self._negative(factors, matrix, it, residual * step) if np.all(np.isfinite(step)) else -1
            if negative == self._constraints or self._contradictory(path):
                path.last_shift = it.shift or path.last_shift
                free = (residual.ravel() * self._unknowns) @ step.ravel()
                held = (it.at.gradient.ravel() * kkt.held) @ it.z.ravel()  # -νᵀA dx
                return BarrierStep(step, factors, residual, float(free + held) / kkt.curvature, it.update)
            if negative < self._constraints:
                relax = RELAX
            it.shift = float(rules.raise_shift(it.shift, path.last_shift, xp=np))
        return None

    def _negative(self, factors, matrix: Callable[[], np.ndarray], it: Iterate, products: np.ndarray) -> int:
        """Number of negative eigenvalues of K. Where frontal factors cannot tell and a count would be slow, the curvature
        dxᵀ(H + Σ + δW)dx along the step stands for it, see `BoundaryNewton`; products: of gradient and step."""
        if isinstance(factors, FrontalFactors) and (factors.other is None or it.shift < 1.0):
            return factors.negative()
        kkt = self.kkt
        if kkt.blocks < SHORTEST_FRONTAL:
            return inertia(matrix(), kkt.lower, 0.0).negative
        curvature = products[:, ~kkt.primal].sum() - products[:, kkt.primal].sum()
        return self._constraints + int(curvature <= -NOISE * (abs(it.at.objective) + np.abs(products).sum()))
