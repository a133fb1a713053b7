"""The continuous equations: Euler-Lagrange, constraints of every order, reactions, and (a, λ) by index reduction."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton, Solve, root, value_and_jacobian
from dalembert.numbers import as_number
from dalembert.systems.constraints import Constraint, Matrix, Rows, Vector
from dalembert.systems.sizes import units_of
from dalembert.systems.system import System, check_shapes, check_system
from dalembert.tracing import Jitted

Time = float | Float[Array, ""]

EXACT = Newton(tolerance=1e-11, max_iterations=50)
ITERATIONS = 3  # where equations are not affine, from an error of O(h) that is squared each time


def momentum(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Vector:
    """Compute the momenta at a state.

    p = ∂L/∂v (Legendre transform).

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
    q, v, t = _as_state(system, q, v, t)
    check_shapes(system, q, v, t)
    return _momentum(system, q, v, t)


def _momentum(system: System, q: Vector, v: Vector, t) -> Vector:
    return jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t))(v)


def _as_state(system: System, q, v, t) -> tuple[Vector, Vector, Array]:
    """(q, v, t) as a user gave them, as arrays; TypeError, ValueError naming what is wrong with them."""
    check_system(system)
    x, v = system.space.read_point(q, v)
    return x, v, jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)


def energy(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Float[Array, ""]:
    """Compute the energy at a state.

    E = v · ∂L/∂v - L.

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
    q, v, t = _as_state(system, q, v, t)
    check_shapes(system, q, v, t)
    return v @ _momentum(system, q, v, t) - system.call(system.lagrangian, q, v, t=t)


def force(system: System, q: Vector, v: Vector, t) -> Vector:
    """f(q, v): the user's generalised forces, zero where there are none."""
    return jnp.zeros_like(v) if system.forces is None else jnp.asarray(system.call(system.forces, q, v, t=t))


def euler_lagrange(system: System, q: Vector, v: Vector, a: Vector, t) -> Vector:
    """d/dt L_v - L_q - f along (v, a); on a group dμ/dt - ad*_v μ - ℓ_g - f, with μ = L_v (Hamel)."""
    now, space = jnp.asarray(t, dtype=float), system.space
    p, rate = jax.jvp(lambda *x: _momentum(system, *x), (q, v, now), (space.rate(q, v), a, jnp.ones_like(now)))
    slope = space.gradient(lambda x: system.call(system.lagrangian, x, v, t=t), q)
    return space.balance(rate, v, p) - slope - force(system, q, v, t)


def reduce_index(system: System, constraint: Constraint, q: Vector, v: Vector, a: Vector, t, *, order: int) -> Rows:
    """The constraint as an equation for the derivative of this order: differentiated along (v, a) as often as it takes."""
    if constraint.order >= order:
        return constraint.residual(system, q, v, a, t)
    now = jnp.asarray(t, dtype=float)
    along = lambda x, w, s: reduce_index(system, constraint, x, w, w, s, order=order - 1)  # noqa: E731
    return jax.jvp(along, (q, v, now), (system.space.rate(q, v), a, jnp.ones_like(now)))[1]


def velocity_constraints(system: System, q: Vector, v: Vector, t) -> Rows:
    """The restrictions of v: φ(q, v) of constraints of order 1, dφ/dt of those of order 0, stacked in the user's order."""
    return jnp.concatenate([jnp.zeros(0), *(reduce_index(system, c, q, v, v, t, order=1) for c in system.constraints)])


def acceleration_equations(system: System, q: Vector, v: Vector, a: Vector, t) -> Rows:
    """Equations for a: constraints differentiated twice (order 0), once (order 1), or as they are, in the user's order."""
    return jnp.concatenate([jnp.zeros(0), *(reduce_index(system, c, q, v, a, t, order=2) for c in system.constraints)])


def all_reactions(system: System, q: Vector, v: Vector, a: Vector, t) -> Matrix:
    """R of all constraints, stacked in the user's order."""
    return jnp.concatenate([jnp.zeros((0, len(v))), *(c.force_rows(system, q, v, a, t) for c in system.constraints)])


def forced_motion(
    system: System, constraints: Sequence[Constraint], rows: Float[Array, "r n"], q: Vector, v: Vector, t
) -> tuple[Vector, Float[Array, "n r"]]:
    """(drift, responses) of a = drift + responses u: the motion with these constraints, under forces Rᵀu. rows: R."""
    n, rest = v.shape[0], jnp.zeros_like(v)
    equations = lambda a: jnp.concatenate(  # noqa: E731
        [euler_lagrange(system, q, v, a, t), *(reduce_index(system, c, q, v, a, t, order=2) for c in constraints)]
    )
    bound = jnp.concatenate([jnp.zeros((0, n)), *(c.force_rows(system, q, v, rest, t) for c in constraints)])
    k = bound.shape[0]
    still, inertia = value_and_jacobian(equations, rest)
    matrix = jnp.concatenate([inertia, jnp.concatenate([-bound.T, jnp.zeros((k, k))])], axis=1)
    sides = jnp.concatenate([-still[:, None], jnp.concatenate([rows.T, jnp.zeros((k, rows.shape[0]))])], axis=1)
    motion = jnp.linalg.solve(matrix, sides)[:n]
    return motion[:, 0], motion[:, 1:]


def kkt_residual(system: System, q: Vector, v: Vector, t, z: Float[Array, "n_plus_m"]) -> Float[Array, "n_plus_m"]:
    """(d/dt L_v - L_q - f - Rᵀλ, index-reduced constraints) at z = (a, λ); a deflated Lyapunov row reads λ - g(q, v)."""
    n = v.shape[0]
    a, multipliers = z[:n], z[n:]
    motion = euler_lagrange(system, q, v, a, t) - all_reactions(system, q, v, a, t).T @ multipliers
    rows, at = [motion], 0
    for c in system.constraints:
        law = c.law(system)
        rows.append(reduce_index(system, c, q, v, a, t, order=2) if law is None else multipliers[at : at + 1] - law(q, v, t))
        at += rows[-1].shape[0]
    return jnp.concatenate(rows)


def acceleration(system: System, q: Vector, v: Vector, t: Time = 0.0) -> tuple[Vector, Rows, Solve]:
    """Compute acceleration and multipliers at a state.

    (a, λ) with d/dt L_v - L_q = f + Rᵀλ and all constraints differentiated until they contain a; these equations may
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
    return motion_at(system, *_as_state(system, q, v, t))


def first_guess(n: int, m: int) -> Float[np.ndarray, "n_plus_m"]:
    """(a, λ) from where the iteration starts: a² = c(q, v) is singular at a = 0."""
    return np.concatenate([0.01 * np.arange(1.0, n + 1.0), np.zeros(m)])


@Jitted  # one program, and not one for each of its operations by every call outside of jit
def motion_at(system: System, q: Vector, v: Vector, t) -> tuple[Vector, Rows, Solve]:
    """`acceleration` of what is checked already."""
    n, m = v.shape[0], sum(check_shapes(system, q, v, t))  # here, and not before: once, when the program is traced
    scale = lambda z: 1.0 + jnp.abs(z)  # noqa: E731
    z, info = root(
        lambda x: kkt_residual(system, q, v, t, x),
        jnp.asarray(first_guess(n, m)),
        scale,
        EXACT,
        lambda x: units_of(x, n, jnp),
    )
    return z[:n], z[n:], info


def motion_from(
    system: System, q: Vector, v: Vector, t, start: Float[Array, "n_plus_m"], held_force: Vector
) -> Float[Array, "n_plus_m"]:
    """(a, λ) with d/dt L_v - L_q = f + held_force + Rᵀλ and the constraints reduced to order 2, by Newton's method from
    `start`: exact where the equations are affine, three iterations where φ(q, v, a) or R(q, v, a) is not."""
    equations = lambda y: kkt_residual(system, q, v, t, y).at[: v.shape[0]].add(-held_force)  # noqa: E731
    second = any(c.order == 2 and not c.is_control for c in system.constraints)
    for _ in range(ITERATIONS if second else 1):
        left, jacobian = value_and_jacobian(equations, start)
        start = start - jnp.linalg.solve(jacobian, left)
    return start
