"""FinalTime: how a free final time was found. Numbers only; nothing here knows mechanics."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

FAR = 1e2  # times the guess: a final time beyond it, without a solution, tells that nothing holds it


class FinalTime(eqx.Module):
    """dJ/dT = 0 for the minimal cost or action J, or T at a bound: the final time of a solution with T=Free(…).

    Attributes:
        guess: the value from which it was sought.
        lower: the least T; 0 or the first time if there is no bound.
        upper: the largest T; infinite if there is no bound.
        slope: dJ/dT, positive if an earlier end would cost less: minus the Hamiltonian or energy at the end. 0 between
            the bounds (transversality); at a bound it is the multiplier of the bound.
        active: -1 at the lower bound, 1 at the upper bound, 0 between.

    Example:
        >>> move = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: 1.0 + u @ u, actuated=0)
        >>> ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
        >>> short = da.solve(move, **ends, T=da.Free(1.0, upper=2.0), steps=20)
        >>> int(short.final_time.active), round(float(short.final_time.slope), 1)  # 1 - 36/T⁴, T = 2
        (1, -1.2)
    """

    guess: Float[np.ndarray, ""]
    lower: Float[np.ndarray, ""]
    upper: Float[np.ndarray, ""]
    slope: Float[np.ndarray, ""]
    active: Int[np.ndarray, ""]

    def describe(self, T: float, solved: bool) -> str:
        """The result in one line."""
        side = {-1: "at its lower bound", 0: "free", 1: "at its upper bound"}[int(self.active)]
        found = f"final time {T:.12g}, {side}: the optimal value changes with it by {float(self.slope):.3g}"
        if solved or max(T / float(self.guess), float(self.guess) / T) < FAR:
            return found
        bound, where = ("upper", "growing") if float(self.guess) < T else ("lower", "falling")
        return f"{found}; it keeps {where}: give T=Free(…, {bound}=…), or a cost of time"
