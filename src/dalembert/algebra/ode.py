"""ẏ = f(t, y) integrated by diffrax, which loads with its first use: it takes as long to import as half of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

if TYPE_CHECKING:
    import diffrax

# ∫₀¹ f by Gauss's rule of six points, exact for polynomials of degree 11
GAUSS_NODES, GAUSS_WEIGHTS = (np.polynomial.legendre.leggauss(6) + np.array([[1.0], [0.0]])) * 0.5


class Integrated(NamedTuple):
    """y at the times asked for, (times, …) in every leaf; whether the last was reached at the tolerance; the steps taken."""

    y: Any
    reached: Bool[Array, ""]
    steps: Int[Array, ""]


def integrate(
    field: Callable,
    args: Any,
    span: tuple[Any, Any],
    y: PyTree[Float[Array, "..."]],
    tolerance: float | Float[Array, ""],
    *,
    sizes: float | Float[Array, "..."] = 1.0,
    at: Float[Array, "times"] | None = None,
    solver: diffrax.AbstractSolver | None = None,
    max_steps: int = 100_000,
) -> Integrated:
    """ẏ = field(t, y, args) from y at span[0] to span[1], by Dormand-Prince 8(7) or another `solver` of diffrax.

    tolerance: relative, and absolute for y of typical `sizes`, local. at: times of what is returned, in the order of the
    span; the last one alone if None.
    """
    import diffrax

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8() if solver is None else solver,
        *span,
        None,
        y,
        args=args,
        saveat=diffrax.SaveAt(t1=True) if at is None else diffrax.SaveAt(ts=at),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance * sizes),
        max_steps=max_steps,
        throw=False,
    )
    return Integrated(solution.ys, solution.result == diffrax.RESULTS.successful, solution.stats["num_steps"])
