"""A smooth curve inside D between two of its points."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.numbers import as_number, as_positive, as_vector, described
from dalembert.systems.checks import InconsistentDataError
from dalembert.systems.distribution.charts import USABLE
from dalembert.systems.distribution.connection import Connection, connection
from dalembert.systems.distribution.reduction import violation
from dalembert.systems.sizes import CONSISTENT
from dalembert.systems.system import System
from dalembert.tracing import seldom

SAMPLES = 33  # points of the curve at which the chart is looked at


def cutoff(tau):
    """χ₀(τ): 1 for τ ≤ 0, 0 for τ ≥ 1, ½(1 + tanh(cot πτ)) in between; smooth, with all derivatives zero at both ends.

    Its steepest slope is -π/2, at τ = ½; χ₁ = 1 - χ₀.

    Args:
        tau: τ, of any shape.

    Returns:
        χ₀(τ), of the same shape.

    Source: Jiménez, Scheurle, eq. (30).

    Example:
        >>> from dalembert.systems import cutoff
        >>> [float(cutoff(tau)) for tau in (-1.0, 0.5, 2.0)]
        [1.0, 0.5, 0.0]
    """
    tau = jnp.asarray(tau, dtype=float)
    # Beyond |cot πτ| = 20 the function is 0 or 1 to the last digit; inside, no derivative can overflow.
    inner = jnp.clip(tau, 0.016, 0.984)
    value = 0.5 * (1.0 + jnp.tanh(1.0 / jnp.tan(jnp.pi * inner)))
    return jnp.where(tau <= 0.016, 1.0, jnp.where(tau >= 0.984, 0.0, value))


class Interpolant(eqx.Module):
    """c(t) = ψ(χ₀ ξ₁ + χ₁ ξ₂) with χ at (t - t0)/duration: in D for every t; at ξ₁ up to t0, at ξ₂ from t0 + duration
    on.

    Call it with one time to get (q, v); use jax.vmap for several times.

    Attributes:
        chart: the coordinates on D.
        ends: (2, 2n-m), ξ₁ and ξ₂.
        t0: the time of ξ₁.
        duration: the time between the two points.

    Source: Jiménez, Scheurle, Definition 3.1.
    """

    chart: Connection
    ends: Float[Array, "2 two_n_minus_m"]
    t0: Array
    duration: Array

    def __call__(self, t) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """(q, v) at one time; use jax.vmap for several times."""
        t = as_number(t, "t", "a finite time")
        weight = cutoff((t - self.t0) / self.duration)
        return self.chart.point(weight * self.ends[0] + (1.0 - weight) * self.ends[1], t)


def interpolant(system: System, first, second, *, duration: float = 1.0, t0: float = 0.0, dependent=None) -> Interpolant:
    """q = χ₀q₁ + χ₁q₂, v^a = χ₀v₁^a + χ₁v₂^a, v^α from φ(q, v) = 0: c(t0) = (q₁, v₁), c(t0 + duration) = (q₂, v₂).

    The curve connects points of the phase space; v is not the time derivative of its q.

    Args:
        system: a System with constraints of order 1.
        first: (q, v) in D, at t0.
        second: (q, v) in D, at t0 + duration.
        duration: the time between the two points.
        t0: the time of the first point.
        dependent: as for `connection`; by default the chart whose worse quality at the two points is best.

    Returns:
        An Interpolant.

    Raises:
        TypeError: as `connection`.
        ValueError: as `connection`; or no chart is good at both points, or the chart becomes singular between them. The
            message says what to do.
        InconsistentDataError: a point is off D.

    Source: Jiménez, Scheurle, Definition 3.1 and Proposition 3.1, eqs. (30-33).

    Example:
        >>> first, second = ([0.0, 0.0, 0.0], [1.0, 0.0, 0.5]), ([1.0, 0.0, 0.0], [0.5, 0.0, 0.0])
        >>> curve = da.systems.interpolant(edge, first, second)
        >>> q, v = curve(0.5)
        >>> q.tolist()
        [0.5, 0.0, 0.0]
    """
    length, begin = as_positive(duration, "duration"), as_number(t0, "t0", "a finite time")
    ends = [as_pair(first, "first"), as_pair(second, "second")]
    if ends[0][0].shape != ends[1][0].shape:
        raise ValueError(f"second: found {ends[1][0].shape[0]} numbers; the first point has {ends[0][0].shape[0]}")
    points, speeds = (jnp.stack(x) for x in zip(*ends, strict=True))
    chart = connection(system, points, speeds, begin, dependent=dependent)
    times = jnp.asarray([begin, begin + length], dtype=float)
    for name, q, v, t in zip(("first", "second"), points, speeds, times, strict=True):
        size = float(violation(system, q, v, t))
        if not size <= CONSISTENT:
            raise InconsistentDataError(f"{name}: |φ| = {size:.3g} there; the point must lie in D (dalembert.project)")
    curve = Interpolant(chart, jax.vmap(chart.coordinates)(points, speeds), times[0], times[1] - times[0])
    _check_between(curve)
    return curve


def as_pair(given, name: str) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """(q, v), two arrays (n,)."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"{name}: found {described(given)}; give a pair (q, v) of arrays (n,)")
    q = as_vector(given[0], f"{name}[0]")
    return q, as_vector(given[1], f"{name}[1]", q.shape[0])


@seldom
def _along(curve: Interpolant):
    """The quality of the chart along the curve."""
    times = curve.t0 + curve.duration * jnp.linspace(0.0, 1.0, SAMPLES)
    return jax.vmap(lambda t: curve.chart.quality(*curve(t), t))(times)


def _check_between(curve: Interpolant) -> None:
    found = np.asarray(_along(curve))
    if not np.all(found >= USABLE):
        at = float(curve.t0 + curve.duration * np.argmin(found) / (SAMPLES - 1))
        raise ValueError(
            f"first, second: the chart ends between the points (quality {found.min():.2g} near t = {at:g}); give another "
            "choice as dependent=, or connect the points in two parts, over a point of D in between"
        )
