"""The second variation of a discrete optimal control problem along a solution, node by node, and its neighbouring extremals.

    y_i = (q_{i+1}, u_i, ν_i | λ_i, η_i, μ_i),   x_i = (w_i, q_i),   w_i = (q_i - q_{i-1})/h
    K(y_i, x_i) x_i + K(y_i, y_i) y_i + … = 0

μ_i: of the path inequalities that are active at node i, or on the step after it: G_i = 0 is kept as an equation. K: second
derivatives of L̃ = Σ h C + λᵀ(equations of motion) + ηᵀφ + μᵀG, all of them, with no end given. What comes after node i is
coupled to what was before it through x_i alone. At the first node v_0 stands for w_0, after the last v_N for q_{N+1}.
With q_{i-1} instead of w_i digits would go as 1/h². On groups δq_i is η_i of q_i τ(η_i); what follows of the velocities from
it is in `StepVelocities`.

The backward sweep finds neighbouring extremals from every node on, a subspace that is carried from the end to the beginning:

    W_i = {(x_i, g_i)}:  x_i = (δw_i, δq_i),  g_i = K(x_i, T_i) δT_i,   T_i: all that follows, at its optimum

Where nothing is given at the end, W_i is the graph g = P x of the cost to go, and the sweep is Riccati's recursion. Where
something is given there, P grows without bound: a subspace does not, and no weight has to stand for what is given. Each
stage is the null space of the rows of y_i; an orthonormal basis keeps all of it in sight.
Source: Bryson, Ho, Applied Optimal Control, chapters 5 and 6; subspaces for P: Laub's method for Riccati's equation.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary import Free, KKTSystem
from dalembert.boundary.data.around import read_end
from dalembert.boundary.data.end_sets import refuse_sets
from dalembert.boundary.data.ends import by_time, grid_nodes, read_through
from dalembert.boundary.data.free_time import Horizon
from dalembert.boundary.data.limits import Asking, PathInequalities, read_inequalities
from dalembert.control import Lobatto, OptimalControl
from dalembert.control.given import PartlyGiven, around_node, read_partly, settled_rows
from dalembert.control.problem import check_solution_of, count_equations, scheme_name
from dalembert.control.terms import ControlLayout
from dalembert.control.transcription import (
    ControlData,
    ControlSizes,
    ControlStart,
    control_sizes,
    path_values,
    sample_path,
    transcribe,
)
from dalembert.discretize import Scheme
from dalembert.groups import Product, Space
from dalembert.messages import warn
from dalembert.numbers import as_function, check_class
from dalembert.solution import ControlSolution
from dalembert.tracing import seldom

TOLERANCE = 1e-9  # of what a solution's equations hold to
WEAK = 1e-4  # margin below which a bound is reached without a force


class Linearised(NamedTuple):
    """sizes: typical ones. rows: K of (q_{i+1}, u_i, ν_i, λ_i, η_i) by (x_i, y_i), (N+1, b, 2n+b), in the units of the
    solver, of the cost too. before: the Jacobian of the constraints that x_i satisfies, (N+1, 2m, 2n), with zeros where
    there is none. units: of the columns, (N+1, 2n+b). spans: q_i - q_{i-1} of a unit of w_i in units of q, (N+1, n).
    holonomic: which constraints are. fixed: which of y_i do not vary, (N+1, b). steps: on groups."""

    layout: ControlLayout
    t: Float[np.ndarray, "N+1"]
    sizes: ControlSizes
    rows: Float[np.ndarray, "N+1 b 2n+b"]
    before: Float[np.ndarray, "N+1 2m 2n"]
    units: Float[np.ndarray, "N+1 2n+b"]
    spans: Float[np.ndarray, "N+1 n"]
    holonomic: Bool[np.ndarray, "m"]
    fixed: Bool[np.ndarray, "N+1 b"]
    steps: StepVelocities | None


def extremal_along(
    problem: OptimalControl,
    solution: ControlSolution,
    scheme: Scheme | None,
    paths: tuple[PathInequalities, ...] = (),
    timed: bool = False,
) -> ControlStart:
    """The problem with nothing given at its nodes, and the solution as its path. paths: the inequalities that are active,
    see `active_paths`; timed: with its final time as an unknown, where that was found between its bounds."""
    check_solution_of(problem, solution)
    if solution.scheme == Lobatto.name:
        raise ValueError(
            "solution: found one of scheme=Lobatto(), for which this is not available; solve again with a Scheme, with the "
            "solution as guess"
        )
    check_class(scheme, Scheme | None, "scheme", "the Scheme that the solution was found with")
    scheme = Scheme() if scheme is None else scheme
    own = scheme_name(scheme, problem.system)
    if own != solution.scheme:
        raise ValueError(f"scheme: found {own}; the solution was found with {solution.scheme}")
    space, n = problem.system.space, solution.v.shape[1]
    r, equations = count_equations(problem, n)
    holonomic = np.repeat(np.array([c.order == 0 for c in problem.system.constraints], dtype=bool), equations)
    t, q, v = (np.asarray(x, dtype=float) for x in (solution.t, solution.q, solution.v))
    nothing = PartlyGiven(np.zeros((2, n), dtype=bool), np.zeros((2, n)))
    free = timed and solution.final_time is not None and not solution.final_time.active
    horizon = Horizon(Free(float(t[-1])), float(t[0]), float(t[-1] - t[0])) if free else None
    base, origin = (0, q[0].copy()) if space.flat else (q.shape[1], np.zeros(n))
    layout = ControlLayout(n, r, len(holonomic), sum(path.size for path in paths), horizon is not None, base=base)
    data = ControlData(
        problem=problem, scheme=scheme, layout=layout, t=t, given=np.zeros((len(t), n), dtype=bool),
        ends=(nothing, nothing), origin=origin, holonomic=holonomic, paths=paths, horizon=horizon,
    )  # fmt: skip
    sizes = control_sizes(sample_path(problem, q, v, r, t), space.extent(q)[1], float(t[-1] - t[0]), free)
    z, of_nodes = _path_of(data, solution), (sizes.positions, sizes.positions / sizes.time, sizes.controls)
    return ControlStart(data, z, sizes._replace(values=data.value_sizes(data.place_values(z), of_nodes)))


def active_paths(problem: OptimalControl, solution: ControlSolution, inequalities: Any) -> tuple[PathInequalities, ...]:
    """Bounds on velocities and path inequalities, of those kinds of which the solution is somewhere at its bound.
    inequalities: what `solve` was given, or None. A bound that is not strictly complementary is warned of."""
    check_solution_of(problem, solution)
    _warn_weak(solution)
    t, n, velocities, g = np.asarray(solution.t), solution.v.shape[1], None, None
    active = [name for name in ("v", "inequalities") if name in solution.bounds and np.any(solution.bounds[name].active)]
    if inequalities is not None:
        as_function(inequalities, "inequalities", "g(q, v, u)")
        if "inequalities" not in solution.bounds:
            raise ValueError("inequalities: found some, but the solution was found without any; leave them out")
    if "inequalities" in active:
        if inequalities is None:
            raise TypeError("inequalities: is missing; some are active along the solution. Give those of solve")
        g = inequalities
    if "v" in active:
        bounded = np.isfinite(solution.bounds["v"].lower) | np.isfinite(solution.bounds["v"].upper)
        side = np.broadcast_to(np.where(bounded.any(axis=0), 0.0, np.inf), (len(t), n))
        velocities = np.stack([-side, side])
    found = []
    for path in read_inequalities(Asking(problem.system, n, solution.u.shape[1], t, (True, True)), g, velocities):
        known, own = solution.bounds[path.name], _components(path)
        limits = np.stack([known.lower[:, own], known.upper[:, own]])
        if limits.shape != path.limits.shape:
            raise ValueError(
                f"inequalities: found values of shape {path.limits.shape[1:]}; the solution has {limits.shape[1:]}"
            )
        found.append(path._replace(limits=limits))
    return tuple(found)


def _warn_weak(solution: ControlSolution) -> None:
    """A bound that is reached without a force is left by neighbours on one side, and held by those on the other."""
    for name, bounds in solution.bounds.items():
        if float(bounds.margin) < WEAK:
            warn(
                f"solution: bounds[{name!r}] are not strictly complementary, by {float(bounds.margin):.1e}: a bound is "
                "reached but does not act, and neighbouring solutions leave it on one side. The result keeps it active"
            )


def _components(path: PathInequalities) -> Any:
    """Which components of a solution's bounds are those of the path."""
    return list(path.function.velocities) if path.name == "v" else slice(None)


def _path_of(data: ControlData, solution: ControlSolution) -> np.ndarray:
    """(blocks, b): the unknowns of the solution."""
    layout, z = data.layout, path_values(data, solution.q, solution.v)
    z[1:-1, layout.part("controls")] = solution.u
    z[2:, layout.part("reactions")], z[2:, layout.part("adjoints")] = solution.multipliers, solution.adjoints
    z[2:-1, layout.part("steps")] = solution.step_multipliers
    for path, places in zip(data.paths, data.path_places("inequalities"), strict=True):
        z.ravel()[places] = solution.bounds[path.name].multipliers[:, _components(path)]
    return z


def complete_multipliers(start: ControlStart, fixed: Bool[np.ndarray, "blocks b"]) -> tuple[KKTSystem, np.ndarray]:
    """The KKT system with nothing given, and its path with the multipliers of constraints on free ends, which a solution
    does not tell: the gradient, which is linear in them, says which they are."""
    data, z, sizes = start[:3]
    kkt, own = transcribe(data, z, sizes, TOLERANCE), np.zeros(z.shape, dtype=bool)
    own[[0, 1, -1], data.layout.part("steps")] = True
    free = np.flatnonzero(own & ~fixed & ~kkt.fixed)
    if not len(free):
        return kkt, z
    free_primal = ~fixed & kkt.primal
    free_primal[:, data.layout.part("time")] = False  # a sum over blocks, which multipliers of its own hand on
    rows = np.flatnonzero(free_primal)
    here = kkt.raw_gradient(z).ravel()[rows]
    slopes = np.zeros((len(rows), len(free)))
    for k, place in enumerate(free):
        other = z.copy()
        other.ravel()[place] += kkt.flat_units[place]
        slopes[:, k] = (kkt.raw_gradient(other).ravel()[rows] - here) * kkt.flat_units[rows]
    found = np.linalg.lstsq(slopes, -here * kkt.flat_units[rows], rcond=None)[0]
    z = z.copy()
    z.ravel()[free] += found * kkt.flat_units[free]
    return kkt, z


def linearise(start: ControlStart, fixed: Bool[np.ndarray, "blocks b"]) -> Linearised:
    """K at the path of the start, in rows of y_i; fixed: which components of the path do not vary."""
    data, sizes, layout = start.data, start.sizes, start.data.layout
    kkt, z = complete_multipliers(start, fixed)
    band, size, last = kkt.matrix(z) / kkt.action, layout.size, len(data.t)
    state, controls, *rest, watched = (
        np.arange(layout.size)[layout.part(x)]
        for x in ("state", "controls", "reactions", "adjoints", "steps", "inequalities")
    )
    blocks = np.arange(last)[:, None]
    places = ((2, state), (1, controls), *((2, part) for part in rest), (1, watched), (2, watched))
    own = np.concatenate([(blocks + at) * size + part for at, part in places], axis=1)
    x = np.concatenate([blocks * size + state, (blocks + 1) * size + state], axis=1)
    entries = functools.partial(kkt.entries, band)

    steps = np.arange(size)[layout.part("steps")]
    now, earlier = entries((blocks + 1) * size + steps, x), entries(blocks * size + steps, x)
    earlier[1:, ~data.holonomic] = 0.0  # of a step before, whose first node is no part of x
    n, units = layout.n, kkt.units.ravel()[np.concatenate([x, own], axis=1)]
    units[:, :n] = units[0, :n]
    spans = np.concatenate([np.ones((1, n)), np.diff(data.t)[:, None] * units[1:, :n] / units[1:, n : 2 * n]])

    def by_increments(rows: np.ndarray) -> np.ndarray:
        """Columns by (w_i, q_i) of those by (q_{i-1}, q_i); (v_0, q_0) stay."""
        rows[1:, :, n : 2 * n] += rows[1:, :, :n]
        rows[1:, :, :n] *= -spans[1:, None]
        return rows

    rows = np.concatenate([by_increments(entries(own, x)), entries(own, own)], axis=2)
    before = by_increments(np.concatenate([now, earlier], axis=1))
    held = np.asarray(fixed).ravel()[own]
    held[:-1, held.shape[1] - len(watched) :] = True  # of the next node; after the last one it is the velocity's
    moved = step_velocities(data.space, data.t, data.elements(z)) if layout.base else None
    return Linearised(layout, data.t, sizes, rows, before, units, spans, data.holonomic, held, moved)


class GivenEnds(NamedTuple):
    """Given data of a problem: its ends, and points to pass."""

    initial: PartlyGiven
    final: PartlyGiven
    passed: Bool[np.ndarray, "N+1 n"]


def read_given(problem: OptimalControl, solution: ControlSolution, ends: dict[str, Any], through: Any) -> GivenEnds:
    """Checked, of the ends "initial" and "final" that are asked for: what is not given must have no costate, and what is
    given be where the solution is. An end that nobody asks for is free."""
    for name, end in ends.items():
        refuse_sets(end, name, "neighbours of a solution end where it does: give its own end, (q, v)")
    n, t, space = solution.v.shape[1], np.asarray(solution.t), problem.system.space
    on_group = isinstance(space, Product)
    times = np.array([*by_time(through or {}, "through")]) if on_group else read_through(through, n).times
    passed, found = np.zeros((len(t), n), dtype=bool), []
    passed[grid_nodes(t, times)] = True
    for name, node, costates in (("initial", 0, solution.costates_initial), ("final", -1, solution.costates_final)):
        here, end = np.asarray(solution.q[node]), ends.get(name)
        if on_group:
            found.append(_read_on_group(space, end, name, here))
            here = np.zeros(n)
        else:
            found.append(read_partly(end, name, n, problem.coordinates))
        if name in ends:
            _check_end(name, found[-1], np.stack([here, solution.v[node]]), np.asarray(costates))
    return GivenEnds(found[0], found[1], passed)


def _read_on_group(space: Product, end: Any, name: str, here: np.ndarray) -> PartlyGiven:
    """An end in the coordinates around where the solution is."""
    q, v = read_end(space, end, name, 2)
    rows = [None if q is None else space.differences(here, q), v]
    given = np.array([[row is not None] * space.n for row in rows])
    return PartlyGiven(given, np.stack([np.zeros(space.n) if row is None else row for row in rows]))


def _check_end(name: str, end: PartlyGiven, here: np.ndarray, costates: np.ndarray) -> None:
    apart = np.abs(np.where(end.given, end.values - here, 0.0)) > 1e-6 * (1.0 + np.abs(here))
    if apart.any():
        level, j = np.argwhere(apart)[0]
        raise ValueError(
            f"{name}[{level}]: found {end.values[level, j]:g} for coordinate {j}; the solution has {here[level, j]:g} there"
        )
    other = (costates != 0.0) & ~end.given
    if other.any():
        level, j = np.argwhere(other)[0]
        raise ValueError(
            f"{name}: gives nothing for {'qv'[level]} of coordinate {j}, but the solution has a costate there: it was given "
            f"in solve. Give the same {name}="
        )


def fixed_components(start: ControlStart, given: GivenEnds, solution: ControlSolution) -> Bool[np.ndarray, "blocks b"]:
    """Which components of the path keep their value in a neighbouring solution: ends, points to pass, what is at a bound.
    Values of path inequalities do where they are at theirs; where they are not, nothing asks for them."""
    data, layout = start.data, start.data.layout
    fixed = np.zeros(start.z.shape, dtype=bool)
    state, steps = layout.part("state"), layout.part("steps")
    fixed[1:-1, state] = given.passed
    fixed[1, state] |= given.initial.given[0]
    fixed[0, state] = given.initial.given[1]
    fixed[-2, state] |= given.final.given[0]
    fixed[-1, state] = given.final.given[1]
    for name, part in (("q", "state"), ("u", "controls")):
        if name in solution.bounds:
            fixed[1:-1, layout.part(part)] |= solution.bounds[name].active != 0
    whole = np.asarray(fixed[1:-1, state].all(axis=1))
    fixed[1:-1, steps] = whole[:, None] & data.holonomic
    fixed[:, layout.part("values")] = fixed[:, layout.part("inequalities")] = True
    fixed_data = dataclasses.replace(data, given=fixed[1:-1, state], ends=(given.initial, given.final))
    for end in (0, -1):
        local = around_node(data.problem, solution.q[end])
        fixed[end, steps] = settled_rows(local, fixed_data.end_state(start.z, end, start.sizes.positions))[1]
    for path, places in zip(data.paths, data.path_places("inequalities"), strict=True):
        inactive = solution.bounds[path.name].active[:, _components(path)] == 0
        fixed.ravel()[places] = inactive | fixed_data.settled_values(path)
    return fixed


class StepVelocities(NamedTuple):
    """δv of the steps, v = d/h, on groups: by_rate (η_{i+1} - η_i)/h + by_end η_{i+1}."""

    by_rate: Float[np.ndarray, "N n n"]
    by_end: Float[np.ndarray, "N n n"]

    def change(self, rate: np.ndarray, end: np.ndarray, steps: Any = slice(None)) -> np.ndarray:
        return self.by_rate[steps] @ rate + self.by_end[steps] @ end


@seldom
def _increment_slopes(space: Product, a, b):
    """Derivatives of the increments from a to b by η of both ends, (N, n, n) each."""
    zeros = jnp.zeros(space.n)
    moved = lambda x, y, a, b: space.between(space.retract(a, x), space.retract(b, y))  # noqa: E731
    return jax.vmap(lambda a, b: jax.jacfwd(moved, (0, 1))(zeros, zeros, a, b))(a, b)


def step_velocities(space: Space, t: np.ndarray, q: np.ndarray) -> StepVelocities | None:
    """None in Rⁿ, where they change as the differences do."""
    if not isinstance(space, Product):
        return None
    by_begin, by_end = (np.asarray(x) for x in _increment_slopes(space, q[:-1], q[1:]))
    return StepVelocities(-by_begin, (by_begin + by_end) / np.diff(t)[:, None, None])


RANK = 1e-10  # singular values of what can be perturbed, relative to the largest one before the end, below which it cannot
DEPENDENT = 1e-6  # singular values of rows of length 1 that count as dependent


class Neighbours(NamedTuple):
    """2n neighbouring extremals at every node, as columns: δq, δv, δu, and by how much x_i leaves the constraints.
    `ControlSolution` says what v is between the ends."""

    q: Float[np.ndarray, "N+1 n 2n"]
    v: Float[np.ndarray, "N+1 n 2n"]
    u: Float[np.ndarray, "N+1 r 2n"]
    left: Float[np.ndarray, "N+1 2m 2n"]


def neighbours(lin: Linearised) -> Neighbours:
    """From the last node to the first."""
    n, nodes = lin.layout.n, len(lin.t)
    found = Neighbours(*(np.zeros((nodes, k, 2 * n)) for k in (n, n, lin.layout.r, lin.before.shape[1])))
    tail = None
    for i in reversed(range(nodes)):
        x, y, tail = _stage(lin, i, tail)
        columns = lin.units[i][:, None] * np.concatenate([x, y])
        found.q[i], found.u[i], found.left[i] = columns[n : 2 * n], columns[3 * n : 3 * n + lin.layout.r], lin.before[i] @ x
        before, after = columns[:n], columns[2 * n : 3 * n]
        if 0 < i < nodes - 1:
            h0, h1 = np.diff(lin.t[i - 1 : i + 2])
            after = lin.units[0][:n, None] * (y[:n] - x[n:]) / lin.spans[i + 1][:, None]
            if lin.steps is not None:
                before = lin.steps.change(before, found.q[i], i - 1)
                after = lin.steps.change(after, columns[2 * n : 3 * n], i)
            found.v[i] = (before * h1 + after * h0) / (h0 + h1)
        else:
            found.v[i] = after if i else before
    return found


def _stage(lin: Linearised, i: int, tail: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x_i and y_i of the subspace, and its basis (4n, 2n). tail: that of W_{i+1}; None after the last node."""
    n, rows, fixed = lin.layout.n, lin.rows[i], lin.fixed[i]
    known = 2 * n
    b = rows.shape[0]
    x_of, y_of, force = np.zeros((known, known + b)), np.zeros((b, known + b)), np.zeros((known, known + b))
    if tail is None:  # unknowns: x, y
        x_of[:, :known], y_of[:, known:] = np.eye(known), np.eye(b)
    else:  # unknowns: coefficients of the tail's basis, w_i, and y without q_{i+1}
        span = lin.spans[i + 1][:, None]
        w, q, by_w, by_q = np.split(tail, 4)
        x_of[:n, known : known + n], x_of[n:, :known] = np.eye(n), q - span * w
        y_of[:n, :known], y_of[n:, known + n :] = q, np.eye(b - n)
        force[:n, :known], force[n:, :known] = -by_w / span, by_q + by_w / span  # on q_i and q_{i+1}
    equations = rows @ np.concatenate([x_of, y_of])
    equations[:n] += force[n:]
    equations[fixed] = y_of[fixed]
    kernel = np.linalg.qr((equations / _row_norms(equations)).T, mode="complete")[0][:, b:]
    x, y = x_of @ kernel, y_of @ kernel
    g = rows[:, :known].T @ y
    g[n:] += force[:n] @ kernel
    basis, change = np.linalg.qr(np.concatenate([x, g]))
    back = np.linalg.inv(change)
    return x @ back, y @ back, basis


def _row_norms(rows: np.ndarray) -> np.ndarray:
    """(k, 1): the norms of rows, 1 where one vanishes."""
    found = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(found > 0.0, found, 1.0)


def gains_of(lin: Linearised) -> Float[np.ndarray, "N+1 r 2n"]:
    """K with δu = -K (δq, δv) for what satisfies the constraints, 0 across them."""
    n, sizes, found = lin.layout.n, lin.sizes, neighbours(lin)
    scale = np.concatenate([sizes.positions, sizes.positions / sizes.time])
    gains = np.zeros((len(lin.t), lin.layout.r, 2 * n))
    for i in range(len(lin.t)):
        along = kernel_of(found.left[i])
        x = (np.concatenate([found.q[i], found.v[i]]) / scale[:, None]) @ along
        left, values, right = np.linalg.svd(x, full_matrices=False)
        kept = (values > RANK * values[0]) & (values > 0.0)
        gains[i] = -(found.u[i] @ along @ (right[kept].T / values[kept])) @ left[:, kept].T / scale
    return gains


def kernel_of(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what the rows send to zero; dependent rows count once."""
    _, values, right = np.linalg.svd(rows / _row_norms(rows))
    return right[np.count_nonzero(values > DEPENDENT) :].T
