"""Existence of the discrete flow at given nodes: ranks and smallest singular values of the node equations."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import numerical_rank
from dalembert.discretize import DiscreteSystem, Scheme, WindowMap
from dalembert.measure.higher import FlowPath, HigherFlow, path_windows, read_flow_path
from dalembert.measure.nodes import NodeView, kernel, node_view, nodes_of
from dalembert.notebook import Described
from dalembert.numbers import as_number, as_numbers, whole_number
from dalembert.path import Path
from dalembert.systems import System, VariationalProblem, check_x64, constraint_numbers
from dalembert.tracing import over_rows, seldom


@dataclasses.dataclass(frozen=True)
class Condition:
    """A matrix that must have full rank, at every window.

    rank A_i = wanted at every window i: a matrix that must have full rank.

    A smallest singular value near zero is a warning that the rank is about to drop.

    Attributes:
        name: what the matrix is.
        wanted: the rank that is needed.
        ranks: (K,) rank of each matrix.
        smallest: (K,) the wanted-th singular value of each, with rows of unit length.
    """

    name: str
    wanted: int
    ranks: np.ndarray
    smallest: np.ndarray

    @property
    def holds(self) -> bool:
        """True if the rank is full at every window."""
        return bool(np.all(self.ranks >= self.wanted))

    @property
    def worst(self) -> int:
        """Index of the window with the smallest singular value."""
        return int(np.argmin(self.smallest))

    def describe(self, t: np.ndarray) -> str:
        """The least rank, and the smallest singular value with its time; t: (K,) times of the windows."""
        least = f"smallest singular value {self.smallest.min():.3g} at t = {t[self.worst]:g}"
        return f"rank {int(self.ranks.min())} of {self.wanted}, {least}"


def condition(name: str, matrices: np.ndarray, wanted: int, t) -> Condition:
    if wanted == 0:
        return Condition(name, 0, np.zeros(len(matrices), int), np.full(len(matrices), np.inf))
    if not np.all(np.isfinite(matrices)):
        k = int(np.argmin(np.all(np.isfinite(matrices), axis=(1, 2))))
        raise ValueError(f"nodes: a derivative of the node equations is not finite at t = {float(t[k]):g}")
    found = [numerical_rank(matrix) for matrix in matrices]
    smallest = np.array([rank.singular_values[wanted - 1] for rank in found])
    return Condition(name, wanted, np.array([rank.rank for rank in found]), smallest)


_ROUNDING = 1e-12  # entries of D₁D_{k+1}L̃_d this much below the largest: differences of knots, and no dependence


@dataclasses.dataclass(frozen=True)
class FlowRegularity(Described):
    """Whether the flow of a problem of higher order is determined along a path.

    rank [[D₁D_{k+1}L̃_d, D₁Φᵀ], [D_{k+1}Φ, 0]]: the matrix that the flow Υ_d inverts, at runs of 2k+1 nodes.

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
        """True if Υ_d exists and is a local diffeomorphism at every run of nodes."""
        return self.matrix.holds

    def describe(self) -> str:
        found = f"{self.matrix.name} has {self.matrix.describe(self.t)}"
        return (
            f"{'regular' if self.regular else 'not regular'} at {self.t.shape[0]} windows: {found}\n"
            f"  largest residual of the node equations: {self.residual.max():.2e}"
        )


@seldom
def _matrices(path: FlowPath, every: int):
    """(matrix, residual, time of the first node) at every run of 2k+1 nodes."""
    problem, scheme, q, _, _, h = path
    nodes, rows, begin = path_windows(path)
    if nodes.shape[0] < 2:
        raise ValueError(f"path: has {q.shape[0]} nodes; {2 * problem.derivatives + 1} with their multipliers are needed")
    n = q.shape[1]

    def matrix_at(points, free, newest, start):
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
    return *jax.vmap(matrix_at)(*chosen), chosen[-1]


Vector = Float[Array, "n"]

ZERO = 1e-10  # what is left on D_K of a row of φ∘β, relative to the row: less is rounding, and of unit length it would count


@dataclasses.dataclass(frozen=True)
class Regularity(Described):
    """Whether the discrete flow is determined along a path.

    The conditions of the theorem on the discrete flow, at windows (q_{k-1},q_k,q_{k+1}).

    Attributes:
        t: (K,) the times of q_k.
        kinematic: whether D_K has a tangent space.
        reactions: whether D_V has dimension n - m.
        constant_rank: whether φ∘β on D_K is a submersion.
        forward: whether q_{k+1} is determined by the other two nodes.
        backward: whether q_{k-1} is determined by the other two nodes.
        residual: (K,) largest residual of the node equations. Where it is not round-off, the nodes are not a
            trajectory, and the theorem does not apply to them.
    """

    t: np.ndarray
    kinematic: Condition
    reactions: Condition
    constant_rank: Condition
    forward: Condition
    backward: Condition
    residual: np.ndarray

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return (self.kinematic, self.reactions, self.constant_rank, self.forward, self.backward)

    @property
    def same_rank(self) -> bool:
        """True if φ∘β on D_K has the same rank at all windows, full or not: condition 1 as printed, at the given
        nodes."""
        return bool(np.ptp(self.constant_rank.ranks) == 0)

    @property
    def regular(self) -> bool:
        """True if all conditions hold at every window: the discrete flow is then a local diffeomorphism there."""
        return all(condition.holds for condition in self.conditions)

    def describe(self) -> str:
        """One line for each condition: whether it holds, and the smallest singular value with its time."""
        lines = [f"{'regular' if self.regular else 'not regular'} at {self.t.shape[0]} windows"]
        known = [c for c in self.conditions if c.wanted]
        lines += [f"  {c.name}: {'holds' if c.holds else 'FAILS'}, {c.describe(self.t)}" for c in known]
        if not self.constant_rank.holds:
            lines.append(f"  the rank of φ∘β {'is the same' if self.same_rank else 'changes'} along the nodes")
        return "\n".join([*lines, f"  largest residual of the node equations: {self.residual.max():.2e}"])


def regularity(
    system: System | DiscreteSystem | VariationalProblem,
    nodes: Path | Float[Array, "K n"],
    *,
    h: float | None = None,
    t0: float = 0.0,
    scheme: Scheme | WindowMap | None = None,
    every: int = 1,
) -> Regularity | FlowRegularity:
    """Check whether the discrete flow is determined along a path.

    rank D(φ∘β)|T D_K = n - m;  D₃ and D₁ of (kinematic equations, φ∘β) injective, at every window of three nodes.

    β = D₁L_d(q₁,q₂) + D₂L_d(q₀,q₁) + h f paired with a basis of D_V, φ∘β its components. The derivative is that of Bᵀ(β
    + h R_dᵀλ) with B, an orthonormal basis of D_V, and λ both fixed: on a trajectory it equals the derivative of φ∘β in
    any basis. A Lyapunov constraint is used as written, dV/dt + F = 0. It is singular where two roots of a step cross,
    even if the run, in which the factor u is divided out, passes there without difficulty. Ranks are those of
    numerical_rank: rows of unit length, relative tolerance 1e-10.

    Args:
        system: a System, a DiscreteSystem or a VariationalProblem.
        nodes: (K+2, n), three nodes or more at times t0, t0 + h, …; or a Path of simulate, with its own h and times.
        h: step; not used with a path.
        t0: time of the first node; not used with a path.
        scheme: as it was given to simulate.
        every: use only every `every`-th window.

    Returns:
        A Regularity; for a VariationalProblem a FlowRegularity.

    Raises:
        ValueError: an argument has the wrong shape, states of the path were left out, the scheme has no map of nodes,
            or a derivative is not finite.
        TypeError: an argument is of the wrong type.

    Source: Borda, Fernández, Grillo, Theorem 5.1. What differs: full rank is required instead of constant rank. This is
    not weaker: full rank stays constant in a neighbourhood, and condition 2 implies it, since φ∘β is injective on the
    δq₂ in T D_K, n - m of them or more, and has n - m components. `same_rank` is condition 1 as printed, at the given
    nodes.

    Example:
        >>> da.measure.regularity(pendulum, path).regular
        True
    """
    check_x64()
    whole_number(every, "every")
    return _regularity(system, nodes, h, scheme, every, t0)


@functools.singledispatch
def _regularity(system: System | DiscreteSystem, nodes: Any, h: Any, scheme: Any, every: int, t0: Any) -> Any:
    if isinstance(nodes, Path):
        scheme, points, times = nodes_of(nodes, system, scheme)
        view = node_view(system, scheme, nodes.h, points.shape[1])
    else:
        points = _as_nodes(nodes)
        view = node_view(system, scheme, 1.0 if h is None else h, points.shape[1])
        times = as_number(t0, "t0", "a finite time") + view.h * jnp.arange(points.shape[0])
    t = times[1:-1:every]
    m = view.m
    nodes = points[:-2:every], points[1:-1:every], points[2::every]
    found = jax.tree.map(np.asarray, over_rows(_at_window, (*nodes, t), view))
    restrictions, n = found["kinematic"].shape[1], found["reactions"].shape[2]
    return Regularity(
        np.asarray(t),
        condition("kinematic equations independent", found["kinematic"], restrictions, t),
        condition("reactions independent", found["reactions"], m, t),
        condition("φ∘β of full rank on D_K", found["submersion"], n - m, t),
        condition("q₂ determined", found["forward"], n, t),
        condition("q₀ determined", found["backward"], n, t),
        found["residual"],
    )


@_regularity.register(VariationalProblem)
def _regularity_of_flow(system: VariationalProblem, nodes: Any, h: Any, scheme: Any, every: int, t0: Any) -> FlowRegularity:
    """rank [[D₁D_{k+1}L̃_d, (D₁Φ)ᵀ], [D_{k+1}Φ, 0]] = n + m + mh at every run of 2k+1 nodes of a path.

    Holonomic constraints are paired: ∂φᵀμ at the middle node with φ = 0 at the newest. Rows are scaled to unit length.
    Source: Colombo, Martín de Diego, Zuccalli, Proposition 3.2, transposed as in the theorem on implicit functions.
    """
    if not isinstance(nodes, Path):
        raise TypeError(
            f"nodes: found {type(nodes).__name__}; the regularity of a VariationalProblem's flow is that of a path"
        )
    matrices, residual, begin = map(np.asarray, _matrices(read_flow_path(system, nodes, scheme), every))
    times = begin + system.derivatives * float(nodes.h)
    return FlowRegularity(times, condition("the matrix of the flow", matrices, matrices.shape[1], times), residual)


def _as_nodes(nodes) -> Float[Array, "K n"]:
    points = jnp.asarray(as_numbers(nodes, "nodes"))
    if points.ndim != 2 or points.shape[0] < 3 or points.shape[1] == 0:
        raise ValueError(f"nodes: found shape {points.shape}; give three or more nodes, shape (K, n), or a path")
    return points


def _at_window(view: NodeView, q0: Vector, q1: Vector, q2: Vector, t) -> dict[str, Array]:
    """The matrices of one window; the columns of D_K's and φ∘β's are (δq₀, δq₁, δq₂)."""
    view, (q0, q1, q2) = view.around(q0, q1, q2)
    n, view = q1.shape[0], view.once()
    rows = view.reactions(q0, q1, q2, t)
    multipliers = jnp.zeros(0)
    if view.m:
        multipliers = -jnp.linalg.pinv(rows.T) @ view.balance(q0, q1, q2, t) / view.h  # also of dependent reactions
    basis = kernel(rows)

    def left_sides(x):
        a, b, c = x.reshape(3, n)
        return view.equations(a, b, c, multipliers, t), view.pair(a, b, t - view.h)

    x = jnp.concatenate([q0, q1, q2])
    (left, left_of_pair), (slopes, on_pair) = left_sides(x), jax.jacfwd(left_sides)(x)
    on_kinematic, on_components = jnp.concatenate([slopes[n:], on_pair]), basis.T @ slopes[:n]
    both, submersion = jnp.concatenate([on_kinematic, on_components]), on_components @ kernel(on_kinematic)
    length = lambda rows: jnp.linalg.norm(rows, axis=1, keepdims=True)  # noqa: E731
    submersion = jnp.where(length(submersion) > ZERO * length(on_components), submersion, 0.0)
    return {
        "kinematic": on_kinematic,
        "reactions": rows,
        "submersion": submersion,
        "forward": both[:, 2 * n :],
        "backward": both[:, :n],
        "residual": jnp.max(jnp.abs(jnp.concatenate([basis.T @ left[:n], left[n:], left_of_pair]))),
    }
