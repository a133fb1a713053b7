"""ActiveBounds: which bounds of a solution are active, with their multipliers. Arrays only; nothing here knows mechanics."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int


class ActiveBounds(eqx.Module):
    """lower ≤ x ≤ upper, ∂C/∂x + … + μ = 0 with μ ≥ 0 at the upper bound, μ ≤ 0 at the lower one, μ = 0 between: the bounds
    of one kind of unknowns x of a solution, or of a function x of them: g ≤ 0.

    Attributes:
        lower: (K, m), infinite where there is no bound.
        upper: (K, m), infinite where there is no bound.
        multipliers: (K, m) μ per time: moving an upper bound by d changes the optimal value by -hμd; 0 where x is given.
        active: (K, m) -1 at the lower bound, 1 at the upper one, 0 between.
        margin: the smallest max(slack, |μ|) of all bounds, in the units of the solver: near 0 a bound is reached without a
            force, and strict complementarity fails.
        t: (K,) the times of x: the nodes; the middles of the steps, with the ends whose velocity is an unknown, for what
            reads velocities and no controls.
        values: (K, m) x.

    Example:
        >>> bang.bounds["u"].active[[0, 10, 20], 0]
        array([ 1,  0, -1])
    """

    lower: Float[np.ndarray, "K m"]
    upper: Float[np.ndarray, "K m"]
    multipliers: Float[np.ndarray, "K m"]
    active: Int[np.ndarray, "K m"]
    margin: Float[np.ndarray, ""]
    t: Float[np.ndarray, "K"]
    values: Float[np.ndarray, "K m"]

    def switches(self) -> list[np.ndarray]:
        """The times at which every component of x comes to a bound or leaves it.

        Where the line through the two nearest free values meets the bound, within the step in which that happens: of order 2
        where x meets it at an angle, as controls do; of order 1 where it is tangent.

        Returns:
            For every component its times, increasing.
        """
        times, x = self.t, self.values
        return [
            np.array([_meets(times, x[:, j], self, i, j) for i in np.flatnonzero(np.diff(self.active[:, j]))])
            for j in range(x.shape[1])
        ]


def _meets(t: np.ndarray, x: np.ndarray, bounds: ActiveBounds, i: Any, j: int) -> float:
    """The time between nodes i and i+1."""
    before, after = bounds.active[i, j], bounds.active[i + 1, j]
    if before and after:
        return float(0.5 * (t[i] + t[i + 1]))
    inside, outside, side, held = (i, i - 1, after, i + 1) if after else (i + 1, i + 2, before, i)
    limit = (bounds.upper if side > 0 else bounds.lower)[held, j]
    if not 0 <= outside < len(t) or x[inside] == x[outside]:
        return float(0.5 * (t[i] + t[i + 1]))
    at = t[inside] + (limit - x[inside]) * (t[inside] - t[outside]) / (x[inside] - x[outside])
    return float(np.clip(at, t[i], t[i + 1]))
