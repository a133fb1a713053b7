"""ẏ = f(t, y) integrated by diffrax, which loads with its first use: it takes as long to import as half of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

if TYPE_CHECKING:
    import diffrax

# ∫₀¹ f by Gauss's rule of six points, exact for polynomials of degree 11
GAUSS_NODES, GAUSS_WEIGHTS = (np.polynomial.legendre.leggauss(6) + np.array([[1.0], [0.0]])) * 0.5


class Integrated(NamedTuple):
    """y at the times asked for, (times, …) in every leaf; whether the last was reached at the tolerance; the steps taken.

    t, end: the time reached, and y there; stopped: whether a condition ended it.
    """

    y: Any
    reached: Bool[Array, ""]
    steps: Int[Array, ""]
    t: Float[Array, ""]
    end: Any
    stopped: Bool[Array, ""]


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
    clipped: bool = False,
    until: Callable | None = None,
) -> Integrated:
    """ẏ = field(t, y, args) from y at span[0] to span[1], by Dormand-Prince 8(7) or another `solver` of diffrax.

    tolerance: relative, and absolute for y of typical `sizes`, local. at: times of what is returned, in the order of the
    span; the last one alone if None. clipped: whether steps end at these: the interpolant within a step is less accurate.
    until: (t, y, args) → whether it ends after the step.
    """
    import diffrax

    control: Any = diffrax.PIDController(rtol=tolerance, atol=tolerance * sizes)
    last = diffrax.SubSaveAt(t1=True)
    found: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8() if solver is None else solver,
        *span,
        None,
        y,
        args=args,
        saveat=diffrax.SaveAt(subs=[last if at is None else diffrax.SubSaveAt(ts=at), last]),
        stepsize_controller=diffrax.ClipStepSizeController(control, step_ts=at) if clipped else control,
        event=None if until is None else diffrax.Event(lambda t, y, args, **_: until(t, y, args)),
        max_steps=max_steps,
        throw=False,
    )
    reached, stopped = (found.result == x for x in (diffrax.RESULTS.successful, diffrax.RESULTS.event_occurred))
    end = jax.tree.map(lambda x: x[-1], found.ys[1])
    return Integrated(found.ys[0], reached, found.stats["num_steps"], found.ts[1][-1], end, stopped)
