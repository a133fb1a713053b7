"""Which velocities follow from which: the choice of dependent coordinates for φ(q, v) = 0, and how good it is."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dalembert.algebra import Newton, numerical_rank, root
from dalembert.notebook import Described
from dalembert.numbers import as_array, as_number, as_point, as_positive, as_vector, check_x64, coordinate_index
from dalembert.systems.consistency import InconsistentDataError, RankDeficientError
from dalembert.systems.distribution.reduction import (
    AFFINE,
    affinity,
    check_first_order,
    constraint_rows,
    explicit_terms,
    velocity_constraints,
    violation,
)
from dalembert.systems.equations import Time
from dalembert.systems.sizes import CONSISTENT
from dalembert.systems.system import LocalSystem, System, check_shapes, group_space
from dalembert.tracing import over_rows, seldom

Rows = Float[np.ndarray, "m n"]

USABLE = 1e-3  # quality below which a chart is refused: velocities in it then lose three digits
ENUMERATED = 1000  # so many charts are compared one by one; beyond, those that are best at one of the points


def quality_bound(m: int, n: int) -> float:
    """1/√(1 + m(n-m)): the quality that the best chart has at least, at any point."""
    return 1.0 / math.sqrt(1.0 + m * (n - m))


def other_coordinates(dependent: tuple[int, ...], n: int) -> tuple[int, ...]:
    """The other coordinates, in their order."""
    return tuple(i for i in range(n) if i not in dependent)


def largest_volume(rows: Rows) -> tuple[int, ...]:
    """Dependent coordinates with |A_ij| ≤ 1: a column-pivoted QR factorization, then exchanges while one enlarges |det φ_α|.

    Among equal pivots the last coordinates come first, as in the paper, which writes q = (q^a, q^α).
    """
    import scipy.linalg  # a third of the time to import the package, were it loaded with it

    m, n = rows.shape
    pivots = scipy.linalg.qr(rows[:, ::-1], mode="r", pivoting=True)[-1]
    chosen = [int(n - 1 - i) for i in pivots[:m]]
    while m:
        free = other_coordinates(tuple(chosen), n)
        a = np.linalg.solve(rows[:, chosen], rows[:, list(free)])
        if not a.size or np.abs(a).max() <= 1.0 + 1e-9:
            break
        i, j = np.unravel_index(np.abs(a).argmax(), a.shape)
        chosen[i] = free[j]
    return tuple(sorted(chosen))


def best_chart(rows: Sequence[Rows]) -> tuple[tuple[int, ...], float]:
    """The dependent coordinates with the largest least quality over the points, and that quality."""
    for one in rows:
        if not np.all(np.isfinite(one)):
            raise ValueError("q, v: ∂φ/∂v is not finite there")
        found = numerical_rank(one)
        if not found.full:
            raise RankDeficientError(
                f"constraints: ∂φ/∂v has rank {found.rank} of {one.shape[0]} there, so that no choice of dependent "
                "velocities exists; dalembert.solvability says what is wrong"
            )
    m, n = rows[0].shape
    charts = {largest_volume(one) for one in rows}
    if len(rows) > 1 and math.comb(n, m) <= ENUMERATED:
        charts |= set(itertools.combinations(range(n), m))
    worst = {chart: least_quality(rows, chart) for chart in charts}
    best = max(charts, key=lambda chart: (round(worst[chart], 9), chart))
    return best, worst[best]


def least_quality(rows: Sequence[Rows], dependent: tuple[int, ...]) -> float:
    """The least 1/√(1 + |A|²) over the points, A = φ_α⁻¹φ_a; 0 where the choice is singular at one of them.

    It is at most the cosine of the largest angle between ker φ_v and the coordinate plane of the a, and does not depend
    on how the constraints are written.
    """
    found = []
    for one in rows:
        block, free = one[:, list(dependent)], other_coordinates(dependent, one.shape[1])
        regular = numerical_rank(block).full
        found.append(1 / math.sqrt(1 + np.sum(np.linalg.solve(block, one[:, list(free)]) ** 2)) if regular else 0.0)
    return min(found)


def indices_of(system: System, dependent: Sequence[int | str], n: int, m: int) -> tuple[int, ...]:
    """The user's choice of dependent coordinates as sorted indices."""
    if isinstance(dependent, str | int) or not isinstance(dependent, Sequence):
        raise TypeError(f"dependent: found {dependent!r}; give a sequence of {m} names or indices")
    found = [coordinate_index(one, f"dependent: found {one!r}", n, system.coordinates) for one in dependent]
    if len(set(found)) != m or len(found) != m:
        raise ValueError(f"dependent: found {tuple(dependent)}; {m} constraints need {m} different coordinates")
    return tuple(sorted(found))


def name_of(system: System, chart: tuple[int, ...]) -> str:
    """The coordinates of a choice by name, for messages."""
    names = system.coordinates
    return ", ".join(names[i] if names else f"q[{i}]" for i in chart) or "none"


Vector = Float[Array, "n"]
Adapted = Float[Array, "two_n_minus_m"]

CLOSE = Newton(tolerance=1e-11, max_iterations=50)


def compile_method(method: Callable) -> Callable[..., Any]:
    """A method of a chart, or of what has one, under jit; plain numbers become arrays first, so that another value compiles
    nothing again. TypeError, ValueError naming an argument of another type or shape."""
    inside = seldom(method)
    names = tuple(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def call(self, *given):
        if len(given) > len(names):
            raise TypeError(f"{method.__name__}: found {len(given)} arguments; they are {', '.join(names)}")
        chart = getattr(self, "chart", self)
        pairs = zip(names, given, strict=False)
        missing = lambda name, x: x is None and name == "mapped"  # noqa: E731  the one that may be left out
        return inside(self, *(x if missing(name, x) else chart_argument(chart, name, x) for name, x in pairs))

    return call


def chart_argument(chart: Connection, name: str, given) -> Array:
    """A point ξ, q, a vector or a number, by the argument's name, as an array. What was computed may be NaN, and stays."""
    array = given if isinstance(given, jax.Array) and given.dtype == float and not given.weak_type else as_array(given, name)
    wanted = (2 * chart.n - chart.m,) if name in ("xi", "mapped") else (chart.n,) if name in ("q", "v", "w") else ()
    if array.shape != wanted:
        raise ValueError(
            f"{name}: found shape {array.shape}; the chart has n = {chart.n}, m = {chart.m}: give shape {wanted}"
        )
    return array


class Connection(Described, eqx.Module):
    """Coordinates on the constraint manifold around a state.

    ξ = (q, v^a) ↦ ψ(ξ) = (q, v) ∈ D: the dependent velocities v^α follow from φ(q, v, t) = 0.

    A = φ_α⁻¹φ_a, (m, n-m), where φ_v = (φ_a, φ_α). For linear constraints A(q) is an Ehresmann connection in
    coordinates; for others -A is the derivative of v^α as a function of v^a. The methods are compiled, take numbers and
    traced values alike, and check types and shapes. t is 0 unless given. Made by `connection`.

    Attributes:
        system: the System with the distribution D.
        order: (n,) the indices a, then the indices α; an array, so that charts of one system share compiled code.
        near: (m,) v^α at the point where the chart was made.
        affine: whether φ is affine in v. Then v^α is computed exactly; otherwise by Newton's method from `near`, with
            derivatives by the implicit function theorem.

    Source: Jiménez, Scheurle, Section 3.1, eqs. (27, 28, 29, 46); Remark 6.1, eq. (106), for nonlinear constraints.

    Example:
        >>> chart = da.systems.connection(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5])
        >>> q, v = chart.point(chart.coordinates(jnp.array([0.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.5])))
        >>> v.tolist()
        [1.0, 0.0, 0.5]
    """

    system: System
    order: Int[Array, "n"]
    near: Float[Array, "m"]
    affine: bool = eqx.field(static=True)

    @property
    def n(self) -> int:
        """Number of coordinates q."""
        return self.order.shape[0]

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.near.shape[0]

    @property
    def dependent(self) -> tuple[int, ...]:
        """The indices α of the dependent velocities; not available under jit."""
        return tuple(int(i) for i in np.asarray(self.order)[self.n - self.m :])

    @property
    def guaranteed(self) -> float:
        """A lower bound on the quality of the best chart at any point."""
        return quality_bound(self.m, self.n)

    def coordinates(self, q: Vector, v: Vector) -> Adapted:
        """ξ = (q, v^a) of a point of D."""
        q, v = chart_argument(self, "q", q), chart_argument(self, "v", v)
        return jnp.concatenate([q, v[self._free]])

    @compile_method
    def point(self, xi: Adapted, t: Time = 0.0) -> tuple[Vector, Vector]:
        """ψ(ξ) = (q, v) with φ(q, v, t) = 0, eq. (27)."""
        q, known = xi[: self.n], xi[self.n :]
        whole = lambda x: self._join(known, x)  # noqa: E731
        equations = lambda x: velocity_constraints(self.system, q, whole(x), t)  # noqa: E731
        if not self.m:
            return q, whole(jnp.zeros(0))
        if self.affine:
            return q, whole(self.near - jnp.linalg.solve(jax.jacfwd(equations)(self.near), equations(self.near)))
        return q, whole(root(equations, self.near, lambda x: 1.0 + jnp.abs(x), CLOSE)[0])

    @compile_method
    def rows(self, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, "m n"]:
        """φ_v; μ(q) for linear constraints."""
        return constraint_rows(self.system, q, v, t)

    @compile_method
    def coefficients(self, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, "m n_minus_m"]:
        """A^α_a at (q, v); independent of v for constraints affine in v. Infinite or NaN where the chart is
        singular."""
        rows = self.rows(q, v, t)
        return jnp.linalg.solve(rows[:, self._bound], rows[:, self._free]) if self.m else rows

    @compile_method
    def quality(self, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, ""]:
        """1/√(1 + |A|²): 1 is best; 0 is where the chart is singular. Below half of `guaranteed` another chart is twice
        as good."""
        size = jnp.sum(self.coefficients(q, v, t) ** 2)
        return jnp.where(jnp.isfinite(size), 1.0 / jnp.sqrt(1.0 + size), 0.0)

    @compile_method
    def horizontal(self, q: Vector, v: Vector, w: Vector, t: Time = 0.0) -> Vector:
        """hor w = (w^a, -A w^a) ∈ ker φ_v, for any w ∈ T_qQ."""
        return self._join(w[self._free], -self.coefficients(q, v, t) @ w[self._free])

    @compile_method
    def vertical(self, q: Vector, v: Vector, w: Vector, t: Time = 0.0) -> Vector:
        """ver w = w - hor w = (0, w^α + A w^a)."""
        return w - self.horizontal(q, v, w, t)

    @compile_method
    def tangent(self, xi: Adapted, t: Time = 0.0) -> Float[Array, "two_n two_n_minus_m"]:
        """∇ψ(ξ), eq. (28): the rows of v^α are -φ_α⁻¹(φ_q, φ_a). Its columns span the tangent space of D."""
        q, v = self.point(xi, t)
        n, free = self.n, self.n - self.m
        matrix = jnp.eye(2 * n, n + free).at[n:].set(0.0).at[n + self._free, n + jnp.arange(free)].set(1.0)
        if not self.m:
            return matrix
        slopes = jax.jacfwd(lambda x: velocity_constraints(self.system, x, v, t))(q)
        rows = self.rows(q, v, t)
        sides = jnp.concatenate([slopes, rows[:, self._free]], axis=1)
        return matrix.at[n + self._bound].set(-jnp.linalg.solve(rows[:, self._bound], sides))

    def left_inverse(self) -> Float[Array, "two_n_minus_m two_n"]:
        """The constant matrix that takes (δq, δv) to (δq, δv^a), a left inverse of ∇ψ, eq. (29)."""
        return jnp.eye(2 * self.n)[jnp.concatenate([jnp.arange(self.n), self.n + self._free])]

    @compile_method
    def field(self, xi: Adapted, t: Time = 0.0) -> Adapted:
        """ξ̇ = (v, v̇^a) with v = ψ_v(ξ) and v̇ of the explicit formula: the reduced equation, eqs. (26, 46)."""
        q, v = self.point(xi, t)
        return self.coordinates(v, explicit_terms(self.system, q, v, t).a)

    @property
    def _free(self) -> Int[Array, "n_minus_m"]:
        return self.order[: self.n - self.m]

    @property
    def _bound(self) -> Int[Array, "m"]:
        return self.order[self.n - self.m :]

    def _join(self, free: Array, bound: Array) -> Vector:
        return jnp.zeros(self.n).at[self.order].set(jnp.concatenate([free, bound]))


def connection(system: System, q, v, t: Time = 0.0, *, dependent: Sequence[int | str] | None = None) -> Connection:
    """Make coordinates on the constraint manifold around a state.

    D-adapted coordinates ξ = (q, v^a) around (q, v): which velocities v^α are dependent, and how they follow from ξ.

    Args:
        system: a System with constraints of order 1.
        q: (n,) position of a point of D at which the chart must be well conditioned, or (B, n) for several points.
        v: (n,) velocity of the point, or (B, n).
        t: the time.
        dependent: m names or indices of coordinates. By default, at a single point, those of largest |det φ_α|, so that
            the entries of A are at most 1; for several points, those whose worst quality over the points is best.

    Returns:
        A Connection.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument is wrong, or the dependent coordinates cannot be chosen so; the message names a choice
            that works.
        RankDeficientError: φ_v does not have full rank.

    Source: Jiménez, Scheurle, Section 3.1.

    Example:
        >>> da.systems.connection(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5]).dependent  # of (x, y, θ) the velocity of y
        (1,)
    """
    check_x64()
    check_first_order(system, "connection", holonomic=False)
    return velocity_chart(system, q, v, t, dependent)


def velocity_chart(system: System, q, v, t: Time, dependent: Sequence[int | str] | None) -> Connection:
    """`connection`, of what is checked; a holonomic constraint restricts v by dφ/dt = 0, and what restricts q is not
    looked at: the chart is one of all q."""
    points, speeds = as_points(q, v)
    n, now = points.shape[1], jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
    m = sum(check_shapes(system, points[0], speeds[0], now))
    rows, bends = (np.asarray(x) for x in over_rows(_velocity_slopes, (points, speeds), system, now))
    if m == 0:
        return Connection(system, jnp.arange(n), jnp.zeros(0), True)
    best, least = best_chart(list(rows))
    chart = best if dependent is None else indices_of(system, dependent, n, m)
    found = least if chart == best else least_quality(list(rows), chart)
    if found < USABLE:
        _refuse(system, chart, found, best, least, len(rows))
    order = jnp.asarray([*other_coordinates(chart, n), *chart])
    return Connection(system, order, speeds[0][order[n - m :]], bool(np.all(bends <= AFFINE)))


def as_points(q, v, names: tuple[str, str] = ("q", "v")) -> tuple[Float[Array, "B n"], Float[Array, "B n"]]:
    """One point (n,) or several (B, n), as (B, n), finite and of one shape."""
    points, speeds = (_rows_of(given, name) for given, name in zip((q, v), names, strict=True))
    if points.shape != speeds.shape:
        raise ValueError(f"{', '.join(names)}: found {points.shape} and {speeds.shape}, points first; they must agree")
    return points, speeds


def read_points(system: System, q0, v0) -> tuple[Float[Array, "B size"], Float[Array, "B n"]]:
    """The same of a system, and on groups as they are stored."""
    if (space := group_space(system)) is None:
        return as_points(q0, v0, ("q0", "v0"))
    read = space.read_position(q0, "q0"), space.read_velocity(v0, "v0")
    points, speeds = (jnp.atleast_2d(jnp.asarray(x)) for x in read)
    if len(points) != len(speeds):
        raise ValueError(f"q0, v0: found {len(points)} and {len(speeds)} points; they must agree")
    return points, speeds


def around_first(system: System, q0, v0) -> tuple[System, Float[Array, "B n"], Float[Array, "B n"]]:
    """The system and points of it, on groups in coordinates around the first."""
    points, speeds = read_points(system, q0, v0)
    if system.space.flat:
        return system, points, speeds
    local = LocalSystem(system, points[0])
    y, w = jax.vmap(local.from_group)(points, speeds)
    if not np.all(np.isfinite(y)):
        raise ValueError("q0: a point is half a turn from the first, around which the coordinates are")
    return local, y, w


def _rows_of(given, name: str) -> Float[Array, "B n"]:
    array = as_vector(None, name) if given is None else as_array(given, name)
    return array if array.ndim == 2 and array.size else as_vector(array, name)[None]


def _velocity_slopes(system: System, t, q, v):
    """φ_v, and its relative change when v changes."""
    other = jnp.asarray(np.random.default_rng(1).uniform(-1.0, 1.0, len(v)))
    return constraint_rows(system, q, v, t), affinity(system, q, v, v + (1 + jnp.abs(v)) * other, t)


def _refuse(system: System, chart, found: float, best, least: float, points: int) -> None:
    where = "at (q, v)" if points == 1 else f"at one of the {points} points"
    if chart == best:
        raise ValueError(
            f"q, v: no choice of dependent velocities is good at all {points} points (the best, {name_of(system, best)}, "
            f"has quality {least:.2g} {where}); use several charts, with points in between that two of them share"
        )
    singular = found < 1e-9
    what = "cannot be dependent" if singular else f"are a bad choice (quality {found:.2g}, from 0 to 1)"
    raise ValueError(
        f"dependent: the velocities of {name_of(system, chart)} {what} {where}: the columns of ∂φ/∂v for them are "
        f"{'singular' if singular else 'nearly so'}. Choose {name_of(system, best)} (quality {least:.2g})"
    )


SAMPLES = 33  # points of the curve at which the chart is looked at


def cutoff(tau):
    """A smooth step from one to zero.

    χ₀(τ): 1 for τ ≤ 0, 0 for τ ≥ 1, ½(1 + tanh(cot πτ)) in between; smooth, with all derivatives zero at both ends.

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


class Interpolant(Described, eqx.Module):
    """A curve on the constraint manifold between two states.

    c(t) = ψ(χ₀ ξ₁ + χ₁ ξ₂) with χ at (t - t0)/duration: in D for every t; at ξ₁ up to t0, at ξ₂ from t0 + duration
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
    """Join two states by a curve on the constraint manifold.

    q = χ₀q₁ + χ₁q₂, v^a = χ₀v₁^a + χ₁v₂^a, v^α from φ(q, v) = 0: c(t0) = (q₁, v₁), c(t0 + duration) = (q₂, v₂).

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
    ends = [as_point(first, "first"), as_point(second, "second")]
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


@seldom
def _quality_along(curve: Interpolant):
    """The quality of the chart along the curve."""
    times = curve.t0 + curve.duration * jnp.linspace(0.0, 1.0, SAMPLES)
    return jax.vmap(lambda t: curve.chart.quality(*curve(t), t))(times)


def _check_between(curve: Interpolant) -> None:
    found = np.asarray(_quality_along(curve))
    if not np.all(found >= USABLE):
        at = float(curve.t0 + curve.duration * np.argmin(found) / (SAMPLES - 1))
        raise ValueError(
            f"first, second: the chart ends between the points (quality {found.min():.2g} near t = {at:g}); give another "
            "choice as dependent=, or connect the points in two parts, over a point of D in between"
        )
