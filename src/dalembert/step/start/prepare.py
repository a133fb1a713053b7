"""From a system and initial data to a program and the data of its first step."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from dalembert.algebra import Newton, newton, numerical_rank
from dalembert.discretize import DiscreteSystem, Scheme, as_scheme, check_group_scheme, check_maps
from dalembert.messages import at_users_line
from dalembert.numbers import as_array, as_state, check_class, real_numbers
from dalembert.options import Starter
from dalembert.step.programs.node import Composed, DiscreteProgram, KickDriftKick, NodeProgram
from dalembert.step.programs.scaled import in_units, units_for
from dalembert.step.run.branch import Avoid, Nearest, divided
from dalembert.step.run.state import Given, Grid, Prepared, Recipe, StepOptions, promote
from dalembert.step.start.higher import begin_higher
from dalembert.systems import (
    CONSISTENT,
    Constraint,
    InconsistentDataError,
    Problem,
    RankDeficientError,
    System,
    VariationalProblem,
    acceleration,
    check_flat,
    deflatable,
    is_flag,
    is_traced,
    output_shape,
    project,
    reference,
    run_on_shapes,
    with_inertia,
)
from dalembert.systems.checks import check_quadratic, solve_start
from dalembert.systems.consistency import STEPS, check_parameters
from dalembert.systems.proof import number_of_runs
from dalembert.systems.shapes import check_indices, check_scalar, condition_shape
from dalembert.systems.sizes import ROUNDING, residual_limit, units_of
from dalembert.tracing import Jitted, seldom

DEFAULT = Scheme()
INEXACT = 1e-6  # of a step: how far given nodes may be from satisfying the constraints between them
VANISHED = 1e-9  # of the derivative beside: what is less is rounding of zero
Vector = Float[Array, "n"]


@functools.singledispatch
def prepare_any(system, given: Given, grid: Grid, recipe: Recipe) -> Prepared:
    """The program and its data for a System, a DiscreteSystem or a VariationalProblem, each from its own initial data."""
    check_any_system(system)
    raise TypeError(f"system: found a {type(system).__name__}, which has no flow; give a System or a VariationalProblem")


@prepare_any.register(VariationalProblem)
def _of_problem(problem: VariationalProblem, given: Given, grid: Grid, recipe: Recipe) -> Prepared:
    check_flat(problem, "the flow of a variational problem")
    if given.q0 is not None or given.v0 is not None:
        given = given._replace(jets=_first_jet(problem, given))
    return begin_higher(problem, given, grid, recipe.scheme)


@prepare_any.register(DiscreteSystem)
def _of_discrete(system: DiscreteSystem, given: Given, grid: Grid, recipe: Recipe) -> Prepared:
    _check_first_order(type(system).__name__, given, recipe)
    return prepare_discrete(system, given, grid, recipe.scheme)


@prepare_any.register(System)
def _of_system(system: System, given: Given, grid: Grid, recipe: Recipe) -> Prepared:
    _check_first_order(type(system).__name__, given, recipe)
    recipe = recipe if recipe.scheme is not None else recipe._replace(scheme=DEFAULT)
    if given.nodes is not None:
        return _from_nodes(system, given, grid, recipe)
    return _from_deformed(system, given, grid, recipe) or prepare_system(system, given, grid, recipe)


def _check_first_order(kind: str, given: Given, recipe: Recipe) -> None:
    """ValueError for what belongs to a VariationalProblem alone."""
    for name in ("jets", "multipliers"):
        if getattr(given, name) is not None:
            raise ValueError(f"{name}: belong to a VariationalProblem; a {kind} does not take them")
    as_scheme(recipe.scheme)


def check_any_system(system) -> None:
    """TypeError for what has no discrete flow."""
    check_class(system, Problem, "system", "a System, a DiscreteSystem or a VariationalProblem")


def _first_jet(problem: VariationalProblem, given: Given):
    """(q0, v0), all there is to give for one derivative."""
    if problem.derivatives > 1 or given.jets is not None or given.nodes is not None:
        raise ValueError(
            f"q0, v0: belong to a problem of one derivative; give jets, shape ({2 * problem.derivatives}, n), or nodes"
        )
    return jnp.stack(as_state(given.q0, given.v0, problem.coordinates))


def prepare_system(system: System, given: Given, grid: Grid, recipe: Recipe) -> Prepared:
    """Check the data and choose the program: its form, its state, and its first nodes."""
    (scheme, _, branch), t0, h = recipe, grid.t0, grid.h
    if not system.space.flat:
        check_group_scheme(scheme, system.constraints)
    known = not isinstance(h, Tracer)
    found = solve_start(system, given.q0, given.v0, t0, STEPS * abs(float(h)) if known else None, given.motion)
    q, v, a, multipliers, own, sizes, _ = found
    check_maps(scheme, v.shape[0])
    if scheme.form == "discrete_gradient":
        check_quadratic(system, q, v, t0)
    check_branch(branch, system.constraints, v.shape[0])
    program = program_for(system, sizes, scheme, recipe.deflate)
    if own is not None:  # every small operation of JAX is compiled when it is first met
        q, v, a, multipliers = map(np.asarray, (q, v, a, multipliers))
    made = begin_steps(program, recipe, q, v, a, multipliers, t0=t0, h=h)
    units = None if own is None or not (known and system.space.flat) else units_for(made, own, t0, h)
    return made if units is None else in_units(made, units)


def _from_nodes(system: System, given: Given, grid: Grid, recipe: Recipe) -> Prepared:
    """A two step form from its first two nodes, as they are: a path goes on from its last two as if it had not ended."""
    form = recipe.scheme.form_for(system.constraints)
    if form != "nodes" or recipe.scheme.order != 2:
        raise ValueError(
            f"nodes: belong to the form 'nodes', a DiscreteSystem or a VariationalProblem; this run has the form '{form}' "
            "and starts from q0 and v0"
        )
    if given.q0 is not None or given.v0 is not None:
        raise ValueError("nodes: found together with q0 or v0; give nodes, or q0 and v0")
    points = as_nodes(given.nodes)
    if is_traced(points, grid.t0, grid.h):
        raise TypeError("nodes: those of a System are numbers; under jit, vmap and grad it starts from q0 and v0")
    if len(points) != 2:
        raise ValueError(f"nodes: found shape {points.shape}; give the first two nodes, shape (2, n)")
    q, d = points[0], jnp.asarray(np.diff(np.asarray(points), axis=0)[0])
    own = NodeProgram(system, recipe.scheme, (), False, 0.0, True).system
    near = project(own, q, d / grid.h, grid.t0)  # d/h satisfies the constraints between the nodes
    made = prepare_system(system, Given(q, near.v), grid, recipe)
    nearest = np.asarray(_onto_distribution(own, recipe.scheme, q, d, t0=grid.t0, h=grid.h))
    reach = np.abs(d).max() + ROUNDING * np.abs(np.asarray(points)).max()
    if not np.abs(nearest - d).max() <= INEXACT * reach:
        raise InconsistentDataError(
            f"nodes: the constraints between the two nodes do not hold; the second one nearest to {np.asarray(points[1])} "
            f"with which they do is {q + nearest}"
        )
    return made._replace(nodes=np.asarray(points), q=np.asarray(points[1]), s=d / grid.h)


def _from_deformed(system: System, given: Given, grid: Grid, recipe: Recipe) -> Prepared | None:
    """From (q, v) on the deformed constraint φ(q - δhv, v) = 0, where a scheme has the states of its runs if it reads φ at
    another place of the step than at its state; None for other data. (a, λ) are those at the nearest v on D.

    Source: Jiménez, Scheurle, eq. (98), D_ε, with δ the difference of the weights of state and distribution.
    """
    scheme, h = recipe.scheme, grid.h
    apart = scheme.state_apart(system.constraints)
    if not apart or given.q0 is None or given.v0 is None or is_traced(given.q0, given.v0, grid.t0, h):
        return None
    q, v = (np.asarray(x) for x in as_state(given.q0, given.v0, system.coordinates))
    place, t = q - apart * h * v, grid.t0 - apart * h
    own = NodeProgram(system, scheme, (), False, 0.0, True).system
    on = project(own, place, v, t).v
    if not np.abs(np.asarray(on) - v).max() <= CONSISTENT * np.abs(v).max():
        return None
    near = project(own, q, v, grid.t0)
    return prepare_system(system, Given(q, near.v), grid, recipe)._replace(s=jnp.asarray(v))


def check_branch(branch, constraints: Sequence[Constraint], n: int) -> None:
    """ValueError where a rule among roots does not belong to a system of n coordinates with these constraints."""
    if isinstance(branch, Nearest) and max(branch.coordinates or (0,)) >= n:
        raise ValueError(f"branch: found Nearest(coordinates={branch.coordinates}); the system has coordinates 0 to {n - 1}")
    if isinstance(branch, Avoid) and branch.factor is None and not deflatable(constraints):
        raise ValueError(
            "branch: Avoid() without a factor needs one Lyapunov constraint and no other constraint on accelerations; "
            "give Avoid(factor) with a function of (q, v)"
        )


def begin_steps(program, recipe: Recipe, q: Any, v: Any, a: Any, multipliers: Any, *, t0, h) -> Prepared:
    """The data of the first step: nodes, state and expectation, from (q, v) with the accelerations and multipliers of the
    continuous equations there; of NumPy where these are."""
    kind: Any = type(program)  # of a bound method equinox makes a module, which takes long
    if program.starting_nodes == 0:
        return Prepared(program, q[None], q, v, kind.initial_guess(program, v, h, a, multipliers))
    xp: Any = np if all(isinstance(x, np.ndarray) for x in (q, v)) else jnp
    at: Any = {"t0": xp.asarray(t0, dtype=float), "h": xp.asarray(h, dtype=float)}  # arrays: one program for all steps
    d: Any = xp.asarray(_second_node(program.system, recipe.scheme, recipe.starter, q, v, **at))
    return Prepared(program, xp.stack([q, q + d]), q + d, d / h, kind.initial_guess(program, d / h, h, a, multipliers))


def program_for(
    system: System, sizes: Sequence[int], scheme: Scheme, deflate: bool
) -> NodeProgram | KickDriftKick | Composed:
    """The program of the form that suits the system. sizes: equations of each constraint; deflate: write a Lyapunov
    constraint as λ = -φ₀/u."""
    base = _base(system, sizes, scheme, deflate)
    if scheme.order == 2:
        return base
    return Composed(base, scheme.weights)  # pyright: ignore[reportCallIssue] `system` is no field of it


def _base(system: System, sizes: Sequence[int], scheme: Scheme, deflate: bool) -> NodeProgram | KickDriftKick:
    form = scheme.form_for(system.constraints)
    kinds = tuple((c.order, m) for c, m in zip(system.constraints, sizes, strict=True))
    if form == "kick_drift_kick":
        return KickDriftKick(system, scheme, kinds, deflate)
    if form == "nodes":
        return NodeProgram(system, scheme, kinds, deflate, 0.0, True)
    return NodeProgram(system, scheme, kinds, deflate, 1.0 - scheme.state.weight, False)


@seldom
def _first_action(system: DiscreteSystem, points, t0):
    return system.call(system.lagrangian, points[0], points[1], t=t0)


@seldom
def _initial(system: DiscreteSystem, points, t0):
    """The initial condition and its derivative by the first two nodes, (m, 2, n)."""
    condition = system.initial
    assert condition is not None
    function = lambda x: jnp.atleast_1d(system.call(condition, x[0], x[1], t=t0))  # noqa: E731
    return function(points[:2]), jax.jacfwd(function)(points[:2])


def _check_submersion(system: DiscreteSystem, points: np.ndarray, t0, by_second: Float[np.ndarray, "k n"]) -> None:
    """p₁|D_d is a submersion: from every point near q₀ pairs in D_d start. Equations of q₀ alone restrict to a leaf.

    These are the ones whose derivative by q₁ is zero elsewhere, too.
    """
    apart = points[1] - points[0]
    elsewhere = points[1] + np.where(apart != 0.0, apart, 0.1) * np.cos(1.0 + np.arange(len(apart)))
    other = np.asarray(_initial(system, jnp.asarray([points[0], elsewhere]), t0)[1])[:, 1]
    here, there = (np.linalg.norm(x, axis=1) for x in (by_second, other))
    rows = np.flatnonzero((here > 0.0) | (there > 0.0))
    found = numerical_rank(np.where((here > VANISHED * there)[:, None], by_second, 0.0)[rows])
    if len(rows) and not found.full:
        raise RankDeficientError(
            f"initial: of its equations, {len(rows)} read q1 and have rank {found.rank} in it at the first two nodes "
            f"(dependent: {[int(rows[i]) for i in found.dependent_rows]}); the projection of D_d to its first factor is not "
            "a submersion there, and near these nodes there may be no pairs in D_d"
        )


def prepare_discrete(system: DiscreteSystem, given: Given, grid: Grid, scheme) -> Prepared:
    """Check the first nodes, and take the differences of them."""
    if given.nodes is None or given.q0 is not None or given.v0 is not None:
        r = max(2, system.factor, system.order)
        raise ValueError(f"nodes: a DiscreteSystem starts from its first {r} nodes, nodes=[q0, q1, …], not from q0 and v0")
    if scheme is not None:
        raise ValueError("scheme: a DiscreteSystem is discrete already; a scheme belongs to a System")
    points = as_nodes(given.nodes)
    if system.coordinates is not None and len(system.coordinates) != points.shape[1]:
        raise ValueError(f"nodes: found n = {points.shape[1]}; the system names {len(system.coordinates)} coordinates")
    m = check_discrete(system, points)
    read, steps = system.reading(points.shape[1]), grid.steps
    r = read.needed
    if len(points) != r:
        raise ValueError(f"nodes: found shape {points.shape}; give the first {r} nodes, shape ({r}, n)")
    if steps < r - 1:
        raise ValueError(f"steps: found {steps}; the {r} nodes given are already those of {r - 1} steps")
    if not is_traced(system, points):
        check_parameters(system)
        if not np.isfinite(value := float(_first_action(system, points, grid.t0))):
            raise ValueError(f"lagrangian: is {value} at the first two nodes; it must be finite there")
        if system.initial is not None:
            left, slopes = (np.asarray(x) for x in _initial(system, points, grid.t0))
            both = np.asarray(points[:2])
            apart = STEPS * np.abs(both[1] - both[0])
            size = with_inertia(apart if np.any(apart) else np.abs(both[0]), np.ones(len(apart)))
            if not np.all(np.abs(left) <= residual_limit(slopes.reshape(len(left), -1), np.tile(size, 2), both.ravel())):
                raise InconsistentDataError(
                    f"nodes: the first two must lie in D_d, where the initial condition is 0; it is {left}"
                )
            _check_submersion(system, both, grid.t0, slopes[:, 1])
    d = jnp.diff(points, axis=0)[::-1] / grid.h
    return Prepared(DiscreteProgram(system, m, read), points, points[-1], d.reshape(-1), None)


def second_node(system: System, scheme: Scheme, starter: Starter, q0: Vector, v0: Vector, *, t0, h) -> Vector:
    """d = q₁ - q₀ with error O(h²) ("first_order": h v₀), O(h³) ("second_order": h v₀ + h²a₀/2), or none ("reference").

    The point is then moved by the least |δq| onto D_d: φ(q₁) = 0 for holonomic constraints and φ(ρ(q₀,q₁)) = 0 for
    nonholonomic ones (Borda, Fernández, Grillo, Remark 3.4: D_K restricts the first pair as well).
    "first_order" is the paper's start; it makes the whole run first order (Section 4.1.2).
    """
    if starter == "first_order":
        d = h * v0
    elif starter == "second_order":
        d = h * v0 + 0.5 * h * h * acceleration(system, q0, v0, t0)[0]
    else:
        times = jnp.stack([jnp.asarray(t0, dtype=float), t0 + h])
        d = reference(system, q0, v0, times, tolerance=1e-13, max_steps=100_000).q[1] - q0
    return onto_distribution(system, scheme, q0, d, t0=t0, h=h)


def onto_distribution(system: System, scheme: Scheme, q0: Vector, d: Vector, *, t0, h) -> Vector:
    """d moved by the least amount so that the constraints on positions and velocities hold."""
    n, constraints = q0.shape[0], [c for c in system.constraints if c.order < 2]
    if not constraints:
        return d

    def constraint_values(x: Vector):
        rows = []
        for c in constraints:
            if c.order == 0:
                rows.append(c.residual(system, q0 + x, x, x, t0 + h) / h)
            else:
                q, v = scheme.distribution(q0, x, h)
                rows.append(c.residual(system, q, v, v, t0 + scheme.distribution.weight * h))
        return jnp.concatenate(rows)

    rows = jax.jacfwd(constraint_values)(d)

    def stationary_equations(z):
        return jnp.concatenate([(z[:n] - d) / h - rows.T @ z[n:], constraint_values(z[:n])])

    scale = lambda z: jnp.full_like(z, jnp.inf).at[:n].set(jnp.linalg.norm(d) + ROUNDING * jnp.linalg.norm(q0) + 1e-200)  # noqa: E731
    start = jnp.concatenate([d, jnp.zeros(rows.shape[0])])
    z, _ = newton(stationary_equations, start, scale, Newton(1e-13, 50), lambda x: units_of(x, n, jnp))
    return z[:n]


_second_node = Jitted(second_node)
_onto_distribution = Jitted(onto_distribution)


def check_callbacks(prepared: Prepared, grid: Grid, step_options: StepOptions, initial) -> Any:
    """Checks the values that stop, domain, a feedback law, a branch's function and a reducer return; gives the value with
    which the latter begins, `initial`, in its final types."""
    program, q = prepared.program, prepared.q
    stop, domain, feedback = step_options.stop, step_options.domain, step_options.feedback
    system: System | DiscreteSystem | VariationalProblem = program.system
    names = system.trailing
    if feedback is not None and not system.takes_force:
        raise ValueError("feedback: a VariationalProblem takes no external forces; use a System")
    if feedback is not None and program.multiplier_time < 0:
        raise ValueError("feedback: the reactions of this system depend on later nodes; its steps take no external force")
    if isinstance(step_options.branch, Avoid) and step_options.branch.factor is not None:
        divided(program, q.shape[0])
    rule = next((f for name in ("function", "factor", "least") if (f := getattr(step_options.branch, name, None))), None)
    if stop is None and domain is None and feedback is None and rule is None and step_options.reduce is None:
        return initial

    def look(program, q, v, t):
        for name, function in (("stop", stop), ("domain", domain)):
            if function is not None:
                condition_shape(lambda f=function: program.system.call(f, q, v, t=t), name, "q, v" + names)
        if feedback is not None:
            also = ", t" * (feedback.timed and not system.trailing.startswith(", t"))
            shape = output_shape(lambda f=feedback: f.force(program, q, v, t), "feedback law", "q, v" + also + names)
            if shape != v.shape:
                raise ValueError(f"feedback law: returns shape {shape}; a generalised force of shape {v.shape} is needed")

        if rule is not None:
            check_scalar(lambda: program.system.call(rule, q, v, t=t), "branch: its function", "q, v" + names)

    run_on_shapes(look, program, q, program.velocity(prepared.s), grid.t0)
    return initial if step_options.reduce is None else _first_reduced(prepared, grid, step_options.reduce, initial)


def _first_reduced(prepared: Prepared, grid: Grid, function, before) -> Any:
    def arguments_of(q, s, t, h) -> tuple:
        v = program.velocity(s)
        return t, q, v, program.outputs(program.guess(q, s, t, h), q, s, t, h, jnp.zeros_like(v)).multipliers

    program = prepared.program
    given = jax.eval_shape(arguments_of, prepared.q, prepared.s, grid.t0, grid.h)
    try:
        jaxpr, after = jax.make_jaxpr(function, return_shape=True)(before, *given)
    except Exception as error:
        what = f"reduce: could not be evaluated: {type(error).__name__}: {error}"
        raise at_users_line(TypeError(f"{what}. It is called as function(value, t, q, v, multipliers)"), error) from None
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (before, after)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"reduce: returns shapes {shapes[1]}; the initial value has {shapes[0]}, and they must agree")
    check_indices(jaxpr, "reduce")
    if any(jnp.issubdtype(x.dtype, jnp.complexfloating) for x in jax.tree.leaves(after)):
        raise TypeError("reduce: returns complex numbers; give the real and the imaginary part as two of them")
    return promote(lambda value: jax.eval_shape(function, value, *given), before)


def initial_value(initial):
    """The value with which a reducer begins: a tree of real numbers or flags, which may be infinite, of any type."""

    def leaf(path, x):
        if not (isinstance(x, Tracer) or is_flag(x)):
            real_numbers(x, f"reduce: the initial value{jax.tree_util.keystr(path)}")
        return jnp.asarray(x)

    return jax.tree_util.tree_map_with_path(leaf, initial, is_leaf=lambda x: x is None)


def as_nodes(nodes):
    """The first nodes of a discrete system as a float array (r, n), finite."""
    points = as_array(nodes, "nodes")
    if points.ndim != 2 or len(points) < 2 or points.shape[1] == 0:
        raise ValueError(f"nodes: found shape {points.shape}; give the first nodes, two or more, shape (r, n)")
    return points


def check_discrete(system: DiscreteSystem, points) -> int:
    """Shapes of everything the functions of a discrete system return; the number m of its equations."""
    return run_on_shapes(_check_discrete, system, points)


def _check_discrete(system: DiscreteSystem, points) -> int:
    n, pair, window = points.shape[1], points[:2], [points[0]] * (system.order + 1)

    def shape_of(name: str, nodes) -> tuple[int, ...]:
        words = ", ".join(f"q{i}" for i in range(len(nodes))) + system.trailing
        return output_shape(lambda: system.call(getattr(system, name), *nodes, t=jnp.zeros(())), name, words)

    if (shape := shape_of("lagrangian", pair)) != ():
        raise ValueError(f"lagrangian: returns shape {shape}; a scalar is needed")
    if system.forces is not None and (shape := shape_of("forces", pair)) != (2, n):
        raise ValueError(f"forces: returns shape {shape}; two impulses (f⁻, f⁺) of shape ({n},) are needed")
    if system.initial is not None and len(shape := shape_of("initial", pair)) > 1:
        raise ValueError(f"initial: returns shape {shape}; give a scalar or shape (k,)")
    if system.kinematic is None:
        return 0
    if len(shape := shape_of("kinematic", window)) > 1:
        raise ValueError(f"kinematic: returns shape {shape}; give a scalar or shape (m,)")
    m = shape[0] if shape else 1
    name, wanted, number = ("virtual", (n, n - m), n - m) if system.reactions is None else ("reactions", (m, n), m)
    shape = shape_of(name, window)
    if shape != wanted and not (number == 1 and shape == (n,)):
        raise ValueError(f"{name}: returns shape {shape}; shape {wanted} is needed")
    return m


def batch_size(system, given: dict, axes: dict) -> int:
    """The common length of all axes of runs."""
    names = {DiscreteSystem: "nodes", VariationalProblem: "jets, nodes, multipliers"}.get(type(system), "q0, v0")
    return number_of_runs(given, axes, names, "simulate")
