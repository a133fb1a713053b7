"""Back towards the constraints, inside the bounds, where no step is accepted.

(W + D⁻²) dx + Aᵀy = 0,   A dx - δy = -c:   Levenberg-Marquardt steps on |c|², D: the slacks (affine scaling)
"""

from __future__ import annotations

import numpy as np

from dalembert.boundary.interior.barrier import longest
from dalembert.boundary.interior.path import InteriorPath
from dalembert.boundary.newton.iterate import Settings
from dalembert.boundary.newton.iteration import DAMPING

ENOUGH = 0.1  # of the violation
FRACTION = 0.9  # of the slacks that a step may take
SLOW = 1e-3


def restored(path: InteriorPath, settings: Settings) -> bool:
    """Whether a point is found that violates the constraints less and that the filter accepts; the path moves there, or to
    the least violation."""
    it, kkt = path.newton, path.newton.kkt
    path.filter.add(path.standing(it.at, it.z))
    begin, damping = path.violation, DAMPING[1]
    while it.iterations < settings.max_iterations and damping <= DAMPING[2]:
        if path.violation <= ENOUGH * begin and path.filter.allows(path.standing(it.at, it.z)):
            _restart(path)
            return True
        added = path.bounds.diagonal(path.slacks**-2.0)
        factors = it.linear.factor(it.z, 1.0, damping, plain=True, added=added)
        it.factorizations += 1
        step = np.where(kkt.primal, factors.solve(np.where(kkt.primal, 0.0, -it.at.gradient)), 0.0)
        length = longest(path.slacks, path.bounds.changes(step), FRACTION) if np.all(np.isfinite(step)) else 0.0
        new = kkt.evaluate(it.z + length * step)
        before, after = (np.linalg.norm((at.gradient * kkt.units)[:, ~kkt.primal]) for at in (it.at, new))
        if new.finite and after < before * (1.0 - SLOW):
            path.move(it.z + length * step, new)
            damping = max(damping / 10.0, DAMPING[0])
            it.iterations += 1
        else:
            damping *= 10.0
    return False


def _restart(path: InteriorPath) -> None:
    """Multipliers of the bounds near the barrier's, those of the constraints that make ∇f + Aᵀν smallest."""
    it, kkt = path.newton, path.newton.kkt
    path.multipliers = np.minimum(path.multipliers, 1e3)
    path.clip()
    z = np.where(kkt.primal, it.z, 0.0)
    factors = it.linear.factor(z, 1.0, 1e-12, plain=True)
    slope = kkt.evaluate(z).gradient + path.bounds.slope(path.multipliers)
    found = factors.solve(np.where(kkt.primal, -slope * kkt.free, 0.0))
    if np.all(np.isfinite(found)):
        z = np.where(kkt.primal, it.z, found)
        path.move(z, kkt.evaluate(z))
