"""Start of the flow of a variational problem: from derivatives at the initial time, or from the first nodes."""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton, numerical_rank, root
from dalembert.discretize import Hermite, Interpolated, WindowMap, as_windows
from dalembert.discretize.higher import (
    HigherState,
    Unknowns,
    equal_window,
    forward_differences,
    momenta_of_nodes,
    node_defects,
    shifted_forth,
    short_constraints,
    starting_windows,
    window_equations,
)
from dalembert.numbers import as_array
from dalembert.step.programs.base import join
from dalembert.step.programs.higher import HigherProgram
from dalembert.step.programs.scaled import in_units, step_jacobian, units_for
from dalembert.step.run.state import Given, Grid, Prepared
from dalembert.systems import (
    RankDeficientError,
    VariationalProblem,
    common_order,
    constraint_numbers,
    density,
    holonomic_constraints,
    is_traced,
    ostrogradsky_momenta,
    true_orders,
)
from dalembert.systems.consistency import STEPS, check_parameters
from dalembert.systems.higher.ostrogradsky import check_jets, check_regular, check_vanishing, sizes_of
from dalembert.systems.higher.variational import next_derivatives
from dalembert.systems.sizes import units_of
from dalembert.tracing import Jitted, seldom

_PROJECTIONS = 6
_START = Newton(tolerance=1e-12, max_iterations=50)


class Begun(NamedTuple):
    """nodes (known, n); b = (q, b_1, …, b_k) at the last of them and the momenta; z: the unknowns of the last window."""

    nodes: Float[Array, "known n"]
    b: Float[Array, "k+1 n"]
    momenta: Float[Array, "k n"]
    z: Float[Array, "z"]


def begin_higher(problem: VariationalProblem, data: Given, grid: Grid, scheme) -> Prepared:
    """The program and the data of its first step; every mistake in the arguments is an error here."""
    (t0, h, steps, _), jets, nodes = grid, data.jets, data.nodes
    k, chosen = problem.derivatives, Interpolated() if scheme is None else as_windows(scheme)
    if isinstance(chosen, Hermite):
        raise ValueError(
            f"scheme: found {type(chosen).__name__}; the flow of a VariationalProblem takes Interpolated(), Points() or "
            f"Averaged(), windows of "
            "k+1 nodes. A Hermite window has several unknown nodes at once: use it in a boundary problem"
        )
    if (jets is None) == (nodes is None):
        raise ValueError(
            f"jets, nodes: give one of them: jets, q and its first {2 * k - 1} derivatives at t0, or nodes, the "
            f"first {2 * k} nodes"
        )
    given = as_rows(jets if nodes is None else nodes, "jets" if nodes is None else "nodes", 2 * k)
    n = given.shape[1]
    if problem.coordinates is not None and len(problem.coordinates) != n:
        raise ValueError(f"jets, nodes: found n = {n}; the problem names {len(problem.coordinates)} coordinates")
    m, mh = constraint_numbers(problem, n)
    problem = true_orders(problem, n) if chosen.differenced else problem
    order = common_order(problem)
    free = as_multipliers(data.multipliers, order, m)
    known = k + 1 if nodes is None and order == k else 2 * k
    if steps < known - 1:
        raise ValueError(f"steps: found {steps}; the start gives {known} nodes already, those of {known - 1} steps")
    traced = is_traced(problem, given, free, t0, h)
    if not traced:
        check_parameters(problem)
        check_consistent(problem, chosen, given, nodes is None, h, t0)
        derivatives = given if nodes is None else forward_differences(given, h)  # to first order: enough to look at a rank
        if chosen.differenced:  # a discrete Lagrangian is not defined where all points coincide
            if not np.isfinite(value := float(_density(problem, derivatives, t0))):
                raise ValueError(f"lagrangian: is {value} at t0; it must be finite there")
            check_regular(problem, derivatives, free[0], t0)
    start = from_nodes if nodes is not None else _from_jets if order == k else _from_taylor
    begun = start(problem, chosen, given, free, t0, h)
    begun = begun if traced else jax.tree.map(np.asarray, begun)  # every small operation of JAX is compiled
    program = HigherProgram(problem, chosen, m, mh, known)
    s = join([begun.b[1:].ravel(), begun.momenta.ravel()])
    made = Prepared(program, begun.nodes, begun.b[0], s, begun.z)
    if not traced:
        matrix = first_matrix(program, begun.b[0], s, begun.z, t0 + (known - 1) * h, h)
        units = units_for(made, units_of(matrix, made.q.shape[0]), t0 + (known - 1) * h, h)
        made = made if units is None else in_units(made, units)
    return made


@seldom
def _density(problem: VariationalProblem, derivatives, t0) -> Float[Array, ""]:
    return density(problem, tuple(derivatives[: problem.derivatives + 1]), t0)


@Jitted
def _from_jets(problem, scheme, jets, multipliers, t0, h) -> Begun:
    """Ostrogradsky's momenta at t0 are those of the first window, whose knots coincide but one; k windows lead to node k.

    That is -∂A_d/∂q⁽ʲ⁾ = p_j at the first node, solved one slot after the other: second order.
    """
    k, n = problem.derivatives, jets.shape[1]
    momenta = ostrogradsky_momenta(problem, jets, multipliers, t0)
    m, mh = constraint_numbers(problem, n)

    def next_state(state: HigherState, window):
        equations = lambda z: window_equations(problem, window, state, Unknowns(z[:n], z[n : n + m], z[n + m :]))  # noqa: E731
        start = jnp.concatenate([jets[k], multipliers[0], jnp.zeros(mh)])
        size = 1e-3 * jnp.max(jnp.abs(jets[1:])) + 1e-200
        scale = lambda z: jnp.full_like(z, jnp.inf).at[:n].set(size + jnp.max(jnp.abs(z[:n])))  # noqa: E731
        z, _ = root(lambda x: equations(x)[0], start, scale, _START, lambda x: units_of(x, n, jnp))
        node = window.newest @ jnp.concatenate([state.u, z[None, :n]])
        return equations(z)[1], (node, z)

    windows = starting_windows(scheme, k, h, t0)
    state, (nodes, z) = jax.lax.scan(next_state, HigherState(jets[:k], momenta), windows)
    b = jnp.concatenate([shifted_forth(state.u, h), z[-1:, :n]])
    return Begun(jnp.concatenate([jets[:1], nodes]), b, state.momenta, z[-1])


@Jitted
def from_nodes(problem, scheme, nodes, multipliers, t0, h, *, origin=0.0) -> Begun:
    """The momenta are those of the k windows that end at the last k nodes. origin: what the nodes are counted from."""
    k, mh = problem.derivatives, constraint_numbers(problem, nodes.shape[1])[1]
    state = momenta_of_nodes(problem, scheme, nodes, multipliers, h, t0, origin=origin)
    last = forward_differences(nodes[k - 1 :], h)[-1]
    b = jnp.concatenate([shifted_forth(state.u, h), last[None]]).at[0].set(nodes[-1] + origin)
    return Begun(nodes + origin, b, state.momenta, jnp.concatenate([last, multipliers[-1], jnp.zeros(mh)]))


@Jitted
def _from_taylor(problem, scheme, jets, multipliers, t0, h) -> Begun:
    """Constraints of order r < k: the first 2k nodes and r multipliers by Taylor's polynomials of degree 2k and r, whose
    last coefficients follow from the equations; the nodes are moved onto the discrete constraints. Second order.

    Windows with knots that coincide would put a point mass into the multipliers of the first windows.
    """
    k, order = problem.derivatives, multipliers.shape[0]
    highest, rate, _ = next_derivatives(problem, jets, multipliers, t0)
    rates, free = jnp.concatenate([jets[1:], highest[None]]), jnp.concatenate([multipliers, rate[None]])
    taylor = lambda rows, first, s: sum(x * s ** (first + i) / factorial(first + i) for i, x in enumerate(rows))  # noqa: E731
    nodes = [jnp.zeros_like(jets[0])]
    for i in range(1, 2 * k):
        near = [*nodes[max(i - order, 0) :], taylor(rates, 1, i * h)]
        nodes.append(_onto_constraints(problem, scheme, near, jets[0], t0 + i * h, h))
    short = equal_window(scheme, order, h, 0.0)
    given = jnp.stack([taylor(free, 0, short.middle + (k - order + i) * h) for i in range(order)])
    return from_nodes(problem, scheme, jnp.stack(nodes), given, t0, h, origin=jets[0])


def _onto_constraints(problem, scheme, nodes: list, origin, t, h) -> Float[Array, "n"]:
    """The last of some neighbouring nodes, at t, moved by the least amount so that its constraints hold."""
    order, before = common_order(problem), len(nodes) - 1

    def left(last):
        differences = forward_differences(jnp.stack([*nodes[:-1], last]), h).at[0].add(origin)
        rows = [holonomic_constraints(problem, last + origin, t)]
        if before == order:
            rows.append(h**order * short_constraints(problem, equal_window(scheme, order, h, t - order * h), differences))
        return jnp.concatenate(rows)

    def newton_step(_, last):
        matrix = jax.jacfwd(left)(last)
        return last - matrix.T @ jnp.linalg.solve(matrix @ matrix.T, left(last))

    return jax.lax.fori_loop(0, _PROJECTIONS, newton_step, nodes[-1])


def as_rows(value, name: str, rows: int) -> Float[Array, "rows n"]:
    """`value` as a float array (rows, n), finite."""
    array = as_array(value, name)
    if array.ndim != 2 or array.shape[0] != rows or array.shape[1] == 0:
        what = f"q and its first {rows - 1} derivatives" if name == "jets" else f"the first {rows} nodes"
        raise ValueError(f"{name}: found shape {array.shape}; give {what}, shape ({rows}, n)")
    return array


def as_multipliers(value, order: int, m: int) -> Float[Array, "r m"]:
    """The multipliers that are initial data, finite; order: r, of the constraints."""
    if value is None and m:
        raise ValueError(
            f"multipliers: are missing; with {m} differential constraints of order {order} λ is free initial data: give "
            f"({order}, {m}), λ and its first {order - 1} derivatives with jets, λ of the {order} windows that lie across "
            "the middle of the nodes with nodes"
        )
    array = jnp.zeros((order, 0)) if value is None else as_array(value, "multipliers")
    if array.shape != (order, m):
        raise ValueError(
            f"multipliers: found shape {array.shape}; {order} rows of m = {m} numbers, shape {(order, m)}, are needed: the "
            f"constraints have the order {order}, and further derivatives of λ follow from the equations"
        )
    return array


def check_consistent(problem: VariationalProblem, scheme: WindowMap, given, jets: bool, h, t0) -> None:
    """φ and the derivatives of it which jets determine are zero; φ at all nodes and Φ_d at their windows, M̃_d."""
    time = STEPS * abs(float(h))
    if jets:
        check_jets(problem, given, t0, time, "jets")
    else:
        what = "nodes: φ at the nodes and Φ_d at their windows must vanish"
        sizes = sizes_of(np.asarray(given), False, time)
        check_vanishing(lambda x: node_defects(problem, scheme, x, h, t0), given, sizes, what)


def first_matrix(program: HigherProgram, q, s, z, t, h) -> np.ndarray:
    """The matrix of Proposition 3.2 at the first window, regular."""
    if not np.all(np.isfinite(np.asarray(z))):
        raise RankDeficientError("jets: the first windows could not be solved from these derivatives; reduce h")
    matrix = np.asarray(step_jacobian(program, z, q, s, t, h))
    if not (found := numerical_rank(matrix * units_of(matrix, len(q)), 1e-13)).full:
        raise RankDeficientError(
            f"lagrangian: the matrix [[D₁D_{{k+1}}L̃_d, D₁Φᵀ], [D_{{k+1}}Φ, 0]] of the first step, "
            f"{matrix.shape[0]} rows, has rank "
            f"{found.rank}: the flow does not exist at these data"
        )
    return matrix
