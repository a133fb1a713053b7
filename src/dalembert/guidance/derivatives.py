"""sensitivity: how a solution changes with its ends and with the parameters of the plant, by the implicit function theorem.

    K dz/dθ = -∂²L̃/∂z∂θ,   dJ/dθ = ∂L̃/∂θ

K: the KKT matrix at the solution, factorized once; a column for every θ. What is at a bound stays there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.kkt.linear import BandedFactors, LinearSolver
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.control.problem import OptimalControl
from dalembert.control.solve import ControlStart
from dalembert.control.terms import ControlLayout
from dalembert.control.transcription import timed_elements_of
from dalembert.discretize import Scheme
from dalembert.guidance.linearisation import active_paths, along, completed, fixed_components, read_given
from dalembert.solution import ControlSolution
from dalembert.tracing import seldom


class Derivatives(eqx.Module):
    """∂(t, q, v, u, J)/∂θ: the axes of θ come after those of the differentiated quantity.

    With a free final time these are derivatives of the values at a node, whose time changes too.

    Attributes:
        t: (N+1, …) of the times of the nodes, 0 if the final time is given; the last row is the derivative of the final
            time.
        q: (N+1, n, …) of the positions.
        v: (N+1, n, …) of the velocities.
        u: (N+1, r, …) of the controls.
        cost: (…) of the cost.

    Example:
        >>> found = da.sensitivity(move, plan, initial=([0.0], [0.0]), final=([1.0], [0.0]))
        >>> found.final.q.shape, found.final.cost.shape  # by (q, v) of every coordinate at the end
        ((101, 1, 2, 1), (2, 1))
    """

    t: Float[np.ndarray, "nodes *theta"]
    q: Float[np.ndarray, "nodes n *theta"]
    v: Float[np.ndarray, "nodes n *theta"]
    u: Float[np.ndarray, "nodes r *theta"]
    cost: Float[np.ndarray, "*theta"]


class Sensitivity(eqx.Module):
    """The derivatives of a solution: what `sensitivity` returns.

    Attributes:
        initial: Derivatives with respect to (q, v) at the first node, θ (2, n); 0 for components that are not given.
        final: the same with respect to (q, v) at the last node.
        parameters: Derivatives with respect to each parameter of the plant, in a tree of the same structure; None for
            flags, and None if the plant has no parameters.

    Example:
        >>> found = da.sensitivity(move, plan, initial=([0.0], [0.0]), final=([1.0], [0.0]))
        >>> round(float(found.final.cost[0, 0]), 1)  # d(12 x²/T³)/dx
        24.0
    """

    initial: Derivatives
    final: Derivatives
    parameters: Any


def sensitivity(
    problem: OptimalControl,
    solution: ControlSolution,
    *,
    initial: Any = None,
    final: Any = None,
    through: Any = None,
    inequalities: Callable | None = None,
    scheme: Scheme | None = None,
) -> Sensitivity:
    """K dz/dθ = -∂²L̃/∂z∂θ: the derivatives of times, positions, velocities, controls and cost with respect to the data
    θ.

    K is the KKT matrix. If the plant has constraints, only changes along them are meaningful. Active bounds stay active
    and others inactive: at a solution that is not strictly complementary (see `ActiveBounds.margin`) there is no
    derivative, and a warning says so. A free final time between its bounds is an unknown like the others; one at its
    bound stays there.

    Args:
        problem: the OptimalControl that was solved.
        solution: its solution.
        initial: as it was given to `solve`.
        final: as it was given to `solve`.
        through: as it was given to `solve`.
        inequalities: as they were given to `solve`; needed if some are active along the solution.
        scheme: the Scheme that was given to `solve`.

    Returns:
        A Sensitivity: the derivatives with respect to the data at the ends and the parameters of the plant.

    Raises:
        ValueError: an argument does not belong to the solution, or the KKT matrix is singular there.
        TypeError: an argument is of the wrong type.

    Source: Fiacco, Introduction to Sensitivity and Stability Analysis in Nonlinear Programming, Theorem 3.2.1.

    Example:
        >>> found = da.sensitivity(move, plan, initial=([0.0], [0.0]), final=([1.0], [0.0]))
        >>> found.parameters is None  # of a plant without parameters
        True
    """
    paths = active_paths(problem, solution, inequalities)
    given = read_given(problem, solution, {"initial": initial, "final": final}, through)
    start = along(problem, solution, scheme, paths, timed=True)
    fixed = fixed_components(start, given, solution)
    system = _Fixed(start, fixed, np.asarray(solution.v))
    ends = [
        system.by_component(block, end.given)
        for block, end in (((1, 0), given.initial), ((-2, -1), given.final))
    ]  # fmt: skip
    return Sensitivity(ends[0], ends[1], system.by_parameters())


class _Fixed:
    """The KKT matrix at a solution with some components fixed, factorized."""

    def __init__(self, start: ControlStart, fixed: Bool[np.ndarray, "blocks b"], v: Float[np.ndarray, "nodes n"]):
        self.start, self.fixed, self.v = start, fixed, v
        self.kkt, self.z = completed(start, fixed)
        self.whole = self.kkt.matrix(self.z)
        self.fixed = fixed | self.kkt.fixed
        linear = LinearSolver(self.kkt, self.z, self.kkt.blocks + 1)
        self.factors = BandedFactors(linear, self.kkt.with_held(self.whole.copy(), self.fixed))
        if self.factors.singular:
            raise ValueError("solution: the KKT matrix is singular there, so that the solution has no derivative")

    def by_component(self, blocks: tuple[int, int], given: Bool[np.ndarray, "2 n"]) -> Derivatives:
        """By the given ones of the positions and velocities in two blocks."""
        state = np.arange(self.kkt.size)[self.start.data.layout.part("state")]
        slope = self.kkt.raw_gradient(self.z)
        rows = [self._component_derivative(block, c) if g else np.zeros(self.z.shape)
                for block, row in zip(blocks, given, strict=True) for c, g in zip(state, row, strict=True)]  # fmt: skip
        cost = np.where(given, np.stack([slope[block, state] for block in blocks]), 0.0)
        return self._derivatives(np.stack(rows, axis=-1), cost)

    def _component_derivative(self, block: int, component: int) -> np.ndarray:
        """dz where one fixed component changes by 1."""
        own = np.zeros(self.z.shape)
        own[block, component] = 1.0
        return own - self.factors.solve(_product(self.kkt, self.whole, own) * ~self.fixed)

    def by_parameters(self) -> Any:
        """A tree like the parameters."""
        parameters = self.start.data.problem.parameters
        if parameters is None:
            return None
        numbers, _ = eqx.partition(parameters, eqx.is_inexact_array_like)
        terms, data, shared = timed_elements_of(self.start.data)
        slopes, costs = _by_parameters(terms, data, shared, numbers, self.z)
        leaves, tree = jax.tree.flatten(numbers)
        every = zip(leaves, tree.flatten_up_to(slopes), tree.flatten_up_to(costs), strict=True)
        return jax.tree.unflatten(tree, [self._by_leaf(np.asarray(s), np.asarray(c)) for _, s, c in every])

    def _by_leaf(self, slope: np.ndarray, cost: np.ndarray) -> Derivatives:
        flat = slope.reshape(*self.z.shape, -1)
        columns = [-self.factors.solve(flat[..., k] * ~self.fixed) for k in range(flat.shape[-1])]
        return self._derivatives(np.stack(columns, axis=-1), cost)

    def _derivatives(self, dz: np.ndarray, cost: np.ndarray) -> Derivatives:
        """dz: (blocks, b, k)."""
        layout: ControlLayout = self.start.data.layout
        t = self.start.data.t
        stretch = dz[0, layout.part("time")][:1].sum(axis=0)  # dθ = dT/(T - t_0), 0 where T is given
        h, x = np.diff(self.start.data.t)[:, None, None], dz[1:-1, layout.part("state")]
        w, ends = np.diff(x, axis=0) / h, dz[[0, -1], layout.part("state")]
        inner = (w[:-1] * h[1:] + w[1:] * h[:-1]) / (h[:-1] + h[1:]) - self.v[1:-1, :, None] * stretch
        v = np.concatenate([ends[:1], inner, ends[1:]])
        parts = (x, v, dz[1:-1, layout.part("controls")])
        q, v, u = (part.reshape(*part.shape[:2], *cost.shape) for part in parts)
        return Derivatives(((t - t[0])[:, None] * stretch).reshape(len(t), *cost.shape), q, v, u, cost)


def _product(kkt: KKTSystem, band: np.ndarray, x: np.ndarray) -> np.ndarray:
    """K x of the banded matrix U K U."""
    flat = kkt.to_rows(x / kkt.units)
    found, count = np.zeros_like(flat), len(flat)
    for offset in range(-kkt.lower, kkt.lower + 1):
        rows = slice(max(0, -offset), count - max(0, offset))
        columns = slice(max(0, offset), count - max(0, -offset))
        found[rows] += band[rows, kkt.lower + offset] * flat[columns]
    return kkt.from_rows(found) / kkt.units


@seldom
def _by_parameters(terms, data, shared, numbers, z):
    """∂(∂L̃/∂z)/∂θ and ∂L̃/∂θ, as trees like θ."""
    rest = shared["parameters"]

    def gradient(numbers):
        own = shared | {"parameters": eqx.combine(numbers, rest)}

        def total(z):
            parts = []
            for term, given in zip(terms, data, strict=True):
                first = (term.start + jnp.arange(term.number))[:, None] * z.shape[1]
                local = z.ravel()[first + jnp.asarray(term.flat_offsets(z.shape[1]))]
                parts.append(jnp.sum(jax.vmap(lambda x, d, term=term: term.lagrangian(x, d, own)[0])(local, given)))
            return sum(parts)

        value, slope = jax.value_and_grad(total)(z)
        return slope, value

    return jax.jacfwd(gradient)(numbers)
