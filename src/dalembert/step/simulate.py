"""simulate: from a system and initial data to a path."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton
from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.path import Outcome, Path, Statistics, StepError
from dalembert.step.branch import Avoid, Branch, call_system
from dalembert.step.diagnose import has_no_solution
from dalembert.step.program import DiscreteProgram, KickDriftKick, NodeProgram, StepProgram
from dalembert.step.provenance import provenance
from dalembert.step.run import Choices, SampledFeedback, chunked_run, first_carry, traced_run
from dalembert.step.start import STARTERS, Starter, second_node
from dalembert.systems import System, check_initial_data, check_x64, is_traced
from dalembert.systems.checks import InconsistentDataError, as_vector, check_parameters, output_shape
from dalembert.systems.equations import deflatable, value


class Prepared(NamedTuple):
    """A program and the data of its first step: nodes known before it (lead + 1, n), position q and state s."""

    program: StepProgram
    nodes: Float[Array, "known n"]
    q: Float[Array, "n"]
    s: Float[Array, "k"]


def simulate(
    system: System | DiscreteSystem,
    q0=None,
    v0=None,
    *,
    h: float = 1.0,
    steps: int,
    t0: float = 0.0,
    nodes=None,
    scheme: Scheme | None = None,
    starter: Starter = "second_order",
    branch: Branch | None = None,
    save_every: int | None = 1,
    reduce: tuple[Callable, Any] | None = None,
    stop: Callable | None = None,
    domain: Callable | None = None,
    feedback: SampledFeedback | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 25,
    throw: bool = True,
) -> Path:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0,  (q_{k-1},q_k,q_{k+1}) ∈ D_K, from (q₀, v₀).

    q0, v0: (n,) consistent initial data. h: step; steps: N. A DiscreteSystem takes nodes (r, n), its first nodes,
    instead of (q0, v0), and h only scales time and multipliers.
    scheme: maps and form; starter: how a two step form gets its second node. branch: which root, where there are several.
    save_every: keep every that many states (and the last); None keeps only the last. reduce: (function, initial) with
    function(value, t, q, v, multipliers) → value, over all steps. stop(q, v[, t][, p]): ends the run after the step at
    which it is true. domain(q, v[, t][, p]): a step that leaves it is refused. feedback: a SampledFeedback.
    tolerance: on Newton's update, relative to the velocity; the applied update leaves about its square.
    Returns a Path. A step that cannot be solved ends the run: StepError with the partial path, or with throw=False the
    path itself, its outcome telling why. Under jit, vmap and grad arrays have full length, rows after the end repeat the
    last state, and nothing is raised; the derivative is that of the implicit function theorem.
    Errors: ValueError, TypeError, InconsistentDataError, RankDeficientError, naming the argument.
    Source: Borda, Fernández, Grillo, eq. (4); the default form is the self-adjoint one of the theory page.
    """
    check_x64()
    _check_run(h, steps, save_every, starter, tolerance, max_iterations, branch, feedback, scheme)
    step, begin = jnp.asarray(h, dtype=float), jnp.asarray(t0, dtype=float)
    if isinstance(system, DiscreteSystem):
        prepared = _prepare_discrete(system, nodes, q0, v0, step)
    elif isinstance(system, System):
        if nodes is not None:
            raise ValueError("nodes: a System starts from q0 and v0; nodes belong to a DiscreteSystem")
        prepared = prepare(system, q0, v0, begin, step, scheme or Scheme(), starter, branch)
    else:
        raise TypeError(f"system: found {type(system).__name__}; give a System or a DiscreteSystem")
    program = prepared.program
    _check_callbacks(program, prepared, begin, step, stop, domain, feedback)
    choices = Choices(branch, Newton(tolerance, max_iterations), stop, domain, feedback, reduce and reduce[0])
    initial = jax.tree.map(jnp.asarray, reduce[1]) if reduce else None
    carry = first_carry(program, prepared.q, prepared.s, begin, step, initial)
    every = steps if save_every is None else save_every
    traced = is_traced(program, carry, begin, step)
    run = traced_run if traced else chunked_run
    carry, rows = run(program, choices, carry, begin, step, steps, every)
    if not traced and int(carry.code) == Outcome.NOT_CONVERGED and has_no_solution(program, carry, begin, step):
        carry = carry._replace(code=jnp.asarray(int(Outcome.NO_SOLUTION)))
    path = _path(prepared, carry, rows, begin, step, every, reduce is not None, feedback is not None)
    if traced:
        return path
    record = provenance(system, scheme, starter, branch, h=h, steps=steps, t0=t0, save_every=save_every,
                        q0=q0, v0=v0, nodes=nodes, tolerance=tolerance, max_iterations=max_iterations)  # fmt: skip
    path = dataclasses.replace(path, provenance=record)
    if throw and Outcome(int(path.code)).failed:
        raise StepError(path)
    return path


def prepare(system: System, q0, v0, t0, h, scheme: Scheme, starter: Starter, branch: Branch | None) -> Prepared:
    """Check the data and choose the program: its form, its state, and its first nodes."""
    q, v = check_initial_data(system, q0, v0, t0)
    if isinstance(branch, Avoid) and branch.factor is None and not deflatable(system):
        raise ValueError(
            "branch: Avoid() without a factor needs one Lyapunov constraint and no other constraint on accelerations; "
            "give Avoid(factor) with a function of (q, v)"
        )
    deflate = branch is None or (isinstance(branch, Avoid) and branch.factor is None)
    program = program_for(system, q, v, t0, scheme, deflate)
    if program.lead == 0:
        return Prepared(program, q[None], q, v)
    d = _second_node(system, scheme, starter, q, v, t0, h)
    return Prepared(program, jnp.stack([q, q + d]), q + d, d / h)


def program_for(system: System, q, v, t, scheme: Scheme, deflate: bool) -> NodeProgram | KickDriftKick:
    """The program of the form that suits the system; deflate: write a Lyapunov constraint as λ = -φ₀/u."""
    form, rest = scheme.form_for(system), jnp.zeros_like(q)
    kinds = tuple((c.order, jax.eval_shape(lambda c=c: value(system, c, q, v, rest, t)).shape[0]) for c in system.constraints)
    if form == "kick_drift_kick":
        return KickDriftKick(system, scheme, kinds, deflate)
    return NodeProgram(system, scheme, kinds, 0.5 if form == "drift_kick_drift" else 0.0, deflate)


_second_node = eqx.filter_jit(second_node)


def _prepare_discrete(system: DiscreteSystem, nodes, q0, v0, h) -> Prepared:
    r = system.nodes_needed
    if nodes is None or q0 is not None or v0 is not None:
        raise ValueError(
            f"nodes: a DiscreteSystem starts from its first {r} nodes, nodes=[q0, q1, …], not from q0 and v0"
        )
    points = jnp.asarray(nodes, dtype=float)
    if points.ndim != 2 or points.shape[0] != r:
        raise ValueError(f"nodes: found shape {points.shape}; give the first {r} nodes, shape ({r}, n)")
    n = points.shape[1]
    for i in range(r):
        as_vector(points[i], f"nodes[{i}]")
    m = _check_discrete(system, points, n)
    if not is_traced(system, points):
        check_parameters(system)
        if system.initial is not None:
            left = np.atleast_1d(np.asarray(system.call(system.initial, points[0], points[1])))
            if np.max(np.abs(left)) > 1e-8:
                raise InconsistentDataError(
                    f"nodes: the first two must lie in D_d, where the initial condition is 0; it is {left}"
                )
    d = jnp.diff(points, axis=0)[::-1] / h
    return Prepared(DiscreteProgram(system, m), points, points[-1], d.reshape(-1))


def _check_discrete(system: DiscreteSystem, points, n: int) -> int:
    shape = output_shape(lambda: system.call(system.lagrangian, points[0], points[1]), "lagrangian")
    if shape != ():
        raise ValueError(f"lagrangian: returns shape {shape}; a scalar is needed")
    if system.kinematic is None:
        return 0
    window = [points[0]] * (system.order + 1)
    shape = output_shape(lambda: system.call(system.kinematic, *window), "kinematic")
    if len(shape) > 1:
        raise ValueError(f"kinematic: returns shape {shape}; give a scalar or shape (m,)")
    m = shape[0] if shape else 1
    name, function, wanted = ("reactions", system.reactions, (m, n))
    if function is None:
        name, function, wanted = ("virtual", system.virtual, (n, n - m))
    assert function is not None
    shape = output_shape(lambda: system.call(function, *window), name)
    flat = wanted[0] == 1 if name == "reactions" else wanted[1] == 1
    if shape != wanted and not (flat and shape == (n,)):
        raise ValueError(f"{name}: returns shape {shape}; shape {wanted} is needed")
    return m


def _check_run(h, steps, save_every, starter, tolerance, max_iterations, branch, feedback, scheme) -> None:
    if not is_traced(h) and not (np.ndim(h) == 0 and np.isfinite(h) and h > 0):
        raise ValueError(f"h: found {h}; give a positive, finite step")
    for name, number in (("steps", steps), ("save_every", save_every), ("max_iterations", max_iterations)):
        if name == "save_every" and number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(f"{name}: found {number!r}; give a whole number, 1 or more")
    if starter not in STARTERS:
        raise ValueError(f"starter: found {starter!r}; the starters are {', '.join(STARTERS)}")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance: found {tolerance}; give a number between 0 and 1")
    if branch is not None and not isinstance(branch, Branch):
        raise TypeError(f"branch: found {type(branch).__name__}; give Nearest(...), Least(f) or Avoid(...)")
    if feedback is not None and not isinstance(feedback, SampledFeedback):
        raise TypeError(f"feedback: found {type(feedback).__name__}; give SampledFeedback(law, every=...)")
    if scheme is not None and not isinstance(scheme, Scheme):
        raise TypeError(f"scheme: found {type(scheme).__name__}; give a Scheme")


def _check_callbacks(program, prepared: Prepared, t, h, stop, domain, feedback) -> None:
    from_state = (prepared.q, program.velocity(prepared.s))
    n = prepared.q.shape[0]
    for name, function in (("stop", stop), ("domain", domain)):
        if function is not None:
            _shape_of_condition(name, lambda f=function: call_system(program, f, *from_state, t=t))
    if feedback is not None:
        shape = output_shape(lambda: call_system(program, feedback.law, *from_state, t=t), "feedback law")
        if shape != (n,):
            raise ValueError(f"feedback law: returns shape {shape}; a generalised force of shape ({n},) is needed")


def _shape_of_condition(name: str, function) -> None:
    result = jax.eval_shape(lambda: jnp.asarray(function()))
    if result.dtype != bool:
        raise TypeError(f"{name}: returns {result.dtype}; a condition such as q[0] > 1 is needed")


def _path(prepared: Prepared, carry, rows, t0, h, every: int, reduced: bool, fed: bool) -> Path:
    program = prepared.program
    known = [k for k in range(prepared.nodes.shape[0]) if k % every == 0]
    moving = [k for k in known if k > 0]
    mid = program.levels[0] == "mid"
    first_v = jnp.diff(prepared.nodes, axis=0)[jnp.array(moving, int) - 1] / h if mid else prepared.s[None]
    t_first = t0 + jnp.asarray(moving if mid else [0], dtype=float) * h
    t_rows = t0 + jnp.asarray(rows["k"]) * h
    failed = (carry.code != 0) & (carry.code != int(Outcome.STOPPED))
    t_q = jnp.concatenate([t0 + jnp.asarray(known, dtype=float) * h, t_rows])
    t_v = jnp.concatenate([t_first, t_rows]) - (0.5 * h if mid else 0.0)
    t_m = t_rows + (program.multiplier_time - 1.0) * h
    statistics = Statistics(
        iterations=carry.iterations,
        max_iterations=carry.max_iterations,
        residual=carry.residual,
        crossings=carry.crossings,
        failed_step=jnp.where(failed, carry.k, -1),
        failed_time=jnp.where(failed, t0 + carry.k * h, jnp.nan),
        failed_residual=carry.failed_residual,
    )
    return Path(
        t=t_q,
        q=jnp.concatenate([prepared.nodes[jnp.array(known, int)], rows["q"]]),
        t_velocity=t_v,
        v=jnp.concatenate([first_v, rows["v"]]),
        t_multipliers=t_m,
        multipliers=jnp.asarray(rows["multipliers"]),
        constraint_forces=jnp.asarray(rows["force"]),
        h=h,
        steps_done=carry.k - program.lead,
        code=carry.code,
        statistics=statistics,
        t_feedback=t_rows - h if fed else None,
        feedback=jnp.asarray(rows["held"]) if fed else None,
        reduced=carry.reduced if reduced else None,
        levels=program.levels,
    )
