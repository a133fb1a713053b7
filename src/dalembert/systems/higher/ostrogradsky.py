"""Initial data of a motion of order k: do they satisfy the constraints, and do the equations determine what follows?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import integrate, numerical_rank
from dalembert.native import Accuracy, native_first
from dalembert.notebook import Described
from dalembert.numbers import as_array, as_flag, is_traced, outside, whole_number
from dalembert.systems.compiled import derivatives_flow
from dalembert.systems.consistency import STEPS, STILL, InconsistentDataError, RankDeficientError, value_and_slope
from dalembert.systems.higher.variational import (
    VariationalProblem,
    augmented_lagrangian,
    check_problem,
    common_order,
    constraint_numbers,
    constraint_rates,
    constraints_along,
    highest_matrix,
    next_derivatives,
    ostrogradsky_momenta,
    true_orders,
)
from dalembert.systems.sizes import check_times, integration_error, residual_limit, units_of, with_inertia
from dalembert.tracing import Jitted, seldom


def check_jets(problem: VariationalProblem, derivatives, t0, time: float, name: str) -> None:
    """φ and the derivatives of it which (q, …, q⁽²ᵏ⁻¹⁾) determine are zero. time: in which the motion goes its way."""
    sizes, what = sizes_of(np.asarray(derivatives), True, time), f"{name}: φ and its time derivatives must vanish"
    check_vanishing(lambda x: constraint_rates(problem, x, t0), derivatives, sizes, what)


def check_vanishing(residuals: Callable[[Any], Any], given, sizes: np.ndarray, what: str) -> None:
    """InconsistentDataError where residuals, a tree of functions of the data, are not zero. sizes: of the data; what: they
    are, and must be."""
    flat = lambda x: jnp.concatenate([jnp.zeros(0), *(jnp.ravel(y) for y in jax.tree.leaves(residuals(x)))])  # noqa: E731
    values, slopes = map(np.asarray, value_and_slope(flat, jnp.asarray(given)))
    limits = residual_limit(slopes.reshape(len(values), np.size(given)), np.ravel(sizes), np.ravel(given))
    if not np.all(np.abs(values) <= limits):
        raise InconsistentDataError(f"{what}; they are {values}")


def sizes_of(given: np.ndarray, jets: bool, time: float) -> np.ndarray:
    """Of each number given: how far positions move in `time`, over powers of it for derivatives; |q| where nothing moves."""
    orders = np.arange(len(given))[:, None] if jets else np.zeros((len(given), 1))
    moves = np.abs(given[1:]) * time ** orders[1:] if jets else STEPS * np.abs(np.diff(given, axis=0))
    reach = moves.max(axis=0, initial=0.0)
    still = np.max(reach) <= STILL * np.max(np.abs(given[0]))
    return with_inertia(np.abs(given[0]) if still else reach, np.ones(given.shape[1])) / time**orders


def check_regular(problem: VariationalProblem, derivatives, multipliers, t0, name: str = "jets") -> None:
    """[[∂²L̃/∂q⁽ᵏ⁾², φ_highestᵀ], [φ_highest, 0]] is regular: L̃ and the constraints determine q⁽ᵏ⁾ and the multipliers."""
    n, k = derivatives.shape[1], problem.derivatives
    matrix = np.asarray(highest_matrix(problem, derivatives, multipliers, t0))
    rows = matrix[n:, :n]
    if rows.shape[0] and not (found := numerical_rank(rows)).full:
        raise RankDeficientError(
            f"constraints: the {rows.shape[0]} gradients with respect to the highest derivatives have rank "
            f"{found.rank} at t0: equations "
            f"{list(found.dependent_rows)} depend on the others"
        )
    if not np.all(np.isfinite(matrix)):
        raise RankDeficientError(f"{name}: ∂²L/∂q⁽ᵏ⁾² is not finite at t0: {matrix[:n, :n]}")
    if (found := numerical_rank(matrix * units_of(matrix, n))).full:
        return
    if not np.any(matrix[:n, :n]):
        raise RankDeficientError(
            f"lagrangian: singular Lagrangian: ∂²L/∂q⁽ᵏ⁾² = 0 for k = {k}, L does not depend on its highest "
            f"derivative or is linear "
            f"in it, and the constraints do not determine it. Lower derivatives={k}, or use a regular L"
        )
    raise RankDeficientError(
        f"lagrangian: singular Lagrangian: ∂²L/∂q⁽ᵏ⁾² with the constraints' gradients, {matrix.shape[0]} rows, has rank "
        f"{found.rank} at t0, so that q⁽{k}⁾ is not determined"
    )


class Ostrogradsky(Described, eqx.Module):
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
    """Integrate the Euler-Lagrange equations of higher order.

    Σ_j (-d/dt)ʲ ∂L̃/∂q⁽ʲ⁾ + φ_qᵀμ = 0, the Euler-Lagrange equations of order k, by a method of order 8.

    The state is (q, …, q⁽²ᵏ⁻¹⁾, λ, …, λ⁽ʳ⁻¹⁾), and (q⁽²ᵏ⁾, λ⁽ʳ⁾, μ) solve these equations together with the time
    derivatives of the constraints; `drift` is the deviation of φ from 0 that builds up.

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
    if jax.default_backend() == "cpu" and outside() and not is_traced(*given[:-1]):
        result = native_first(_natively, _integrate_jets, *given)
    else:
        result = _integrate_jets(*given)
    if throw and not is_traced(result) and not bool(result.succeeded):
        raise integration_error("ostrogradsky", times, result.q, " or L does not determine its highest derivative,")
    return result


@Jitted
def _integrate_jets(problem, derivatives, multipliers, times, tolerance, max_steps: int) -> Ostrogradsky:
    """The integration by diffrax."""
    k, (r, _) = problem.derivatives, multipliers.shape

    def jet_rates(s, y, args: VariationalProblem):
        jets, free = y
        highest, rate, _ = next_derivatives(args, jets, free, s)
        return jnp.concatenate([jets[1:], highest[None]]), jnp.concatenate([free[1:], rate[None]])[:r]

    start = (derivatives, multipliers)
    found = integrate(jet_rates, problem, (times[0], times[-1]), start, tolerance, at=times, max_steps=max_steps)
    jets, free = found.y
    momenta = jax.vmap(lambda *x: ostrogradsky_momenta(problem, *x))(jets, free, times)
    held = jax.vmap(lambda *x: next_derivatives(problem, *x)[2])(jets, free, times)
    return _assemble(problem, times, jets[:, : k + 1], momenta, free[:, 0], held, succeeded=found.reached)


def _natively(problem, derivatives, multipliers, times, tolerance, max_steps: int) -> Ostrogradsky:
    """The integration in machine code; Unsupported where a function cannot be translated."""
    (rows, n), (r, m), k = derivatives.shape, multipliers.shape, problem.derivatives
    mh, known = constraint_numbers(problem, n)[1], np.asarray(times)
    flow = derivatives_flow(problem, n, r, m, mh)
    start = np.concatenate([np.ravel(derivatives), np.ravel(multipliers)])
    found = flow.run(start, known, Accuracy(float(tolerance), max_steps))
    reached = (np.arange(len(known)) < found.saved)[:, None]
    y, told = np.where(reached, found.rows, np.inf), found.outputs  # by NumPy: XLA would compile every slice
    jets, free = y[:, : rows * n].reshape(-1, rows, n)[:, : k + 1], y[:, rows * n : rows * n + m * bool(r)]
    momenta, held = told[:, : k * n].reshape(-1, k, n), told[:, k * n :]
    return _assemble_rarely(problem, times, jets, momenta, free, held, succeeded=jnp.asarray(found.reached))


def _assemble(problem, times, jets, momenta, multipliers, held, *, succeeded) -> Ostrogradsky:
    """With the energy and the drift."""
    lagrangian = jax.vmap(lambda jet, x, s: augmented_lagrangian(problem, tuple(jet), x, s))(jets, multipliers, times)
    energy = jnp.sum(momenta * jets[:, 1:], axis=(1, 2)) - lagrangian
    off = jax.vmap(lambda jet, s: jnp.max(jnp.abs(constraints_along(problem, jet, s)), initial=0.0))(jets, times)
    return Ostrogradsky(times, jets, momenta, multipliers, held, energy, off, succeeded & jnp.all(jnp.isfinite(jets)))


_assemble_rarely = seldom(_assemble)
