"""Solution: what a boundary problem returns. Arrays and plain text only; nothing here knows mechanics."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from dalembert.solution.bounds import ActiveBounds
from dalembert.solution.critical_point import CriticalPoint
from dalembert.solution.final_time import FinalTime
from dalembert.solution.statistics import BoundaryStatistics


class Solution(CriticalPoint):
    """δ(Σ L_d + λᵀΦ_d) = 0: an extremal of a discrete variational problem between given ends.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t.
        t_multipliers: times of the windows.
        jets: (q, q̇, …, q⁽ᵏ⁾) of the windows, at t_multipliers.
        multipliers: λ of the differential constraints, at t_multipliers.
        holonomic_multipliers: μ at the nodes, 0 where a position is given. λ and μ are those of L + λᵀφ +
            μᵀφ_holonomic: for small steps they tend to functions of time.
        momenta_initial: (k, n) the Ostrogradsky momenta p⁽ʲ⁾ conjugate to q⁽ʲ⁾ at the first node, by the discrete
            Legendre map; None if nodes are given there.
        momenta_final: (k, n) the same at the last node.
        action: Σ L_d.
        negative_directions: the number of independent variations that satisfy the linearised constraints and lower the
            action (0 at a minimum), -1 where it was not counted.
        flat_directions: the number of those that change it to third order only.
        code: the Outcome as an integer.
        statistics: what Newton's method did.
        scheme: name of the window map.
        bounds: {"q": ActiveBounds, "v": …, "inequalities": …}, for the quantities that have bounds.
        final_time: a FinalTime if the last time was free, otherwise None.
        method: the solver that found it, "dalembert" or "ipopt".
        coordinates: the names of q; () if there are none.
        end_multipliers_initial: (m,) ν of ψ(q, q̇, …) = 0 if the first end is on a set, `initial=On(psi)`: the momenta
            are -Dψᵀν, and if the set is moved to ψ = c the action changes by ν·dc. None otherwise.
        end_multipliers_final: the same at the last node, where the momenta are Dψᵀν.
        subject: the problem that was solved, for pictures; kept in the process that solved it. A loaded solution has
            its drawing instead.

    Example:
        >>> solution.kind, round(float(solution.q[5, 0]), 9)
        ('minimum', 0.5)
    """

    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    t_multipliers: Float[np.ndarray, "windows"]
    jets: Float[np.ndarray, "windows k+1 n"]
    multipliers: Float[np.ndarray, "windows m"]
    holonomic_multipliers: Float[np.ndarray, "nodes mh"]
    momenta_initial: Float[np.ndarray, "k n"] | None
    momenta_final: Float[np.ndarray, "k n"] | None
    action: Float[np.ndarray, ""]
    negative_directions: Int[np.ndarray, ""]
    flat_directions: Int[np.ndarray, ""]
    code: Int[np.ndarray, ""]
    statistics: BoundaryStatistics
    scheme: str = eqx.field(static=True)
    bounds: dict[str, ActiveBounds]
    final_time: FinalTime | None
    method: str = eqx.field(static=True)
    coordinates: tuple[str, ...] = eqx.field(static=True)
    end_multipliers_initial: Float[np.ndarray, "m"] | None = None
    end_multipliers_final: Float[np.ndarray, "m"] | None = None
    subject: Any = eqx.field(static=True, default=None)

    @property
    def value(self) -> tuple[str, float]:
        return "action", float(self.action)
