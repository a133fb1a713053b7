"""BoundaryStatistics: what Newton's method did. Numbers only."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int


class BoundaryStatistics(eqx.Module):
    """Counts and residuals of Newton's method on the KKT equations.

    Attributes:
        iterations: number of iterations.
        factorizations: number of factorizations of the KKT matrix.
        restorations: number of restorations: phases that reduce the violation of the constraints alone.
        update: last change of the path, relative to its size.
        residual: largest component of the node equations, divided by the largest entry of its row.
        violation: Σ h|φ|.
        shift: factor of the diagonal that was added to the second derivatives in the last step; 0 if none was.
        condition: estimated condition number (1-norm) of the equilibrated KKT matrix.
        alternation: the largest part of a multiplier that alternates in sign from node to node, relative to the
            multiplier, unless it belongs to a smooth function; 0 otherwise. With Outcome.SUCCESS it is rounding error.
        violated_at: the time at which the constraints are violated most, if the iteration ended with a violation; NaN
            otherwise.

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
