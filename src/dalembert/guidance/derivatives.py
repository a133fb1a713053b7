"""sensitivity and optimum: the change of a solution with its ends and with the parameters of the plant.

    K dz/dθ = -∂²L̃/∂z∂θ,   dJ/dθ = ∂L̃/∂θ

by the implicit function theorem. K: the KKT matrix at the solution, factorized once; a column for every θ. What is at a
bound stays there. The iteration of `optimum` is not differentiated: its end is. JAX sees two calls of Python, one for values
and one that also returns the derivatives, in which tangents are linear.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dalembert.boundary import Asked, BandedFactors, Free, KKTSystem, LinearSolver, Request, TimeGrid, extremal, settings
from dalembert.boundary.data.around import read_end
from dalembert.boundary.data.end_sets import refuse_sets
from dalembert.boundary.data.ends import read_times
from dalembert.control import OptimalControl
from dalembert.control.extremals import dimension_of
from dalembert.control.given import read_partly
from dalembert.control.problem import check_optimal_control, count_equations, with_plant_parameters
from dalembert.control.terms import ControlLayout
from dalembert.control.transcription import ControlStart, timed_elements_of
from dalembert.discretize import Scheme
from dalembert.groups import Product, Space
from dalembert.guidance.linearisation import (
    active_paths,
    complete_multipliers,
    extremal_along,
    fixed_components,
    read_given,
    step_velocities,
)
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import as_array, is_traced
from dalembert.options import Solver, accept_single_options
from dalembert.outcome import Outcome
from dalembert.solution import ControlSolution
from dalembert.systems import is_flag
from dalembert.tracing import seldom


class Derivatives(Described, eqx.Module):
    """The derivatives of a solution with respect to one thing.

    ∂(t, q, v, u, J)/∂θ: the axes of θ come after those of the differentiated quantity.

    With a free final time these are derivatives of the values at a node, whose time changes too. On groups changes of
    positions, also those in θ, are along the axes of the velocities: q·τ(δq).

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


class Sensitivity(Described, eqx.Module):
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
    """Compute how a solution changes with ends and parameters.

    K dz/dθ = -∂²L̃/∂z∂θ: the derivatives of times, positions, velocities, controls and cost with respect to the data
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
    start = extremal_along(problem, solution, scheme, paths, timed=True)
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
        self.start, self.fixed, self.v, data = start, fixed, v, start.data
        self.steps = step_velocities(data.space, data.t, data.elements(start.z)) if data.layout.base else None
        self.kkt, self.z = complete_multipliers(start, fixed)
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
        return own - self.factors.solve(_multiply_band(self.kkt, self.whole, own) * ~self.fixed)

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
        t, steps = self.start.data.t, self.steps
        stretch = dz[0, layout.part("time")][:1].sum(axis=0)  # dθ = dT/(T - t_0), 0 where T is given
        h, x = np.diff(self.start.data.t)[:, None, None], dz[1:-1, layout.part("state")]
        w, ends = np.diff(x, axis=0) / h, dz[[0, -1], layout.part("state")]
        w = w if steps is None else steps.change(w, x[1:])
        inner = (w[:-1] * h[1:] + w[1:] * h[:-1]) / (h[:-1] + h[1:]) - self.v[1:-1, :, None] * stretch
        v = np.concatenate([ends[:1], inner, ends[1:]])
        parts = (x, v, dz[1:-1, layout.part("controls")])
        q, v, u = (part.reshape(*part.shape[:2], *cost.shape) for part in parts)
        return Derivatives(((t - t[0])[:, None] * stretch).reshape(len(t), *cost.shape), q, v, u, cost)


def _multiply_band(kkt: KKTSystem, band: np.ndarray, x: np.ndarray) -> np.ndarray:
    """K x of the banded matrix U K U, whose rows band[i] have columns i - lower, …, i + lower."""
    from scipy.sparse import dia_array  # slow to load

    transposed = dia_array((band.T, kkt.lower - np.arange(band.shape[1])), shape=(len(band), len(band)))
    return kkt.from_rows(transposed.T @ kkt.to_rows(x / kkt.units)) / kkt.units


@seldom
def _by_parameters(terms, data, shared, numbers, z):
    """∂(∂L̃/∂z)/∂θ and ∂L̃/∂θ, as trees like θ."""
    rest = shared["parameters"]

    def gradient(numbers):
        own = shared | {"parameters": eqx.combine(numbers, rest)}

        def lagrangian_sum(z):
            parts = []
            for term, given in zip(terms, data, strict=True):
                first = (term.start + jnp.arange(term.number))[:, None] * z.shape[1]
                local = z.ravel()[first + jnp.asarray(term.flat_offsets(z.shape[1]))]
                parts.append(jnp.sum(jax.vmap(lambda x, d, term=term: term.lagrangian(x, d, own)[0])(local, given)))
            return sum(parts)

        value, slope = jax.value_and_grad(lagrangian_sum)(z)
        return slope, value

    return jax.jacfwd(gradient)(numbers)


@described_by_fields
class Optimum(NamedTuple):
    """The solution of an optimal control problem as arrays of JAX.

    min ∫C dt + Φ as arrays of JAX: what `optimum` returns.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions, on groups (N+1, size) as they are stored.
        v: (N+1, n) velocities.
        u: (N+1, r) controls.
        cost: the discrete cost.
        code: the Outcome as an integer. If it is not SUCCESS, q, v, u and cost are NaN, and so is t if T is free.

    Example:
        >>> best = da.optimum(move, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=20)
        >>> best.u.shape, int(best.code)
        ((21, 1), 0)
    """

    t: Float[Array, "nodes"]
    q: Float[Array, "nodes n"]
    v: Float[Array, "nodes n"]
    u: Float[Array, "nodes r"]
    cost: Float[Array, ""]
    code: Int[Array, ""]


@accept_single_options
def optimum(
    problem: OptimalControl,
    *,
    initial: Any = None,
    final: Any = None,
    through: Mapping[float, Any] | None = None,
    T: float | Free | None = None,
    steps: int | None = None,
    times: Float[Array | np.ndarray, "N+1"] | None = None,
    scheme: Any = None,
    guess: Any = None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    solver: Solver | None = None,
) -> Optimum:
    """Solve an optimal control problem inside programs of JAX.

    min ∫C(q, v, u) dt + Φ under the plant's equations of motion: `solve` for use inside `jax.jit`, `jax.grad`,
    `jax.jacobian` and `vmap`.

    Once differentiable, in forward and reverse mode, with respect to the data at the ends and the parameters of the
    plant. Given times, points to pass, bounds and the guess are constants. With a free final time the times of the
    nodes have derivatives too. Active bounds stay active. `vmap` solves one problem after the other; `solve_batch`
    solves many at once.

    Args:
        problem: an OptimalControl; its parameters may be traced.
        initial: as in `solve`; its numbers may be traced.
        final: as in `solve`; its numbers may be traced.
        through: as in `solve`.
        T: the time of the last node, a number, or `Free` as in `solve`.
        steps: as in `solve`.
        times: as in `solve`.
        scheme: as in `solve`.
        guess: as in `solve`.
        bounds: as in `solve`.
        inequalities: as in `solve`.
        solver: a Solver, as in `solve`: tolerance, max_iterations and scales.

    Returns:
        An Optimum. No error is raised if no solution is found: see its code.

    Raises:
        ValueError: an argument has the wrong shape or value; inside a jitted function JAX raises it as an error of its
            own.
        TypeError: an argument is of the wrong type.

    Source: Fiacco, Introduction to Sensitivity and Stability Analysis in Nonlinear Programming, Theorem 3.2.1.

    Example:
        >>> import jax
        >>> cost = lambda x: da.optimum(move, initial=([0.0], [0.0]), final=(x, [0.0]), T=1.0, steps=100).cost
        >>> round(float(jax.grad(cost)(jnp.array([1.0]))[0]), 1)  # d(12 x²/T³)/dx
        24.0
    """
    check_optimal_control(problem)
    grid = TimeGrid(T, steps, times)
    request = Request(initial, final, through, guess)
    solver = Solver.of(solver, "optimum")
    asked = Asked(request, grid, scheme, solver.scales, settings(solver), False, bounds, inequalities)
    parameters, flags = eqx.partition(problem.parameters, lambda x: not is_flag(x))
    leaves, tree = jax.tree.flatten(parameters)
    n = dimension_of(problem, initial, final, guess)
    (first, given_first), (last, given_last) = (
        _numbers_of_end(problem, end, name, n) for name, end in (("initial", initial), ("final", final))
    )
    plant = with_plant_parameters(problem, eqx.combine(jax.tree.map(lambda x: jnp.ones(jnp.shape(x)), parameters), flags))
    nodes, r = len(read_times(grid, 2, "at least two steps are needed")), count_equations(plant, n)[0]
    task = _Task(plant, flags, tree, asked, (given_first, given_last), nodes, n, r)
    numbers = [jnp.asarray(x, dtype=float) for x in leaves], first, last
    if is_traced(numbers):
        return Optimum(*_differentiable_solution(task)(numbers))
    return Optimum(*map(jnp.asarray, task.optimal_values(numbers)))


@dataclasses.dataclass(frozen=True, eq=False)
class _Task:
    """A problem but for its numbers: parameters, ends (q, v). given: which numbers of the ends are."""

    problem: OptimalControl
    flags: Any
    tree: Any
    asked: Asked
    given: tuple[np.ndarray, np.ndarray]
    nodes: int
    n: int
    r: int

    @property
    def space(self) -> Space:
        return self.problem.system.space

    def shapes(self, size: int) -> list[tuple[int, ...]]:
        """Of t, q, v, u, J, with so many numbers of a position."""
        return [(self.nodes,), (self.nodes, size), (self.nodes, self.n), (self.nodes, self.r), ()]

    def with_numbers(self, numbers: Any) -> tuple[OptimalControl, Asked]:
        leaves, first, last = jax.tree.map(np.asarray, numbers)
        problem = self.problem
        if problem.parameters is not None:
            problem = with_plant_parameters(problem, eqx.combine(jax.tree.unflatten(self.tree, leaves), self.flags))
        ends = [
            tuple(_level(row, g) for row, g in zip(end, given, strict=True))
            for end, given in zip((first, last), self.given, strict=True)
        ]
        return problem, self.asked._replace(request=self.asked.request._replace(initial=ends[0], final=ends[1]))

    def optimal_values(self, numbers: Any) -> tuple:
        """t, q, v, u, J and the outcome."""
        return self._arrays(extremal(*self.with_numbers(numbers)))

    def _arrays(self, s: ControlSolution) -> tuple:
        nothing = np.nan if s.outcome is not Outcome.SUCCESS else 0.0
        t = np.asarray(s.t) + (0.0 if s.final_time is None else nothing)
        return t, *(np.asarray(x) + nothing for x in (s.q, s.v, s.u, s.cost)), np.asarray(s.code, np.int64)

    def with_derivatives(self, numbers: Any) -> tuple:
        """The same, and the derivatives of t, q, v, u and J by every leaf and both ends."""
        problem, asked = self.with_numbers(numbers)
        solution = extremal(problem, asked)
        if solution.outcome is not Outcome.SUCCESS:
            return self._arrays(solution), [
                tuple(np.full(x.shape, np.nan) for x in each) for each in self.slope_shapes(numbers)
            ]
        request = asked.request
        found = sensitivity(
            problem, solution, initial=request.initial, final=request.final, through=request.through,
            inequalities=asked.inequalities, scheme=asked.scheme,
        )  # fmt: skip
        every = [x for x in jax.tree.leaves(found.parameters, is_leaf=_is_derivatives) if _is_derivatives(x)]
        return self._arrays(solution), [(d.t, d.q, d.v, d.u, d.cost) for d in (*every, found.initial, found.final)]

    def slope_shapes(self, numbers: Any) -> list[tuple[jax.ShapeDtypeStruct, ...]]:
        """The shapes of the derivatives."""
        ways = [*map(np.shape, numbers[0]), (2, self.n), (2, self.n)]
        return [tuple(jax.ShapeDtypeStruct((*own, *theta), np.float64) for own in self.shapes(self.n)) for theta in ways]

    def directions(self, numbers: Any, moved: Any) -> list[Array]:
        """By which each of the numbers changes, positions along the axes of the velocities."""

        def along_axes(q, dq):
            return jax.jvp(lambda x: self.space.between(q, x), (q,), (dq,))[1]

        ends = zip(numbers[1:], moved[1:], strict=True)
        return [*moved[0], *(jnp.stack([along_axes(q, dq), dv]) for (q, _), (dq, dv) in ends)]


def _level(row: np.ndarray, given: np.ndarray) -> Any:
    """One level of an end in the form that `solve` takes."""
    if not given.any():
        return None
    return row if given.all() else {int(j): float(row[j]) for j in np.flatnonzero(given)}


def _is_derivatives(x: Any) -> bool:
    return isinstance(x, Derivatives)


def _differentiable_solution(task: _Task) -> Callable:
    """numbers → t, q, v, u, J and the outcome, with its tangents."""
    values = [jax.ShapeDtypeStruct(x, np.float64) for x in task.shapes(task.space.stored_size(task.n))]
    shapes = (*values, jax.ShapeDtypeStruct((), np.int64))

    @jax.custom_jvp
    def solve(numbers):
        return jax.pure_callback(task.optimal_values, shapes, numbers, vmap_method="sequential")

    @solve.defjvp
    def differentiate(primals, tangents):
        (numbers,), (moved,) = primals, tangents
        both = shapes, task.slope_shapes(numbers)
        (*values, code), slopes = jax.pure_callback(task.with_derivatives, both, numbers, vmap_method="sequential")
        changes = [jnp.zeros(x) for x in task.shapes(task.n)]
        for each, theta in zip(slopes, task.directions(numbers, moved), strict=True):
            changes = [dx + jnp.tensordot(slope, theta, jnp.ndim(theta)) for dx, slope in zip(changes, each, strict=True)]
        turned = lambda q, way: jax.jvp(lambda y: task.space.retract(q, y), (jnp.zeros_like(way),), (way,))[1]  # noqa: E731
        changes[1] = jax.vmap(turned)(values[1], changes[1])
        return (*values, code), (*changes, np.zeros((), jax.dtypes.float0))

    return solve


def _numbers_of_end(problem: OptimalControl, end: Any, name: str, n: int) -> tuple[tuple[Array, Array], Any]:
    """The numbers (q, v) of an end, traced or not, and which are given."""
    refuse_sets(end, name, "how a solution on a set changes is not known: give (q, v), or parts of them")
    space = problem.system.space
    if isinstance(space, Product):
        pair = read_end(space, end, name, 2)
        free = space.identity, np.zeros(n)
        q, v = (jnp.asarray(x if x is not None else other, float) for x, other in zip(pair, free, strict=True))
        return (q, v), [np.array(x is not None) for x in pair]
    leaves, tree = jax.tree.flatten(end)
    numbers = [as_array(x, name) for x in leaves]
    counts = np.cumsum([0, *(x.size for x in numbers)])
    places = [1.0 + np.arange(b, e).reshape(x.shape) for b, e, x in zip(counts, counts[1:], numbers, strict=False)]
    read = read_partly(jax.tree.unflatten(tree, places), name, n, problem.coordinates)  # it tells where every number goes
    flat = jnp.concatenate([jnp.zeros(1), *(x.ravel() for x in numbers)])
    q, v = flat[read.values.astype(int)]
    return (q, v), read.given
