"""Which point of a step is taken: halved from the longest inside, by the filter, and what is tried before and after.

Where the filter has shortened several steps one after the other it is asked of nothing for a few whole ones: what they come
to is taken if it is better than where they began, and otherwise the path goes back there. At a bound of the state paths of
small steps go on for hundreds of iterations, where whole ones leave them.
Source: A. Wächter, L. T. Biegler, Math. Program. 106 (2006), section 3.2; the watchdog of Chamberlain, Powell, Lemaréchal
and Pedersen, Math. Program. Study 16 (1982), begins after 5 steps here, in IPOPT after 10.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dalembert.boundary.interior import rules
from dalembert.boundary.interior.barrier import Barrier, longest
from dalembert.boundary.interior.path import BarrierStep, InteriorPath, Watch
from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.boundary.newton.iterate import Settings
from dalembert.interrupts import leave_if_wanted


class NewPoint(NamedTuple):
    """A point, and what part of the longest step it is."""

    z: np.ndarray
    at: Evaluation
    length: float


class StepSearch:
    """On one KKT system with bounds."""

    def __init__(self, kkt: KKTSystem, settings: Settings, bounds: Barrier):
        self.kkt, self.settings, self.bounds = kkt, settings, bounds

    def moved(self, path: InteriorPath, direction: BarrierStep | None) -> bool:
        """Whether a point on the step is accepted; the path moves there. None: there is no step, and only the way back."""
        if path.watch is None and rules.watches(path.shortened) and direction is not None:
            path.watch = self._begun(path, direction)
        if path.watch is not None:
            return self._watched(path, path.watch, direction)
        return direction is not None and self._searched(path, self._begun(path, direction), first=True)

    def _begun(self, path: InteriorPath, direction: BarrierStep) -> Watch:
        """What is asked of a step from here."""
        bounds, slacks = self.bounds, path.slacks
        fraction = float(rules.fraction(path.barrier, xp=np))
        changes = bounds.changes(direction.step)
        dual = (path.barrier - path.multipliers * changes) / slacks - path.multipliers
        own, length = longest(path.multipliers, dual, fraction), longest(slacks, changes, fraction)
        at = path.standing(path.newton.at, path.newton.z)
        return Watch(path.seen, path.multipliers, direction, at, length, own * dual, length == own == 1.0, fraction)

    def _watched(self, path: InteriorPath, before: Watch, direction: BarrierStep | None) -> bool:
        """The whole step, whatever the filter says of it; accepted for good where it is better than the point before. Back
        there where that takes too long."""
        if direction is not None:
            now = self._begun(path, direction)
            path.whole, path.jammed = False, int(rules.jams(now.length, path.jammed, xp=np))
            z = path.newton.z + now.length * direction.step
            new = NewPoint(z, self.kkt.evaluate(z), now.length)
            standing, slope = path.standing(new.at, new.z), before.direction.slope
            if path.filter.accepts(before.at, standing, slope, before.length):
                path.filter.remembers(before.at, standing, slope, before.length)
                path.watch, path.shortened = None, 0
                return self._arrived(path, now, new)
            if standing.finite and before.trials < rules.TRIALS:
                path.watch = before._replace(trials=before.trials + 1)
                return self._arrived(path, now, new)
        path.watch, path.shortened, path.multipliers = None, 0, before.multipliers
        path.arrive(before.where)
        return self._searched(path, before, first=False)

    def _searched(self, path: InteriorPath, given: Watch, first: bool) -> bool:
        """The first point that is accepted; first: the whole step has not been tried."""
        z, step, at, length = path.newton.z, given.direction.step, given.at, given.length
        path.whole = False
        found, halved = None, not first
        if first:
            path.jammed = int(rules.jams(length, path.jammed, xp=np))
            found = self._cut(path, given) if rules.stopped(length, at.violation, self.settings.tolerance) else None
            path.jammed = 0 if found is not None else path.jammed
        else:
            length = 0.5 * length
        while found is None and rules.long_enough(length):
            leave_if_wanted()
            trial = z + length * step
            new = self.kkt.evaluate(trial)
            standing = path.standing(new, trial)
            if path.filter.accepts(at, standing, given.direction.slope, length):
                found, path.whole = NewPoint(trial, new, length), given.whole and not halved
            elif not halved and standing.finite and standing.violation >= at.violation:
                found = self._corrected(path, given, new)
            if found is None:
                length, halved = 0.5 * length, True
        if found is None:
            return False
        path.shortened = int(rules.shortens(float(halved), path.shortened, xp=np))
        path.filter.remembers(at, path.standing(found.at, found.z), given.direction.slope, length)
        return self._arrived(path, given, found)

    def _arrived(self, path: InteriorPath, given: Watch, found: NewPoint) -> bool:
        path.jammed = int(rules.patient(path.jammed, path.barrier, path.raises, xp=np))
        path.multipliers = path.multipliers + given.dual
        path.move(found.z, found.at)
        path.clip()
        return True

    def _cut(self, path: InteriorPath, given: Watch) -> NewPoint | None:
        """The whole step with every slack cut for itself, where that lowers the violation, which one slack would stop."""
        z = self.bounds.cut(path.newton.z, given.direction.step, path.slacks, given.fraction)
        new = self.kkt.evaluate(z)
        standing = path.standing(new, z)
        taken = rules.much_better(given.at, standing) and path.filter.allows(standing)
        return NewPoint(z, new, 1.0) if taken else None

    def _corrected(self, path: InteriorPath, given: Watch, new: Evaluation) -> NewPoint | None:
        """Corrections of second order: the step towards c(z) + c(z + step) = 0 by the same factors."""
        kkt, it, direction, length = self.kkt, path.newton, given.direction, given.length
        constraints, before = length * it.at.gradient, given.at.violation
        for _ in range(rules.CORRECTIONS):
            constraints = constraints + new.gradient
            step = direction.factors.solve(np.where(kkt.primal, -direction.residual, -constraints * kkt.free))
            if not np.all(np.isfinite(step)):
                return None
            short = longest(path.slacks, self.bounds.changes(step), given.fraction)
            z = it.z + short * step
            new = kkt.evaluate(z)
            standing = path.standing(new, z)
            if path.filter.accepts(given.at, standing, direction.slope, length):
                return NewPoint(z, new, short)
            if not standing.finite or rules.no_better(standing, before):
                return None
            before, constraints = standing.violation, short * constraints
        return None
