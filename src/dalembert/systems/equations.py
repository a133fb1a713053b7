"""The continuous equations: Euler-Lagrange, constraints of every order, reactions, and (a, λ) by index reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton, Solve, agree, root
from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.algebra.quadrature import GAUSS_NODES, GAUSS_WEIGHTS
from dalembert.numbers import EPSILON, as_number, as_vector
from dalembert.systems.constraints import Constraint, Kinematic, Lyapunov, WithForces
from dalembert.systems.distribution.annihilator import annihilator
from dalembert.systems.shapes import check_shapes
from dalembert.systems.sizes import units_of
from dalembert.systems.system import System, check_system
from dalembert.tracing import Jitted

Vector = Float[Array, "n"]
Rows = Float[Array, "m"]
Matrix = Float[Array, "m n"]
Time = float | Float[Array, ""]

EXACT = Newton(tolerance=1e-11, max_iterations=50)


def momentum(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Vector:
    """p = ∂L/∂v (Legendre transform).

    Args:
        system: a System.
        q: (n,).
        v: (n,).
        t: time.

    Returns:
        p (n,).

    Example:
        >>> da.momentum(pendulum, jnp.array([1.0]), jnp.array([0.5])).tolist()
        [0.5]
    """
    q, v, t = _state(system, q, v, t)
    check_shapes(system, q, v, t)
    return _momentum(system, q, v, t)


def _momentum(system: System, q: Vector, v: Vector, t) -> Vector:
    return jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t))(v)


def _state(system: System, q, v, t) -> tuple[Vector, Vector, Array]:
    """(q, v, t) as a user gave them, as arrays; TypeError, ValueError naming what is wrong with them."""
    check_system(system)
    x = as_vector(q, "q")
    return x, as_vector(v, "v", x.shape[0]), jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)


def energy(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, ""]:
    """E = v · ∂L/∂v - L.

    Args:
        system: a System.
        q: (n,).
        v: (n,).
        t: time.

    Returns:
        E, a number.

    Example:
        >>> float(da.energy(pendulum, jnp.array([0.0]), jnp.array([2.0])))  # ½v² - cos θ
        1.0
    """
    q, v, t = _state(system, q, v, t)
    check_shapes(system, q, v, t)
    return v @ _momentum(system, q, v, t) - system.call(system.lagrangian, q, v, t=t)


def force(system: System, q: Vector, v: Vector, t) -> Vector:
    """f(q, v): the user's generalised forces, zero where there are none."""
    return jnp.zeros_like(q) if system.forces is None else jnp.asarray(system.call(system.forces, q, v, t=t))


def euler_lagrange(system: System, q: Vector, v: Vector, a: Vector, t) -> Vector:
    """d/dt L_v - L_q - f along (v, a)."""
    now = jnp.asarray(t, dtype=float)
    rate = jax.jvp(lambda *x: _momentum(system, *x), (q, v, now), (v, a, jnp.ones_like(now)))[1]
    slope = jax.grad(lambda x: system.call(system.lagrangian, x, v, t=t))(q)
    return rate - slope - force(system, q, v, t)


def value(system: System, constraint: Constraint, q: Vector, v: Vector, a: Vector, t) -> Rows:
    """φ of the constraint, at its own order."""
    if isinstance(constraint, Lyapunov):
        now = jnp.asarray(t, dtype=float)
        call = lambda *x: system.call(constraint.V, x[0], x[1], t=x[2])  # noqa: E731
        rate = jax.jvp(call, (q, v, now), (v, a, jnp.ones_like(now)))[1]
        return jnp.atleast_1d(rate + system.call(constraint.F, q, v, t=t))
    assert isinstance(constraint, Kinematic)
    arguments = (q, v, a)[: constraint.order + 1]
    return jnp.atleast_1d(system.call(constraint.phi, *arguments, t=t))


def first_derivative(system: System, constraint: Constraint, q: Vector, v: Vector, t) -> Rows:
    """dφ/dt = φ_q v + φ_t of a holonomic constraint."""
    now = jnp.asarray(t, dtype=float)
    return jax.jvp(lambda x, s: value(system, constraint, x, v, v, s), (q, now), (v, jnp.ones_like(now)))[1]


def reduced(system: System, constraint: Constraint, q: Vector, v: Vector, a: Vector, t) -> Rows:
    """The constraint as an equation for a: differentiated twice (order 0), once (order 1), or as it is (order 2)."""
    now = jnp.asarray(t, dtype=float)
    direction = (v, a, jnp.ones_like(now))
    if constraint.order == 0:
        return jax.jvp(lambda *x: first_derivative(system, constraint, *x), (q, v, now), direction)[1]
    if constraint.order == 1:
        return jax.jvp(lambda x, w, s: value(system, constraint, x, w, w, s), (q, v, now), direction)[1]
    return value(system, constraint, q, v, a, t)


def reactions(system: System, constraint: Constraint, q: Vector, v: Vector, a: Vector, t) -> Matrix:
    """R (m, n): rows span the constraint forces F_V; the user's, or the complement of the user's C_V, or Chetaev's."""
    if isinstance(constraint, Lyapunov):
        return _actuated_row(system, constraint, q, t)
    assert isinstance(constraint, WithForces)
    arguments = (q, v, a)[: constraint.order + 1]
    if constraint.reactions is not None:
        return jnp.atleast_2d(system.call(constraint.reactions, *arguments, t=t))
    if constraint.virtual is not None:
        basis = jnp.asarray(system.call(constraint.virtual, *arguments, t=t))
        return annihilator(basis[:, None] if basis.ndim == 1 else basis)
    if constraint.order == 0:
        return value_and_jacobian(lambda x: value(system, constraint, x, v, a, t), q)[1]
    if constraint.order == 1:
        return value_and_jacobian(lambda w: value(system, constraint, q, w, a, t), v)[1]
    return value_and_jacobian(lambda b: value(system, constraint, q, v, b, t), a)[1]


def _actuated_row(system: System, constraint: Lyapunov, q: Vector, t) -> Matrix:
    if callable(constraint.actuated):
        return jnp.atleast_2d(system.call(constraint.actuated, q, t=t))
    if isinstance(constraint.actuated, int):
        return jnp.zeros((1, q.shape[0])).at[0, constraint.actuated].set(1.0)
    return jnp.asarray(constraint.actuated)[None, :]


def all_reactions(system: System, q: Vector, v: Vector, a: Vector, t) -> Matrix:
    """R of all constraints, stacked in the user's order."""
    rows = [reactions(system, c, q, v, a, t) for c in system.constraints]
    return jnp.concatenate(rows) if rows else jnp.zeros((0, q.shape[0]))


def deflatable(constraints: Sequence[Constraint]) -> bool:
    """One Lyapunov constraint and no other constraint on accelerations: then dV/dt + F is affine in its multiplier."""
    second = [c for c in constraints if c.order == 2]
    return len(second) == 1 and isinstance(second[0], Lyapunov)


def kkt_residual(system: System, q: Vector, v: Vector, t, z: Float[Array, "n_plus_m"]) -> Float[Array, "n_plus_m"]:
    """(d/dt L_v - L_q - f - Rᵀλ, index-reduced constraints) at z = (a, λ); a deflated Lyapunov row reads λ - g(q, v)."""
    n = q.shape[0]
    a, multipliers = z[:n], z[n:]
    motion = euler_lagrange(system, q, v, a, t) - all_reactions(system, q, v, a, t).T @ multipliers
    rows, at = [motion], 0
    for c in system.constraints:
        if isinstance(c, Lyapunov) and deflatable(system.constraints):
            rows.append(multipliers[at : at + 1] - lyapunov_control(system, q, v, t))
            at += 1
        else:
            rows.append(reduced(system, c, q, v, a, t))
            at += rows[-1].shape[0]
    return jnp.concatenate(rows)


def acceleration(system: System, q: Vector, v: Vector, t: Time = 0.0) -> tuple[Vector, Rows, Solve]:
    """(a, λ) with d/dt L_v - L_q = f + Rᵀλ and all constraints differentiated until they contain a; these equations may
    be nonlinear in a.

    Args:
        system: a System.
        q: (n,).
        v: (n,).
        t: time.

    Returns:
        a (n,), λ (m,) in the order of the constraints, and the report of Newton's iteration from near a = 0, λ = 0 (from a_i
        = i/100, because constraints such as a² = c(q, v) are singular at a = 0 itself).

    Source: Borda, Fernández, Grillo, eq. (1); Jiménez, Scheurle, eqs. (22, 23) for linear nonholonomic constraints.

    Example:
        >>> a, multipliers, report = da.acceleration(sphere, jnp.array([0.0, 0.0, -1.0]), jnp.zeros(3))
        >>> a.round(9).tolist(), float(2 * multipliers[0])  # hanging at rest: the rod carries the weight, R = 2q
        ([0.0, 0.0, 0.0], -1.0)
    """
    return motion_at(system, *_state(system, q, v, t))


def first_guess(n: int, m: int) -> Float[np.ndarray, "n_plus_m"]:
    """(a, λ) from where the iteration starts: a² = c(q, v) is singular at a = 0."""
    return np.concatenate([0.01 * np.arange(1.0, n + 1.0), np.zeros(m)])


@Jitted  # one program, and not one for each of its operations by every call outside of jit
def motion_at(system: System, q: Vector, v: Vector, t) -> tuple[Vector, Rows, Solve]:
    """`acceleration` of what is checked already."""
    n, m = q.shape[0], sum(check_shapes(system, q, v, t))  # here, and not before: once, when the program is traced
    scale = lambda z: 1.0 + jnp.abs(z)  # noqa: E731
    z, info = root(
        lambda x: kkt_residual(system, q, v, t, x),
        jnp.asarray(first_guess(n, m)),
        scale,
        EXACT,
        lambda x: units_of(x, n, jnp),
    )
    return z[:n], z[n:], info


# The deflated Lyapunov constraint. Along the motion dV/dt + F = φ₀(q,v) + u(q,v) λ; the physical control is -φ₀/u.

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
    n = q.shape[0]
    (lyapunov,) = [c for c in system.constraints if isinstance(c, Lyapunov)]
    others = [c for c in system.constraints if c is not lyapunov]
    rest = jnp.zeros_like(v)
    free = lambda a: jnp.concatenate(  # noqa: E731
        [euler_lagrange(system, q, v, a, t), *(reduced(system, c, q, v, a, t) for c in others)]
    )
    row = _actuated_row(system, lyapunov, q, t)[0]
    bound = jnp.concatenate([jnp.zeros((0, n)), *(reactions(system, c, q, v, rest, t) for c in others)])
    k = bound.shape[0]
    matrix = jnp.concatenate([jax.jacfwd(free)(rest), jnp.concatenate([-bound.T, jnp.zeros((k, k))])], axis=1)
    sides = jnp.stack([-free(rest), jnp.zeros(n + k).at[:n].set(row)], axis=1)
    drift, response = jnp.linalg.solve(matrix, sides)[:n].T
    now = jnp.asarray(t, dtype=float)
    vq, vv, vt = jax.grad(lambda *x: system.call(lyapunov.V, x[0], x[1], t=x[2]), (0, 1, 2))(q, v, now)
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

    def near(_):
        w = jax.grad(lambda x: _affine_in_control(system, q, x, t).u)(v)
        one = jnp.asarray(1.0)

        def slopes(s):
            return jax.jvp(lambda r: _affine_in_control(system, q, v + r * w, t)[:2], (s,), (one,))

        def to_zero(_, s):
            (_, us), (_, slope) = slopes(s)
            return s - us / slope

        s = jax.lax.fori_loop(0, 3, to_zero, jnp.asarray(0.0))
        means = jax.vmap(lambda x: jnp.stack(slopes(s * x)[1]))(jnp.asarray(GAUSS_NODES)).T @ GAUSS_WEIGHTS
        left = _affine_in_control(system, q, v + s * w, t)
        return jnp.where(agree(jnp.abs(left.phi) <= 1e-9 * left.size), -means[0] / means[1], -here.phi / here.u)

    return jax.lax.cond(agree(trusted), far, near, None)[None]
