"""Lyapunov: a constraint that makes a function fall along the motion, and the control that it prescribes.

Along the motion dV/dt + F = φ₀(q,v) + u(q,v) λ; the physical control is -φ₀/u.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import GAUSS_NODES, GAUSS_WEIGHTS, agree
from dalembert.numbers import EPSILON, as_function, as_numbers, read_axis
from dalembert.systems.constraints import Constraint, Law, Matrix, Rows, Vector
from dalembert.systems.equations import Time, forced_motion
from dalembert.systems.shapes import check_scalar, output_shape
from dalembert.systems.system import System
from dalembert.tracing import Jitted

OR_ROW = "a row (n,), or a function of q that returns such a row"


class Lyapunov(Constraint):
    """A constraint that makes a function decrease along the motion at a given rate.

    dV/dt = -F along the motion, enforced by one actuator: V_q v + V_v a (+ V_t) + F = 0, reactions = actuated.

    The multiplier λ is the control. Along the motion dV/dt + F = φ₀(q,v) + u(q,v) λ, where u, the coefficient of λ, is
    found by differentiation. If V solves the matching equation, φ₀ is divisible by u, and λ = -φ₀/u is smooth.

    Args:
        V: `V(q, v)`, (n,), (n,) → ().
        F: `F(q, v)`, (n,), (n,) → (), the rate at which V decreases.
        actuated: the name or the index of the actuated coordinate, on groups of an axis of the velocities, such as "R.1";
            or the direction of the actuator's force: a constant row (n,), or a function q → (n,).

    Raises:
        TypeError: V or F is not a function, or actuated is of the wrong type.
        ValueError: actuated is neither a name, an index nor a row.

    Example:
        >>> damped = da.Lyapunov(lambda q, v: 0.5 * v @ v + 0.5 * q @ q, lambda q, v: v @ v, actuated=0)
        >>> damped.actuated, damped.order
        (0, 2)
    """

    order: ClassVar[int] = 2
    is_control: ClassVar[bool] = True
    V: Callable = eqx.field(static=True)
    F: Callable = eqx.field(static=True)
    actuated: int | str | tuple[float, ...] | Callable = eqx.field(static=True)

    def __init__(self, V: Callable, F: Callable, actuated: Any):
        self.V, self.F = as_function(V, "V", "V(q, v)"), as_function(F, "F", "F(q, v)")
        if callable(actuated) or isinstance(actuated, str):
            self.actuated = actuated
        elif isinstance(actuated, int | np.integer) and not isinstance(actuated, bool):
            self.actuated = int(actuated)
        else:
            row = as_numbers(actuated, "actuated")
            if row.ndim != 1 or not row.size:
                raise ValueError(
                    f"actuated: found shape {row.shape}; give the name or the index of one coordinate, {OR_ROW}"
                )
            self.actuated = tuple(row.tolist())

    def residual(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Rows:
        now = jnp.asarray(t, dtype=float)
        call = lambda *x: system.call(self.V, x[0], x[1], t=x[2])  # noqa: E731
        rate = jax.jvp(call, (q, v, now), (system.space.rate(q, v), a, jnp.ones_like(now)))[1]
        return jnp.atleast_1d(rate + system.call(self.F, q, v, t=t))

    def force_rows(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Matrix:
        if callable(self.actuated):
            return jnp.atleast_2d(system.call(self.actuated, q, t=t))
        if isinstance(self.actuated, tuple):
            return jnp.asarray(self.actuated)[None, :]
        return jnp.zeros((1, v.shape[0])).at[0, read_axis(self.actuated, system.velocities, "actuated", OR_ROW)].set(1.0)

    def law(self, system: Any) -> Law | None:
        return functools.partial(lyapunov_control, system) if deflatable(system.constraints) else None

    def check(self, system: Any, name: str, point: tuple[Vector, Vector, Vector], t) -> int:
        (q, v, _), n, names, actuated = point, len(point[1]), system.trailing, self.actuated
        for label, function in (("V", self.V), ("F", self.F)):
            check_scalar(lambda f=function: system.call(f, q, v, t=t), f"{name} {label}", "q, v" + names)
        axis = read_axis(actuated, system.velocities, f"{name} actuated", OR_ROW) if isinstance(actuated, int | str) else 0
        if not 0 <= axis < n:
            raise ValueError(f"{name} actuated: found index {actuated}; the system has coordinates 0 to {n - 1}")
        if isinstance(actuated, tuple) and len(actuated) != n:
            raise ValueError(f"{name} actuated: found {len(actuated)} numbers; one actuated direction has n = {n}")
        if callable(actuated):
            shape = output_shape(lambda: system.call(actuated, q, t=t), f"{name} actuated", "q" + names)
            if shape != (n,):
                raise ValueError(f"{name} actuated: returns shape {shape}; one row of shape ({n},) is needed")
        return 1


def deflatable(constraints: Sequence[Constraint]) -> bool:
    """One constraint that prescribes a control and no other on accelerations: then it is affine in its multiplier."""
    second = [c for c in constraints if c.order == 2]
    return len(second) == 1 and second[0].is_control


_TRUSTED = 1e-12  # relative error of the acceleration up to which the quotient of two small numbers is used as it is


def lyapunov_factor(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, ""]:
    """u(q, v), the coefficient of the multiplier in dV/dt: ∂V/∂v · m⁻¹Rᵀ, with the other constraints accounted for."""
    return _affine_in_control(system, q, v, t).u


class _Affine(NamedTuple):
    """dV/dt + F = phi + u λ, a = drift + response λ, and the sum of the sizes of the terms of phi."""

    phi: Float[Array, ""]
    u: Float[Array, ""]
    drift: Vector
    response: Vector
    size: Float[Array, ""]


@Jitted  # traced once, however often the equations and their derivatives ask for it
def _affine_in_control(system: System, q: Vector, v: Vector, t) -> _Affine:
    (lyapunov,) = [c for c in system.constraints if isinstance(c, Lyapunov)]
    others = [c for c in system.constraints if c is not lyapunov]
    row = lyapunov.force_rows(system, q, v, jnp.zeros_like(v), t)
    drift, responses = forced_motion(system, others, row, q, v, t)
    response = responses[:, 0]
    now = jnp.asarray(t, dtype=float)
    vq, vv, vt = system.space.gradients(lambda *x: system.call(lyapunov.V, x[0], x[1], t=x[2]), q, v, now)
    dissipation = system.call(lyapunov.F, q, v, t=t)
    size = jnp.abs(vq) @ jnp.abs(v) + jnp.abs(vv) @ jnp.abs(drift) + jnp.abs(vt) + jnp.abs(dissipation)
    return _Affine(vq @ v + vv @ drift + vt + dissipation, vv @ response, drift, response, size)


@Jitted
def lyapunov_control(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Rows:
    """λ = -φ₀(q,v)/u(q,v), (1,), continued through u = 0 where φ₀ vanishes with u (V solves the matching equation).

    Where u is so small that round-off in the quotient would show in the acceleration, λ = -⟨φ₀′⟩/⟨u′⟩ instead, with mean
    values of the derivatives along the line v + s ∂u/∂v over [s*, 0], where u(s*) = 0 and so φ₀(s*) = 0: no cancellation.
    Gauss quadrature with 6 nodes. Where φ₀ does not vanish with u the control has a pole; it is returned as it is,
    large, so that the step fails openly.
    """
    here = _affine_in_control(system, q, v, t)
    response = jnp.linalg.norm(here.response)
    acceleration_size = jnp.abs(here.u) * jnp.linalg.norm(here.drift) + jnp.abs(here.phi) * response
    trusted = EPSILON * here.size * response < _TRUSTED * acceleration_size

    def far(_):
        return -here.phi / here.u

    def through_zero(_):
        w = jax.grad(lambda x: _affine_in_control(system, q, x, t).u)(v)
        one = jnp.asarray(1.0)

        def values_and_slopes(s):
            return jax.jvp(lambda r: _affine_in_control(system, q, v + r * w, t)[:2], (s,), (one,))

        def to_zero(_, s):
            (_, us), (_, slope) = values_and_slopes(s)
            return s - us / slope

        s = jax.lax.fori_loop(0, 3, to_zero, jnp.asarray(0.0))
        means = jax.vmap(lambda x: jnp.stack(values_and_slopes(s * x)[1]))(jnp.asarray(GAUSS_NODES)).T @ GAUSS_WEIGHTS
        left = _affine_in_control(system, q, v + s * w, t)
        return jnp.where(agree(jnp.abs(left.phi) <= 1e-9 * left.size), -means[0] / means[1], -here.phi / here.u)

    return jax.lax.cond(agree(trusted), far, through_zero, None)[None]
