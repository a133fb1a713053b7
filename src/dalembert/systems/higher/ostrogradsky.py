"""The Euler-Lagrange flow of order k, in Ostrogradsky's momenta or, with constraints of lower order, in derivatives."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra.ode import integrate
from dalembert.native import Accuracy, native_first
from dalembert.numbers import as_array, as_flag, is_traced, outside, whole_number
from dalembert.systems.compiled.flow import derivatives_flow
from dalembert.systems.higher.data import check_jets, check_regular
from dalembert.systems.higher.euler_lagrange import (
    augmented,
    constraints_along,
    highest_derivative,
    next_derivatives,
    ostrogradsky_momenta,
)
from dalembert.systems.higher.orders import true_orders
from dalembert.systems.higher.variational import VariationalProblem, check_problem, common_order, constraint_numbers
from dalembert.systems.reference import check_times
from dalembert.tracing import Jitted, seldom


class Ostrogradsky(eqx.Module):
    """The Euler-Lagrange flow of order k, at the times asked for.

    Attributes:
        t: (T,) times.
        jets: (T, k+1, n) of q, q̇, …, q⁽ᵏ⁾.
        momenta: (T, k, n) Ostrogradsky momenta, without the terms of holonomic constraints.
        multipliers: (T, m) λ of the differential constraints.
        holonomic_multipliers: (T, mh) μ of the holonomic constraints.
        energy: (T,) the energy.
        drift: (T,) largest |φ|: constraints of lower order than L are enforced through their time derivatives alone.
        succeeded: whether the integrator reached the last time at the requested tolerance.
    """

    t: Float[Array, "T"]
    jets: Float[Array, "T k+1 n"]
    momenta: Float[Array, "T k n"]
    multipliers: Float[Array, "T m"]
    holonomic_multipliers: Float[Array, "T mh"]
    energy: Float[Array, "T"]
    drift: Float[Array, "T"]
    succeeded: Array

    @property
    def q(self) -> Float[Array, "T n"]:
        return self.jets[:, 0]


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

    With constraints of order k, (q⁽ᵏ⁾, λ) follow from p_{k-1} = L̃_{q⁽ᵏ⁾} and φ = 0, so that φ = 0 holds throughout.
    With constraints of order r < k, or on positions, the state is (q, …, q⁽²ᵏ⁻¹⁾, λ, …, λ⁽ʳ⁻¹⁾), and (q⁽²ᵏ⁾, λ⁽ʳ⁾, μ)
    solve Σ_j (-d/dt)ʲ ∂L̃/∂q⁽ʲ⁾ + φ_qᵀμ = 0 together with the time derivatives of the constraints; `drift` is the
    deviation of φ from 0 that then builds up.

    Args:
        problem: a VariationalProblem of order k; its differential constraints have one order r.
        derivatives: (2k, n), (q, q̇, …, q⁽²ᵏ⁻¹⁾) at t[0]; they satisfy the constraints and the time derivatives of
            these.
        t: (T,) increasing times.
        multipliers: (r, m), (λ, …, λ⁽ʳ⁻¹⁾) at t[0]; zero if None.
        tolerance: relative and absolute tolerance on the local error.
        max_steps: the largest number of steps of the integrator.
        throw: raise an error if the integration fails; False returns the result up to there, with succeeded false.

    Returns:
        An Ostrogradsky.

    Raises:
        ValueError: an argument has the wrong shape, or the differential constraints have different orders.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: a constraint, or a time derivative of it, is not zero at t[0].
        RankDeficientError: the equations do not determine the highest derivatives there.
        RuntimeError: the integration fails, and throw is true.

    Source: Colombo, Martín de Diego, Zuccalli, section 2. What differs: constraints of any order up to k.

    Example:
        >>> flow = da.systems.ostrogradsky(beam, [[0.0], [0.0], [6.0], [-12.0]], [0.0, 0.5, 1.0])  # q = 3t² - 2t³
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
    m, mh = constraint_numbers(problem, start.shape[1])
    problem = true_orders(problem, start.shape[1])
    order = common_order(problem)
    free = jnp.zeros((order, m)) if multipliers is None else as_array(multipliers, "multipliers")
    if free.shape != (order, m):
        raise ValueError(
            f"multipliers: found shape {free.shape}; λ and its first {order - 1} derivatives have shape {(order, m)}"
        )
    if (m or mh) and not is_traced(problem, start, free, times):
        check_jets(problem, start, times[0], abs(float(times[-1] - times[0])), "derivatives")
        check_regular(problem, start, free[0], times[0], "derivatives")
    given: Any = problem, start, free, times, tolerance, whole_number(max_steps, "max_steps")
    if not mh and order == k:
        result = _integrate(*given)
    elif jax.default_backend() == "cpu" and outside() and not is_traced(*given[:-1]):
        result = native_first(_natively, _integrate_derivatives, *given)
    else:
        result = _integrate_derivatives(*given)
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
    """With constraints of order k alone."""
    k, n = problem.derivatives, derivatives.shape[1]
    guess = jnp.concatenate([derivatives[k], multipliers[0]])

    def field(s, y, args: VariationalProblem):
        z, _ = highest_derivative(args, y, s, guess)
        jet = (*y[:k], z[:n])
        slopes = jax.grad(lambda x: augmented(args, x, z[n:], s))(jet)
        return jnp.stack([*jet[1:], slopes[0], *(slopes[j] - y[k + j - 1] for j in range(1, k))])

    start = jnp.concatenate([derivatives[:k], ostrogradsky_momenta(problem, derivatives, multipliers, times[0])])
    found = integrate(field, problem, (times[0], times[-1]), start, tolerance, at=times, max_steps=max_steps)
    z, info = jax.vmap(lambda y, s: highest_derivative(problem, y, s, guess))(found.y, times)
    jets, momenta = jnp.concatenate([found.y[:, :k], z[:, None, :n]], axis=1), found.y[:, k:]
    solved = jnp.all(~(info.singular | info.not_finite | info.not_converged))
    return _made(problem, times, jets, momenta, z[:, n:], jnp.zeros((len(times), 0)), found.reached & solved)


@Jitted
def _integrate_derivatives(problem, derivatives, multipliers, times, tolerance, max_steps: int) -> Ostrogradsky:
    """With holonomic constraints, or differential ones of an order r < k."""
    k, (r, _) = problem.derivatives, multipliers.shape

    def field(s, y, args: VariationalProblem):
        jets, free = y
        highest, rate, _ = next_derivatives(args, jets, free, s)
        return jnp.concatenate([jets[1:], highest[None]]), jnp.concatenate([free[1:], rate[None]])[:r]

    start = (derivatives, multipliers)
    found = integrate(field, problem, (times[0], times[-1]), start, tolerance, at=times, max_steps=max_steps)
    jets, free = found.y
    momenta = jax.vmap(lambda *x: ostrogradsky_momenta(problem, *x))(jets, free, times)
    held = jax.vmap(lambda *x: next_derivatives(problem, *x)[2])(jets, free, times)
    return _made(problem, times, jets[:, : k + 1], momenta, free[:, 0], held, found.reached)


def _natively(problem, derivatives, multipliers, times, tolerance, max_steps: int) -> Ostrogradsky:
    """As `_integrate_derivatives`; Unsupported where a function cannot be translated."""
    (rows, n), (r, m), k = derivatives.shape, multipliers.shape, problem.derivatives
    mh, known = constraint_numbers(problem, n)[1], np.asarray(times)
    flow = derivatives_flow(problem, n, r, m, mh)
    start = np.concatenate([np.ravel(derivatives), np.ravel(multipliers)])
    found = flow.run(start, known, Accuracy(float(tolerance), max_steps))
    reached = (np.arange(len(known)) < found.saved)[:, None]
    y, told = np.where(reached, found.rows, np.inf), found.outputs  # by NumPy: XLA would compile every slice
    jets, free = y[:, : rows * n].reshape(-1, rows, n)[:, : k + 1], y[:, rows * n : rows * n + m * bool(r)]
    momenta, held = told[:, : k * n].reshape(-1, k, n), told[:, k * n :]
    return _summed(problem, times, jets, momenta, free, held, jnp.asarray(found.reached))


def _made(problem, times, jets, momenta, multipliers, held, succeeded) -> Ostrogradsky:
    """With the energy and the drift."""
    lagrangian = jax.vmap(lambda jet, x, s: augmented(problem, tuple(jet), x, s))(jets, multipliers, times)
    energy = jnp.sum(momenta * jets[:, 1:], axis=(1, 2)) - lagrangian
    off = jax.vmap(lambda jet, s: jnp.max(jnp.abs(constraints_along(problem, jet, s)), initial=0.0))(jets, times)
    return Ostrogradsky(times, jets, momenta, multipliers, held, energy, off, succeeded & jnp.all(jnp.isfinite(jets)))


_summed = seldom(_made)
