"""ActiveBounds: which bounds of a solution are active, with their multipliers. Arrays only; nothing here knows mechanics."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int


class ActiveBounds(eqx.Module):
    """lower ≤ x ≤ upper, ∂C/∂x + … + μ = 0 with μ ≥ 0 at the upper bound, μ ≤ 0 at the lower one, μ = 0 between: the
    bounds on one kind x of unknowns of a solution, or on a function x of them: g ≤ 0.

    Attributes:
        lower: (K, m), infinite where there is no bound.
        upper: (K, m), infinite where there is no bound.
        multipliers: (K, m) μ, per unit of time: moving an upper bound at one time by d changes the optimal value by
            -hμd. 0 where x is given.
        active: (K, m) -1 at the lower bound, 1 at the upper bound, 0 between.
        margin: the smallest max(slack, |μ|) over all bounds, in the units of the solver. Near 0 a bound is reached but
            does not act: strict complementarity fails.
        t: (K,) the times of x: the nodes. For quantities that depend on velocities but not on controls: the mid-points
            of the steps, and the ends at which the velocity is an unknown.
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
        """The times at which each component of x reaches or leaves a bound.

        Each is where the line through the two nearest free values meets the bound, within the step in which that
        happens: accurate to order 2 if x meets the bound at an angle, as controls do, and to order 1 if it is tangent.

        Returns:
            For each component its times, increasing.
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
