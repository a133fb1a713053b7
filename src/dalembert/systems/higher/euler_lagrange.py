"""The Euler-Lagrange equations of order k at one time: momenta, and which derivatives they determine."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.systems.higher.variational import (
    VariationalProblem,
    density,
    differential_constraints,
    holonomic_constraints,
)
from dalembert.tracing import seldom


def lift(function: Callable, order: int) -> Callable:
    """T⁽ᵏ⁾f: (q, q̇, …, q⁽ᵏ⁾) ↦ (f, df/dt, …, dᵏf/dtᵏ) along any curve with these derivatives; k = order.

    Args:
        function: q (n,) → an array, differentiable by JAX.
        order: k.

    Returns:
        A function of jet = (q, q̇, …, q⁽ᵏ⁾), a sequence of arrays (n,), that returns the list of the derivatives.

    Source: Colombo, Martín de Diego, Zuccalli, section 2, the lifts f⁽ˡ'ᵏ⁾ of a function and T⁽ᵏ⁾f of a map.

    Example:
        >>> from dalembert.systems import lift
        >>> [float(x) for x in lift(lambda q: q[0] ** 2, 1)([jnp.array([3.0]), jnp.array([1.0])])]
        [9.0, 6.0]
    """

    def lifted(jet):
        return _taylor(lambda s: function(_curve(jet, s)), order)

    return lifted


def ostrogradsky_momenta(
    problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "k m"], t
) -> Float[Array, "k n"]:
    """p_j = Σ_i (-d/dt)ⁱ ∂L̃/∂q⁽ʲ⁺¹⁺ⁱ⁾, L̃ = L + λᵀφ, at the derivatives (q, …, q⁽²ᵏ⁻¹⁾) and (λ, …, λ⁽ᵏ⁻¹⁾) at t.

    Holonomic constraints contribute nothing.

    Args:
        problem: a VariationalProblem of order k.
        derivatives: (2k, n), q, …, q⁽²ᵏ⁻¹⁾.
        multipliers: (k, m), λ, …, λ⁽ᵏ⁻¹⁾; (k, 0) without differential constraints.
        t: time.

    Returns:
        The momenta (k, n).

    Source: Colombo, Martín de Diego, Zuccalli, section 2.

    Example:
        >>> from dalembert.systems import ostrogradsky_momenta
        >>> ostrogradsky_momenta(beam, jnp.array([[0.0], [0.0], [6.0], [-12.0]]), jnp.zeros((2, 0)), 0.0).ravel().tolist()
        [12.0, 6.0]
    """
    k = problem.derivatives

    def gradients(s):
        jet = tuple(_curve(derivatives[j:], s) for j in range(k + 1))
        return jnp.stack(jax.grad(lambda x: augmented_lagrangian(problem, x, _curve(multipliers, s), t + s))(jet))

    rates = _taylor(gradients, k - 1)
    return jnp.stack([sum((-1.0) ** i * rates[i][j + 1 + i] for i in range(k - j)) for j in range(k)])


@seldom
def constraint_rates(problem: VariationalProblem, derivatives: Float[Array, "r n"], t) -> list[list[Array]]:
    """[φ, dφ/dt, …] of every constraint, the holonomic ones first, as many as (q, …, q⁽ʳ⁻¹⁾) determine: all vanish on a
    solution."""
    out = []
    for order, f in (*((0, f) for f in problem.holonomic), *problem.differential):

        def constraint_along(s, order=order, f=f):
            jet = [_curve(derivatives[j:], s) for j in range(order + 1)]
            return jnp.atleast_1d(problem.call(f, *jet, t=t + s))

        out.append(_taylor(constraint_along, len(derivatives) - 1 - order) if order < len(derivatives) else [])
    return out


@seldom
def highest_matrix(problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "m"], t):
    """[[∂²L̃/∂q⁽ᵏ⁾², Rᵀ], [R, 0]], R the gradients of every constraint with respect to the highest derivative it is given.

    Regular if and only if q⁽ᵏ⁾, or the derivative of it that follows, and the multipliers are determined, (n + m + mh)².
    """
    k, jet = problem.derivatives, tuple(derivatives[: problem.derivatives + 1])
    hessian = jax.hessian(lambda x: augmented_lagrangian(problem, (*jet[:k], x), multipliers, t))(jet[k])
    rows = [jnp.zeros((0, derivatives.shape[1]))]
    for order, f in (*problem.differential, *((0, f) for f in problem.holonomic)):
        value = lambda x, order=order, f=f: jnp.atleast_1d(problem.call(f, *jet[:order], x, t=t))  # noqa: E731
        rows.append(jax.jacfwd(value)(jet[order]))
    stacked = jnp.concatenate(rows)
    corner = jnp.zeros((len(stacked), len(stacked)))
    return jnp.block([[hessian, stacked.T], [stacked, corner]])


def next_derivatives(
    problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "r m"], t
) -> tuple[Float[Array, "n"], Float[Array, "m"], Float[Array, "mh"]]:
    """(q⁽²ᵏ⁾, λ⁽ʳ⁾, μ), r ≤ k the order of the differential constraints, from what determines them: Σ_j (-d/dt)ʲ ∂L̃/∂q⁽ʲ⁾ +
    φ_qᵀμ = 0 with the derivatives of every constraint that hold q⁽²ᵏ⁾, φ holonomic."""
    n, m = derivatives.shape[1], multipliers.shape[1]
    equations = lambda z: highest_equations(problem, derivatives, multipliers, t, z)  # noqa: E731
    start = jnp.zeros(n + m + jax.eval_shape(lambda q: holonomic_constraints(problem, q, t), derivatives[0]).shape[0])
    left, matrix = equations(start), jax.jacfwd(equations)(start)  # which are linear
    found = jnp.linalg.solve(matrix, -left)
    return found[:n], found[n : n + m], found[n + m :]


def highest_equations(
    problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "r m"], t, z
) -> Float[Array, "z"]:
    """The left sides of the equations for z = (q⁽²ᵏ⁾, λ⁽ʳ⁾, μ)."""
    k, n, m = problem.derivatives, derivatives.shape[1], multipliers.shape[1]
    own, free = jnp.concatenate([derivatives, z[None, :n]]), jnp.concatenate([multipliers, z[None, n : n + m]])

    def gradients(s):
        jet = tuple(_curve(own[j:], s) for j in range(k + 1))
        return jnp.stack(jax.grad(lambda x: augmented_lagrangian(problem, x, _curve(free, s), t + s))(jet))

    rates, held = _taylor(gradients, k), lambda q: holonomic_constraints(problem, q, t)
    force = sum((-1.0) ** j * rates[j][j] for j in range(k + 1)) + jax.vjp(held, own[0])[1](z[n + m :])[0]
    return jnp.concatenate([force, *(found[-1] for found in constraint_rates(problem, own, t))])


def constraints_along(problem: VariationalProblem, jet: Float[Array, "k+1 n"], t) -> Float[Array, "m_plus_mh"]:
    """φ of all constraints."""
    return jnp.concatenate([differential_constraints(problem, tuple(jet), t), holonomic_constraints(problem, jet[0], t)])


def augmented_lagrangian(problem: VariationalProblem, jet, multipliers, t) -> Float[Array, ""]:
    """L + λᵀφ."""
    return density(problem, jet, t) + multipliers @ differential_constraints(problem, jet, t)


def _curve(derivatives, s):
    """The polynomial with these derivatives at s = 0."""
    return sum(derivatives[l] * s**l / factorial(l) for l in range(len(derivatives)))


def _taylor(function: Callable, order: int) -> list:
    """function and its first derivatives at s = 0."""
    out = [function]
    for _ in range(order):
        out.append(jax.jacfwd(out[-1]))
    return [f(0.0) for f in out]
