"""The continuous Euler-Lagrange equations of order k in Ostrogradsky's momenta: start and limit of the discrete flows."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.algebra import Newton, newton
from dalembert.algebra.ode import integrate
from dalembert.numbers import as_array, as_flag, is_traced, whole_number
from dalembert.systems.higher.variational import (
    VariationalProblem,
    check_problem,
    constraint_numbers,
    density,
    differential_constraints,
    holonomic_constraints,
)
from dalembert.systems.reference import check_times
from dalembert.tracing import Jitted, seldom

_CLOSE = Newton(tolerance=1e-12, max_iterations=30)


class Ostrogradsky(eqx.Module):
    """The Euler-Lagrange flow of order k, at the times asked for.

    Attributes:
        t: (T,) times.
        jets: (T, k+1, n) of q, q̇, …, q⁽ᵏ⁾.
        momenta: (T, k, n) Ostrogradsky's momenta.
        multipliers: (T, m).
        energy: (T,).
        succeeded: whether the integrator reached the last time at the requested tolerance.
    """

    t: Float[Array, "T"]
    jets: Float[Array, "T k+1 n"]
    momenta: Float[Array, "T k n"]
    multipliers: Float[Array, "T m"]
    energy: Float[Array, "T"]
    succeeded: Array

    @property
    def q(self) -> Float[Array, "T n"]:
        return self.jets[:, 0]


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

    Holonomic constraints do not enter.

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
        return jnp.stack(jax.grad(lambda x: _augmented(problem, x, _curve(multipliers, s), t + s))(jet))

    rates = _taylor(gradients, k - 1)
    return jnp.stack([sum((-1.0) ** i * rates[i][j + 1 + i] for i in range(k - j)) for j in range(k)])


@seldom
def constraint_rates(problem: VariationalProblem, derivatives: Float[Array, "r n"], t) -> list[list[Array]]:
    """[φ, dφ/dt, …] of every constraint, the holonomic ones first, as many as (q, …, q⁽ʳ⁻¹⁾) determine: all vanish on a
    solution."""
    out = []
    for order, f in (*((0, f) for f in problem.holonomic), *problem.differential):

        def along(s, order=order, f=f):
            jet = [_curve(derivatives[j:], s) for j in range(order + 1)]
            return jnp.atleast_1d(problem.call(f, *jet, t=t + s))

        out.append(_taylor(along, len(derivatives) - 1 - order) if order < len(derivatives) else [])
    return out


@seldom
def highest_matrix(problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "m"], t):
    """[[∂²L̃/∂q⁽ᵏ⁾², Rᵀ], [R, 0]], R the gradients of every constraint with respect to the highest derivative it is given.

    Regular if and only if q⁽ᵏ⁾, or the derivative of it that follows, and the multipliers are determined, (n + m + mh)².
    """
    k, jet = problem.derivatives, tuple(derivatives[: problem.derivatives + 1])
    hessian = jax.hessian(lambda x: _augmented(problem, (*jet[:k], x), multipliers, t))(jet[k])
    rows = [jnp.zeros((0, derivatives.shape[1]))]
    for order, f in (*problem.differential, *((0, f) for f in problem.holonomic)):
        value = lambda x, order=order, f=f: jnp.atleast_1d(problem.call(f, *jet[:order], x, t=t))  # noqa: E731
        rows.append(jax.jacfwd(value)(jet[order]))
    stacked = jnp.concatenate(rows)
    corner = jnp.zeros((len(stacked), len(stacked)))
    return jnp.block([[hessian, stacked.T], [stacked, corner]])


def next_derivatives(
    problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "r m"], t
) -> tuple[Float[Array, "n"], Float[Array, "m"]]:
    """(q⁽²ᵏ⁾, λ⁽ʳ⁾), r < k the order of the differential constraints, from what determines them: Σ_j (-d/dt)ʲ ∂L̃/∂q⁽ʲ⁾ +
    φ_qᵀμ = 0 with the derivatives of order 2k of every constraint, φ holonomic."""
    k, n, m = problem.derivatives, derivatives.shape[1], multipliers.shape[1]

    def equations(z):
        own, free = jnp.concatenate([derivatives, z[None, :n]]), jnp.concatenate([multipliers, z[None, n : n + m]])

        def gradients(s):
            jet = tuple(_curve(own[j:], s) for j in range(k + 1))
            return jnp.stack(jax.grad(lambda x: _augmented(problem, x, _curve(free, s), t + s))(jet))

        rates, held = _taylor(gradients, k), lambda q: holonomic_constraints(problem, q, t)
        force = sum((-1.0) ** j * rates[j][j] for j in range(k + 1)) + jax.vjp(held, own[0])[1](z[n + m :])[0]
        return jnp.concatenate([force, *(found[-1] for found in constraint_rates(problem, own, t))])

    start = jnp.zeros(n + m + jax.eval_shape(lambda q: holonomic_constraints(problem, q, t), derivatives[0]).shape[0])
    left, matrix = equations(start), jax.jacfwd(equations)(start)  # which are linear
    found = jnp.linalg.solve(matrix, -left)
    return found[:n], found[n : n + m]


def highest_derivative(problem: VariationalProblem, state: Float[Array, "2k n"], t, guess: Float[Array, "n_plus_m"]):
    """(q⁽ᵏ⁾, λ) with ∂L̃/∂q⁽ᵏ⁾ = p_{k-1}, φ = 0, from the state (q, …, q⁽ᵏ⁻¹⁾, p_0, …, p_{k-1}); and the report of Newton."""
    k, n = problem.derivatives, state.shape[1]

    def equations(z):
        jet = lambda x: (*state[:k], x)  # noqa: E731
        slope = jax.grad(lambda x: _augmented(problem, jet(x), z[n:], t))(z[:n])
        return jnp.concatenate([slope - state[-1], differential_constraints(problem, jet(z[:n]), t)])

    return newton(equations, guess, lambda z: 1.0 + jnp.abs(z), _CLOSE)


def ostrogradsky(
    problem: VariationalProblem,
    derivatives,
    t: Float[Array, "T"],
    *,
    multipliers=None,
    tolerance: float = 1e-11,
    max_steps: int = 100_000,
    throw: bool = True,
) -> Ostrogradsky:
    """dq⁽ʲ⁾/dt = q⁽ʲ⁺¹⁾, dp_0/dt = L̃_q, dp_j/dt = L̃_{q⁽ʲ⁾} - p_{j-1}, by Dormand-Prince 8(7).

    (q⁽ᵏ⁾, λ) are those of `highest_derivative`. Constraints have to be of order k with [[L̃_kk, φ_kᵀ], [φ_k, 0]] regular; φ
    = 0 then holds as long as the equations are solved.

    Args:
        problem: a VariationalProblem of order k.
        derivatives: (2k, n), (q, q̇, …, q⁽²ᵏ⁻¹⁾) at t[0].
        t: (T,) increasing times.
        multipliers: (k, m), (λ, …, λ⁽ᵏ⁻¹⁾) at t[0], zero if None.
        tolerance: relative and absolute, local.
        max_steps: of the integrator, at most.
        throw: raise where the integration fails; False returns what was reached, with succeeded false.

    Returns:
        An Ostrogradsky.

    Raises:
        ValueError: shapes, and constraints of lower order.
        TypeError: types.
        RuntimeError: the integration fails, and throw is true.

    Source: Colombo, Martín de Diego, Zuccalli, section 2.

    Example:
        >>> flow = da.ostrogradsky(beam, [[0.0], [0.0], [6.0], [-12.0]], [0.0, 0.5, 1.0])  # q = 3t² - 2t³
        >>> bool(abs(flow.q[:, 0] - np.array([0.0, 0.5, 1.0])).max() < 1e-9)
        True
    """
    check_problem(problem)
    as_flag(throw, "throw")
    times = check_times(t, tolerance)
    k, start = problem.derivatives, as_array(derivatives, "derivatives")
    if start.ndim != 2 or start.shape[0] != 2 * k or start.shape[1] == 0:
        raise ValueError(
            f"derivatives: found shape {start.shape}; give q and its first {2 * k - 1} derivatives, ({2 * k}, n)"
        )
    if problem.holonomic or any(order < k for order, _ in problem.differential):
        raise ValueError(f"problem: a constraint has less than {k} derivatives; differentiate it until q⁽ᵏ⁾ appears")
    m, _ = constraint_numbers(problem, start.shape[1])
    free = jnp.zeros((k, m)) if multipliers is None else as_array(multipliers, "multipliers")
    if free.shape != (k, m):
        raise ValueError(f"multipliers: found shape {free.shape}; λ and its first {k - 1} derivatives have shape {(k, m)}")
    result = _integrate(problem, start, free, times, tolerance, whole_number(max_steps, "max_steps"))
    if throw and not is_traced(result) and not bool(result.succeeded):
        reached = int(jnp.sum(jnp.all(jnp.isfinite(result.q), axis=1)))
        raise RuntimeError(
            f"ostrogradsky: the integration failed after t = {float(times[max(reached - 1, 0)]):g} (the "
            f"solution may cease to exist, "
            "or L does not determine its highest derivative, or raise max_steps or the tolerance); throw=False "
            "returns what there is"
        )
    return result


@Jitted
def _integrate(problem, derivatives, multipliers, times, tolerance, max_steps: int) -> Ostrogradsky:
    k, n = problem.derivatives, derivatives.shape[1]
    guess = jnp.concatenate([derivatives[k], multipliers[0]])

    def field(s, y, args: VariationalProblem):
        z, _ = highest_derivative(args, y, s, guess)
        jet = (*y[:k], z[:n])
        slopes = jax.grad(lambda x: _augmented(args, x, z[n:], s))(jet)
        return jnp.stack([*jet[1:], slopes[0], *(slopes[j] - y[k + j - 1] for j in range(1, k))])

    start = jnp.concatenate([derivatives[:k], ostrogradsky_momenta(problem, derivatives, multipliers, times[0])])
    found = integrate(field, problem, (times[0], times[-1]), start, tolerance, at=times, max_steps=max_steps)
    z, info = jax.vmap(lambda y, s: highest_derivative(problem, y, s, guess))(found.y, times)
    jets, momenta = jnp.concatenate([found.y[:, :k], z[:, None, :n]], axis=1), found.y[:, k:]
    lagrangian = jax.vmap(lambda jet, x, s: _augmented(problem, tuple(jet), x, s))(jets, z[:, n:], times)
    energy = jnp.sum(momenta * jets[:, 1:], axis=(1, 2)) - lagrangian
    solved = jnp.all(~(info.singular | info.not_finite | info.not_converged))
    return Ostrogradsky(times, jets, momenta, z[:, n:], energy, found.reached & solved)


def _augmented(problem: VariationalProblem, jet, multipliers, t) -> Float[Array, ""]:
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
