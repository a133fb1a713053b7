"""Run: a run before its first step, and what leads from there to a Path, in memory or in a store. ReadyRun: one that was
made before with other numbers, found by what its functions read, and made again from (q₀, v₀) with nothing looked at but
these: machine code proves that no check would find anything in them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.groups import Space
from dalembert.interrupts import Interrupted
from dalembert.native import COUNTED, Unsupported, counts, native_first
from dalembert.numbers import as_numbers, holds_tracer, outside
from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance
from dalembert.step.options import RunOptions, Words
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.scaled import FAR
from dalembert.step.programs.varying import DENSITY, STAGE, TIME, vary_steps
from dalembert.step.run.assemble import is_resolved, path_of
from dalembert.step.run.diagnose import diagnosis
from dalembert.step.run.loop import JaxSteps, traced_run
from dalembert.step.run.machine import (
    CODE,
    MachineSteps,
    Native,
    columns_of,
    compile_program,
    empty_rows,
    machine_steps,
    native_traced_run,
    parameters_of,
    unpack_run,
)
from dalembert.step.run.state import Given, Grid, Prepared, Recipe, RunState, StepOptions, initial_state
from dalembert.step.run.steps import Progress, Rows, Steps, report_progress, run_all
from dalembert.step.start.prepare import (
    DEFAULT,
    begin_steps,
    check_callbacks,
    initial_value,
    prepare_any,
    program_for,
)
from dalembert.systems import System, is_traced
from dalembert.systems.proof import REMEMBERED, InitialMotion, InitialRoot, root_of
from dalembert.systems.system import parts_of
from dalembert.tracing import Content, Jitted, Pool, Remembered, content, is_unchanged

NEAR = 1e-12  # of the time: what is left is no step whose length the times resolve, and its square is below rounding
FIELDS = ("q", "v", "multipliers", "force")  # of a row, that a step gives
SUCCESS, STOPPED = int(Outcome.SUCCESS), int(Outcome.STOPPED)


COPIES = 16  # function objects of the same content whose records are kept with a run
WARNED_OF = [COUNTED.offset(name) for name in ("k", "turns", "crossings", "leaps")]
# Where the numbers of a start, (q, s, z), stand in the carry of machine code.
STARTED = {
    **dict.fromkeys(("q", "before_q", "begin_q", "begin_before_q"), 0),
    **dict.fromkeys(("s", "before_s", "begin_s", "begin_before_s"), 1),
    **dict.fromkeys(("history", "begin_w"), 2),
}

Vector = Float[np.ndarray, "n"]


class Run(NamedTuple):
    """The program with the data of its first step, and the state before it.

    native: whether machine code is to run it. record: of the call, None where something has no value yet. until: the time at
    which it ends, and not after a number of steps; its states then reduce to (value, value before the last step).
    """

    prepared: Prepared
    carry: RunState
    grid: Grid
    step_options: StepOptions
    native: bool
    record: Provenance | None
    until: float | None = None

    def steps(self, keep: bool = False) -> Steps:
        """The steps by either back-end. keep: all rows in one table."""
        given = self.prepared.program, self.step_options, self.carry, self.grid
        by_machine, by_jax = (lambda *x: machine_steps(*x, keep=keep)), (lambda *x: JaxSteps(*x))
        return native_first(by_machine, by_jax, *given) if self.native else by_jax(*given)

    def in_memory(self, progress: Progress = False) -> tuple[Path, bool]:
        """The path of all steps, traced or not, however the run ended, without provenance where it is traced; and whether
        there is nothing to say of it."""
        if self.record is None:
            return _run_traced(self.prepared, self.step_options, self.carry, self.grid, self.native), True
        steps = self.steps(keep=self.until is None)
        with report_progress(progress, self.grid.steps) as watch:
            rows = run_all(steps, watch)
        carry = self.at_end(steps, rows)
        counted = (int(x) for x in (carry.turns, carry.crossings, carry.leaps))
        calm = int(carry.code) == 0 and is_resolved(steps.k - self.prepared.program.starting_nodes, *counted)
        return self.ended(carry, rows), calm

    def counted(self) -> Run:
        """The same run with the number of steps to its time, found by making them; and one more where the last one fails."""
        alone = self._replace(grid=self.grid._replace(every=self.grid.steps))
        steps = alone.steps()
        run_all(steps)
        if steps.code == int(Outcome.INTERRUPTED):
            raise Interrupted(self.ended(self.latest(steps.carry), steps.no_rows()))
        failed = steps.code != STOPPED
        return self._replace(grid=self.grid._replace(steps=steps.k + failed))

    def latest(self, carry: RunState) -> RunState:
        """On the way to a time: of the reduced value and the one before it, the first."""
        return carry if self.until is None or carry.reduced is None else carry._replace(reduced=carry.reduced[0])

    def at_end(self, steps: Steps, rows: Rows) -> RunState:
        """The state at the end; of a run to a time the last row becomes that of the time, see `end_at`."""
        if self.until is None or not len(rows["k"]):
            return self.latest(steps.carry)
        (t0, h, _, _), along = self.grid, lambda tree: jax.tree.map(lambda x: np.asarray(x)[None], tree)

        def step_back(states: RunState, _: np.ndarray) -> tuple[RunState, Rows]:
            back = self._replace(carry=jax.tree.map(lambda x: x[0], states), grid=Grid(t0, -h, 1, 1)).steps()
            row = back.advance()
            return along((back.carry, row))

        last = {name: x[None, -1:] for name, x in rows.items()}
        found = end_at(self.until, h, self.prepared.program.system.space, along(steps.carry), last, step_back)
        return jax.tree.map(lambda x: x[0], found)

    def ended(self, carry: RunState, rows: Rows) -> Path:
        """The path, with the outcome told apart where a step could not be solved."""
        grid = self.grid
        code = int(diagnosis(self.prepared.program, self.step_options, carry, grid.t0, grid.h))
        # By NumPy: every small operation of JAX is compiled when it is first met, jnp.asarray too, for every shape.
        run = self._replace(prepared=jax.tree.map(np.asarray, self.prepared))
        carry, rows = jax.tree.map(np.asarray, (carry._replace(code=np.asarray(code)), rows))
        # After Ctrl-C arrays of all rows are made when they are looked at, and not before it is answered.
        if code == int(Outcome.INTERRUPTED):
            return Path.later(lambda: vars(run.path(carry, rows)), code=carry.code, provenance=self.record)
        return run.path(carry, rows)

    def path(self, carry: RunState, rows: Rows) -> Path:
        """The path of numbers."""
        return path_of(np, self.prepared, carry, rows, self.grid, self.step_options, provenance=self.record)


def with_one_before(step_options: StepOptions, initial: Any) -> tuple[StepOptions, Any]:
    """A reducer of (value, value before the last step) with its initial value, for a run whose last step is taken back."""
    function = step_options.reduce
    if function is None:
        return step_options, initial
    both = lambda values, *rest: (function(values[0], *rest), values[0])  # noqa: E731
    return dataclasses.replace(step_options, reduce=both), (initial, initial)


def turned_back(carry: RunState, until: float, h: float) -> RunState:
    """The state, or states, before a step from the end of a run back to a time, by the run's own equations with ε turned
    round: the density is ε/h of the length h that is left. It has the order of the scheme and satisfies the constraints, and
    the nodes before are as they would be in a longer run."""
    s, zero = np.array(carry.s), np.zeros_like(carry.k)
    s[..., DENSITY], s[..., STAGE] = -h / (until - s[..., TIME]), 0.0
    reduced = None if carry.reduced is None else (carry.reduced[1], carry.reduced[1])
    fresh = dict.fromkeys(("k", "known", "code", "iterations", "max_iterations", "crossings", "turns", "leaps"), zero)
    return carry._replace(s=s, sign=np.zeros_like(carry.sign), reduced=reduced, **fresh)


def end_at(until: float, h: Any, space: Space, carry: RunState, last: Rows, step_back: Callable) -> RunState:
    """The states at the end of runs that end at a time: each goes from its first node behind it back to it, by a step of the
    scheme with the length that is left. last: the last row of each, (B, 1, ·), which becomes that at the time, with the
    outcome of the step back, SUCCESS where it could be solved: what the user would stop at is no matter there.
    step_back(states, which runs they are of) → the states after it, and its rows."""
    ends, codes = carry.s[:, TIME], np.array(carry.code)
    left, reduced = until - ends, None if carry.reduced is None else jax.tree.map(np.array, carry.reduced[0])
    reached, near = (codes == STOPPED) & (left * h <= 0), np.abs(left) <= NEAR * np.maximum(abs(until), np.abs(ends))
    close, lanes = np.flatnonzero(reached & near), np.flatnonzero(reached & ~near)
    for i in close:
        last["q"][i, 0] += left[i] * np.asarray(space.rate(last["q"][i, 0], last["v"][i, 0]))
    last["clock"][close, 0, 0], codes[close] = until, SUCCESS
    if len(lanes):
        back, row = step_back(turned_back(jax.tree.map(lambda x: x[lanes], carry), until, h), lanes)
        solved = np.isin(back.code, (SUCCESS, STOPPED))
        codes[lanes] = np.where(solved, SUCCESS, back.code)
        lanes = lanes[solved]
        for name in FIELDS:
            last[name][lanes] = row[name][solved]
        last["clock"][lanes, 0] = np.stack([np.full(len(lanes), until), left[lanes]], axis=-1)
        if reduced is not None:
            jax.tree.map(lambda x, y: x.__setitem__(lanes, y[solved]), reduced, back.reduced[0])
    return carry._replace(code=codes, reduced=reduced)


@Jitted
def _run_traced(prepared: Prepared, step_options: StepOptions, carry: RunState, grid: Grid, native: bool) -> Path:
    """The run under tracing, as one program: under grad or vmap alone, without jit, it would be traced and compiled anew by
    every call, and its last operations one by one."""
    arguments = (prepared.program, step_options, carry, grid)
    carry, rows = native_first(native_traced_run, traced_run, *arguments) if native else traced_run(*arguments)
    return path_of(jnp, prepared, carry, rows, grid, step_options)


class RunCode(NamedTuple):
    """Compiled code that all runs share that read the same and have the same number of coordinates.

    sizes: equations of each constraint; root: the proof of the data; begin: a carry, for its structure; bound: by the
    function objects of a call, its program, with whatever arrays, and the metadata of its record.
    """

    sizes: list[int]
    root: InitialRoot
    native: Native
    begin: RunState
    bound: Remembered[tuple[StepProgram, Words]]


class RunArrays:
    """Those of one run at a time, of its beginning and of its steps; what is the same in every run is written once."""

    def __init__(self, code: RunCode, leaves: list):
        step, carry = code.native.code, code.native.code.layout.packed_carry
        parts = [np.ravel(np.asarray(x, float)) for x in leaves]
        self._state, self._count = np.empty(carry.size), np.empty(COUNTED.size, np.int64)
        self._inputs, self._settings = np.concatenate([np.empty(3), *parts, step.captured]), None
        self.motion = InitialMotion(code.root, leaves[: code.root.leaves])
        self.steps = MachineSteps(step, (self._state, self._count, self._inputs), code.begin)
        self._fresh = np.zeros(carry.size)
        self._fresh[carry.offset("failed_residual")] = np.nan
        lengths = step.layout.n, step.layout.k, step.layout.z
        places = {name: (carry.fields[name].offset, which) for name, which in STARTED.items() if name in carry.fields}
        self._places = [(self._state[at : at + lengths[which]], which) for at, which in places.values()]

    def run(self, made: Prepared, grid: Grid, settings: tuple[float, float, float], counts: np.ndarray) -> np.ndarray:
        """All steps; the table of their rows. settings: t0, h and the tolerance."""
        steps, data = self.steps, made[2:]
        self._state[:], self._count[:] = self._fresh, counts
        for place, which in self._places:
            place[:] = data[which]
        if self._settings is not settings:
            self._settings, self._inputs[:3] = settings, settings
        table = empty_rows((math.ceil(grid.steps / grid.every) + 1, steps.row_size))
        steps.start(grid, table, keep=True)
        try:
            while not steps.ended:
                steps.make_chunk()
        except KeyboardInterrupt:
            steps.interrupt()
        return table[: steps.number_of_rows]


class ReadyRun:
    """(q₀, v₀) → the path, with the arrays (parameters) of one system. Safe under threads: each call has arrays of its own.

    words: of its record. watched: by what it is seen that its functions still name the same; None where only a new look at
    them can tell.
    """

    def __init__(self, code: RunCode, bound: tuple[StepProgram, Words], reading: Content, scheme: Scheme):
        self.code, (self._any_program, self.words), self._scheme = code, bound, scheme
        self._leaves, self._watched = reading.arrays, reading.watched
        self.n, self._lead = code.begin.q.shape[0], self._any_program.starting_nodes
        lasting = all(isinstance(x, jax.Array) for x in self._leaves)  # NumPy's may change in place
        self._arrays = Pool(lambda: RunArrays(code, reading.arrays), keep=lasting)
        self._last: tuple[RunOptions, tuple[Grid, tuple[float, float, float], np.ndarray]] | None = None  # of the last call

    @property
    def lasts(self) -> bool:
        """True if the functions still name the same; False where only a new look at them can tell."""
        return self._watched is not None and is_unchanged(self._watched)

    def path(self, q: Vector, v: Vector, options: RunOptions, record: Callable[[], Provenance]) -> tuple[Path, bool] | None:
        """The path, and whether there is nothing to say of it; None where steps vary, and where the data are not proven
        to pass every check, or belong in units of their own. record: gives that of the call, when the path is looked at.
        It keeps q and v."""
        if options.varying is not None:  # its density is found anew
            return None
        parameters = self._parameters(options)
        arrays = self._arrays.take()
        try:
            made = self._begin(q, v, options, arrays.motion)
            if made is None:
                return None
            table, code = arrays.run(made, *parameters), self.code.native.code
            state, count = arrays.steps.state.values()
        finally:
            self._arrays.give(arrays)

        def ended() -> Path:
            program = self._program if steps_code else self._any_program
            run = Run(made._replace(program=program), self.code.begin, parameters[0], options.step_options, True, record())
            finish = run.ended if steps_code else run.path
            return finish(unpack_run(np, code, self.code.begin, state, count), columns_of(code, table))

        steps_code = count.item(CODE)
        if steps_code:
            return ended(), False
        k, *counted = count[WARNED_OF].tolist()
        return Path.later(lambda: vars(ended())), is_resolved(k // code.layout.stages - self._lead, *counted)

    def start(self, q: Vector, v: Vector, options: RunOptions) -> Prepared | None:
        """Program and data of the first step, from which `path` starts; None where `path` gives None. The last digits of
        (a, λ), from which the first iteration begins, are those of machine code: a run whose rows go elsewhere starts from
        the same, to have the same bits."""
        with self._arrays.one() as arrays:
            made = self._begin(q, v, options, arrays.motion)
        return made and made._replace(program=self._program)

    def _begin(self, q: Vector, v: Vector, options: RunOptions, motion: InitialMotion) -> Prepared | None:
        t0, h = float(options.t0), float(options.h)
        if not motion.solve(q, v, t0) <= FAR:
            return None
        program = self._program if self._lead else self._any_program
        recipe = Recipe(self._scheme, options.start.starter, None)
        return begin_steps(program, recipe, q, v, motion.a, motion.multipliers, t0=t0, h=h)

    def _parameters(self, options: RunOptions) -> tuple[Grid, tuple[float, float, float], np.ndarray]:
        """Of every run with these options, besides its data: nodes, settings and counts."""
        if self._last is not None and self._last[0] is options:
            return self._last[1]
        grid, program = options.grid, self._any_program
        count = counts(**parameters_of(program, options, self._lead, grid), known=1)
        settings = float(grid.t0), float(grid.h), float(options.solver.tolerance)
        self._last = options, (grid, settings, count)
        return self._last[1]

    @functools.cached_property
    def _program(self) -> StepProgram:
        """The program with these arrays."""
        return parts_of(self._any_program).rebuilt(self._leaves)


def begin_run(system: Any, given: Given, options: RunOptions) -> Run:
    """A run of any kind of problem before its first step, with every check."""
    return _begin_run(system, given, options, find_run(system, given, options))


def run_in_memory(
    system: Any, given: Given, options: RunOptions, progress: Progress = False
) -> tuple[tuple[Path, bool], ReadyRun | None]:
    """The path of a call with whether there is nothing to say of it, and the run by which it was made again, if it was."""
    known = find_run(system, given, options)
    if known is not None and progress is False:
        ready, q, v = known
        record = options.record(ready.words, system.subject.under(options.scheme), q0=given.q0, v0=given.v0)
        found = ready.path(q, v, options, lambda: record)
        if found is not None:
            return found, ready
    return _begin_run(system, given, options, known).in_memory(progress), None


def _begin_run(system: Any, given: Given, options: RunOptions, known: tuple[ReadyRun, Vector, Vector] | None) -> Run:
    made = known and known[0].start(*known[1:], options)
    prepared = prepare_any(system, given, options.grid, options.recipe) if made is None else made
    return start_run(prepared, options, lambda: options.new_record(system.subject.under(options.scheme), **given._asdict()))


def start_run(prepared: Prepared, options: RunOptions, record_call: Callable[[], Provenance]) -> Run:
    """A run of a step with the data of its first one, whose callbacks are checked here. record_call: the record of the call,
    where all that it holds has a value."""
    grid, reduce = options.grid, options.save.reduce
    if options.varying is not None:
        prepared = vary_steps(prepared, options.varying, grid.h, grid.t0, options.until)
    step_options = options.step_options
    initial = check_callbacks(prepared, grid, step_options, initial_value(reduce[1]) if reduce else None)
    if options.until is not None:
        step_options, initial = with_one_before(step_options, initial)
    carry = initial_state(prepared, grid.t0, grid.h, initial)
    traced = is_traced(prepared.program, carry, grid.t0, grid.h, prepared.expected)
    record = None if traced else record_call()
    if traced and options.until is not None:
        raise TypeError("until: under jit, vmap and grad arrays have a fixed length; give steps=")
    return Run(prepared, carry, grid, step_options, options.native, record, options.until)


_KNOWN: Remembered[tuple[RunCode | None]] = Remembered(REMEMBERED)


def find_run(system: Any, given: Given, options: RunOptions) -> tuple[ReadyRun, Vector, Vector] | None:
    """The run, with (q₀, v₀) of its own; None where it must begin in the ordinary way, which finds every error and every
    other form: under tracing, for other problems than a System, with a reducer and without machine code."""
    if not (isinstance(system, System) and options.native and _has_numbers(given, options)):
        return None
    reading = _run_content(system, options)
    if reading is None:
        return None
    q, v = system.space.read_state(given.q0, given.v0, system.coordinates, as_numbers)
    run = reading.once(("run", len(q)), lambda: _run_for(system, options, reading, q, v))
    return None if run is None else (run, np.array(q), np.array(v))


def _has_numbers(given: Given, options: RunOptions) -> bool:
    other = (given.nodes, given.jets, given.multipliers, options.save.reduce)
    return (
        outside()
        and not (isinstance(options.h, Tracer) or isinstance(options.t0, Tracer))
        and all(x is None for x in other)
        and isinstance(options.scheme, Scheme | None)
        and _scheme(options).form != "discrete_gradient"  # whose start looks at L with the parameters of every call
        and not any(x is None or holds_tracer(x) for x in (given.q0, given.v0))
    )


def _scheme(options: RunOptions) -> Scheme:
    return options.scheme if isinstance(options.scheme, Scheme) else DEFAULT


def _run_content(system: System, options: RunOptions) -> Content | None:
    """The content of a system and of the options of a run; None where it cannot be compared, or is traced."""
    held, stop = options.feedback.rule if options.feedback else (), options.stop
    return content(system, _scheme(options), rules=(options.solver.branch, stop.when, stop.domain, *held))


def _run_for(system: System, options: RunOptions, reading: Content, q: Vector, v: Vector) -> ReadyRun | None:
    """The run with these arrays; None where there is no machine code, or these data do not show."""
    key = reading.key, len(q)
    entry = _KNOWN.get(key) or _compile_run(system, options, reading, q, v)
    if entry is not None:
        _KNOWN.put(key, entry)
    code = entry and entry[0]
    if code is None:
        return None
    bound = code.bound.get(reading.objects)
    if bound is None:
        program = program_for(system, code.sizes, _scheme(options), options.recipe.deflate)
        bound = code.bound.put(reading.objects, (program, options.words(system.texts(), type(system))))
    return ReadyRun(code, bound, reading, _scheme(options))


def _compile_run(
    system: System, options: RunOptions, reading: Content, q: Vector, v: Vector
) -> tuple[RunCode | None] | None:
    """(the code,), or (None,) where there is no machine code of it; None where these data do not show."""
    root = root_of(reading, system, len(v))
    if root is None:
        return (None,)
    with root.motions.one() as motion:
        if not motion.solve(q, v, float(options.t0)) <= FAR:
            return None
    grid, step_options = options.grid, options.step_options
    prepared = prepare_any(system, Given(q, v), grid, options.recipe)
    check_callbacks(prepared, grid, step_options, None)
    program, begin = prepared.program, initial_state(prepared, grid.t0, grid.h, None)
    try:
        native = compile_program(program, step_options, begin, grid.t0, grid.h)
    except Unsupported:
        return (None,)
    if not native.code.settled or [id(x) for x in native.leaves] != [id(x) for x in reading.arrays]:
        return (None,)
    return (RunCode(root.sizes, root.code, native, begin, Remembered(COPIES)),)
