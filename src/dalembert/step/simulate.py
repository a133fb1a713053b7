"""simulate: from a system and initial data to a path."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.windows import WindowMap
from dalembert.interrupts import Interrupted
from dalembert.lazy import as_left
from dalembert.messages import suggesting
from dalembert.native import native_first
from dalembert.numbers import as_flag
from dalembert.outcome import Outcome
from dalembert.path import Path, StepError
from dalembert.step.begun_run import BegunRun
from dalembert.step.known_run import known_path, known_start
from dalembert.step.options import RunOptions, lengths_of
from dalembert.step.run.assemble import path_of
from dalembert.step.run.branch import Branch
from dalembert.step.run.loop import chunked_run, traced_run
from dalembert.step.run.native import native_run
from dalembert.step.run.native_traced import native_traced_run
from dalembert.step.run.progress import reported
from dalembert.step.run.reduced import with_one_before
from dalembert.step.run.resolution import warn_of_resolution
from dalembert.step.run.state import Grid, RunState, SampledFeedback, StepOptions, Watch, initial_state
from dalembert.step.start.checks import check_callbacks, initial_value
from dalembert.step.start.prepare import prepare_any
from dalembert.step.start.prepared import Given, Prepared
from dalembert.step.start.second_node import Starter
from dalembert.step.start.varying import Varying, varied
from dalembert.step.stored.sink import sink_of
from dalembert.step.stored.streamed import streamed
from dalembert.step.until import AtTime, run_until
from dalembert.systems import System, VariationalProblem, check_x64, is_traced
from dalembert.tracing import Jitted


@suggesting(
    **{name: f"give steps=round({name} / h)" for name in ("T", "time", "t_end", "tf", "duration")},
    t_span="give t0=, h= and steps=", t="give h= and steps=; t0= is the beginning",
    dt="the step is h=", step="h= is the length of a step, steps= their number", N="their number is steps=",
)  # fmt: skip
def simulate(
    system: System | DiscreteSystem | VariationalProblem,
    q0=None,
    v0=None,
    *,
    h: float | Varying | None = None,
    steps: int | None = None,
    until: float | None = None,
    t0: float = 0.0,
    nodes=None,
    jets=None,
    multipliers=None,
    scheme: Scheme | WindowMap | None = None,
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
    store: str | os.PathLike | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0,  (q_{k-1},q_k,q_{k+1}) ∈ D_K, from (q₀, v₀).

    A step that cannot be solved ends the run. Under jit, vmap and grad the arrays have full length, rows after the end
    of the run repeat its last state, and no error is raised; derivatives follow from the implicit function theorem.

    Args:
        system: a System, a DiscreteSystem, or a VariationalProblem of order k, whose flow is run.
        q0: (n,) positions at t0, consistent with the constraints. Not for a DiscreteSystem.
        v0: (n,) velocities at t0, consistent with the constraints. Not for a DiscreteSystem.
        h: time step, in the unit of time of the Lagrangian; negative for a run backwards in time. For a DiscreteSystem
            it only scales time and multipliers, and is 1 by default. A Varying gives steps whose length follows the
            motion.
        steps: N, the number of steps.
        until: the time at which the run ends; instead of steps, with a Varying. The last node is at this time: the run
            goes to the first node after it, and one step of the scheme leads back.
        t0: initial time.
        nodes: the first nodes instead of (q0, v0): (r, n) for a DiscreteSystem, (2k, n) for a VariationalProblem, (2,
            n) for a System in the form "nodes". The last two nodes of such a path continue it.
        jets: (2k, n), q and its first 2k-1 derivatives at t0, for a VariationalProblem.
        multipliers: for a VariationalProblem with differential constraints of order r: (r, m), λ and its first r-1
            derivatives at t0; together with nodes, λ of the r windows that have nodes on both sides of their middle.
        scheme: a Scheme, which has difference maps and the form of the step; for a VariationalProblem a window map,
            Interpolated() or Averaged().
        starter: how a two-step form gets its second node: "second_order", "first_order" or "reference".
        branch: the rule that chooses a root if a step has several; None takes the one that Newton's iteration reaches
            from the predicted state.
        save_every: save every `save_every`-th state, and the last; None saves only the last.
        reduce: (function, initial) with function(value, t, q, v, multipliers) → value, applied after every step; with
            `until` to the nodes before that time and to the state at it.
        stop: `stop(q, v[, t][, p])` → boolean; ends the run after the first step at which it is true.
        domain: `domain(q, v[, t][, p])` → boolean, true inside; a step that leaves the domain is refused.
        feedback: a SampledFeedback, a control force that is sampled and held.
        tolerance: on Newton's update, relative to the velocity; after the last update the remaining error is about its
            square.
        max_iterations: of Newton's method, in one step.
        throw: raise an error if a step cannot be solved; False returns the partial path, and its outcome says why.
        backend: "native", machine code, the default on CPUs; if a function cannot be translated, there is one warning
            and JAX runs instead. Or "jax", the portable back-end, the default on other devices and for the rules
            Nearest and Least.
        store: a folder, such as "run.zarr", into which the states are written chunk by chunk, instead of being kept in
            memory; see `resume`. The Path has the first and the last state, `load` reads all. Not under tracing. With
            `until` the steps are counted first, by making them.
        progress: True shows steps, rate and remaining time on a terminal or in a notebook; a function is called as
            function(done, total) from time to time.

    Returns:
        The Path, with t (N+1,), q (N+1, n), v, multipliers and constraint forces, each with its own times, and
        provenance. For a VariationalProblem: if there are differential constraints, multipliers are theirs alone, and
        constraint_forces are NaN, since the forces do not belong to single steps; otherwise they are those of the
        holonomic constraints.

    Raises:
        StepError: a step cannot be solved, and throw is true; it carries the partial path.
        Interrupted: Ctrl-C ended the run, and throw is true; it carries the partial path.
        FileExistsError: the store exists.
        ValueError: an argument has the wrong shape or value; the message names it.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: the initial data do not satisfy the constraints.
        RankDeficientError: constraints or reactions depend on each other, or the mass matrix is degenerate.

    Source: Borda, Fernández, Grillo, eq. (4); the default form is the self-adjoint one of the theory page.

    Example:
        >>> pendulum = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
        >>> path = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=20)
        >>> path.q.shape, path.outcome.name
        ((21, 1), 'SUCCESS')
    """
    check_x64()
    options = RunOptions(
        **lengths_of(h, isinstance(system, DiscreteSystem)), steps=steps, until=until, t0=t0, scheme=scheme,
        starter=starter, branch=branch, save_every=save_every, reduce=reduce, stop=stop, domain=domain,
        feedback=feedback, tolerance=tolerance, max_iterations=max_iterations, backend=backend,
    )  # fmt: skip
    as_flag(throw, "throw")
    given = Given(q0, v0, nodes, jets, multipliers)
    if options.varying is not None:
        _check_progress(store, progress, options)
    with reported(progress if options.until is None else False, options.steps or 0) as watch:
        short = store is None and watch is None  # the short way tells nobody how far it is
        known = known_path(system, given, options) if short else None
        if known is not None:
            path = known.path
        else:
            begun = run_begun(system, given, options)
            path = path_of_begun(begun, options, watch) if store is None else _kept(begun, options, watch, (store, progress))
    if as_left(path, "provenance") is None:  # traced
        return path
    warn_of_resolution(path)
    return solved(path) if throw else path


def solved(path: Path) -> Path:
    """StepError where a step could not be solved, Interrupted where Ctrl-C ended the run."""
    if Outcome(int(as_left(answered(path), "code"))).failed:
        raise StepError(path)
    return path


def answered(path: Path) -> Path:
    """Interrupted where Ctrl-C ended the run: whoever runs with throw=False must not take that for a failure and go on."""
    if int(as_left(path, "code")) == int(Outcome.INTERRUPTED):
        raise Interrupted(path)
    return path


def run_begun(system, given: Given, options: RunOptions) -> BegunRun:
    """With every check, of every kind of problem."""
    grid, reduce = options.grid, options.reduce
    known = known_start(system, given, options)
    prepared = prepare_any(system, given, grid, options.recipe) if known is None else known
    if options.varying is not None:
        prepared = varied(prepared, options.varying, grid.h, grid.t0, options.until)
    step_options = options.step_options
    initial = check_callbacks(prepared, grid, step_options, initial_value(reduce[1]) if reduce else None)
    if options.until is not None:
        step_options, initial = with_one_before(step_options, initial)
    carry = initial_state(prepared, grid.t0, grid.h, initial)
    traced = is_traced(prepared.program, carry, grid.t0, grid.h, prepared.expected)
    record = None if traced else options.recorded(system.subject.under(options.scheme), **given._asdict())
    return BegunRun(prepared, carry, grid, step_options, options.native, record)


def found_path(begun: BegunRun, watch: Watch = None) -> Path:
    """The path by either back-end, traced or not: however it ended, and without provenance where it is traced."""
    if begun.record is None:
        return _inside(begun.prepared, begun.step_options, begun.carry, begun.grid, begun.native)
    arguments = (*begun.arguments, watch)
    carry, rows = native_first(native_run, chunked_run, *arguments) if begun.native else chunked_run(*arguments)
    return begun.ended(carry, rows)


def path_of_begun(begun: BegunRun, options: RunOptions, watch: Watch) -> Path:
    """After a number of steps, or at a time."""
    if options.until is None:
        return found_path(begun, watch)
    return run_until(at_time(begun, options))


def at_time(begun: BegunRun, options: RunOptions) -> AtTime:
    """With the step that leads back to the time."""
    if begun.record is None:
        raise TypeError("until: under jit, vmap and grad arrays have a fixed length; give steps=")

    system = begun.prepared.program.system

    def step(q, v, h: float, t0: float) -> Path:
        plain = {"varying": None, "until": None, "save_every": 1, "stop": None, "domain": None, "reduce": None}
        one, given = dataclasses.replace(options, h=h, t0=t0, steps=1, **plain), Given(q, v)
        known = known_path(system, given, one)
        return found_path(run_begun(system, given, one)) if known is None else known.path

    return AtTime(begun, options, step)


def _kept(begun: BegunRun, options: RunOptions, watch: Watch, told: tuple[Any, Any]) -> Path:
    """In a store, whose arrays have their full length from the beginning: of a run that ends at a time the steps are counted
    first, by making them. told: store, progress."""
    store, progress = told
    with contextlib.closing(sink_of(store)) as sink:
        if options.until is None:
            return streamed(begun, watch, sink)
        at = at_time(begun, options)
        begun = at.counted()
        with reported(progress, begun.grid.steps) as watch:
            return streamed(begun, watch, sink, at)


def _check_progress(store, progress, options: RunOptions) -> None:
    if options.until is not None and store is None and progress is not False:
        raise ValueError("progress, until: the number of steps is not known beforehand; give steps=, or no progress")


@Jitted
def _inside(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, native: bool) -> Path:
    """The run under tracing, as one program: under grad or vmap alone, without jit, it would be traced and compiled anew by
    every call, and its last operations one by one."""
    arguments = (prepared.program, step_options, carry, grid)
    carry, rows = native_first(native_traced_run, traced_run, *arguments) if native else traced_run(*arguments)
    return path_of(jnp, prepared, carry, rows, grid, step_options)
