"""ControlSolution: what an optimal control problem returns. Arrays and plain text only."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from dalembert.outcome import CONTROLLED, Outcome
from dalembert.solution.bounds import ActiveBounds
from dalembert.solution.critical_point import CriticalPoint
from dalembert.solution.final_time import FinalTime
from dalembert.solution.refinement import Refinement
from dalembert.solution.statistics import BoundaryStatistics


class ControlSolution(CriticalPoint):
    """δ(Σ h C + λᵀ(equations of motion) + ηᵀφ) = 0: an extremal of a discrete optimal control problem.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t: at the ends those that are given or found, between them (q_{i+1}-q_{i-1})/2h.
        u: (N+1, r) controls at t.
        multipliers: (N+1, m) ν of the plant's constraints in the discrete equations at t, in the order of the constraints.
        constraint_forces: (N+1, n) Rᵀν at t, of order 2; at the ends, where the discrete ν has order 1, extrapolated
            from the interior nodes.
        adjoints: (N+1, n) λ at t: an impulse dp at a node changes the optimal cost by λ·dp.
        step_multipliers: (N, m) η of the constraints of each step.
        costates_initial: (2, n) the gradient of the optimal cost with respect to q and v at the first node; 0 for
            components that are free. With holonomic constraints it is the gradient along them.
        costates_final: (2, n) the same at the last node.
        cost: Σ h C, with the velocities of the steps, plus the terminal cost.
        negative_directions: the number of independent variations that satisfy the linearised equations and lower the cost (0
            at a minimum), -1 where it was not counted.
        flat_directions: the number of those that change it to third order only.
        code: the Outcome as an integer.
        statistics: what Newton's method did.
        scheme: the maps of the discrete Lagrangian.
        bounds: {"u": ActiveBounds, "q": …, "v": …, "inequalities": …}, for the quantities that have bounds.
        final_time: a FinalTime if the last time was free, otherwise None.
        method: the solver that found it, "dalembert" or "ipopt".
        coordinates: the names of q; () if there are none.
        subject: the problem that was solved, for pictures; kept in the process that solved it. A loaded solution has
            its drawing instead.
        refinement: the extrapolated cost with its estimated error, for a solution returned by `refine`; otherwise None.
        end_multipliers_initial: (m,) ν of ψ(q, v) = 0 if the first end is on a set, `initial=On(psi)`: the costates are
            Dψᵀν, and if the set is moved to ψ = c the cost changes by ν·dc. None otherwise.
        end_multipliers_final: the same at the last node.
        remark: the cause of the outcome, where more is known than its message says; otherwise "", as in a loaded solution.

    Example:
        >>> swing_up.kind, swing_up.u.shape
        ('minimum', (41, 1))
    """

    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    u: Float[np.ndarray, "nodes r"]
    multipliers: Float[np.ndarray, "nodes m"]
    constraint_forces: Float[np.ndarray, "nodes n"]
    adjoints: Float[np.ndarray, "nodes n"]
    step_multipliers: Float[np.ndarray, "steps m"]
    costates_initial: Float[np.ndarray, "2 n"]
    costates_final: Float[np.ndarray, "2 n"]
    cost: Float[np.ndarray, ""]
    negative_directions: Int[np.ndarray, ""]
    flat_directions: Int[np.ndarray, ""]
    code: Int[np.ndarray, ""]
    statistics: BoundaryStatistics
    scheme: str = eqx.field(static=True)
    bounds: dict[str, ActiveBounds]
    final_time: FinalTime | None
    method: str = eqx.field(static=True)
    coordinates: tuple[str, ...] = eqx.field(static=True)
    refinement: Refinement | None = None
    end_multipliers_initial: Float[np.ndarray, "m"] | None = None
    end_multipliers_final: Float[np.ndarray, "m"] | None = None
    subject: Any = eqx.field(static=True, default=None)
    remark: str = eqx.field(static=True, default="")

    messages: ClassVar[dict[Outcome, str]] = CONTROLLED
    discretized: ClassVar[str] = "action"

    @property
    def value(self) -> tuple[str, float]:
        return "cost", float(self.cost)

    def describe(self) -> str:
        """The solution in one paragraph."""
        return "\n".join([super().describe(), *filter(None, [self.remark, self.refinement and self.refinement.describe()])])
