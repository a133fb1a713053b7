"""Time as a variable: the discrete problem on R × Q, whose nodes are (t_i, q_i)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize.window_maps import (
    Between,
    Hermite,
    Interpolated,
    WindowMap,
    as_windows,
    gauss,
    jets_at_times,
    window_at,
)
from dalembert.lazy import with_fields
from dalembert.numbers import as_flag, as_function, as_numbers, described
from dalembert.path import Path
from dalembert.solution import Solution
from dalembert.systems import (
    Holonomic,
    Nonholonomic,
    SecondOrder,
    VariationalProblem,
    constraint_numbers,
    constraint_rates,
    constraints_of_order,
    density,
    holonomic_constraints,
    orders_of,
    with_parameters,
)
from dalembert.systems.higher.variational import check_problem
from dalembert.tracing import seldom


def with_time(
    problem: VariationalProblem,
    scheme: WindowMap | None = None,
    *,
    step: Callable | None = None,
    forward: bool = True,
) -> VariationalProblem:
    """Make time one of the coordinates of a problem.

    L_d((t₀, q₀), …, (t_k, q_k)) = (t_k - t₀)/k · L(jet of the points on their own times): t is varied as q is.

    The equation of t_i is that of the discrete energy, E_i - E_{i-1} = -(h_i + … + h_{i+k-1})/k ∂L_d/∂t: if L does not
    depend on t, the energy is conserved, and the method is symplectic and conserves energy and momentum. The steps are
    unknowns. Constraints of lower order than L are functions of fewer nodes, see `constraint_windows`. With Hermite a
    constraint of order r < k holds at the nodes together with its first k-r-1 time derivatives, and for r > 0 at r
    points between.

    Args:
        problem: a VariationalProblem of order k.
        scheme: Interpolated (the default) or Averaged; with Hermite the nodes are (t, q, q̇, …, q⁽ᵏ⁻¹⁾), the windows
            have two nodes and 2k+1 Gauss points. A fixed mesh needs fewer; here they make the nodes move to where the
            action is approximated best, and not to where the quadrature error is largest.
        step: `step(q₀, …, q_k)`, the prescribed t_{1} - t_{0}, as a constraint: the equations of q then contain its
            derivative.
        forward: let the action be infinite where time does not increase, so that no path that goes back in time is
            accepted.

    Returns:
        A VariationalProblem in (t, q), to be solved with scheme=Points().

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument is wrong; the message names it.

    Source: Colombo, Martín de Diego, Zuccalli, section 4.1, eq. (4.1), divided by k; end of section 4.2.

    Example:
        >>> timed = da.with_time(da.VariationalProblem(lambda q, v: 0.5 * v @ v))
        >>> timed.derivatives  # for solve(timed, …, scheme=da.Points()) between Nodes([[t, q]])
        1
    """
    check_problem(problem)
    as_flag(forward, "forward")
    scheme = Interpolated() if scheme is None else as_windows(scheme)
    if step is not None:
        as_function(step, "step", "of the nodes (q₀, …, q_k) that returns the length of their first step")
    k = problem.derivatives
    hermite = isinstance(scheme, Hermite) and k > 1
    nodes = 1 if hermite else k

    def split_time(arguments):
        """The nodes and the problem with its parameters."""
        if problem.parameters is None:
            return arguments, problem
        return arguments[:-1], with_parameters(problem, arguments[-1])

    def points(x: tuple, of_two: Hermite) -> WindowPoints:
        return _between(x, k, of_two) if hermite else _window(x, scheme)

    def lagrangian(*arguments):
        x, given = split_time(arguments)
        action = jnp.sum(points(x, _Denser()).weight_values(lambda jet, t: density(given, jet, t)))
        later = jnp.stack([y[0] for y in x])
        return jnp.where(jnp.all(later[1:] > later[:-1]), action, jnp.inf) if forward else action

    def differential(order: int, f: Callable) -> Callable:
        def mean_constraint(*arguments):
            x, given = split_time(arguments)
            inner = points(x, Between(k - order))
            return jnp.ravel(inner.weight_values(lambda jet, t: jnp.atleast_1d(given.call(f, *jet[: order + 1], t=t))))

        return mean_constraint

    def nodal(x, *p):
        given = with_parameters(problem, p[0]) if p else problem
        return _rates_at_nodes(given, x) if hermite else holonomic_constraints(given, x[1:], x[0])

    def step_defect(*arguments):
        x, given = split_time(arguments)
        assert step is not None
        return x[1][0] - x[0][0] - step(*(y[1:] for y in x), *(() if problem.parameters is None else (given.parameters,)))

    constraints: list = [_of_nodes(order, k, differential(order, f), hermite) for order, f in problem.differential]
    constraints += [step_defect] if step is not None else []
    held = problem.holonomic or (hermite and any(order < k for order, _ in problem.differential))
    constraints += [Holonomic(nodal)] if held else []
    names = None if problem.coordinates is None or hermite else ("t", *problem.coordinates)
    return VariationalProblem(lagrangian, constraints, derivatives=nodes, coordinates=names, parameters=problem.parameters)


class WindowPoints(NamedTuple):
    """(q, q̇, …, q⁽ᵏ⁾) at P points of a window, each (P, n), their times and their weights, (P,)."""

    jet: tuple[Float[Array, "P n"], ...]
    t: Float[Array, "P"]
    weights: Float[Array, "P"]

    def weight_values(self, function: Callable) -> Float[Array, "..."]:
        """Weight times function(jet, t) at every point, (P, …)."""
        values = jax.vmap(function)(self.jet, self.t)
        return self.weights.reshape(-1, *[1] * (values.ndim - 1)) * values


def _of_nodes(order: int, k: int, function: Callable, whole: bool):
    """A constraint that is given order+1 nodes, or those of whole windows."""
    return function if whole or order == k else {1: Nonholonomic, 2: SecondOrder}[order](function)


def _rates_at_nodes(problem: VariationalProblem, x) -> Float[Array, "c"]:
    """φ, dφ/dt, …, of order r with its first k-r-1 rates, at a node (t, q, …, q⁽ᵏ⁻¹⁾)."""
    jet, k = x[1:].reshape(problem.derivatives, -1), problem.derivatives
    lower = with_fields(problem, differential=tuple(c for c in problem.differential if c[0] < k))
    return jnp.concatenate([jnp.ravel(y) for found in constraint_rates(lower, jet, x[0]) for y in found])


def _window(x: tuple, scheme: WindowMap) -> WindowPoints:
    """At the points of a window of nodes (t, q), whose times are all different."""
    jets, places, weights = zip(*jets_at_times(scheme, [y[1:] for y in x], [y[0] for y in x]), strict=True)
    return WindowPoints(tuple(map(jnp.stack, zip(*jets, strict=True))), x[0][0] + jnp.stack(places), jnp.stack(weights))


class _Denser(Hermite):
    """At 2k+1 Gauss points."""

    def _rule(self, k):
        return gauss(2 * k + 1)


def _between(x: tuple, k: int, scheme: Hermite) -> WindowPoints:
    """At the points of a quadrature between two nodes (t, q, …, q⁽ᵏ⁻¹⁾)."""
    t0, h = x[0][0], x[1][0] - x[0][0]
    rows, places, weights = window_at(scheme, k, (0,) * k + (1,) * k, (*range(k),) * 2)
    a, b = (y[1:].reshape(k, -1) for y in x)
    slots = [a[0], *(h**j * a[j] for j in range(1, k)), b[0] - a[0], *(h**j * b[j] for j in range(1, k))]
    jets = jnp.einsum("pjs,sn->jpn", rows, jnp.stack(slots))
    return WindowPoints(tuple(y / h**j for j, y in enumerate(jets)), t0 + h * places, h * weights)


def has_time(problem: VariationalProblem) -> bool:
    """Whether `with_time` made the problem, whose nodes begin with their times."""
    made = problem.lagrangian
    return getattr(made, "__qualname__", "").partition(".")[0] == with_time.__name__ and made.__module__ == __name__


def energies(
    problem: VariationalProblem, x, multipliers: Float[Array | np.ndarray, "W m"] | None = None
) -> Float[Array, "E"]:
    """Compute the discrete energy of every step.

    E_i = -∂/∂h_i Σ_j L̃_d of the windows that contain the step h_i, L̃_d = L_d + λᵀΦ_d, i = k-1 … N-k.

    Moving all later nodes by the same time changes h_i alone: E_i = -Σ_{l>i} ∂(Σ L̃_d)/∂t_l, over the windows that contain
    both i and i+1.

    Args:
        problem: a problem in (t, q), as `with_time` returns it.
        x: its Solution; the Path of `simulate_free_steps`, whose energies begin where its multipliers do; or nodes (N+1,
            n+1).
        multipliers: (N+1-k, m), if x is an array of nodes and there are differential constraints: the multipliers of
            the windows. Those of constraints on fewer nodes are counted by their first node.

    Returns:
        The energies (E,).

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument is wrong, or there are constraints but no multipliers.

    Source: Colombo, Martín de Diego, Zuccalli, the display after (4.1), for L̃_d; its E is k times this one.

    Example:
        >>> timed = da.with_time(da.VariationalProblem(lambda q, v: 0.5 * v @ v))
        >>> da.energies(timed, np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])).round(9).tolist()  # ½v²
        [2.0, 2.0]
    """
    check_problem(problem)
    if not has_time(problem):
        raise ValueError(
            "problem: its Lagrangian is not one of nodes (t, q); give with_time(problem), with the scheme of the path"
        )
    nodes, free = _nodes_of(problem, x, multipliers)
    k, n = problem.derivatives, nodes.shape[1]
    if len(nodes) < 2 * k or n < 2:
        raise ValueError(f"x: found shape {nodes.shape}; give {2 * k} nodes (t, q) or more, shape (N+1, n+1)")
    constraint_numbers(problem, n)
    orders = orders_of(problem, n)
    if orders and free is None:
        raise ValueError(
            f"multipliers: are missing; the energy of a problem with {len(orders)} differential constraints is that of "
            "L + λᵀφ: give the Solution, or the nodes and the multipliers of their windows"
        )
    free = np.zeros((len(nodes) - k, 0)) if free is None else free
    if free.ndim != 2 or free.shape[1] != len(orders) or not k <= len(free) <= len(nodes) - k:
        raise ValueError(
            f"multipliers: found shape {free.shape}; {len(nodes)} nodes have {len(nodes) - k} windows with {len(orders)} "
            "multipliers each"
        )
    return _energies(problem, orders, jnp.asarray(nodes), jnp.asarray(free))


def _nodes_of(problem: VariationalProblem, x, multipliers) -> tuple[np.ndarray, np.ndarray | None]:
    """Nodes (t, q) and multipliers of a Solution, a Path or arrays."""
    if isinstance(x, Solution | Path):
        if multipliers is not None:
            raise ValueError(
                f"multipliers: found {described(multipliers)}; a {type(x).__name__} has its own, leave them out"
            )
        rest = (np.asarray(x.v),) if isinstance(x, Path) and x.levels[0] == "node" else ()
        nodes = np.asarray(x.q) if isinstance(x, Solution) else np.column_stack([x.t, x.q, *rest])
        return nodes, np.asarray(x.multipliers) if problem.differential else None
    nodes = as_numbers(x, "x")
    if nodes.ndim != 2:
        raise ValueError(f"x: found shape {nodes.shape}; give nodes (t, q), (N+1, n+1), or a Solution")
    return nodes, None if multipliers is None else as_numbers(multipliers, "multipliers")


@seldom
def _energies(problem: VariationalProblem, orders: tuple[int, ...], x, multipliers):
    k, known = problem.derivatives, x.shape[0] - problem.derivatives - multipliers.shape[0]
    reach = k - min(orders, default=k)  # windows of 2k nodes that no constraint reads across their middle
    used = range(reach, k)

    def energy(nodes, free):
        def shifted_action(shift):
            later = nodes.at[:, 0].add(shift * (np.arange(2 * k) >= k))
            total = sum(density(problem, tuple(later[i : i + k + 1]), later[i, 0]) for i in range(k))
            for order in set(orders):
                columns = np.flatnonzero(np.array(orders) == order)
                for i in range(k - order, k):
                    defects = constraints_of_order(problem, order, tuple(later[i : i + order + 1]), later[i, 0])
                    total = total + free[i - reach, columns] @ defects
            return total

        return -jax.grad(shifted_action)(0.0)

    begin = max(known - reach, 0)
    index = begin + np.arange(x.shape[0] - 2 * k + 1 - begin)[:, None]
    return jax.vmap(energy)(x[index + np.arange(2 * k)], multipliers[index - known + np.array(used, dtype=int)])
