"""Coordinates on D = {φ(q, v, t) = 0}: an Ehresmann connection, or its nonlinear counterpart, and the equations in them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dalembert.algebra import Newton, root
from dalembert.numbers import as_array, as_number, as_vector
from dalembert.systems.checks import check_x64
from dalembert.systems.distribution.charts import (
    USABLE,
    best_chart,
    guaranteed,
    indices_of,
    least_quality,
    name_of,
    other_coordinates,
)
from dalembert.systems.distribution.integrability import AFFINE, affinity
from dalembert.systems.distribution.reduction import check_first_order, constraint_rows, explicit_terms, velocity_constraints
from dalembert.systems.equations import Time
from dalembert.systems.system import System, check_shapes
from dalembert.tracing import seldom

Vector = Float[Array, "n"]
Adapted = Float[Array, "two_n_minus_m"]

CLOSE = Newton(tolerance=1e-11, max_iterations=50)


def compiled(method: Callable) -> Callable[..., Any]:
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


class Connection(eqx.Module):
    """ξ = (q, v^a) ↦ ψ(ξ) = (q, v) ∈ D: the dependent velocities v^α follow from φ(q, v, t) = 0.

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
        return guaranteed(self.m, self.n)

    def coordinates(self, q: Vector, v: Vector) -> Adapted:
        """ξ = (q, v^a) of a point of D."""
        q, v = chart_argument(self, "q", q), chart_argument(self, "v", v)
        return jnp.concatenate([q, v[self._free]])

    @compiled
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

    @compiled
    def rows(self, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, "m n"]:
        """φ_v; μ(q) for linear constraints."""
        return constraint_rows(self.system, q, v, t)

    @compiled
    def coefficients(self, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, "m n_minus_m"]:
        """A^α_a at (q, v); independent of v for constraints affine in v. Infinite or NaN where the chart is
        singular."""
        rows = self.rows(q, v, t)
        return jnp.linalg.solve(rows[:, self._bound], rows[:, self._free]) if self.m else rows

    @compiled
    def quality(self, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, ""]:
        """1/√(1 + |A|²): 1 is best; 0 is where the chart is singular. Below half of `guaranteed` another chart is twice
        as good."""
        size = jnp.sum(self.coefficients(q, v, t) ** 2)
        return jnp.where(jnp.isfinite(size), 1.0 / jnp.sqrt(1.0 + size), 0.0)

    @compiled
    def horizontal(self, q: Vector, v: Vector, w: Vector, t: Time = 0.0) -> Vector:
        """hor w = (w^a, -A w^a) ∈ ker φ_v, for any w ∈ T_qQ."""
        return self._join(w[self._free], -self.coefficients(q, v, t) @ w[self._free])

    @compiled
    def vertical(self, q: Vector, v: Vector, w: Vector, t: Time = 0.0) -> Vector:
        """ver w = w - hor w = (0, w^α + A w^a)."""
        return w - self.horizontal(q, v, w, t)

    @compiled
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

    @compiled
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
    """D-adapted coordinates ξ = (q, v^a) around (q, v): which velocities v^α are dependent, and how they follow from ξ.

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
    """As `connection`, of what is checked; a holonomic constraint restricts v by dφ/dt = 0, and what restricts q is not
    looked at: the chart is one of all q."""
    points, speeds = as_points(q, v)
    n, now = points.shape[1], jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
    m = sum(check_shapes(system, points[0], speeds[0], now))
    rows, bends = (np.asarray(x) for x in _rows(system, points, speeds, now))
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


def _rows_of(given, name: str) -> Float[Array, "B n"]:
    array = as_vector(None, name) if given is None else as_array(given, name)
    return array if array.ndim == 2 and array.size else as_vector(array, name)[None]


@seldom
def _rows(system: System, points, speeds, t):
    """φ_v at every point, and its relative change when v changes."""
    n = points.shape[1]
    other = jnp.asarray(np.random.default_rng(1).uniform(-1.0, 1.0, n))
    rows = jax.vmap(lambda x, w: constraint_rows(system, x, w, t))(points, speeds)
    bends = jax.vmap(lambda x, w: affinity(system, x, w, w + (1 + jnp.abs(w)) * other, t))(points, speeds)
    return rows, bends


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
