"""The flow Υ_d of a variational problem of order k: its one-forms, symplectic form, momenta, energy and regularity.

Everything is made from the action of nodes by differentiation, with windows as the paper writes them, and not from the step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import comb
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton, Solve, newton
from dalembert.discretize import Scheme
from dalembert.discretize.higher import forward_differences, momenta_of_nodes, node_defects
from dalembert.discretize.windows import Hermite, Interpolated, WindowMap, window_action
from dalembert.measure.condition import Condition, condition
from dalembert.measure.invariant import Invariant
from dalembert.measure.nodes import check_neighbours, implicit
from dalembert.path import Path
from dalembert.systems import VariationalProblem
from dalembert.systems.variational import constraint_numbers, holonomic_constraints
from dalembert.tracing import Jitted

Nodes = Float[Array, "p n"]
_ROUNDING = 1e-12  # entries of D₁D_{k+1}L̃_d this much below the largest: differences of knots, and no dependence


class PoincareCartan(NamedTuple):
    """Θ⁻ on the first k of 2k nodes and Θ⁺ on the last k, (k, n) covectors."""

    minus: Float[Array, "k n"]
    plus: Float[Array, "k n"]


def poincare_cartan(
    problem: VariationalProblem,
    nodes: Nodes,
    multipliers=None,
    *,
    h,
    t0: Any = 0.0,
    scheme: Scheme | WindowMap | None = None,
) -> PoincareCartan:
    """d(L̃_d⁰ + … + L̃_d^{k-1}) = Θ⁺ - Θ⁻ + Σ Φ_d dλ at 2k nodes, h apart from t0 on.

    nodes: (2k, n). multipliers: (k, m), those of the k windows, scaled to λ(t). Units: of momentum.
    Source: Colombo, Martín de Diego, Zuccalli, Theorem 3.1 and eq. (3.6), with weighted constraints, see `window_action`.
    """
    k = problem.derivatives
    points, free, chosen = _given(problem, nodes, multipliers, scheme, 2 * k)
    slopes = _slopes(problem, chosen, points, free, jnp.asarray(h, dtype=float), jnp.asarray(t0, dtype=float))
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
    """EL̃_d = Σ_j D_j L̃_d at the middle one of 2k+1 nodes; over h it tends to Σ_j (-d/dt)ʲ ∂L̃/∂q⁽ʲ⁾. Zero on trajectories.

    nodes: (2k+1, n); multipliers: (k+1, m). Holonomic constraint forces are not contained: it is then -h ∂φᵀμ.
    Source: Colombo, Martín de Diego, Zuccalli, Theorem 3.1.
    """
    k = problem.derivatives
    points, free, chosen = _given(problem, nodes, multipliers, scheme, 2 * k + 1)
    return _slopes(problem, chosen, points, free, jnp.asarray(h, dtype=float), jnp.asarray(t0, dtype=float))[k]


@Jitted
def _slopes(problem: VariationalProblem, scheme: WindowMap, nodes: Nodes, multipliers, h, t0) -> Nodes:
    """∂/∂q_i Σ L̃_d of all nodes, h apart."""
    times = h * jnp.arange(nodes.shape[0])
    return jax.grad(lambda x: node_action(problem, scheme, x, multipliers, times, t0))(nodes)


def node_action(problem: VariationalProblem, scheme: WindowMap, nodes: Nodes, multipliers, times, t0: Any = 0.0):
    """Σ L̃_d over all windows of k+1 neighbouring nodes, at any times, counted from t0.

    Apart from t0, because the differences of large times would be known to fewer digits.
    """
    index = jnp.arange(nodes.shape[0] - problem.derivatives)[:, None] + jnp.arange(problem.derivatives + 1)
    action, defects = jax.vmap(lambda x, t: _knot_action(problem, scheme, x, t, t0))(nodes[index], times[index])
    return jnp.sum(action) + jnp.sum(multipliers * defects)


def _knot_action(problem: VariationalProblem, scheme: WindowMap, nodes: Nodes, times, t0):
    """(L_d, Φ_d) of one window of k+1 nodes, differentiable with respect to their times too."""
    k = problem.derivatives
    positions = [times[i] - times[0] for i in range(k + 1)]
    table = [[nodes[i] for i in range(k + 1)]]
    for j in range(1, k + 1):
        last = table[-1]
        table.append([(last[l + 1] - last[l]) / (positions[l + j] - positions[l]) for l in range(k + 1 - j)])
    ((place, weight),) = scheme.points(positions)
    jet = jnp.stack(scheme.jet(table, positions, place, k))
    middle = (t0 + times[0] + place)[None]
    action, defects = window_action(problem, jet[None], middle, jnp.asarray(weight)[None])
    return action, defects[0]


def _given(problem: VariationalProblem, nodes, multipliers, scheme, count: int):
    points, k = jnp.asarray(nodes, dtype=float), problem.derivatives
    if points.ndim != 2 or points.shape[0] != count:
        raise ValueError(f"nodes: found shape {points.shape}; give {count} nodes, shape ({count}, n)")
    m, _ = constraint_numbers(problem, points.shape[1])
    free = jnp.zeros((count - k, m)) if multipliers is None and not m else jnp.asarray(multipliers, dtype=float)
    if free.shape != (count - k, m):
        raise ValueError(
            f"multipliers: found shape {free.shape}; one row of {m} for each window, {(count - k, m)}, is needed"
        )
    return points, free, chosen_windows(scheme)


def chosen_windows(scheme) -> WindowMap:
    """The scheme's windows, Interpolated if None; ValueError for those which no flow of nodes has."""
    chosen = Interpolated() if scheme is None else scheme
    if not isinstance(chosen, WindowMap) or isinstance(chosen, Hermite):
        raise ValueError(f"scheme: found {type(chosen).__name__}; give Interpolated() or Averaged()")
    return chosen


class HigherFlow(eqx.Module):
    """Υ_d at x = (2k nodes, k multipliers), flat, by eq. (3.4) as it is printed; and what restricts x: M̃_d × ℝ^{km}."""

    problem: VariationalProblem
    scheme: WindowMap
    h: Float[Array, ""]
    t: Float[Array, ""]
    n: int = eqx.field(static=True)
    m: int = eqx.field(static=True)
    mh: int = eqx.field(static=True)

    def split(self, x):
        k = self.problem.derivatives
        return x[: 2 * k * self.n].reshape(2 * k, self.n), x[2 * k * self.n :].reshape(k, self.m)

    def theta(self, x, t) -> Float[Array, "x"]:
        """Θ⁺."""
        nodes, multipliers = self.split(x)
        forms = poincare_cartan(self.problem, nodes, multipliers, h=self.h, t0=t, scheme=self.scheme)
        return jnp.concatenate([jnp.zeros_like(forms.minus).ravel(), forms.plus.ravel(), jnp.zeros(multipliers.size)])

    def restrictions(self, x) -> Float[Array, "r"]:
        """φ at the nodes, Φ_d at the windows."""
        defects = node_defects(self.problem, self.scheme, self.split(x)[0], self.h, self.t)
        return jnp.concatenate([x.ravel() for x in defects])

    def equations(self, z, x) -> Float[Array, "z"]:
        """EL̃_d + dφᵀ hμ = 0 at node k, Φ_d = 0 at the last window, φ = 0 at the newest node; z = (q_{2k}, λ, μ)."""
        k, n = self.problem.derivatives, self.n
        nodes, multipliers = self.split(x)
        nodes, new = jnp.concatenate([nodes, z[None, :n]]), z[None, n : n + self.m]
        both = jnp.concatenate([multipliers, new])
        operator = euler_lagrange_operator(self.problem, nodes, both, h=self.h, t0=self.t, scheme=self.scheme)
        rows = jax.jacfwd(lambda q: holonomic_constraints(self.problem, q, self.t + k * self.h))(nodes[k])
        held, defects = node_defects(self.problem, self.scheme, nodes, self.h, self.t)
        return jnp.concatenate([operator / self.h + rows.T @ z[n + self.m :], defects[-1], held[-1]])

    def solve(self, x) -> tuple[Float[Array, "z"], Solve]:
        """z by Newton's iteration from the polynomial through the 2k nodes."""
        k = self.problem.derivatives
        nodes, multipliers = self.split(x)
        differences = forward_differences(nodes, self.h)
        ahead = sum(comb(2 * k, j) * self.h**j * differences[j] for j in range(2 * k))
        start = jnp.concatenate([ahead, multipliers[-1], jnp.zeros(self.mh)])
        size = 1e-3 + jnp.max(jnp.abs(nodes))
        scale = lambda z: jnp.full_like(z, jnp.inf).at[: self.n].set(size)  # noqa: E731
        return newton(lambda z: self.equations(z, x), start, scale, Newton(1e-13, 50))

    def step(self, x, z) -> Float[Array, "x"]:
        """Υ_d(x) from the solution z, with its first derivative."""
        nodes, multipliers = self.split(x)
        new = implicit(lambda y: self.equations(y, x), z)
        return jnp.concatenate([nodes[1:].ravel(), new[: self.n], multipliers[1:].ravel(), new[self.n : self.n + self.m]])


def higher_flow(problem: VariationalProblem, nodes, multipliers, h, t0, scheme) -> tuple[HigherFlow, Float[Array, "x"]]:
    """Υ_d and the point x of M̃_d × ℝ^{km}."""
    points, free, chosen = _given(problem, nodes, multipliers, scheme, 2 * problem.derivatives)
    n = points.shape[1]
    flow = HigherFlow(
        problem, chosen, jnp.asarray(h, dtype=float), jnp.asarray(t0, dtype=float), n, *constraint_numbers(problem, n)
    )
    return flow, jnp.concatenate([points.ravel(), free.ravel()])


def path_windows(problem: VariationalProblem, q, multipliers, t) -> tuple[Array, Array, Array]:
    """All runs of 2k neighbouring nodes with the multipliers of their k windows and the time of the first one.

    Multipliers of the windows before the first step are initial data and no part of the path: it begins where they
    are known.
    """
    k = problem.derivatives
    m, _ = constraint_numbers(problem, q.shape[1])
    rows = multipliers if m else jnp.zeros((q.shape[0] - k, 0))
    begin = q.shape[0] - k - rows.shape[0]
    count = rows.shape[0] - k + 1
    if count < 1:
        raise ValueError(
            f"path: has {q.shape[0]} nodes and {rows.shape[0]} windows; {2 * k} nodes with {k} windows are needed"
        )
    index = jnp.arange(count)[:, None]
    return q[begin + index + jnp.arange(2 * k)], rows[index + jnp.arange(k)], t[begin : begin + count]


def higher_momentum(
    problem: VariationalProblem, path: Path, generator: Callable, scheme: Scheme | WindowMap | None
) -> Invariant:
    """J_d(ξ) = Θ⁺·ξ_Q at all runs of 2k nodes of a path, at the time of the last one.

    As Σ_j Π_j · Δʲξ_Q/hʲ: of the momenta's size. Rounding of the stored nodes, ε|q|/2 each, is seen in the highest of their
    differences, of order 2k-1: |ΔJ| ≤ 4^{k-1} ε |q| |ξ_Q| |L_{q⁽ᵏ⁾q⁽ᵏ⁾}|/h^{2k-1} to leading order, whatever the
    number of steps. Source: Colombo, Martín de Diego, Zuccalli, Remark 3.5.
    """
    chosen = chosen_windows(scheme)
    check_neighbours(path)
    shape = jax.eval_shape(lambda q, t: problem.call(generator, q[0], t=t[0]), path.q, path.t).shape
    if shape != path.q.shape[1:]:
        raise ValueError(f"generator: returns shape {shape}; a direction of shape {path.q.shape[1:]} is needed")
    return Invariant(*_momenta(problem, chosen, generator, path.q, path.multipliers, path.t, path.h))


@Jitted
def _momenta(problem: VariationalProblem, scheme: WindowMap, generator: Callable, q, multipliers, t, h):
    """Times and values, in one program: outside of one every small operation is compiled for every length of a path."""
    k = problem.derivatives

    def value(points, free, begin):
        momenta = momenta_of_nodes(problem, scheme, points, free, h, begin).momenta
        direction = jnp.stack([problem.call(generator, x, t=begin + (k + i) * h) for i, x in enumerate(points[k:])])
        return jnp.sum(momenta * forward_differences(direction, h))

    nodes, rows, begin = path_windows(problem, q, multipliers, t)
    return begin + (2 * k - 1) * h, jax.vmap(value)(nodes, rows, begin)


def higher_energy(problem: VariationalProblem, path: Path, scheme: Scheme | WindowMap | None) -> Invariant:
    """E_i = -∂/∂h_i Σ L̃_d over the k windows that contain the step h_i = t_{i+1} - t_i; at the middle of that step.

    The sum has the weights (t_{i+k} - t_i)/k, so that E_i tends to the energy Σ_j p_j·q⁽ʲ⁺¹⁾ - L. With a fixed
    step it oscillates, with an amplitude O(h²). Source: Colombo, Martín de Diego, Zuccalli, section 4.1, divided by k.
    """
    check_neighbours(path)
    return Invariant(*_energies(problem, chosen_windows(scheme), path.q, path.multipliers, path.t, path.h))


@Jitted
def _energies(problem: VariationalProblem, scheme: WindowMap, q, multipliers, t, h):
    k = problem.derivatives

    def value(points, free, begin):
        def action(step):
            times = h * jnp.arange(2 * k) + (step - h) * (jnp.arange(2 * k) >= k)
            return node_action(problem, scheme, points, free, times, begin)

        return -jax.grad(action)(h)

    nodes, rows, begin = path_windows(problem, q, multipliers, t)
    return begin + (k - 0.5) * h, jax.vmap(value)(nodes, rows, begin)


@dataclasses.dataclass(frozen=True)
class FlowRegularity:
    """The matrix of Υ_d at runs of 2k+1 nodes, t (K,) the times of their middle nodes.

    matrix: [[D₁D_{k+1}L̃_d, D₁Φᵀ], [D_{k+1}Φ, 0]]; residual: (K,) largest left side of the equations there.
    """

    t: np.ndarray
    matrix: Condition
    residual: np.ndarray

    @property
    def regular(self) -> bool:
        """Υ_d exists and is a local diffeomorphism at every run of nodes."""
        return self.matrix.holds

    def describe(self) -> str:
        c = self.matrix
        return (
            f"{'regular' if self.regular else 'not regular'} at {self.t.shape[0]} windows: {c.name} has rank "
            f"{int(c.ranks.min())} of "
            f"{c.wanted}, smallest singular value {c.smallest.min():.3g} at t = {self.t[c.worst]:g}\n"
            f"  largest left side of the node equations: {self.residual.max():.2e}"
        )


def higher_regularity(
    problem: VariationalProblem, path: Path, scheme: Scheme | WindowMap | None, every: int
) -> FlowRegularity:
    """rank [[D₁D_{k+1}L̃_d, (D₁Φ)ᵀ], [D_{k+1}Φ, 0]] = n + m + mh at every run of 2k+1 nodes of a path.

    Holonomic constraints are paired: ∂φᵀμ at the middle node with φ = 0 at the newest. Rows are scaled to unit length.
    Source: Colombo, Martín de Diego, Zuccalli, Proposition 3.2, transposed as in the theorem on implicit functions.
    """
    check_neighbours(path)
    data = _matrices(problem, chosen_windows(scheme), path.q, path.multipliers, path.t, path.h, every)
    matrices, residual, begin = (np.asarray(x) for x in data)
    times = begin + problem.derivatives * float(path.h)
    found = condition("the matrix of the flow", matrices, matrices.shape[1], times)
    return FlowRegularity(times, found, residual)


@Jitted
def _matrices(problem: VariationalProblem, scheme: WindowMap, q, multipliers, t, h, every: int):
    """(matrix, residual, time of the first node) at every run of 2k+1 nodes."""
    nodes, rows, begin = path_windows(problem, q, multipliers, t)
    if nodes.shape[0] < 2:
        raise ValueError(f"path: has {q.shape[0]} nodes; {2 * problem.derivatives + 1} with their multipliers are needed")
    n = q.shape[1]

    def at(points, free, newest, start):
        flow = HigherFlow(problem, scheme, h, start, n, *constraint_numbers(problem, n))
        x = jnp.concatenate([points.ravel(), free.ravel()])
        z = jnp.concatenate([newest[0], newest[1], jnp.zeros(flow.mh)])
        matrix = jax.jacfwd(flow.equations)(z, x)
        motion = jnp.abs(matrix) < _ROUNDING * jnp.max(jnp.abs(matrix[: flow.n]))
        matrix = jnp.where(motion & (jnp.arange(len(matrix)) < flow.n)[:, None], 0.0, matrix)
        left, columns = flow.equations(z, x), matrix[:, flow.n + flow.m :]
        return matrix, jnp.max(jnp.abs(left - columns @ jnp.linalg.pinv(columns) @ left))

    newest = nodes[1:, -1], rows[1:, -1]
    chosen = jax.tree.map(lambda x: x[::every], (nodes[:-1], rows[:-1], newest, begin[:-1]))
    return *jax.vmap(at)(*chosen), chosen[-1]
