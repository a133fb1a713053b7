"""The state of the interior point iteration."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.boundary.interior.barrier import Barrier
from dalembert.boundary.interior.filter import Filter, Standing
from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.boundary.newton.iterate import Iterate

FIRST_BARRIER = 0.1  # μ₀
SPREAD = 1e10  # κ_Σ: multipliers stay within this factor of μ/s


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
    whole: bool = False  # whether the last step was Newton's, neither shortened nor corrected

    @property
    def violation(self) -> float:
        return violation(self.newton.kkt, self.newton.at)

    def standing(self, at: Evaluation, z: np.ndarray) -> Standing:
        """θ and ϕ of a point."""
        kkt, slacks = self.newton.kkt, self.bounds.slacks(z)
        if not at.finite or np.min(slacks, initial=1.0) <= 0.0:
            return Standing(np.inf, np.inf)
        return Standing(violation(kkt, at), at.objective / kkt.curvature - self.barrier * float(np.log(slacks).sum()))

    def move(self, z: np.ndarray, at: Evaluation) -> None:
        self.newton.move(z, at)
        self.slacks = self.bounds.slacks(z)

    def clip(self) -> None:
        """Multipliers back to where they are near μ/s."""
        middle = self.barrier / self.slacks
        self.multipliers = np.clip(self.multipliers, middle / SPREAD, middle * SPREAD)


def violation(kkt: KKTSystem, at: Evaluation) -> float:
    """Σ|c| of all constraints, linear ones too, by what their units make of the action."""
    return float(np.abs(at.gradient * kkt.units)[:, ~kkt.primal].sum()) / kkt.action
