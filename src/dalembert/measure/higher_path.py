"""Momenta, energy and regularity of the flow Υ_d along a path of a variational problem of order k."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dalembert.discretize import Scheme
from dalembert.discretize.higher import forward_differences, momenta_of_nodes
from dalembert.discretize.windows import WindowMap
from dalembert.measure.condition import Condition, condition
from dalembert.measure.higher import HigherFlow, chosen_windows, node_action, with_orders
from dalembert.measure.invariant import Invariant
from dalembert.measure.nodes import check_neighbours, check_single
from dalembert.path import Path, check_path
from dalembert.systems import VariationalProblem
from dalembert.systems.higher.variational import common_order, constraint_numbers
from dalembert.systems.shapes import output_shape, traced
from dalembert.tracing import seldom

_ROUNDING = 1e-12  # entries of D₁D_{k+1}L̃_d this much below the largest: differences of knots, and no dependence


class PathData(NamedTuple):
    """What is taken of a path of constant step h: q (N+1, n), multipliers (K, m), t (N+1,)."""

    q: Array
    multipliers: Array
    t: Array
    h: Array


def path_windows(problem: VariationalProblem, data: PathData) -> tuple[Array, Array, Array]:
    """All runs of 2k neighbouring nodes with the multipliers of their r windows and the time of the first one.

    Multipliers of the windows before the first step are initial data and no part of the path: it begins where they
    are known.
    """
    k, order, (q, multipliers, t, _) = problem.derivatives, common_order(problem), data
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


def higher_momentum(
    problem: VariationalProblem, path: Path, generator: Callable, scheme: Scheme | WindowMap | None
) -> Invariant:
    """J_d(ξ) = Θ⁺·ξ_Q at all runs of 2k nodes of a path, at the time of the last one.

    As Σ_j Π_j · Δʲξ_Q/hʲ: of the momenta's size. Rounding of the stored nodes, ε|q|/2 each, is seen in the highest of their
    differences, of order 2k-1: |ΔJ| ≤ 4^{k-1} ε |q| |ξ_Q| |L_{q⁽ᵏ⁾q⁽ᵏ⁾}|/h^{2k-1} to leading order, whatever the
    number of steps. Source: Colombo, Martín de Diego, Zuccalli, Remark 3.5.
    """
    chosen = chosen_windows(scheme)
    _check_path(problem, path)
    problem = with_orders(problem, chosen, path.q.shape[1])
    shape = traced(_direction_shape, problem, generator, path.q[0], path.t[0])
    if shape != path.q.shape[1:]:
        raise ValueError(f"generator: returns shape {shape}; a direction of shape {path.q.shape[1:]} is needed")
    return Invariant(*_momenta(problem, chosen, generator, _data(path)))


def _data(path: Path) -> PathData:
    return PathData(jnp.asarray(path.q), jnp.asarray(path.multipliers), jnp.asarray(path.t), jnp.asarray(path.h))


def _check_path(problem: VariationalProblem, path: Path) -> None:
    """Errors for what is no path of the problem, as far as numbers of coordinates and multipliers tell, or is thinned."""
    check_path(path)
    check_single(path)
    m, _ = constraint_numbers(problem, path.q.shape[1])
    if m and path.multipliers.shape[1] != m:
        raise ValueError(f"path: has {path.multipliers.shape[1]} multipliers, the problem {m}; give a path of this problem")
    check_neighbours(path)


def _direction_shape(problem: VariationalProblem, generator: Callable, q, t) -> tuple[int, ...]:
    return output_shape(lambda: problem.call(generator, q, t=t), "generator", "q" + problem.trailing)


@seldom
def _momenta(problem: VariationalProblem, scheme: WindowMap, generator: Callable, data: PathData):
    """Times and values, in one program: outside of one every small operation is compiled for every length of a path."""
    k, h = problem.derivatives, data.h

    def value(points, free, begin):
        momenta = momenta_of_nodes(problem, scheme, points, free, h, begin).momenta
        direction = jnp.stack([problem.call(generator, x, t=begin + (k + i) * h) for i, x in enumerate(points[k:])])
        return jnp.sum(momenta * forward_differences(direction, h))

    nodes, rows, begin = path_windows(problem, data)
    return begin + (2 * k - 1) * h, jax.vmap(value)(nodes, rows, begin)


def higher_energy(problem: VariationalProblem, path: Path, scheme: Scheme | WindowMap | None) -> Invariant:
    """E_i = -∂/∂h_i Σ L̃_d over the k windows that contain the step h_i = t_{i+1} - t_i; at the middle of that step.

    The sum has the weights (t_{i+k} - t_i)/k, so that E_i tends to the energy Σ_j p_j·q⁽ʲ⁺¹⁾ - L. With a fixed
    step it oscillates, with an amplitude O(h²). Source: Colombo, Martín de Diego, Zuccalli, section 4.1, divided by k.
    """
    _check_path(problem, path)
    chosen = chosen_windows(scheme)
    problem = with_orders(problem, chosen, path.q.shape[1])
    return Invariant(*_energies(problem, chosen, _data(path)))


@seldom
def _energies(problem: VariationalProblem, scheme: WindowMap, data: PathData):
    k, h = problem.derivatives, data.h

    def value(points, free, begin):
        def action(step):
            times = h * jnp.arange(2 * k) + (step - h) * (jnp.arange(2 * k) >= k)
            return node_action(problem, scheme, points, free, times, begin)

        return -jax.grad(action)(h)

    nodes, rows, begin = path_windows(problem, data)
    return begin + (k - 0.5) * h, jax.vmap(value)(nodes, rows, begin)


@dataclasses.dataclass(frozen=True)
class FlowRegularity:
    """rank [[D₁D_{k+1}L̃_d, D₁Φᵀ], [D_{k+1}Φ, 0]]: the matrix that the flow Υ_d inverts, at runs of 2k+1 nodes.

    Attributes:
        t: (K,) times of their middle nodes.
        matrix: a Condition, with its rank and smallest singular values.
        residual: (K,) largest residual of the equations there.
    """

    t: np.ndarray
    matrix: Condition
    residual: np.ndarray

    @property
    def regular(self) -> bool:
        """Whether Υ_d exists and is a local diffeomorphism at every run of nodes."""
        return self.matrix.holds

    def describe(self) -> str:
        c = self.matrix
        return (
            f"{'regular' if self.regular else 'not regular'} at {self.t.shape[0]} windows: {c.name} has rank "
            f"{int(c.ranks.min())} of "
            f"{c.wanted}, smallest singular value {c.smallest.min():.3g} at t = {self.t[c.worst]:g}\n"
            f"  largest residual of the node equations: {self.residual.max():.2e}"
        )


def higher_regularity(
    problem: VariationalProblem, path: Path, scheme: Scheme | WindowMap | None, every: int
) -> FlowRegularity:
    """rank [[D₁D_{k+1}L̃_d, (D₁Φ)ᵀ], [D_{k+1}Φ, 0]] = n + m + mh at every run of 2k+1 nodes of a path.

    Holonomic constraints are paired: ∂φᵀμ at the middle node with φ = 0 at the newest. Rows are scaled to unit length.
    Source: Colombo, Martín de Diego, Zuccalli, Proposition 3.2, transposed as in the theorem on implicit functions.
    """
    _check_path(problem, path)
    chosen = chosen_windows(scheme)
    problem = with_orders(problem, chosen, path.q.shape[1])
    data = _matrices(problem, chosen, _data(path), every)
    matrices, residual, begin = (np.asarray(x) for x in data)
    times = begin + problem.derivatives * float(path.h)
    found = condition("the matrix of the flow", matrices, matrices.shape[1], times)
    return FlowRegularity(times, found, residual)


@seldom
def _matrices(problem: VariationalProblem, scheme: WindowMap, data: PathData, every: int):
    """(matrix, residual, time of the first node) at every run of 2k+1 nodes."""
    nodes, rows, begin = path_windows(problem, data)
    if nodes.shape[0] < 2:
        raise ValueError(
            f"path: has {data.q.shape[0]} nodes; {2 * problem.derivatives + 1} with their multipliers are needed"
        )
    n = data.q.shape[1]

    def at(points, free, newest, start):
        flow = HigherFlow(problem, scheme, data.h, start, n, *constraint_numbers(problem, n))
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
