"""The flow Υ_d of a variational problem of order k: its one-forms, its step, and its runs of nodes along a path.

Everything is made from the action of nodes by differentiation, with windows as the paper writes them, and not from the step.
"""

from __future__ import annotations

from math import comb
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.algebra import Newton, Solve, implicit, newton
from dalembert.discretize import Hermite, Interpolated, Scheme, WindowMap, as_windows
from dalembert.discretize.higher import forward_differences, node_defects
from dalembert.discretize.window_maps import jets_at_times
from dalembert.lazy import on_host
from dalembert.measure.nodes import check_neighbours, check_single
from dalembert.notebook import described_by_fields
from dalembert.numbers import as_array, as_number, as_positive, described
from dalembert.path import Path
from dalembert.systems import (
    VariationalProblem,
    common_order,
    constraint_numbers,
    constraints_of_order,
    density,
    holonomic_constraints,
    true_orders,
)
from dalembert.systems.higher.variational import check_problem
from dalembert.tracing import seldom

Nodes = Float[Array, "p n"]


@described_by_fields
class PoincareCartan(NamedTuple):
    """The two discrete one-forms of a problem of higher order.

    d(L̃_d⁰ + … + L̃_d^{k-1}) = Θ⁺ - Θ⁻ + Σ Φ_d dλ: the two one-forms.

    Attributes:
        minus: Θ⁻ on the first k of 2k nodes, (k, n) covectors.
        plus: Θ⁺ on the last k, (k, n).
    """

    minus: Float[Array, "k n"]
    plus: Float[Array, "k n"]


@on_host
def poincare_cartan(
    problem: VariationalProblem,
    nodes: Nodes,
    multipliers=None,
    *,
    h,
    t0: Any = 0.0,
    scheme: Scheme | WindowMap | None = None,
) -> PoincareCartan:
    """Compute the two discrete one-forms of a problem of higher order.

    d(L̃_d⁰ + … + L̃_d^{k-1}) = Θ⁺ - Θ⁻ + Σ Φ_d dλ at 2k nodes at the times t0, t0 + h, …

    Args:
        problem: a VariationalProblem of order k.
        nodes: (2k, n).
        multipliers: (r, m), for constraints of order r: the multipliers of the r windows that have nodes on both sides
            of the middle (for r = k all windows), scaled so that they tend to λ(t).
        h: time step.
        t0: time of the first node.
        scheme: as it was given to simulate.

    Returns:
        A PoincareCartan, in units of momentum.

    Raises:
        ValueError: an argument has the wrong shape; the message names it.
        TypeError: an argument is of the wrong type.

    Source: Colombo, Martín de Diego, Zuccalli, Theorem 3.1 and eq. (3.6), with weighted constraints.

    Example:
        >>> straight = [[0.0], [0.1], [0.2], [0.3]]
        >>> bool(abs(da.measure.poincare_cartan(beam, straight, h=0.1).plus).max() < 1e-9)  # no bending, no momentum
        True
    """
    check_problem(problem)
    k = problem.derivatives
    problem, points, free, chosen = _read_arguments(problem, nodes, multipliers, scheme, 2 * k)
    slopes = _action_slopes(problem, chosen, points, free, *_clock(h, t0))
    return PoincareCartan(-slopes[:k], slopes[k:])


def euler_lagrange_operator(
    problem: VariationalProblem,
    nodes: Nodes,
    multipliers=None,
    *,
    h,
    t0: Any = 0.0,
    scheme: Scheme | WindowMap | None = None,
) -> Float[Array, "n"]:
    """Evaluate the discrete Euler-Lagrange equations at given nodes.

    EL̃_d = Σ_j D_j L̃_d at the middle one of 2k+1 nodes; over h it tends to Σ_j (-d/dt)ʲ ∂L̃/∂q⁽ʲ⁾. Zero on trajectories.

    Holonomic constraint forces are not included: with holonomic constraints it is -h ∂φᵀμ on trajectories.

    Args:
        problem: a VariationalProblem of order k.
        nodes: (2k+1, n).
        multipliers: (r+1, m), those of the windows that contain the middle node.
        h: time step.
        t0: time of the first node.
        scheme: as it was given to simulate.

    Returns:
        The left side (n,).

    Raises:
        ValueError: an argument has the wrong shape; the message names it.
        TypeError: an argument is of the wrong type.

    Source: Colombo, Martín de Diego, Zuccalli, Theorem 3.1.

    Example:
        >>> cubic = [[float(i) ** 3] for i in range(5)]  # d⁴q/dt⁴ = 0
        >>> bool(abs(da.measure.euler_lagrange_operator(beam, cubic, h=1.0)).max() < 1e-9)
        True
    """
    check_problem(problem)
    k = problem.derivatives
    problem, points, free, chosen = _read_arguments(problem, nodes, multipliers, scheme, 2 * k + 1)
    return _action_slopes(problem, chosen, points, free, *_clock(h, t0))[k]


def _clock(h, t0) -> tuple[Float[Array, ""], Float[Array, ""]]:
    length, begin = as_positive(h, "h", "a positive, finite step"), as_number(t0, "t0", "a finite time")
    return jnp.asarray(length, dtype=float), jnp.asarray(begin, dtype=float)


@seldom
def _action_slopes(problem: VariationalProblem, scheme: WindowMap, nodes: Nodes, multipliers, h, t0) -> Nodes:
    """∂/∂q_i Σ L̃_d of all nodes, h apart."""
    times = h * jnp.arange(nodes.shape[0])
    return jax.grad(lambda x: node_action(problem, scheme, x, multipliers, times, t0))(nodes)


def node_action(problem: VariationalProblem, scheme: WindowMap, nodes: Nodes, multipliers, times, t0: Any = 0.0):
    """Σ L̃_d over all windows of k+1 neighbouring nodes, at any times, counted from t0.

    multipliers: of the windows of r+1 nodes from node k-r to node p-1-(k-r) of p, r the order of the constraints: for r < k
    those at the ends are left out, which belong to no difference of Θ⁺ and Θ⁻. Times are counted from t0
    because the differences of large times would be known to fewer digits.
    """
    k, order = problem.derivatives, common_order(problem)
    index = jnp.arange(nodes.shape[0] - k)[:, None] + jnp.arange(k + 1)
    action = jnp.sum(jax.vmap(lambda x, t: _knot_action(problem, scheme, x, t, t0)[0])(nodes[index], times[index]))
    if not multipliers.size:
        return action
    index = k - order + jnp.arange(multipliers.shape[0])[:, None] + jnp.arange(order + 1)
    defects = jax.vmap(lambda x, t: _knot_action(problem, scheme, x, t, t0)[1])(nodes[index], times[index])
    return action + jnp.sum(multipliers * defects)


def _knot_action(problem: VariationalProblem, scheme: WindowMap, nodes: Nodes, times, t0):
    """(L_d, Φ_d) of one window, differentiable with respect to its times too: L_d of k+1 nodes, Φ_d of the constraints of
    the order that the window has."""
    order = nodes.shape[0] - 1
    ((jet, place, weight),) = jets_at_times(scheme, nodes, times)
    middle = t0 + times[0] + place
    action = weight * density(problem, jet, middle) if order == problem.derivatives else jnp.zeros(())
    return action, weight * constraints_of_order(problem, order, jet, middle)


def _read_arguments(problem: VariationalProblem, nodes, multipliers, scheme, count: int):
    """(problem, nodes, multipliers, scheme), checked; the problem with the orders that its constraints have."""
    points, k, chosen = as_array(nodes, "nodes"), problem.derivatives, chosen_windows(scheme)
    if points.ndim != 2 or points.shape[0] != count or points.shape[1] == 0:
        raise ValueError(f"nodes: found shape {points.shape}; give {count} nodes, shape ({count}, n)")
    m, _ = constraint_numbers(problem, points.shape[1])
    problem = true_orders(problem, points.shape[1]) if chosen.differenced else problem
    rows = count - 2 * k + common_order(problem)
    free = jnp.zeros((rows, m)) if multipliers is None and not m else as_array(multipliers, "multipliers")
    if free.shape != (rows, m):
        raise ValueError(
            f"multipliers: found shape {free.shape}; one row of {m} for each window of the constraints that lies across the "
            f"middle of the nodes, {(rows, m)}, is needed"
        )
    return problem, points, free, chosen


def chosen_windows(scheme) -> WindowMap:
    """The scheme's windows, Interpolated if None; ValueError for those which no flow of nodes has."""
    chosen = Interpolated() if scheme is None else as_windows(scheme)
    if isinstance(chosen, Hermite):
        raise ValueError(f"scheme: found {described(chosen)}; give Interpolated() or Averaged()")
    return chosen


class HigherFlow(eqx.Module):
    """Υ_d at x = (2k nodes, r multipliers), flat, by eq. (3.4) as it is printed; and what restricts x: M̃_d × ℝ^{rm}.

    r is the order of the differential constraints; in the paper it is k.
    """

    problem: VariationalProblem
    scheme: WindowMap
    h: Float[Array, ""]
    t: Float[Array, ""]
    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    mh: int = eqx.field(static=True)

    def as_arrays(self, x):
        k, order = self.problem.derivatives, common_order(self.problem)
        return x[: 2 * k * self.n].reshape(2 * k, self.n), x[2 * k * self.n :].reshape(order, self.m)

    def theta(self, x, t) -> Float[Array, "x"]:
        """Θ⁺."""
        nodes, multipliers = self.as_arrays(x)
        forms = poincare_cartan(self.problem, nodes, multipliers, h=self.h, t0=t, scheme=self.scheme)
        return jnp.concatenate([jnp.zeros_like(forms.minus).ravel(), forms.plus.ravel(), jnp.zeros(multipliers.size)])

    def restrictions(self, x) -> Float[Array, "r"]:
        """φ at the nodes, Φ_d at the windows."""
        defects = node_defects(self.problem, self.scheme, self.as_arrays(x)[0], self.h, self.t)
        return jnp.concatenate([x.ravel() for x in defects])

    def equations(self, z, x) -> Float[Array, "z"]:
        """EL̃_d + dφᵀ hμ = 0 at node k, Φ_d = 0 at the last window, φ = 0 at the newest node; z = (q_{2k}, λ, μ)."""
        k, n = self.problem.derivatives, self.n
        nodes, multipliers = self.as_arrays(x)
        nodes, new = jnp.concatenate([nodes, z[None, :n]]), z[None, n : n + self.m]
        both = jnp.concatenate([multipliers, new])
        operator = euler_lagrange_operator(self.problem, nodes, both, h=self.h, t0=self.t, scheme=self.scheme)
        rows = jax.jacfwd(lambda q: holonomic_constraints(self.problem, q, self.t + k * self.h))(nodes[k])
        held, defects = node_defects(self.problem, self.scheme, nodes, self.h, self.t)
        return jnp.concatenate([operator / self.h + rows.T @ z[n + self.m :], defects[-1], held[-1]])

    def solve(self, x) -> tuple[Float[Array, "z"], Solve]:
        """z by Newton's iteration from the polynomial through the 2k nodes."""
        k = self.problem.derivatives
        nodes, multipliers = self.as_arrays(x)
        differences = forward_differences(nodes, self.h)
        ahead = sum(comb(2 * k, j) * self.h**j * differences[j] for j in range(2 * k))
        start = jnp.concatenate([ahead, multipliers[-1], jnp.zeros(self.mh)])
        size = 1e-3 + jnp.max(jnp.abs(nodes))
        scale = lambda z: jnp.full_like(z, jnp.inf).at[: self.n].set(size)  # noqa: E731
        return newton(lambda z: self.equations(z, x), start, scale, Newton(1e-13, 50))

    def step(self, x, z) -> Float[Array, "x"]:
        """Υ_d(x) from the solution z, with its first derivative."""
        nodes, multipliers = self.as_arrays(x)
        new = implicit(self.equations, z, x)
        return jnp.concatenate([nodes[1:].ravel(), new[: self.n], multipliers[1:].ravel(), new[self.n : self.n + self.m]])


def higher_flow(problem: VariationalProblem, nodes, multipliers, h, t0, scheme) -> tuple[HigherFlow, Float[Array, "x"]]:
    """Υ_d and the point x of M̃_d × ℝ^{rm}."""
    problem, points, free, chosen = _read_arguments(problem, nodes, multipliers, scheme, 2 * problem.derivatives)
    n = points.shape[1]
    flow = HigherFlow(problem, chosen, *_clock(h, t0), n, *constraint_numbers(problem, n))
    return flow, jnp.concatenate([points.ravel(), free.ravel()])


class FlowPath(NamedTuple):
    """A path of a flow of nodes: the problem with the orders that its constraints have there, its windows, and its arrays, q
    (N+1, n), multipliers (K, m), t (N+1,), of constant step h."""

    problem: VariationalProblem
    scheme: WindowMap
    q: Array
    multipliers: Array
    t: Array
    h: Array


def path_windows(path: FlowPath) -> tuple[Array, Array, Array]:
    """All runs of 2k neighbouring nodes with the multipliers of their r windows and the time of the first one.

    Multipliers of the windows before the first step are initial data and no part of the path: it begins where they
    are known.
    """
    problem, _, q, multipliers, t, _ = path
    k, order = problem.derivatives, common_order(problem)
    m, _ = constraint_numbers(problem, q.shape[1])
    rows = multipliers if m else jnp.zeros((q.shape[0] - k, 0))
    known = q.shape[0] - k - rows.shape[0]  # the node with which the first window begins whose multiplier is known
    begin = max(known - (k - order), 0)
    count = q.shape[0] - 2 * k + 1 - begin
    if count < 1:
        raise ValueError(
            f"path: has {q.shape[0]} nodes and {rows.shape[0]} windows; {2 * k} nodes with {order} windows are needed"
        )
    index = jnp.arange(count)[:, None]
    free = rows[begin + k - order - known + index + jnp.arange(order)]
    return q[begin + index + jnp.arange(2 * k)], free, t[begin : begin + count]


def read_flow_path(problem: VariationalProblem, path: Path, scheme: Scheme | WindowMap | None) -> FlowPath:
    """Errors for what is no path of the problem, as far as numbers of coordinates and multipliers tell, or is thinned."""
    check_single(path)
    chosen, n = chosen_windows(scheme), path.q.shape[1]
    m, _ = constraint_numbers(problem, n)
    if m and path.multipliers.shape[1] != m:
        raise ValueError(f"path: has {path.multipliers.shape[1]} multipliers, the problem {m}; give a path of this problem")
    check_neighbours(path)
    own = true_orders(problem, n) if chosen.differenced else problem
    return FlowPath(own, chosen, *(jnp.asarray(x) for x in (path.q, path.multipliers, path.t, path.h)))
