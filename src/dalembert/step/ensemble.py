"""ensemble: one system, many initial states and parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.window_maps import WindowMap
from dalembert.interrupts import Interrupted
from dalembert.native import COUNTED, counts, native_first
from dalembert.numbers import MOST_THREADS, described, whole_number
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step.options import RunOptions, step_of
from dalembert.step.programs.scaled import Scaled, in_units
from dalembert.step.run.assemble import path_of
from dalembert.step.run.branch import Branch
from dalembert.step.run.loop import row_of, rows_of, traced_run
from dalembert.step.run.native import columns_of, compiled, empty_rows, packed, told, unpacked
from dalembert.step.run.progress import reported
from dalembert.step.run.provenance import abridged
from dalembert.step.run.resolution import warn_of_resolution
from dalembert.step.run.state import Grid, RunState, SampledFeedback, StepOptions, Watch, initial_state
from dalembert.step.start.checks import batch_size, check_batch, check_callbacks, initial_value
from dalembert.step.start.prepare import check_any_system, prepare_any
from dalembert.step.start.prepared import Given, Prepared, Recipe
from dalembert.step.start.second_node import Starter
from dalembert.systems import System, VariationalProblem, check_x64, is_traced
from dalembert.systems.checks import check_many
from dalembert.systems.consistency import STEPS
from dalembert.tracing import Jitted

MANY = 2**62


def ensemble(
    system: System | DiscreteSystem | VariationalProblem,
    q0=None,
    v0=None,
    *,
    parameters: Mapping[str, Any] | None = None,
    h: float | None = None,
    steps: int,
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
    backend: Literal["jax", "native"] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0,  (q_{k-1},q_k,q_{k+1}) ∈ D_K, for B sets of data.

    Nothing is raised where a step cannot be solved. In the native run no bit of a path depends on the other runs. Memory: B
    (steps / save_every + 1) rows; save_every=None keeps only the last states. It takes numbers; in a traced program jax.vmap
    of `simulate` runs in the same lanes.

    Args:
        system: what moves, as in `simulate`.
        q0: (B, n) positions, or (n,) for all runs.
        v0: (B, n) velocities, or (n,) for all runs.
        parameters: name → (B, …), in place of the system's.
        h: step, the same for all.
        steps: N, the number of steps.
        t0: time of the beginning.
        nodes: (B, r, n) or (r, n) of a DiscreteSystem, (B, 2k, n) or (2k, n) of a VariationalProblem.
        jets: (B, 2k, n) or (2k, n) of a VariationalProblem.
        multipliers: (B, r, m) or (r, m) of a VariationalProblem with differential constraints of order r.
        scheme: as in `simulate`.
        starter: as in `simulate`.
        branch: as in `simulate`.
        save_every: as in `simulate`.
        reduce: as in `simulate`.
        stop: as in `simulate`.
        domain: as in `simulate`.
        feedback: as in `simulate`.
        tolerance: as in `simulate`.
        max_iterations: as in `simulate`.
        backend: as in `simulate`.
        threads: of the native back-end, all processors if None.
        progress: as in `simulate`, with the steps of all runs; of the native back-end.

    Returns:
        A Path whose arrays have a leading axis of B, of full length; after the end of a run its last state is repeated.
        path.code (B,) has each run's Outcome, as Newton's iteration found it, and path.lane(i) is the i-th path, cut off at
        its end. path.provenance is the record of the whole call: of initial data and parameters of more than 1000 numbers
        it has the shape, of fewer the values.

    Raises:
        ValueError: an argument has the wrong shape or value; the message names it, and the run where one is at fault.
        TypeError: an argument is of the wrong type, or traced.
        Interrupted: Ctrl-C ended it; its path has the outcome INTERRUPTED where a run had not ended.
        InconsistentDataError: the initial data of a run do not satisfy the constraints.

    Example:
        >>> runs = da.ensemble(pendulum, np.linspace(0.5, 1.5, 4)[:, None], [0.0], h=0.1, steps=20)
        >>> runs.q.shape, runs.lane(3).q.shape
        ((4, 21, 1), (21, 1))
    """
    check_x64()
    options = RunOptions(
        h=step_of(h, isinstance(system, DiscreteSystem)), steps=steps, t0=t0, scheme=scheme, starter=starter, branch=branch,
        save_every=save_every, reduce=reduce, stop=stop, domain=domain, feedback=feedback, tolerance=tolerance,
        max_iterations=max_iterations, backend=backend,
    )  # fmt: skip
    if threads is not None:
        whole_number(threads, "threads", most=MOST_THREADS)
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters: found {described(parameters)}; give a mapping from names to values (B, …)")
    check_any_system(system)
    if nodes is not None and isinstance(system, System):
        raise ValueError("nodes: an ensemble of a System starts from q0 and v0; one run of the form 'nodes' takes nodes")
    data = Given(q0, v0, nodes, jets, multipliers)._asdict()
    given, axes = check_batch(system, data, dict(parameters or {}))
    grid, step_options = options.grid, options.step_options
    if is_traced(system, given, grid.h, grid.t0):
        raise TypeError("ensemble: works on numbers and not under jit, vmap or grad; there take jax.vmap of simulate")
    size = batch_size(system, given, axes)
    first = jax.tree.map(lambda axis, x: x if axis is None else x[0], axes, given, is_leaf=lambda x: x is None)
    # With every check of a single run; the batch is compiled for any number of steps.
    one = _begin_one(_with(system, first["parameters"]), first, grid, options.recipe)
    units = one.program.units if isinstance(one.program, Scaled) else None
    if isinstance(system, System):
        check_many(system, given, axes, grid.t0, STEPS * abs(float(grid.h)))
    initial = check_callbacks(one, grid, step_options, initial_value(reduce[1]) if reduce else None)
    start = (grid._replace(steps=MANY, every=1), options.recipe, units)
    prepared, carry = _begin(system, given, axes, size, start, initial)
    record = options.recorded(system.subject.under(options.scheme, given["parameters"]), **abridged(given))
    with reported(progress, size * (grid.steps - one.program.starting_nodes)) as watch:
        arguments = (prepared, step_options, carry, grid, Running(threads, watch))
        carry, rows = native_first(_native, _jax, *arguments) if options.native else _jax(*arguments)

    def made() -> Path:
        path = path_of(np, jax.tree.map(np.asarray, prepared), carry, rows(), grid, step_options)
        return dataclasses.replace(path, h=np.full(size, path.h))

    if np.any(carry.code == int(Outcome.INTERRUPTED)):  # the arrays are made when they are looked at: there may be many rows
        raise Interrupted(Path.later(lambda: vars(made()), code=carry.code, h=np.full(size, grid.h), provenance=record))
    path = made()
    warn_of_resolution(path)
    # By device_put: jnp.asarray would compile a program for every shape.
    return dataclasses.replace(jax.device_put(path), provenance=record)


class Running(NamedTuple):
    """How many threads there are at most, and who is told how many steps are done."""

    threads: int | None
    watch: Watch


def _with(system, parameters: dict):
    return system.replace(**parameters) if parameters else system


def _begin_one(system, given: dict, grid: Grid, recipe: Recipe) -> Prepared:
    return prepare_any(system, Given(**{name: given[name] for name in Given._fields}), grid, recipe)


@Jitted
def _begin(system, given: dict, axes: dict, size: int, start: tuple, initial) -> tuple[Prepared, RunState]:
    """Every run's program and carry, with a leading axis in all arrays."""
    grid, recipe, units = start

    def one(given: dict) -> tuple[Prepared, RunState]:
        prepared = _begin_one(_with(system, given["parameters"]), given, grid, recipe)
        prepared = prepared if units is None else in_units(prepared, units)  # those of the first run, for all
        return prepared, initial_state(prepared, grid.t0, grid.h, initial)

    return eqx.filter_vmap(one, in_axes=(axes,), axis_size=size)(given)


@Jitted
def _traced(program, step_options: StepOptions, carry: RunState, grid: Grid):
    return eqx.filter_vmap(lambda p, c: traced_run(p, step_options, c, grid))(program, carry)


def _jax(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, running: Running):
    carry, rows = jax.tree.map(np.asarray, _traced(prepared.program, step_options, carry, grid))
    return carry, lambda: rows


def _native(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, running: Running):
    """All runs in lanes, over threads."""
    carry = jax.tree.map(np.asarray, carry)
    arrays, static = eqx.partition(prepared.program, eqx.is_array)
    size = len(carry.q)
    first = jax.tree.map(lambda x: x[0], (arrays, carry))
    native = compiled(eqx.combine(first[0], static), step_options, first[1], grid.t0, grid.h)
    code, lead = native.code, prepared.program.starting_nodes
    everything = native._replace(leaves=[np.asarray(x) for x in jax.tree.leaves(arrays)])
    data = packed(np, everything, step_options, carry, grid, size)
    state, inputs = (np.ascontiguousarray(x) for x in data)
    count = np.repeat(counts(**told(prepared.program, step_options, lead, grid))[None], size, axis=0)
    count[:, COUNTED.offset("known")] = carry.known
    start, rows = rows_of(lead, grid.steps, grid.every)
    table = empty_rows((size, rows - start, code.row_size))
    watch, k = running.watch, COUNTED.offset("k")
    between = (
        None
        if watch is None
        else lambda: watch(int((count[:, k] - count[:, COUNTED.offset("first")]).sum()) // code.layout.stages)
    )
    code.run_many(state, count, inputs, table, running.threads, between)
    first = jax.tree.map(np.asarray, row_of(prepared.program, carry))

    def columns() -> dict:
        _repeat_last(table, count[:, COUNTED.offset("rows")], first, code)
        return columns_of(code, table)

    return unpacked(np, code, carry, state, count, columns_of(code, table[:, :0])), columns


def _repeat_last(table: np.ndarray, done: np.ndarray, first: dict, code) -> None:
    """Where a run has ended its last state is repeated; the state it began with where no step was solved."""
    if not table.shape[1]:
        return
    none = np.flatnonzero(done == 0)
    for name, field in code.layout.packed_row.fields.items():
        table[none, 0, field.offset : field.offset + field.length] = first[name][none].reshape(len(none), field.length)
    done = np.maximum(done, 1)
    for i in np.flatnonzero(done < table.shape[1]):
        table[i, done[i] :] = table[i, done[i] - 1]
