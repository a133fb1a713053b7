"""The run in machine code: a StepProgram handed to the native back-end, with the same carry and rows as by JAX."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from dalembert.native import (
    COUNTED,
    COUNTS,
    FIRST_STEPS,
    SINCE,
    CompiledStep,
    Packing,
    Sample,
    StepFunctions,
    Unsupported,
    check_type,
    compile_step,
    counts,
    next_chunk,
    register,
    run_by_xla,
)
from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import VaryingSteps
from dalembert.step.run.branch import Avoid, Call, divided_by_factor
from dalembert.step.run.loop import extrapolation, row_of, rows_of, stops, traced_run
from dalembert.step.run.state import Grid, RunState, StepOptions, as_before
from dalembert.step.run.steps import Rows, Steps
from dalembert.systems import name_role
from dalembert.systems.system import SystemParts, parts_of
from dalembert.tracing import Remembered, Walk

REMEMBERED = 128  # compiled programs found again without a new trace; machine code itself is kept by its content
TABLE = 2**20  # numbers in the rows of a chunk, at most
# Names that a RunState shares with the arrays of machine code: with its carry, and with its counts.
PARTS = ("q", "s", "history", "held_force", "sign", "residual", "failed_residual", "determinant")
BOTH = ("known", "code", "iterations", "max_iterations", "crossings", "turns", "leaps")
K, CODE, UNTIL, LAST, ROWS, SAVED = (COUNTED.offset(x) for x in ("k", "code", "until", "last", "rows", "saved"))
RESTORED = (*BOTH, "k", "slow", "saved", "target")
_COMPILED: Remembered[CompiledStep] = Remembered(REMEMBERED)


class Native(NamedTuple):
    """A program in machine code: its code, its arrays, and how to put other arrays in their place."""

    code: CompiledStep
    leaves: list
    with_arrays: Callable[[Any], StepProgram]


class MachineSteps(Steps):
    """The steps of a run in machine code, in arrays of its own; see `machine_steps`.

    begin: a carry of the right structure. keep: all rows stay where they are written, in a table for the whole run; else
    those of a chunk are overwritten by the next, and returned as a copy.
    """

    native = True

    def __init__(self, code: CompiledStep, arrays: tuple[np.ndarray, np.ndarray, np.ndarray], begin: RunState):
        self._code, self._begin, self._stages = code, begin, code.layout.stages
        self._state, self._count, self._inputs = arrays
        self._call, self.row_size = code.chunk(*arrays), code.row_size

    def start(self, grid: Grid, table: np.ndarray, keep: bool) -> None:
        """Before the first step: the arrays are filled, and rows go into the table."""
        super().__init__(grid)
        self._table, self._keep, self._first = table, keep, 0
        self._most = (len(table) - 1) * grid.every

    @property
    def code(self) -> int:
        return self._count.item(CODE)

    @property
    def k(self) -> int:
        return self._count.item(K) // self._stages

    @property
    def carry(self) -> RunState:  # pyright: ignore[reportIncompatibleVariableOverride]
        return unpack_run(np, self._code, self._begin, self._state.copy(), self._count.copy())

    def advance(self) -> Rows:
        return self._rows_from(self.make_chunk())

    def make_chunk(self) -> int:
        """`advance` as far as it is machine code; the number of the first row that it wrote."""
        count, stages = self._count, self._stages
        start, last = count.item(K), count.item(LAST)
        count[UNTIL] = min(start + min(self.pace, self._most) * stages, last)
        began = time.perf_counter()
        first = self._call_code()
        if (made := count.item(K) - start) < last - start:  # there are more
            self.pace = next_chunk(max(1, made // stages), time.perf_counter() - began)
        return first

    def interrupt(self) -> Rows:
        self._count[CODE] = int(Outcome.INTERRUPTED)
        return self._rows_from(self._call_code())

    def no_rows(self) -> Rows:
        return columns_of(self._code, self._table[:0])

    def join(self, tables: list[Rows]) -> Rows:
        return self._rows_from(0) if self._keep else super().join(tables)

    @property
    def number_of_rows(self) -> int:
        """Number of rows that the table has."""
        return self._count.item(ROWS)

    def _rows_from(self, first: int) -> Rows:
        rows = self._table[first : self.number_of_rows]
        return columns_of(self._code, rows if self._keep else rows.copy())

    def _call_code(self) -> int:
        first = self._count[ROWS] = self._count.item(ROWS) if self._keep else 0
        self._call(self._table.ctypes.data)
        return first

    @property
    def state(self) -> dict[str, np.ndarray]:
        return {"carry": self._state.copy(), "count": self._count.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        found, own = (dict(zip(COUNTS, x.tolist(), strict=True)) for x in (state["count"], self._count))
        k, saved, every = found["k"], found["saved"], own["every"]
        sound = (
            own["first"] <= k <= own["last"] and 0 <= found["known"] <= self._code.layout.history and 0 <= saved <= k
            and found["target"] == min((saved // every + 1) * every, own["last"]) and found["code"] in set(Outcome)
        )  # fmt: skip
        if not sound:  # machine code believes its counts
            raise ValueError("store: its checkpoint does not fit this run")
        self._state[:] = state["carry"]
        for name in RESTORED:
            self._count[COUNTED.offset(name)] = found[name]
        self._count[UNTIL] = k
        self._call_code()

    @property
    def inputs(self) -> np.ndarray:
        return self._inputs

    @property
    def key(self) -> str:
        return self._code.key


def machine_steps(
    program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid, keep: bool = False
) -> MachineSteps:
    """The steps from a state on; Unsupported where the program cannot be translated. keep: of known number, in one table."""
    native = compile_program(program, step_options, carry, grid.t0, grid.h)
    state, inputs = pack_run(np, native, step_options, carry, grid)
    count = counts(**parameters_of(program, step_options, int(carry.k), grid), **{x: int(getattr(carry, x)) for x in BOTH})
    steps = MachineSteps(native.code, (state, count, inputs), carry)
    rows = math.ceil(grid.steps / grid.every) + 1 if keep else max(2, TABLE // native.code.row_size)
    steps.start(grid, empty_rows((rows, native.code.row_size)), keep)
    return steps


def native_traced_run(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
    """The run of `traced_run`, in machine code called by XLA. Derivatives are those of `traced_run`, which then runs."""
    native = compile_program(program, step_options, carry, grid.t0, grid.h)
    register(native.code, lanes=False)  # Unsupported, if XLA's interface is another one, must be known here

    @jax.custom_jvp
    def run(leaves, carry, t0, h):
        return _run_by_xla(native._replace(leaves=leaves), program, step_options, carry, grid._replace(t0=t0, h=h))

    @run.defjvp
    def _(primals, tangents):
        def again(leaves, carry, t0, h):
            return traced_run(native.with_arrays(leaves), step_options, carry, grid._replace(t0=t0, h=h))

        return jax.jvp(again, primals, tangents)

    return run(native.leaves, carry, grid.t0, grid.h)


def _run_by_xla(native: Native, program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
    code, lead = native.code, program.starting_nodes
    state, inputs = pack_run(jnp, native, step_options, carry, grid)
    # A run under tracing begins at its first node.
    count = (
        jnp.asarray(counts(**parameters_of(program, step_options, lead, grid))).at[COUNTED.offset("known")].set(carry.known)
    )
    start, rows = rows_of(lead, grid.steps, grid.every)
    state, count, table = _call(code, state, count, inputs, rows - start)
    row, first = code.layout.packed_row, row_of(native.with_arrays(native.leaves), carry)
    first = {name: [jnp.ravel(x)[: row.fields[name].length].astype(float)] for name, x in first.items()}
    first = join_parts(jnp, row, first)
    done = count[COUNTED.offset("rows")]
    if rows > start:  # after the end of a run the last state is repeated
        table = table[jnp.minimum(jnp.arange(rows - start), done - 1)]
    table = jnp.where(done > 0, table, first)
    columns = columns_of(code, table)
    if not code.layout.held:  # as JAX has it
        columns["held_force"] = jnp.zeros_like(columns["force"])
    return unpack_run(jnp, code, carry, state, count), columns


def _call(code: CompiledStep, state, count, inputs, rows: int):
    """One run, or a batch of them in lanes."""

    def foreign(lanes: bool, state, count, inputs):
        return tuple(run_by_xla(register(code, lanes), state, count, inputs, rows))

    @jax.custom_batching.custom_vmap
    def call(*arrays):
        return foreign(False, *arrays)

    @call.def_vmap
    def _(size, batched, *arrays):
        wide = [a if b else jnp.broadcast_to(a, (size, *a.shape)) for a, b in zip(arrays, batched, strict=True)]
        return foreign(True, *wide), (True, True, True)

    return call(state, count, inputs)


def empty_rows(shape: tuple[int, ...]) -> np.ndarray:
    """Room for what is kept of a run, or of many; a named error before the run where there is not enough."""
    try:
        return np.empty(shape)
    except (MemoryError, ValueError) as error:  # ValueError beyond the address space
        raise ValueError(
            f"steps: the states to keep, an array of shape {shape}, do not fit into memory; give save_every, or None for "
            "the last only"
        ) from error


def parameters_of(program: StepProgram, options: Any, k: int, grid: Grid) -> dict[str, int]:
    """The run parameters among the counts, of a run that begins at node k; in stages, which machine code counts.
    options: of a step, or of the run."""
    (_, _, steps, every), stages, feedback = grid, len(program.weights), options.feedback
    nodes = {
        "k": k, "saved": k, "target": min((k // every + 1) * every, steps), "until": min(steps, k + FIRST_STEPS),
        "last": steps, "every": every, "first": program.starting_nodes,
        "law_every": 1 if feedback is None else feedback.every,
    }  # fmt: skip
    return {**{name: stages * number for name, number in nodes.items()}, "limit": options.newton.max_iterations}


def pack_run(xp, native: Native, step_options: StepOptions, carry: RunState, grid: Grid, size: int | None = None):
    """The carry and the inputs as the machine code reads them, by NumPy or jax.numpy; of `size` runs, if that is given."""
    layout, still = native.code.layout, 0 * carry.s
    state = {name: [getattr(carry, name)] for name in PARTS}
    state |= {"reduced": as_doubles(xp, carry.reduced), "before_q": [carry.q], "before_s": [carry.s]}
    state |= {"q_compensation": [carry.compensation], "s_compensation": [still], "sampled": [carry.held_force]}
    if layout.stages > 1:
        state |= {f"begin_{name}": state[name] for name in SINCE} | {"begin_w": [carry.history[..., 0, :]]}
    shared = {"t0": grid.t0, "h": grid.h, "tolerance": step_options.newton.tolerance, "captured": native.code.captured}

    def flat(x):
        return xp.ravel(xp.asarray(x, float)) if size is None else np.reshape(np.asarray(x, float), (size, -1))

    def same(x):
        return flat(x) if size is None else np.broadcast_to(np.ravel(x), (size, np.size(x)))

    inputs = {name: [same(x)] for name, x in shared.items()} | {"p": [flat(x) for x in native.leaves]}
    state = {name: [flat(x) for x in parts] for name, parts in state.items()}
    return join_parts(xp, layout.packed_carry, state), join_parts(xp, layout.packed_inputs, inputs)


def join_parts(xp, packing: Packing, named: dict[str, list]) -> Any:
    """The packed array, by NumPy or jax.numpy, from the flat parts of every name."""
    array = xp.concatenate([part for parts in packing.in_order(named) for part in parts], axis=-1)
    if array.shape[-1] != packing.size:
        raise ValueError(f"arrays: found {array.shape[-1]} numbers, expected {packing.size}")
    return array


def columns_of(code: CompiledStep, table, same_k: bool = False) -> dict[str, Any]:
    """Rows (…, N, ·) by name. same_k: of many runs only the first has k."""
    columns = code.layout.packed_row.unpack(table)
    k = columns["k"][:1] if same_k else columns["k"]
    return {**columns, "k": k.astype(int) // code.layout.stages}


def unpack_run(xp, code: CompiledStep, carry: RunState, state, count) -> RunState:
    """The carry after the run, from one that has its structure, and its multipliers and force, which only rows have; of many
    runs where the arrays have a leading axis."""
    part = code.layout.packed_carry.unpack(state)
    number = {name: count[..., COUNTED.offset(name)] for name in ("k", *BOTH)}
    return carry._replace(
        **{name: xp.asarray(part[name]) for name in PARTS},
        compensation=xp.asarray(part["q_compensation"]),
        **{name: xp.asarray(number[name]) for name in BOTH},
        k=xp.asarray(number["k"]) // code.layout.stages,
        reduced=from_doubles(xp, part["reduced"], carry.reduced, state.ndim - 1),
    )


def compile_program(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h, own: bool = False) -> Native:
    """Machine code for the program's structure; other values of its arrays, h, N and states share it. own: pivots are chosen
    at this state, and not at another one that was compiled before."""
    parts, walk, feedback = parts_of(program), Walk(), step_options.feedback
    rules = step_options.branch, step_options.stop, step_options.domain, feedback and feedback.rule, step_options.reduce
    reduced = jax.tree.structure(carry.reduced), tuple((np.shape(x), x.dtype) for x in jax.tree.leaves(carry.reduced))
    key = parts.key, walk.of(rules), carry.q.shape, carry.s.shape, reduced
    lasting = parts.key is not None and walk.lasting and not own
    found = _COMPILED.get(key) if lasting else None
    if found is None or not (found.settled or isinstance(carry.q, Tracer)):
        found = _compile(program, step_options, carry, parts, _sample(carry, parts.leaves, t0, h))
        if lasting:
            _COMPILED.put(key, found)
    return Native(found, parts.leaves, parts.rebuilt)


def _sample(carry: RunState, leaves, t0, h) -> Sample:
    """The state at which pivots are chosen."""
    p = [_numbers_of(x, 1.0) for x in leaves]
    q, s, t, h = (_numbers_of(x, about) for x, about in ((carry.q, 0.5), (carry.s, 1.0), (t0, 0.0), (h, 0.01)))
    return Sample(q, s, float(t[0]), float(h[0]), np.concatenate(p) if p else np.zeros(0))


def _compile(program, step_options: StepOptions, carry: RunState, parts: SystemParts, sample: Sample) -> CompiledStep:
    for x in jax.tree.leaves(carry.reduced):
        check_type("reduce", x.dtype)
    try:
        return compile_step(_step_functions(program, step_options, carry, parts), sample)
    except Unsupported as reason:
        feedback, factor = step_options.feedback, getattr(step_options.branch, "factor", None)
        others = {
            "stop": step_options.stop, "domain": step_options.domain, "feedback law": feedback and feedback.law,
            "reduce": step_options.reduce, "branch factor": factor,
        }  # fmt: skip
        name_role(reason, program.system, others)
        raise


def _numbers_of(value, about: float) -> np.ndarray:
    """The numbers of an array, flat; others where they are not known yet: they only serve to choose pivots."""
    if not isinstance(value, Tracer):
        return np.ravel(np.asarray(value, float))
    return about * (1.0 + 0.3 * np.random.default_rng(1).standard_normal(int(np.prod(np.shape(value), initial=1))))


def _step_functions(program, step_options: StepOptions, carry: RunState, parts: SystemParts) -> StepFunctions:
    with_arrays = parts.rebuilt

    def method(name: str):
        return lambda *x: getattr(with_arrays(x[-1]), name)(*x[:-1])

    def callback(function):
        return function and (lambda q, v, t, p: jnp.asarray(with_arrays(p).system.call(function, q, v, t=t)))

    reduce, feedback = step_options.reduce and flat(step_options.reduce, carry.reduced), step_options.feedback
    point = (program, carry.history[0], carry.q, carry.s, np.zeros(()), np.ones(()))
    has_factor = eqx.filter_eval_shape(type(program).factor, *point) is not None
    ends = step_options.branch is None and not has_factor  # nothing explains a crossing
    watched = ends and eqx.filter_eval_shape(type(program).overlap, *point) is not None
    varies = isinstance(program, VaryingSteps)
    return StepFunctions(
        n=carry.q.size, velocities=carry.force.size, k=carry.s.size, shapes=tuple(x.shape for x in parts.leaves),
        residual=_changed_equations(step_options, with_arrays) or method("residual"),
        guess=method("guess"), scale=method("scale"), advance=method("advance"),
        outputs=lambda *x: tuple(method("outputs")(*x)), velocity=method("velocity"),
        factor=method("factor") if has_factor else None, ends=ends,
        overlap=method("overlap") if watched else None,
        stop=_stop(program, step_options, with_arrays), domain=callback(step_options.domain),
        law=feedback and (lambda q, v, t, p: jnp.asarray(feedback.force(with_arrays(p), q, v, t), float)),
        reduce=reduce and (lambda *x: reduce(*x[:-1])), reduced=lengths(carry.reduced),
        clock=method("clock") if varies else None, astray=method("astray") if varies else None,
        length=method("length") if varies else None,
        weights=program.weights, extrapolation=extrapolation(program), costly=program.on_groups,
    )  # fmt: skip


def _stop(program, step_options: StepOptions, with_arrays) -> Callable | None:
    """Function (q, v, t, p) → true if anything ends the run after a step; None where nothing can."""
    if not stops(program, step_options):
        return None

    def stop(q, v, t, p):
        found = [jnp.all(jnp.asarray(one(q, v, t), bool)) for one in stops(with_arrays(p), step_options)]
        return functools.reduce(jnp.logical_or, found)

    return stop


def _changed_equations(step_options: StepOptions, with_arrays) -> Callable | None:
    """The equations of a branch rule that changes them; None where the program's own are solved."""
    branch = step_options.branch
    if branch is None or (isinstance(branch, Avoid) and branch.factor is None):
        return None
    if not isinstance(branch, Avoid):
        raise Unsupported("branch", f"the rule {type(branch).__name__} needs the JAX back-end")
    return lambda z, q, s, t, h, held_force, p: divided_by_factor(with_arrays(p), branch, z, Call(q, s, t, h, held_force))


def lengths(value: Any) -> tuple[int, int]:
    """Number of entries of a tree that are no integers, and number of integers."""
    whole = [_is_whole(x) for x in jax.tree.leaves(value)]
    sizes = [int(np.size(x)) for x in jax.tree.leaves(value)]
    integers = sum(size for size, w in zip(sizes, whole, strict=True) if w)
    return sum(sizes) - integers, integers


def as_doubles(xp, value: Any) -> list[Any]:
    """Arrays of doubles: the numbers and truth values, then the integers bit by bit. xp: NumPy or jax.numpy."""
    leaves = jax.tree.leaves(value)
    whole = [xp.asarray(x, np.int64) for x in leaves if _is_whole(x)]
    bits = [x.view(np.float64) if xp is np else lax.bitcast_convert_type(x, jnp.float64) for x in whole]
    return [*(xp.asarray(x, float) for x in leaves if not _is_whole(x)), *bits]


def from_doubles(xp, part: Any, like: Any, lead: int = 0) -> Any:
    """The value again, from (…, r). like: one of its structure, shapes and types; lead: leading axes of all arrays."""
    leaves, tree = jax.tree.flatten(like)
    found: list[Any] = [None] * len(leaves)
    at = 0
    for i in sorted(range(len(leaves)), key=lambda i: _is_whole(leaves[i])):
        x = leaves[i]
        size = int(np.prod(np.shape(x)[lead:], dtype=int))
        piece = part[..., at : at + size].reshape(np.shape(x))
        if _is_whole(x):
            piece = np.array(piece, order="C").view(np.int64) if xp is np else lax.bitcast_convert_type(piece, jnp.int64)
        found[i], at = piece.astype(x.dtype), at + size
    return jax.tree.unflatten(tree, found)


def flat(function: Callable, like: Any) -> Callable:
    """function(value, *rest) → value as a function of (numbers, integers, *rest) → (numbers, integers)."""
    shapes, tree = jax.tree.flatten(jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype), like))

    def call(numbers, integers, *rest):
        parts = {False: numbers, True: integers}
        leaves = []
        for x in shapes:
            size, whole = int(np.prod(x.shape, dtype=int)), _is_whole(x)
            leaves.append(parts[whole][:size].reshape(x.shape).astype(x.dtype))
            parts[whole] = parts[whole][size:]
        before = jax.tree.unflatten(tree, leaves)
        after = jax.tree.leaves(as_before(function(before, *rest), before))
        return tuple(
            jnp.concatenate([jnp.zeros(0, kind), *(jnp.ravel(x).astype(kind) for x in after if _is_whole(x) == whole)])
            for whole, kind in ((False, jnp.float64), (True, jnp.int64))
        )

    return call


def _is_whole(x: Any) -> bool:
    return np.dtype(x.dtype).kind in "iu"
