"""Time as a variable: the discrete problem on R × Q, whose nodes are (t_i, q_i)."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize.window_maps import Averaged, Hermite, Interpolated, WindowMap, as_windows
from dalembert.numbers import as_flag, as_function, as_numbers, described
from dalembert.path import Path
from dalembert.solution import Solution
from dalembert.systems.constraints import Holonomic, Nonholonomic, SecondOrder
from dalembert.systems.higher.variational import (
    VariationalProblem,
    check_problem,
    constraint_numbers,
    constraints_of_order,
    density,
    holonomic_constraints,
    orders_of,
    with_parameters,
)
from dalembert.tracing import seldom


def with_time(
    problem: VariationalProblem,
    scheme: WindowMap | None = None,
    *,
    step: Callable | None = None,
    forward: bool = True,
) -> VariationalProblem:
    """L_d((t₀, q₀), …, (t_k, q_k)) = (t_k - t₀)/k · L(jet of the points on their own times): t is varied like q.

    The equation of t_i is that of the discrete energy, E_i - E_{i-1} = -(h_i + … + h_{i+k-1})/k ∂L_d/∂t: where L does not
    depend on t the energy is conserved, and the method is symplectic and keeps energy and momentum; the steps are unknowns.
    Constraints of lower order than L are functions of fewer nodes, see `constraint_windows`; Hermite takes holonomic ones
    alone.

    Args:
        problem: a VariationalProblem of order k.
        scheme: Interpolated (the default) or Averaged; with Hermite the nodes are (t, q, q̇, …, q⁽ᵏ⁻¹⁾), the windows have
            two of them and 2k+1 Gauss points: more than a fixed mesh needs, so that the nodes move to where the action is
            approximated best and not to where the quadrature errs.
        step: `step(q₀, …, q_k)`, the prescribed t_{1} - t_{0}, as a constraint: the q equations then contain its derivative.
        forward: the action is infinite where time does not increase, so that no path is accepted that goes back.

    Returns:
        The problem on (t, q), a VariationalProblem to be solved with scheme=Points().

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
    if hermite and problem.differential:
        raise ValueError("scheme: Hermite() with free times takes no differential constraints; give Interpolated()")

    def split(arguments):
        """The nodes and the problem with its parameters."""
        if problem.parameters is None:
            return arguments, problem
        return arguments[:-1], with_parameters(problem, arguments[-1])

    def points(x: tuple) -> list:
        return _hermite(x, k) if hermite else [_window(jnp.stack([y[0] for y in x]), jnp.stack([y[1:] for y in x]), scheme)]

    def lagrangian(*arguments):
        x, given = split(arguments)
        action = sum((w * density(given, jet, t) for jet, t, w in points(x)), jnp.zeros(()))
        later = jnp.stack([y[0] for y in x])
        return jnp.where(jnp.all(later[1:] > later[:-1]), action, jnp.inf) if forward else action

    def differential(order: int, f: Callable) -> Callable:
        def windowed(*arguments):
            x, given = split(arguments)
            ((jet, t, w),) = points(x)
            return w * jnp.atleast_1d(given.call(f, *jet[: order + 1], t=t))

        return windowed

    def holonomic(x, *p):
        given = with_parameters(problem, p[0]) if p else problem
        return holonomic_constraints(given, x[1 : 1 + (x.shape[0] - 1) // (k if hermite else 1)], x[0])

    def prescribed(*arguments):
        x, given = split(arguments)
        assert step is not None
        return x[1][0] - x[0][0] - step(*(y[1:] for y in x), *(() if problem.parameters is None else (given.parameters,)))

    constraints: list = [_of_nodes(order, k, differential(order, f)) for order, f in problem.differential]
    constraints += [prescribed] if step is not None else []
    constraints += [Holonomic(holonomic)] if problem.holonomic else []
    names = None if problem.coordinates is None or hermite else ("t", *problem.coordinates)
    return VariationalProblem(lagrangian, constraints, derivatives=nodes, coordinates=names, parameters=problem.parameters)


def _of_nodes(order: int, k: int, function: Callable):
    """A constraint that is given order+1 nodes."""
    return function if order == k else {1: Nonholonomic, 2: SecondOrder}[order](function)


def _window(t: Float[Array, "k+1"], q: Float[Array, "k+1 n"], scheme: WindowMap):
    """(jet, time, weight) of a window whose knots are all different."""
    k = t.shape[0] - 1
    table = [q]
    for j in range(1, k + 1):
        table.append((table[-1][1:] - table[-1][:-1]) / (t[j:] - t[:-j])[:, None])
    centre = jnp.mean(t)
    if isinstance(scheme, Averaged):
        jet = [factorial(j) * jnp.mean(table[j], axis=0) for j in range(k + 1)]
    else:
        jet = _newton(table, t, centre, k)
    return tuple(jet), centre, (t[-1] - t[0]) / k


def _newton(table: list, t, point, k: int) -> list:
    """Derivatives 0 … k at a point of the polynomial through the knots."""
    jet = [jnp.zeros_like(table[0][0]) for _ in range(k + 1)]
    product = [jnp.ones(())] + [jnp.zeros(())] * k
    for m in range(k + 1):
        jet = [have + factorial(j) * product[j] * table[m][0] for j, have in enumerate(jet)]
        distance = point - t[m]
        product = [distance * product[0], *(distance * product[j] + product[j - 1] for j in range(1, k + 1))]
    return jet


def _hermite(x: tuple, k: int) -> list:
    """(jet, time, weight) at the Gauss points between two nodes (t, q, …, q⁽ᵏ⁻¹⁾)."""
    t0, t1 = x[0][0], x[1][0]
    h = t1 - t0
    a, b = (y[1:].reshape(k, -1) for y in x)
    knots = np.array([0.0] * k + [1.0] * k)
    scaled = [a[0] * 0.0 + a[0]] * k + [b[0]] * k
    table = [scaled]
    for j in range(1, 2 * k):
        last = table[-1]
        row = []
        for l in range(2 * k - j):
            if knots[l] == knots[l + j]:
                row.append((a if knots[l] == 0.0 else b)[j] * h**j / factorial(j))
            else:
                row.append(last[l + 1] - last[l])
        table.append(row)
    places, weights = np.polynomial.legendre.leggauss(2 * k + 1)
    points = []
    for place, weight in zip(0.5 * (1 + places), 0.5 * weights, strict=True):
        jet = [jnp.zeros_like(a[0]) for _ in range(k + 1)]
        product = [1.0] + [0.0] * k
        for m in range(2 * k):
            jet = [have + factorial(j) * product[j] * table[m][0] for j, have in enumerate(jet)]
            distance = place - knots[m]
            product = [distance * product[0], *(distance * product[j] + product[j - 1] for j in range(1, k + 1))]
        points.append((tuple(y / h**j for j, y in enumerate(jet)), t0 + place * h, weight * h))
    return points


def energies(
    problem: VariationalProblem, x, multipliers: Float[Array | np.ndarray, "W m"] | None = None
) -> Float[Array, "E"]:
    """E_i = -∂/∂h_i Σ_j L̃_d of the windows that contain the step h_i, L̃_d = L_d + λᵀΦ_d, i = k-1 … N-k.

    Moving all later nodes by the same time changes h_i alone: E_i = -Σ_{l>i} ∂(Σ L̃_d)/∂t_l, over the windows that contain
    both i and i+1.

    Args:
        problem: on (t, q), of `with_time`.
        x: its Solution; the Path of `simulate_free_steps`, whose energies begin where its multipliers do; or nodes (N+1,
            n+1).
        multipliers: (N+1-k, m) with nodes and differential constraints: those of their windows, those of constraints on
            fewer nodes by the first of them.

    Returns:
        The energies (E,).

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument is wrong; constraints need multipliers and there are none.

    Source: Colombo, Martín de Diego, Zuccalli, the display after (4.1), for L̃_d; its E is k times this one.

    Example:
        >>> timed = da.with_time(da.VariationalProblem(lambda q, v: 0.5 * v @ v))
        >>> da.energies(timed, np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])).round(9).tolist()  # ½v²
        [2.0, 2.0]
    """
    check_problem(problem)
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
        def moved(shift):
            later = nodes.at[:, 0].add(shift * (np.arange(2 * k) >= k))
            total = sum(density(problem, tuple(later[i : i + k + 1]), later[i, 0]) for i in range(k))
            for order in set(orders):
                columns = np.flatnonzero(np.array(orders) == order)
                for i in range(k - order, k):
                    defects = constraints_of_order(problem, order, tuple(later[i : i + order + 1]), later[i, 0])
                    total = total + free[i - reach, columns] @ defects
            return total

        return -jax.grad(moved)(0.0)

    begin = max(known - reach, 0)
    index = begin + np.arange(x.shape[0] - 2 * k + 1 - begin)[:, None]
    return jax.vmap(energy)(x[index + np.arange(2 * k)], multipliers[index - known + np.array(used, dtype=int)])
