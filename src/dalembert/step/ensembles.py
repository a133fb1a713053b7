"""ensemble: one system, many initial states and parameters; and its lanes, runs side by side, in one call or in many that
have the bits of one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from dalembert.discretize import DiscreteSystem, Scheme, WindowMap
from dalembert.interrupts import Interrupted
from dalembert.lazy import fields_as_left
from dalembert.native import COUNTED, counts, native_first
from dalembert.options import Save, Solver, Start, Stop, accept_single_options, check_groups
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step.options import RunOptions, abridge, lengths_of
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.scaled import Scaled, in_units
from dalembert.step.programs.varying import Varying, clock_of, vary_steps
from dalembert.step.run.assemble import facts_of, fields_of_rows, first_velocities, known_nodes, path_of, warn_of_resolution
from dalembert.step.run.diagnose import codes_of_many
from dalembert.step.run.driver import end_at, with_one_before
from dalembert.step.run.loop import JaxSteps, row_of, rows_of, traced_run
from dalembert.step.run.machine import Native, columns_of, compile_program, empty_rows, pack_run, parameters_of, unpack_run
from dalembert.step.run.state import (
    Given,
    Grid,
    Prepared,
    Recipe,
    RunState,
    SampledFeedback,
    StepOptions,
    Watch,
    initial_state,
)
from dalembert.step.run.steps import fingerprint_of, report_progress
from dalembert.step.start.prepare import batch_size, check_any_system, check_callbacks, initial_value, prepare_any
from dalembert.systems import System, VariationalProblem, check_x64, is_traced, refuse_traced
from dalembert.systems.checks import check_many, solve_start
from dalembert.systems.consistency import STEPS
from dalembert.systems.proof import check_batch, pieces, shared_size, unproven
from dalembert.tracing import Jitted

MANY = 2**62
RUNS = "runs"  # the axis over devices


@accept_single_options
def ensemble(
    system: System | DiscreteSystem | VariationalProblem,
    q0=None,
    v0=None,
    *,
    parameters: Mapping[str, Any] | None = None,
    h: float | Varying | None = None,
    steps: int | None = None,
    until: float | None = None,
    t0: float = 0.0,
    scheme: Scheme | WindowMap | None = None,
    start: Start | None = None,
    solver: Solver | None = None,
    stop: Stop | Callable | None = None,
    feedback: SampledFeedback | None = None,
    save: Save | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """Run a system from many initial states, or with many parameters, side by side.

    D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0,  (q_{k-1},q_k,q_{k+1}) ∈ D_K, for B sets of initial
    data and parameters.

    No error is raised if a step cannot be solved. In the native run each path is the same to the last bit whatever the
    other runs are. Memory: B (steps / every + 1) rows; save=Save(every=None) keeps only the last states. Arguments are
    numbers; in a traced program take jax.vmap of `simulate`, which is run side by side in the same way.

    Args:
        system: as in `simulate`.
        q0: (B, n) positions, or (n,) for all runs.
        v0: (B, n) velocities, or (n,) for all runs.
        parameters: name → (B, …), in place of the system's values.
        h: time step, the same for all runs; or a Varying, with which each run has its own step lengths.
        steps: N, the number of steps.
        until: the time at which all runs end, as in `simulate`; instead of steps, with a Varying and
            save=Save(every=None).
        t0: initial time.
        scheme: as in `simulate`.
        start: as in `simulate`: nodes are (B, r, n) or (r, n) for a DiscreteSystem, (B, 2k, n) or (2k, n) for a
            VariationalProblem, jets (B, 2k, n) or (2k, n), multipliers (B, r, m) or (r, m).
        solver: as in `simulate`; with threads, the number of threads of the native back-end.
        stop: as in `simulate`.
        feedback: as in `simulate`.
        save: as in `simulate`, in memory alone.
        progress: as in `simulate`, counting the steps of all runs; native back-end only.

    Returns:
        A Path whose arrays have a leading axis of length B and full length in time; after the end of a run its last
        state is repeated. path.code (B,) has the Outcome of each run as Newton's iteration found it, on groups also
        HALF_TURN; path.lane(i) is the i-th path, up to its end. path.provenance is the record of the whole call; initial
        data and parameters of more than 1000 numbers are recorded by shape only.

    Raises:
        ValueError: an argument has the wrong shape or value; the message names it, and the run if only one is wrong.
        TypeError: an argument is of the wrong type, or traced.
        Interrupted: Ctrl-C ended it; in its path the runs that had not ended have the outcome INTERRUPTED.
        InconsistentDataError: the initial data of a run do not satisfy the constraints.

    Example:
        >>> runs = da.ensemble(pendulum, np.linspace(0.5, 1.5, 4)[:, None], [0.0], h=0.1, steps=20)
        >>> runs.q.shape, runs.lane(3).q.shape
        ((4, 21, 1), (21, 1))
    """
    check_x64()
    groups = check_groups("ensemble", start=start, solver=solver, stop=stop, save=save)
    options = RunOptions(
        **lengths_of(h, system), steps=steps, until=until, t0=t0, scheme=scheme, feedback=feedback, **groups
    )
    if until is not None and (options.save.every is not None or progress is not False):
        raise ValueError(
            "until, save: every run has another number of steps, which nobody knows; give save=Save(every=None), which "
            "keeps the states at the time, and no progress; or steps="
        )
    check_any_system(system)
    if options.start.nodes is not None and system.from_state:
        raise ValueError("nodes: an ensemble of a System starts from q0 and v0; one run of the form 'nodes' takes nodes")
    given, axes = check_batch(system, Given.of(system.space, q0, v0, options.start)._asdict(), parameters)
    refuse_traced("ensemble", system, given, options.grid.h, options.grid.t0, instead="; there take jax.vmap of simulate")
    size = batch_size(system, given, axes)
    lanes = Lanes(system, options, given, axes)
    record = options.new_record(system.subject.under(options.scheme, given["parameters"]), **abridge(given))
    with report_progress(progress, size * lanes.steps) as watch:
        runs = lanes.run(given, axes, Running(options.solver.threads, watch))
    known = {"code": np.asarray(runs.code), "provenance": record}
    path = Path.later(lambda: {**fields_as_left(runs), "provenance": record}, **known)
    if np.any(known["code"] == int(Outcome.INTERRUPTED)):  # the arrays are made when they are looked at
        raise Interrupted(path)
    try:
        warn_of_resolution(path)
    except KeyboardInterrupt:
        raise Interrupted(path) from None
    return path


class Running(NamedTuple):
    """Parameters of the execution of many runs: the largest number of threads, the function that is told how many steps are
    done, the code where it is chosen already, and the time at which runs end."""

    threads: int | None
    watch: Watch
    code: Native | None = None
    until: float | None = None


class Lanes:
    """Runs of one system side by side, in one call or in several. What the first of all decides holds for all: units, types,
    and where a code of their own is asked for, pivots. given, axes: data with the first run in front, as `check_batch` gives
    them."""

    def __init__(self, system, options: RunOptions, given: dict, axes: dict):
        self._system, self.options, self._code = system, options, None
        row = lambda x: x[0] if is_traced(x) else np.asarray(x)[0]  # noqa: E731  XLA would compile x[0]
        self._first = jax.tree.map(lambda axis, x: x if axis is None else row(x), axes, given, is_leaf=lambda x: x is None)
        grid, reduce = options.grid, options.save.reduce
        # With every check of a single run; the batch is compiled for any number of steps.
        one = _begin_one(_with(system, self._first["parameters"]), self._first, grid, options.recipe)
        self._units = one.program.units if isinstance(one.program, Scaled) else None
        one = one if options.varying is None else vary_steps(one, options.varying, grid.h, grid.t0, options.until)
        initial = initial_value(reduce[1]) if reduce else None
        self._step_options = options.step_options
        self._initial = check_callbacks(one, grid, self._step_options, initial)
        if options.until is not None:
            self._step_options, self._initial = with_one_before(self._step_options, self._initial)
        self.steps = grid.steps - one.program.starting_nodes

    def run(self, given: dict, axes: dict, running: Running) -> Path:
        """All of them; where Ctrl-C ended one it has the outcome INTERRUPTED."""
        grid, until, native = self.options.grid, self.options.until, self.options.native
        prepared, carry = self._begin_all(given, axes)
        arguments = (prepared, self._step_options, carry, grid, running._replace(code=self._code, until=until))
        other = _jax if until is None else _without_end
        carry, fields = native_first(_native, other, *arguments) if native else other(*arguments)
        code = codes_of_many(prepared.program, self._step_options, carry, grid.t0, grid.h)
        # Arrays of all rows are made when they are looked at: after Ctrl-C not before it is answered.
        return Path.later(lambda: _of_many(fields() | {"code": code}, grid), code=code, h=np.full(len(carry.k), grid.h))

    def own_code(self, size: int) -> tuple[Path, dict[str, str]]:
        """Machine code whose pivots are chosen at the first run, whatever was compiled before in this process: so that
        other processes compile the same. A path of one run without values, but of full length with its times; and what
        determines the bits of all besides the record. size: of the batches that are to come."""
        alike = jax.tree.map(lambda x: np.broadcast_to(x, (size, *np.shape(x))), self._first)
        prepared, carry = self._begin_all(alike, jax.tree.map(lambda x: 0, alike))
        prepared, carry = jax.tree.map(lambda x: np.asarray(x)[:1], (prepared, carry))
        lane, state = jax.tree.map(lambda x: x[0], (prepared.program, carry))
        arguments = (lane, self._step_options, state, self.options.grid)
        fixed = native_first(_own_code, _xla_key, *arguments) if self.options.native else _xla_key(*arguments)
        self._code, found = fixed
        self.options = dataclasses.replace(
            self.options, solver=dataclasses.replace(self.options.solver, backend="native" if self._code else "jax")
        )
        rows = _no_rows(prepared, carry, self.options.grid)
        if self.options.until is not None:
            rows["clock"] = np.array([[[self.options.until, np.nan]]])
            carry = carry if self.options.save.reduce is None else carry._replace(reduced=carry.reduced[0])
        path = path_of(np, prepared, carry, rows, self.options.grid, self.options.step_options)
        return Path.of(**_of_many(vars(path), self.options.grid)), found

    def _solve_motions(self, given: dict, axes: dict, size: int) -> Float[np.ndarray, "B n_plus_m"] | None:
        """(a, λ) of every run; None where there is no machine code, and the program of all runs solves it."""
        grid = self.options.grid
        found = check_many(self._system, given, axes, size, float(grid.t0), STEPS * abs(float(grid.h)))
        if not found.shape[1]:
            return None
        for part, runs in pieces(given, axes, unproven(found)):
            found[runs] = np.asarray(_motions(self._system, part, axes, grid.t0))[: len(runs)]
        return found

    def _begin_all(self, given: dict, axes: dict) -> tuple[Prepared, RunState]:
        grid, options, size = self.options.grid, self.options, batch_size(self._system, given, axes)
        if self._system.from_state:
            motions = self._solve_motions(given, axes, size)
            given, axes = given | {"motion": motions}, axes | {"motion": None if motions is None else 0}
        varying = options.varying and dataclasses.replace(options.varying, first=1.0)  # grid.h is: one program for all
        start = (grid._replace(steps=MANY, every=1), options.recipe, self._units, varying, options.until)
        again, parts = None, []
        for part, runs in pieces(given, axes, np.arange(size)):
            arguments = self._system, part, axes, start, self._initial
            again, begun = _start_all.bound(*arguments) if again is None else (again, again(*arguments))
            parts.append(jax.tree.map(lambda x: np.asarray(x)[: len(runs)], begun))  # noqa: B023
        return jax.tree.map(lambda x, *more: jax.device_put(np.concatenate([x, *more]) if more else x), *parts)


def _of_many(fields: dict[str, Any], grid: Grid) -> dict[str, Any]:
    """The fields of the path of many runs, of one h. Reduced values are no rows: they are put at once."""
    return {**fields, "h": np.full(len(fields["code"]), grid.h), "reduced": jax.device_put(fields["reduced"])}


def _own_code(program, step_options: StepOptions, carry: RunState, grid: Grid) -> tuple[Native, dict[str, str]]:
    native = compile_program(program, step_options, carry, grid.t0, grid.h, own=True)
    inputs = pack_run(np, native, step_options, carry, grid)
    return native, fingerprint_of(True, native.code.key, np.concatenate(inputs))


def _xla_key(program, step_options: StepOptions, carry: RunState, grid: Grid) -> tuple[None, dict[str, str]]:
    steps = JaxSteps(program, step_options, jax.device_put(carry), grid)
    devices = jax.local_devices()  # over which the runs are divided
    return None, fingerprint_of(False, f"{steps.key} on {len(devices)} {devices[0].device_kind}", steps.inputs)


def _no_rows(prepared: Prepared, carry: RunState, grid: Grid) -> dict[str, np.ndarray]:
    """The rows of one run that reaches its end, without values."""
    before, number = rows_of(prepared.program.starting_nodes, grid.steps, grid.every)
    k = np.minimum(grid.every * (1 + np.arange(before, number)), grid.steps)[None]
    widths = {"clock": carry.s[..., :0], "multipliers": carry.multipliers, "q": carry.q}
    widths |= dict.fromkeys(("v", "force", "held_force"), first_velocities(np, prepared, grid))
    return {"k": k} | {name: np.full((*k.shape, x.shape[-1]), np.nan) for name, x in widths.items()}


def _with(system, parameters: dict):
    return system.replace(**parameters) if parameters else system


def _begin_one(system, given: dict, grid: Grid, recipe: Recipe) -> Prepared:
    return prepare_any(system, Given(**{name: given.get(name) for name in Given._fields}), grid, recipe)


@Jitted
def _motions(system, given: dict, axes: dict, t0) -> Float[Array, "B n_plus_m"]:
    """(a, λ) of every run."""

    def solve(given: dict) -> Float[Array, "n_plus_m"]:
        found = solve_start(_with(system, given["parameters"]), given["q0"], given["v0"], t0, None)
        return jnp.concatenate([found.a, found.multipliers])

    return eqx.filter_vmap(solve, in_axes=(axes,))(given)


@Jitted
def _start_all(system, given: dict, axes: dict, start: tuple, initial) -> tuple[Prepared, RunState]:
    """Every run's program and carry, with a leading axis in all arrays."""
    grid, recipe, units, varying, until = start

    def begin_run(given: dict) -> tuple[Prepared, RunState]:
        prepared = _begin_one(_with(system, given["parameters"]), given, grid, recipe)
        prepared = prepared if units is None else in_units(prepared, units)  # those of the first run, for all
        prepared = prepared if varying is None else vary_steps(prepared, varying, grid.h, grid.t0, until)
        return prepared, initial_state(prepared, grid.t0, grid.h, initial)

    return eqx.filter_vmap(begin_run, in_axes=(axes,))(given)


def _jax(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, running: Running):
    """On all devices that JAX has, as far as the runs can be divided equally; each goes through its own loop.

    Copies of the last run follow, so that other numbers of runs share a program of XLA, which is 12 MB.
    """
    devices, size = jax.local_devices(), len(carry.k)
    rows = np.minimum(np.arange(shared_size(size)), size - 1)
    number = math.gcd(len(devices), len(rows))
    mesh = Mesh(np.array(devices[:number]), (RUNS,)) if number > 1 else None
    place = NamedSharding(mesh, PartitionSpec(RUNS)) if mesh else None
    arrays, static = eqx.partition((prepared.program, carry), eqx.is_array)
    arrays = jax.device_put(jax.tree.map(lambda x: np.asarray(x)[rows], arrays), place)
    program, carry = eqx.combine(arrays, static)
    found = _run_side_by_side(program, step_options, carry, grid, mesh)
    carry, rows = jax.tree.map(lambda x: np.asarray(x)[:size], found)
    return carry, lambda: vars(path_of(np, jax.tree.map(np.asarray, prepared), carry, rows, grid, step_options))


@Jitted
def _run_side_by_side(program, step_options: StepOptions, carry: RunState, grid: Grid, mesh: Mesh | None):
    """All runs on one device, or divided over those of a mesh."""
    arrays, static = eqx.partition((program, carry), eqx.is_array)

    def run_part(arrays):
        program, carry = eqx.combine(arrays, static)
        return eqx.filter_vmap(lambda p, c: traced_run(p, step_options, c, grid))(program, carry)

    if mesh is None:
        return run_part(arrays)
    runs = PartitionSpec(RUNS)
    return jax.shard_map(run_part, mesh=mesh, in_specs=runs, out_specs=runs, check_vma=False)(arrays)


def _without_end(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, running: Running):
    raise ValueError("until: runs of an ensemble end at a time in machine code alone; give steps=, or no backend='jax'")


def _native(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, running: Running):
    """All runs in lanes, over threads."""
    carry = jax.tree.map(np.asarray, carry)
    arrays, static = eqx.partition(prepared.program, eqx.is_array)
    first = jax.tree.map(lambda x: jax.device_put(np.asarray(x)[0]), (arrays, carry))
    native = running.code or compile_program(eqx.combine(first[0], static), step_options, first[1], grid.t0, grid.h)
    native = native._replace(leaves=[np.asarray(x) for x in jax.tree.leaves(arrays)])
    lead, before = prepared.program.starting_nodes, jax.tree.map(np.asarray, row_of(prepared.program, carry))
    start, rows = rows_of(lead, grid.steps, grid.every)
    prepared, size = jax.tree.map(np.asarray, prepared), len(carry.k)
    ahead = len(known_nodes(prepared, grid))  # their rows stand before those of the steps: a path is views of one table
    table = empty_rows((size, ahead + rows - start, native.code.row_size))
    made = table[:, ahead:]
    after, done = _run_lanes(native, (prepared.program, step_options, carry, grid), made, running)
    if running.until is not None:
        row = native.code.layout.packed_row

        def step_back(states: RunState, lanes: np.ndarray) -> tuple[RunState, dict[str, np.ndarray]]:
            chosen = native._replace(leaves=[x[lanes] for x in native.leaves])
            given, rows = Grid(grid.t0, -grid.h, 1, 1), empty_rows((len(lanes), 1, row.size))
            back, _ = _run_lanes(chosen, (prepared.program, step_options, states, given), rows, running._replace(watch=None))
            return back, row.unpack(rows)

        after = end_at(running.until, grid.h, prepared.program.system.space, after, row.unpack(made), step_back)

    def fields() -> dict[str, Any]:
        _write_nodes(table[:, :ahead], prepared, grid, native.code)
        _repeat_last(made, done, before, native.code)
        # A run that ends early has a last row at a step of its own.
        columns = columns_of(native.code, table, same_k=bool(np.all(after.k == grid.steps)))
        found = fields_of_rows(prepared.program, step_options, columns, grid.t0, grid.h, ahead)
        spread = {name: np.broadcast_to(x, (size, x.shape[-1])) for name, x in found.items() if np.ndim(x) in (1, 2)}
        return found | spread | facts_of(np, prepared.program, after, grid, step_options) | {"provenance": None}

    return after, fields


def _write_nodes(table: np.ndarray, prepared: Prepared, grid: Grid, code) -> None:
    """The rows of the nodes before the first step."""
    known, velocities = known_nodes(prepared, grid), first_velocities(np, prepared, grid)
    row = code.layout.packed_row.unpack(table)
    row["q"][:] = prepared.nodes[:, known]
    row["v"][:, len(known) - velocities.shape[1] :] = velocities
    row["clock"][:] = clock_of(prepared.program, prepared.s)[:, None]
    row["k"][:] = np.array(known) * code.layout.stages


def _run_lanes(
    native: Native, given: tuple[StepProgram, StepOptions, RunState, Grid], table: np.ndarray, running: Running
) -> tuple[RunState, np.ndarray]:
    """The states at the end, and how many rows each run has; the rows go into the table (B, rows, ·)."""
    (program, step_options, carry, grid), code, size = given, native.code, len(given[2].k)
    state, inputs = (np.ascontiguousarray(x) for x in pack_run(np, native, step_options, carry, grid, size))
    count = np.repeat(counts(**parameters_of(program, step_options, int(carry.k[0]), grid))[None], size, axis=0)
    count[:, COUNTED.offset("known")] = carry.known
    watch, k = running.watch, COUNTED.offset("k")
    begin = count[:, k].sum()
    between = None if watch is None else lambda: watch(int(count[:, k].sum() - begin) // code.layout.stages)
    code.run_many(state, count, inputs, table, running.threads, between)
    return unpack_run(np, code, carry, state, count), count[:, COUNTED.offset("rows")]


def _repeat_last(table: np.ndarray, done: np.ndarray, first: dict, code) -> None:
    """Fills the rows after the end of each run with its last state, the one it began with where no step was solved."""
    if not table.shape[1]:
        return
    none = np.flatnonzero(done == 0)
    for name, field in code.layout.packed_row.fields.items():
        if field.length:  # rows of groups without a law hold no force
            table[none, 0, field.offset : field.offset + field.length] = first[name][none].reshape(len(none), field.length)
    done = np.maximum(done, 1)
    for i in np.flatnonzero(done < table.shape[1]):
        table[i, done[i] :] = table[i, done[i] - 1]
