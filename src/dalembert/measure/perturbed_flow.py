"""A one step map as the flow of a perturbed equation: ż = f(z) + ε^p g(ε, t/ε, z), with g smooth and of period 1 in t/ε.

The interpolation is built from the exact flow on both sides of a step, in coordinates on D, so that it stays in D.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import Scheme, as_scheme
from dalembert.notebook import Described
from dalembert.numbers import as_number, as_positive, as_tolerance, as_vector, first_line
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import (
    Connection,
    System,
    check_shapes,
    check_system,
    connection,
    cutoff,
    reduction,
    velocity_constraints,
)
from dalembert.systems.distribution.adapted import flow
from dalembert.systems.distribution.charts import around_first, chart_argument, compile_method
from dalembert.systems.distribution.reduction import check_first_order, explicit_terms
from dalembert.systems.pickling import reduced
from dalembert.systems.shapes import check_indices
from dalembert.systems.system import LocalSystem
from dalembert.tracing import seldom

Vector = Float[Array, "n"]
Adapted = Float[Array, "two_n_minus_m"]

CONTRACTIONS = 30


class SchemeMap(eqx.Module):
    """Φ(h, (q, v)): one step of `simulate` with a scheme, from t0; on groups in the coordinates of the system."""

    system: System
    scheme: Scheme | None
    t0: Any  # a time; `simulate` takes traced ones, too

    def take_step(self, h, q: Vector, v: Vector) -> tuple[Vector, Vector, Path]:
        """(q, v) after the step, and its whole path, with multipliers."""
        system, local = self.system, self.system if isinstance(self.system, LocalSystem) else None
        if local is not None:
            system, (q, v) = local.original, local.on_group(q, v)
        path = simulate(system, q, v, h=h, steps=1, t0=self.t0, scheme=self.scheme, throw=False)
        q, v = path.q[-1], path.v[-1]
        if local is not None:
            q, v = local.from_group(q, v)
        return q, v, path

    def __call__(self, h, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        q, v, path = self.take_step(h, q, v)
        lost = path.steps_done < 1
        return jnp.where(lost, jnp.nan, q), jnp.where(lost, jnp.nan, v)


class LocalMap(eqx.Module):
    """A map (h, q, v) → (q, v) on groups in the coordinates of a system."""

    system: LocalSystem
    base: Callable

    def __call__(self, h, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        return self.system.from_group(*self.base(h, *self.system.on_group(q, v)))


class Piece(NamedTuple):
    """At one phase τ, in ξ: the point z = G, the perturbation ε^p g there, f(z), and F(τε, y) - F(τε - ε, Φ)."""

    xi: Adapted
    perturbation: Adapted
    field: Adapted
    gap: Adapted

    @classmethod
    def between(cls, left: Any, right: Any, weight: Any, rate: Any, fields: Callable) -> Piece:
        """Of the two flows, G = χ₀ left + χ₁ right. rate: dχ₀/dt; fields: f at three points."""
        z = weight * left + (1.0 - weight) * right
        f_left, f_right, f = fields(left, right, z)
        bend = weight * f_left + (1.0 - weight) * f_right - f  # of second order in left - right
        return cls(z, bend + rate * (left - right), f, left - right)


class Perturbation(Described, eqx.Module):
    """The equation whose exact flow a scheme follows.

    G(t, ε, y) = χ₀(t/ε) F(t, y) + χ₁(t/ε) F(t - ε, Φ(ε, y)),  ε^p g = ∂_tG - f(G),  in ξ = (q, v^a) on D.

    F is the exact flow of the reduced equation in the chart. The methods return ε^p g and not g, so that p need not be
    known. tau is t/ε ∈ [0, 1]; outside, the perturbation is continued with period 1.

    On groups q is y of g = g₀τ(y) around the first of the points given, and v its rate: `chart.system.from_group(q, v)`
    makes them from a state as a path has it, `on_group` leads back.

    Attributes:
        chart: coordinates on D.
        step: Φ, (h, q, v) → (q, v), a map of D to itself.
        t0: the time.
        tolerance: relative and absolute tolerance of the exact flow.

    Source: Jiménez, Scheurle, Proposition 4.1 and Corollary 4.1, eqs. (38-45), after Fiedler and Scheurle. What
    differs: systems that depend on time are allowed, at a fixed t0; g then depends on t0 too.
    """

    chart: Connection
    step: Callable
    t0: Float[Array, ""]
    tolerance: float = eqx.field(static=True)

    __reduce__ = reduced

    @compile_method
    def map(self, h, xi: Adapted) -> Adapted:
        """Φ in the coordinates ξ; a component of Φ that leaves D is not visible here."""
        q, v = self.step(h, *self.chart.point(xi, self.t0))
        return self.chart.coordinates(q, v)

    @compile_method
    def flow(self, xi: Adapted, t, duration) -> Adapted:
        """F from time t0 + t, over a duration of either sign."""
        return flow(self.chart, xi, self.t0 + t, duration, self.tolerance)

    @compile_method
    def from_start(self, h, tau, xi: Adapted, mapped: Adapted | None = None) -> Piece:
        """z = G(τε, ε, y) and ε^p g(ε, τ, z) for the starting point y = xi; mapped: Φ(ε, y) where it is known."""
        return self._piece(h, tau, *self._sides(h, tau, xi, self.map(h, xi) if mapped is None else mapped))

    @compile_method
    def __call__(self, h, tau, xi: Adapted) -> Adapted:
        """ε^p g(ε, τ, ξ) at any point, eq. (42); of period 1 in τ."""
        phase = tau - jnp.floor(tau)
        return self._piece(h, phase, *self._invert(h, phase, xi)[1]).perturbation

    @compile_method
    def start(self, h, tau, xi: Adapted) -> Adapted:
        """The y with G(τε, ε, y) = ξ, eq. (43), by y ← F(-τε, ξ - (G - F)(τε, y)), which contracts by O(ε^(p+1))."""
        return self._invert(h, tau, xi)[0]

    def pushed(self, h, tau, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        """ε^p ∇ψ g = ε^p (g̃_q, g̃_v) at a point of D, tangent to D: the perturbation of (q̇, v̇), eqs. (48-50)."""
        h, tau = chart_argument(self.chart, "h", h), chart_argument(self.chart, "tau", tau)
        xi, t = self.chart.coordinates(q, v), self.t0 + tau * h
        both = self.chart.tangent(xi, t) @ self(h, tau, xi)
        return both[: self.chart.n], both[self.chart.n :]

    def period(self, h, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        """The perturbed equation over one period: Φ(ε, (q, v)) again, up to 10 times the tolerance, as a check.

        Integrated by SciPy; not available under jit.
        """
        import scipy.integrate  # loads with its first use

        h = as_positive(h, "h", "a positive, finite step")

        def perturbed_field(t, at):
            xi = jnp.asarray(at)
            return np.asarray(self.chart.field(xi, self.t0 + t) + self(h, t / h, xi))

        begin = np.asarray(self.chart.coordinates(q, v))
        wanted = {"method": "DOP853", "rtol": 10 * self.tolerance, "atol": 10 * self.tolerance}
        found = scipy.integrate.solve_ivp(perturbed_field, (0.0, h), begin, **wanted)
        if not found.success:
            raise RuntimeError(f"period: the perturbed equation could not be integrated: {found.message}")
        return self.chart.point(jnp.asarray(found.y[:, -1]), self.t0 + h)

    def _invert(self, h, tau, xi: Adapted) -> tuple[Adapted, Float[Array, "2 two_n_minus_m"]]:
        """y with G(τε, ε, y) = ξ, and the two sides of which G is made there."""
        weight = 1.0 - cutoff(tau)

        def better(carry):
            y, sides, _, k = carry
            new = self.flow(xi - weight * (sides[1] - sides[0]), tau * h, -tau * h)
            change = jnp.max(jnp.abs(new - y) / (1.0 + jnp.abs(new)))
            return new, self._sides(h, tau, new, self.map(h, new)), change, k + 1

        def goes_on(carry):
            return (carry[2] > self.tolerance) & (carry[3] < CONTRACTIONS)

        first = (xi, jnp.stack([xi, xi]), jnp.asarray(jnp.inf), 0)  # without a gap: y = F(-τε, ξ) after the first time
        return jax.lax.while_loop(goes_on, better, first)[:2]

    def _piece(self, h, tau, left: Adapted, right: Adapted) -> Piece:
        weight, slope = jax.value_and_grad(cutoff)(jnp.asarray(tau, dtype=float))
        fields = jax.vmap(lambda x: self.chart.field(x, self.t0 + tau * h))
        return Piece.between(left, right, weight, slope / h, lambda *sides: fields(jnp.stack(sides)))

    def _sides(self, h, tau, y: Adapted, mapped: Adapted) -> Float[Array, "2 two_n_minus_m"]:
        """F(τε, y) and F(τε - ε, Φ(ε, y)), in one batch: one compiled integration."""
        first = jnp.asarray([0.0, 1.0]) * h
        return jax.vmap(self.flow)(jnp.stack([y, mapped]), first, tau * h - first)


def perturbation(
    system: System,
    q0,
    v0,
    *,
    scheme: Scheme | None = None,
    step: Callable | None = None,
    t0: float = 0.0,
    dependent=None,
    tolerance: float = 1e-13,
) -> Perturbation:
    """Find the perturbed equation whose exact flow a scheme follows.

    ż = f(z) + ε^p g(ε, t/ε, z), the equation whose time-ε flow is one step of a scheme, or of a map Φ(ε, z) given as
    `step`.

    Args:
        system: a System with constraints of order 1.
        q0: (n,) position of a point of D at which the chart must be well conditioned, or (B, n) for several points.
        v0: (n,) velocity of the point, or (B, n).
        scheme: as for `simulate`, in a form that starts from (q, v); the default scheme if neither scheme nor step is
            given.
        step: (h, q, v) → (q, v), written with jax.numpy, a map of D to itself; on groups q and v are as in a path.
        t0: the time.
        dependent: as for `connection`.
        tolerance: relative and absolute tolerance of the exact flow F.

    Returns:
        A Perturbation.

    Raises:
        ValueError: as `connection` and `reduction`; or scheme and step are both given, or unsuitable.
        TypeError: as `connection` and `reduction`; or scheme or step is of the wrong type.

    Source: Jiménez, Scheurle, Proposition 4.1 and Corollary 4.1.

    Example:
        >>> made = da.measure.perturbation(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5])
        >>> xi = made.chart.coordinates(jnp.array([0.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.5]))
        >>> made.map(0.1, xi).shape  # one step of the scheme, in ξ
        (5,)
    """
    check_system(system)
    system, points, speeds = around_first(system, q0, v0)
    check_first_order(system, "perturbation", holonomic=False)
    accuracy, start = float(as_tolerance(tolerance)), as_number(t0, "t0", "a finite time")
    chart = connection(system, points, speeds, start, dependent=dependent)
    for q, v in zip(points, speeds, strict=True):
        reduction(system, q, v, start)
    begin = jnp.asarray(start, dtype=float)
    made = one_step_map(system, scheme, step, begin)
    if step is not None:
        _check_step(made, points[0], speeds[0])
    return Perturbation(chart, made, begin, accuracy)


def _check_step(step: Callable, q: Vector, v: Vector) -> None:
    """The shape of what a map returns, and that it can be traced at all."""
    try:
        jaxpr, found = jax.make_jaxpr(step, return_shape=True)(jnp.ones(()), q, v)
        shapes = [x.shape for x in found]
    except Exception as error:
        raise TypeError(
            f"step: could not be traced: {type(error).__name__}: {first_line(error)}. It is called as (h, q, v) "
            "with arrays of JAX, and returns (q, v)"
        ) from error
    check_indices(jaxpr, "step")
    if shapes != [q.shape, v.shape]:
        raise ValueError(f"step: returns shapes {shapes}; (q, v) of shape {q.shape} each are needed")


def one_step_map(system: System, scheme: Scheme | None, step: Callable | None, t0) -> Callable:
    """The user's map, or one step of a scheme."""
    if step is not None:
        if scheme is not None:
            raise ValueError("scheme, step: found both; give one of them")
        if not callable(step):
            raise TypeError(f"step: found {type(step).__name__}; give a function (h, q, v) → (q, v)")
        return LocalMap(system, step) if isinstance(system, LocalSystem) else step
    if as_scheme(scheme).form_for(system.constraints) == "nodes":
        raise ValueError(
            "scheme: the form 'nodes' has its velocities between the nodes and is not a map of (q, v); use "
            "drift_kick_drift, the same equations from (q, v), or give the map as step="
        )
    return SchemeMap(system, scheme, t0)


def projected_perturbation(system: System, q: Vector, v: Vector, g_q: Vector, g_v: Vector, t=0.0) -> tuple[Vector, Array]:
    """Compute how a perturbation changes acceleration and multipliers.

    (ĝ_v - m⁻¹RᵀC⁻¹ s, -C⁻¹ s), s = φ_q ĝ_q + φ_v ĝ_v: the change of v̇ and λ on D under a perturbation (ĝ_q, ĝ_v) of
    the differential-algebraic equation.

    With (ĝ_q, ĝ_v) tangent to D, as `Perturbation.pushed` returns it, s = 0 and nothing changes; otherwise the
    constraint forces remove the normal component.

    Args:
        system: a System with constraints of order 0 and 1.
        q: (n,).
        v: (n,).
        g_q: ĝ_q (n,).
        g_v: ĝ_v (n,).
        t: time.

    Returns:
        The changes of v̇ (n,) and of λ (m,).

    Raises:
        ValueError: an argument is wrong; the message names it.
        TypeError: an argument is of the wrong type.

    Source: Jiménez, Scheurle, Remark 4.5, eqs. (51-59). Their simplification (62-65) is not used: it rests on m =
    μᵀC⁻¹μ, Lemma 4.4, whose right side has rank m < n.

    Example:
        >>> q, v = jnp.array([0.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.5])
        >>> change, force = da.measure.projected_perturbation(edge, q, v, jnp.zeros(3), jnp.array([0.0, 1.0, 0.0]))
        >>> (change + 0.0).tolist()  # a push across the blade does nothing
        [0.0, 0.0, 0.0]
    """
    check_first_order(system, "projected_perturbation")
    q = as_vector(q, "q")
    given = (as_vector(x, name, q.shape[0]) for name, x in (("v", v), ("g_q", g_q), ("g_v", g_v)))
    now = jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
    v, g_q, g_v = given
    check_shapes(system, q, v, now)
    return _remove_normal_part(system, q, v, g_q, g_v, now)


@seldom
def _remove_normal_part(system: System, q: Vector, v: Vector, g_q: Vector, g_v: Vector, t) -> tuple[Vector, Array]:
    terms = explicit_terms(system, q, v, t)
    s = jax.jvp(lambda x, w: velocity_constraints(system, x, w, t), (q, v), (g_q, g_v))[1]
    if not s.shape[0]:
        return g_v, s
    change = -jnp.linalg.solve(terms.coupling, s)
    return g_v + jnp.linalg.solve(terms.mass, terms.reactions.T @ change), change
