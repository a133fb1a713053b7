"""Refinement: how exact the cost of a solution is, from its meshes. Numbers only; nothing here knows mechanics."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int


class Refinement(eqx.Module):
    """J = (4J_h - J_{2h})/3 + O(h⁴): the limit of a cost of order 2, from solutions on meshes each of which halves the
    steps of the one before.

    Attributes:
        tolerance: the tolerance that was asked for, relative to ∫|C|dt.
        size: Σ h|C|, ∫|C|dt of the finest mesh.
        steps: (meshes,) the numbers of steps of all meshes that were solved.
        costs: (meshes,) their costs.
        cost: the extrapolated cost.
        error: the estimated error of the extrapolated cost: from the measured order of the extrapolated costs, with a
            safety factor of three; if that order cannot be measured, from the change against the extrapolation with one
            mesh fewer. Infinite if too few meshes were solved.
        order: measured order of the costs, from the three finest meshes; NaN if rounding or a change of sign hides it.
        limit_order: measured order of the extrapolated costs, from the four finest meshes; 4 for a smooth problem. NaN
            as above, or if the fourth mesh was not solved.

    Example:
        >>> refined = da.refine(move, plan, initial=([0.0], [0.0]), final=([1.0], [0.0]), tolerance=1e-5)
        >>> refined.refinement.reached, round(float(refined.refinement.cost), 4)
        (True, 12.0)
    """

    tolerance: Float[np.ndarray, ""]
    size: Float[np.ndarray, ""]
    steps: Int[np.ndarray, "meshes"]
    costs: Float[np.ndarray, "meshes"]
    cost: Float[np.ndarray, ""]
    error: Float[np.ndarray, ""]
    order: Float[np.ndarray, ""] = eqx.field(default_factory=lambda: np.asarray(np.nan))
    limit_order: Float[np.ndarray, ""] = eqx.field(default_factory=lambda: np.asarray(np.nan))

    @property
    def reached(self) -> bool:
        """True if the estimated error is within the tolerance."""
        return bool(self.error <= self.tolerance * self.size)

    def describe(self) -> str:
        """The result in one line."""
        asked = float(self.tolerance * self.size)
        end = "" if self.reached else f"; not the {asked:.1e} asked for: allow more steps"
        orders = f"order {self.order:.2f} measured" if np.isfinite(self.order) else "no order could be measured"
        limit = (
            f", {self.limit_order:.2f} of the extrapolated costs"
            if np.isfinite(self.limit_order)
            else ", none of the extrapolated costs"
        )
        told = f"{orders}{limit if np.isfinite(self.order) else ''}"
        return f"limit of small steps {float(self.cost):.12g}, estimated error {float(self.error):.1e} ({told}){end}"
