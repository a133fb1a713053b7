"""Back towards the constraints, inside the bounds, where no step is accepted.

    min ½|c(x)|² - μ Σ log s,   (λW + Σ) dx + Aᵀy = μ/s,   A dx - y = -c,   c in the units of the path

Steps of Gauss and Newton for the least violation, with a barrier of their own, whose μ falls with |c|²: without it slacks
that are spent hold the path where it is. Second derivatives of c are left out: with positions as unknowns they grow as 1/h,
and their part, times what is violated, is far from definite.
"""

from __future__ import annotations

import numpy as np

from dalembert.boundary.interior.path import InteriorPath, Snapshot, longest
from dalembert.boundary.kkt.linear import with_least_multipliers
from dalembert.boundary.kkt.system import Evaluation
from dalembert.boundary.newton import ARMIJO
from dalembert.interrupts import leave_if_wanted

ENOUGH = 0.1  # of the violation
FRACTION = 0.99  # of the slacks that a step may take
FIRST, LEAST = 0.1, 1e-6  # μ, relative to |c|² for each bound
FALL, WHOLE = 0.2, 0.3  # μ falls after steps that are longer
DAMPING = (1e-8, 1e-4, 1e8)  # λ: least, first, largest
RAISE, LOWER = 10.0, 5.0  # of λ
WAIT, SLOW = 20, 0.9  # after how many steps |c|² must have fallen to this part
STILL = 1e-4  # predicted fall of |c|²/2, relative to it, that is none
HALVINGS = 8
SHORT = 0.25  # of a step: where less is taken, the damping is raised
HEAVY = 1e6  # weight of λW + Σ, against which the second derivatives of f, which the frontal factorization brings, are small
SPREAD = 10.0  # by how much multipliers may differ from μ/s


class Restoration:
    """From the present point of a path, which moves with it."""

    def __init__(self, path: InteriorPath):
        self.path, kkt = path, path.newton.kkt
        path.move(path.bounds.snapshot(path.bounds.inside(path.newton.z)))
        self.rows, self.scale = ~kkt.fixed & ~kkt.primal, kkt.units / kkt.curvature
        self.damping = DAMPING[1] if len(path.slacks) else DAMPING[0]  # without bounds nothing spoils a long step
        self.barrier, self.slope = FIRST * self.share, -np.inf
        path.multipliers = self.barrier / path.slacks

    def constraints(self, at: Evaluation) -> np.ndarray:
        return (at.gradient * self.scale)[self.rows]

    @property
    def square(self) -> float:
        """½|c|²."""
        c = self.constraints(self.path.newton.at)
        return 0.5 * float(c @ c)

    @property
    def share(self) -> float:
        """Of the square for each bound."""
        return 2.0 * self.square / max(1, len(self.path.slacks))

    def merit(self, point: Snapshot) -> float:
        """Infinite outside."""
        c = self.constraints(point.at)
        return 0.5 * float(c @ c) - self.barrier * point.logarithms if np.isfinite(point.logarithms) else np.inf

    def step_once(self) -> bool:
        """One step, or more damping where there is none; whether the path has moved."""
        path, it, bounds, kkt = self.path, self.path.newton, self.path.bounds, self.path.newton.kkt
        added = bounds.diagonal(path.multipliers / path.slacks)
        push = bounds.slope(self.barrier / path.slacks) * kkt.free
        it.linear.trusted = False
        bare = np.where(kkt.primal, it.z, 0.0)  # without multipliers, and so without second derivatives of c
        factors = it.linear.factor(bare, HEAVY * self.damping, 1.0 / HEAVY, added=HEAVY * added)
        it.factorizations += 1
        found = factors.solve(-np.where(kkt.primal, HEAVY * push, it.at.gradient))
        step = np.where(kkt.primal, found, 0.0)
        c, y = self.constraints(it.at), (found / kkt.units)[self.rows] / HEAVY
        self.slope = float(c @ (y - c)) + float((push * step).sum()) / kkt.curvature
        taken = self._search(step) if np.all(np.isfinite(found)) else 0.0
        self.damping = max(self.damping / LOWER, DAMPING[0]) if taken >= SHORT else self.damping * RAISE
        return taken > 0.0

    def _search(self, step: np.ndarray) -> float:
        """Which part of the longest step inside is taken; 0: none."""
        path, it, bounds = self.path, self.path.newton, self.path.bounds
        changes = bounds.changes(step)
        dual = (self.barrier - path.multipliers * changes) / path.slacks - path.multipliers
        own = longest(path.multipliers, dual, FRACTION)
        length, before = longest(path.slacks, changes, FRACTION), self.merit(path.here)
        for halvings in range(HALVINGS):
            new = bounds.snapshot(it.z + length * step)
            if self.merit(new) <= before + ARMIJO * length * self.slope:
                path.move(new)
                path.multipliers = path.multipliers + own * dual
                least = LEAST * self.share
                self.barrier = max(least, min(FIRST * self.share, self.barrier * (FALL if length > WHOLE else 1.0)))
                middle = self.barrier / path.slacks
                path.multipliers = np.clip(path.multipliers, middle / SPREAD, middle * SPREAD)
                return 0.5**halvings
            length *= 0.5
        return 0.0

    @property
    def still(self) -> bool:
        """True if |c| has a minimum here."""
        return self.barrier <= 2.0 * LEAST * self.share and -self.slope <= STILL * self.square


def restore(path: InteriorPath) -> bool:
    """True if a point is found that violates the constraints less and that the filter accepts; the path moves there, or to
    the least violation."""
    it = path.newton
    path.filter.add(path.standing(path.here))
    begin, work = path.violation, Restoration(path)
    history = [work.square]
    while it.iterations < path.limit and work.damping <= DAMPING[2] and not work.still:
        leave_if_wanted()
        if work.step_once():
            it.iterations += 1
            history.append(work.square)
        if len(history) > WAIT and history[-1] > SLOW * history[-1 - WAIT]:
            return False
        if path.violation <= ENOUGH * begin and path.filter.allows(path.standing(path.here)):
            _restart(path)
            return True
    return False


def _restart(path: InteriorPath) -> None:
    """Multipliers of the bounds near the barrier's, those of the constraints that make ∇f + Aᵀν smallest."""
    it, kkt = path.newton, path.newton.kkt
    path.multipliers = np.minimum(path.multipliers, 1e3)
    path.clip()
    z = with_least_multipliers(kkt, it.linear, it.z, path.bounds.slope(path.multipliers))
    if z is not it.z:
        path.move(path.bounds.snapshot(z))
