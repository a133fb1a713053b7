"""simulate: from a system and initial data to a path."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton
from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.path import Outcome, Path, Statistics, StepError
from dalembert.step.arguments import as_nodes, check_callbacks, check_discrete, check_run
from dalembert.step.branch import Avoid, Branch, Least, Nearest
from dalembert.step.diagnose import diagnosis
from dalembert.step.native_run import native_or_jax_run
from dalembert.step.native_traced import native_or_traced_run
from dalembert.step.program import StepProgram
from dalembert.step.programs import DiscreteProgram, KickDriftKick, NodeProgram
from dalembert.step.provenance import provenance
from dalembert.step.run import Choices, SampledFeedback, chunked_run, first_carry, traced_run
from dalembert.step.start import Starter, second_node
from dalembert.systems import System, check_initial_data, check_x64, is_traced
from dalembert.systems.checks import InconsistentDataError, check_parameters, initial_acceleration
from dalembert.systems.equations import deflatable, value


class Prepared(NamedTuple):
    """A program and the data of its first step: nodes known before it (lead + 1, n), position q, state s, expected z."""

    program: StepProgram
    nodes: Float[Array, "known n"]
    q: Float[Array, "n"]
    s: Float[Array, "k"]
    expected: Float[Array, "z"] | None


def simulate(
    system: System | DiscreteSystem,
    q0=None,
    v0=None,
    *,
    h: float | None = None,
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
    backend: Literal["jax", "native"] | None = None,
) -> Path:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0,  (q_{k-1},q_k,q_{k+1}) ∈ D_K, from (q₀, v₀).

    q0, v0: (n,) consistent initial data. h: step; steps: N. A DiscreteSystem takes nodes (r, n), its first nodes,
    instead of (q0, v0), and h, 1 if not given, only scales time and multipliers.
    scheme: maps and form; starter: how a two step form gets its second node. branch: which root, where there are several.
    save_every: keep every that many states (and the last); None keeps only the last. reduce: (function, initial) with
    function(value, t, q, v, multipliers) → value, over all steps. stop(q, v[, t][, p]): ends the run after the step at
    which it is true. domain(q, v[, t][, p]): a step that leaves it is refused. feedback: a SampledFeedback.
    backend: "native", machine code, the default on CPUs: with one warning and the JAX run where a function cannot be
    translated; or "jax", the portable one, the default elsewhere and for the rules Nearest and Least.
    tolerance: on Newton's update, relative to the velocity; the applied update leaves about its square.
    Returns a Path. A step that cannot be solved ends the run: StepError with the partial path, or with throw=False the
    path itself, its outcome telling why. Under jit, vmap and grad arrays have full length, rows after the end repeat the
    last state, and nothing is raised; the derivative is that of the implicit function theorem.
    Errors: ValueError, TypeError, InconsistentDataError, RankDeficientError, naming the argument.
    Source: Borda, Fernández, Grillo, eq. (4); the default form is the self-adjoint one of the theory page.
    """
    check_x64()
    if h is None and isinstance(system, DiscreteSystem):
        h = 1.0
    check_run(h, steps, t0, save_every, starter, tolerance, max_iterations, branch, feedback, scheme, reduce)
    step, begin = jnp.asarray(h, dtype=float), jnp.asarray(t0, dtype=float)
    if isinstance(system, DiscreteSystem):
        prepared = _prepare_discrete(system, nodes, q0, v0, step, steps, scheme)
    elif isinstance(system, System):
        if nodes is not None:
            raise ValueError("nodes: a System starts from q0 and v0; nodes belong to a DiscreteSystem")
        prepared = prepare(system, q0, v0, begin, step, scheme or Scheme(), starter, branch)
    else:
        raise TypeError(f"system: found {type(system).__name__}; give a System or a DiscreteSystem")
    program = prepared.program
    check_callbacks(program, prepared.q, prepared.s, begin, step, stop, domain, feedback, reduce)
    choices = Choices(branch, Newton(tolerance, max_iterations), stop, domain, feedback, reduce and reduce[0])
    initial = jax.tree.map(jnp.asarray, reduce[1]) if reduce else None
    carry = first_carry(program, prepared.q, prepared.s, begin, step, initial, prepared.expected)
    every = steps if save_every is None else save_every
    inside = is_traced(program, carry, begin, step)
    native = _choose(backend, branch) == "native"
    if inside:
        run = native_or_traced_run if native else traced_run
    else:
        run = native_or_jax_run if native else chunked_run
    carry, rows = run(program, choices, carry, begin, step, steps, every)
    if not inside:
        carry = carry._replace(code=jnp.asarray(int(diagnosis(program, carry, begin, step))))
    path = _path(prepared, carry, rows, begin, step, every, reduce is not None, feedback is not None)
    if inside:
        return path
    record = provenance(
        system, scheme, starter, branch, h=h, steps=steps, t0=t0, save_every=save_every, q0=q0, v0=v0, nodes=nodes,
        tolerance=tolerance, max_iterations=max_iterations, stop=stop, domain=domain,
        feedback=feedback and feedback.law, reduce=reduce and reduce[0],
    )  # fmt: skip
    path = dataclasses.replace(path, provenance=record)
    if throw and Outcome(int(path.code)).failed:
        raise StepError(path)
    return path


def _choose(backend: str | None, branch: Branch | None) -> str:
    if backend not in (None, "jax", "native"):
        raise ValueError(f"backend: found {backend!r}; the back-ends are 'native' and 'jax', None chooses")
    if backend is not None:
        return backend
    return "native" if jax.default_backend() == "cpu" and not isinstance(branch, Nearest | Least) else "jax"


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
    a, multipliers = initial_acceleration(system, q, v, t0)
    if program.lead == 0:
        return Prepared(program, q[None], q, v, program.expect(v, h, a, multipliers))
    d = _second_node(system, scheme, starter, q, v, t0, h)
    return Prepared(program, jnp.stack([q, q + d]), q + d, d / h, program.expect(d / h, h, a, multipliers))


def program_for(system: System, q, v, t, scheme: Scheme, deflate: bool) -> NodeProgram | KickDriftKick:
    """The program of the form that suits the system; deflate: write a Lyapunov constraint as λ = -φ₀/u."""
    form, rest = scheme.form_for(system), jnp.zeros_like(q)
    kinds = tuple(
        (c.order, jax.eval_shape(lambda c=c: value(system, c, q, v, rest, t)).shape[0]) for c in system.constraints
    )
    if form == "kick_drift_kick":
        return KickDriftKick(system, scheme, kinds, deflate)
    return NodeProgram(system, scheme, kinds, 0.5 if form == "drift_kick_drift" else 0.0, deflate)


_second_node = eqx.filter_jit(second_node)


def _prepare_discrete(system: DiscreteSystem, nodes, q0, v0, h, steps: int, scheme) -> Prepared:
    r = system.nodes_needed
    if nodes is None or q0 is not None or v0 is not None:
        raise ValueError(f"nodes: a DiscreteSystem starts from its first {r} nodes, nodes=[q0, q1, …], not from q0 and v0")
    if scheme is not None:
        raise ValueError("scheme: a DiscreteSystem is discrete already; a scheme belongs to a System")
    points = as_nodes(nodes, r)
    if system.coordinates is not None and len(system.coordinates) != points.shape[1]:
        raise ValueError(f"nodes: found n = {points.shape[1]}; the system names {len(system.coordinates)} coordinates")
    if steps < r - 1:
        raise ValueError(f"steps: found {steps}; the {r} nodes given are already those of {r - 1} steps")
    m = check_discrete(system, points)
    if not is_traced(system, points):
        check_parameters(system)
        if system.initial is not None:
            left = np.atleast_1d(np.asarray(system.call(system.initial, points[0], points[1])))
            if not np.max(np.abs(left)) <= 1e-8:
                raise InconsistentDataError(
                    f"nodes: the first two must lie in D_d, where the initial condition is 0; it is {left}"
                )
    d = jnp.diff(points, axis=0)[::-1] / h
    return Prepared(DiscreteProgram(system, m), points, points[-1], d.reshape(-1), None)


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
