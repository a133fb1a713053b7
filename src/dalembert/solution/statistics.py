"""BoundaryStatistics: what Newton's method did. Numbers only."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int


class BoundaryStatistics(eqx.Module):
    """What Newton's method on the KKT equations did.

    Attributes:
        iterations: their number.
        factorizations: their number.
        restorations: their number; a restoration reduces the constraints alone.
        update: last change of the path, relative to its size.
        residual: largest component of the node equations, divided by the largest entry of its row.
        violation: Σ h|φ|.
        shift: what was added to the second derivatives in the last step.
        condition: estimate of the 1-norm condition of the equilibrated KKT matrix.
        alternation: the largest part of a multiplier that changes its sign from node to node, relative to the multiplier,
            where it is no part of a smooth function; 0 otherwise. Beside Outcome.SUCCESS it is rounding.
        violated_at: the time where the constraints are violated most, where the iteration ended with a violation; NaN of
            others.

    Example:
        >>> bool(solution.statistics.residual < 1e-9)
        True
    """

    iterations: Int[np.ndarray, ""]
    factorizations: Int[np.ndarray, ""]
    restorations: Int[np.ndarray, ""]
    update: Float[np.ndarray, ""]
    residual: Float[np.ndarray, ""]
    violation: Float[np.ndarray, ""]
    shift: Float[np.ndarray, ""]
    condition: Float[np.ndarray, ""]
    alternation: Float[np.ndarray, ""]
    violated_at: Float[np.ndarray, ""] = eqx.field(default_factory=lambda: np.asarray(np.nan))
