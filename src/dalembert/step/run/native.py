"""The run in machine code: a StepProgram handed to the native back-end, with the same carry and rows as run.py."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dalembert.native import COUNTED, CompiledStep, Sample, StepFunctions, Unsupported, check_type, compile_step, counts
from dalembert.native.chunks import FIRST
from dalembert.native.llvm.packing import Packing
from dalembert.native.stepper.arrays import SINCE
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import VaryingSteps
from dalembert.step.run.branch import Avoid, Call, call_system, divided_by_factor
from dalembert.step.run.loop import stops
from dalembert.step.run.reduced import as_doubles, flat, from_doubles, lengths
from dalembert.step.run.stages import extrapolation
from dalembert.step.run.state import Grid, RunState, StepOptions, Watch
from dalembert.systems.roles import role_of
from dalembert.tracing import Remembered, Walk, split

REMEMBERED = 128  # compiled programs found again without a new trace; machine code itself is kept by its content
# Names that a RunState shares with the arrays of machine code: with its carry, and with its counts.
PARTS = ("q", "s", "history", "held_force", "sign", "residual", "failed_residual", "determinant")
BOTH = ("known", "code", "iterations", "max_iterations", "crossings", "turns", "leaps")
_COMPILED: Remembered[CompiledStep] = Remembered(REMEMBERED)


class Native(NamedTuple):
    """A program in machine code: its code, its arrays, and how to put other arrays in their place."""

    code: CompiledStep
    leaves: list
    rebuild: Callable[[Any], StepProgram]


def native_run(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid, watch: Watch = None):
    """As `chunked_run`; Unsupported where the program cannot be translated."""
    native = compiled(program, step_options, carry, grid.t0, grid.h)
    code = native.code
    state, inputs = packed(np, native, step_options, carry, grid)
    before = {name: int(getattr(carry, name)) for name in BOTH}
    count = counts(**told(program, step_options, int(carry.k), grid), **before)
    table = empty_rows((math.ceil(grid.steps / grid.every) + 1, code.row_size))
    between = None if watch is None else lambda: watch(count.item(COUNTED.offset("k")) // code.layout.stages)
    code.run(state, count, inputs, table, between)
    columns = columns_of(code, table[: count[COUNTED.offset("rows")]])
    return unpacked(np, code, carry, state, count, columns), columns


def empty_rows(shape: tuple[int, ...]) -> np.ndarray:
    """Room for what is kept of a run, or of many; a named error before the run where there is not enough."""
    try:
        return np.empty(shape)
    except (MemoryError, ValueError) as error:  # ValueError beyond the address space
        raise ValueError(
            f"steps: the states to keep, an array of shape {shape}, do not fit into memory; give save_every, or None for "
            "the last only"
        ) from error


def told(program: StepProgram, step_options: StepOptions, k: int, grid: Grid) -> dict[str, int]:
    """What a run that begins at node k is told."""
    limits = Limits(step_options.newton.max_iterations, 1 if step_options.feedback is None else step_options.feedback.every)
    return told_in_stages(len(program.weights), program.starting_nodes, k, grid, limits)


class Limits(NamedTuple):
    """Iterations of a step, and steps between two samples of a law."""

    iterations: int
    law_every: int


def told_in_stages(stages: int, first: int, k: int, grid: Grid, limits: Limits) -> dict[str, int]:
    """As `told`, in stages, which machine code counts."""
    steps, every = grid.steps, grid.every
    nodes = {
        "k": k, "saved": k, "target": min((k // every + 1) * every, steps), "until": min(steps, k + FIRST), "last": steps,
        "every": every, "first": first, "law_every": limits.law_every,
    }  # fmt: skip
    return {**{name: stages * number for name, number in nodes.items()}, "limit": limits.iterations}


def packed(xp, native: Native, step_options: StepOptions, carry: RunState, grid: Grid, size: int | None = None):
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
    return joined(xp, layout.packed_carry, state), joined(xp, layout.packed_inputs, inputs)


def joined(xp, packing: Packing, named: dict[str, list]) -> Any:
    """The packed array, by NumPy or jax.numpy, from the flat parts of every name."""
    array = xp.concatenate([part for parts in packing.in_order(named) for part in parts], axis=-1)
    if array.shape[-1] != packing.size:
        raise ValueError(f"arrays: found {array.shape[-1]} numbers, expected {packing.size}")
    return array


def columns_of(code: CompiledStep, table) -> dict[str, Any]:
    """Rows (…, N, ·) by name."""
    columns = code.layout.packed_row.unpack(table)
    return {**columns, "k": columns["k"].astype(int) // code.layout.stages}


def unpacked(xp, code: CompiledStep, carry: RunState, state, count, columns: dict[str, Any]) -> RunState:
    """The carry after the run, from one that has its structure; of many runs where the arrays have a leading axis."""
    part = code.layout.packed_carry.unpack(state)
    number = {name: count[..., COUNTED.offset(name)] for name in ("k", *BOTH)}
    saved = ("multipliers", "force") if columns["k"].shape[-1] else ()
    return carry._replace(
        **{name: xp.asarray(part[name]) for name in PARTS},
        compensation=xp.asarray(part["q_compensation"]),
        **{name: xp.asarray(columns[name][..., -1, :]) for name in saved},
        **{name: xp.asarray(number[name]) for name in BOTH},
        k=xp.asarray(number["k"]) // code.layout.stages,
        reduced=from_doubles(xp, part["reduced"], carry.reduced, state.ndim - 1),
    )


def compiled(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h, own: bool = False) -> Native:
    """Machine code for the program's structure; other values of its arrays, h, N and states share it. own: pivots are chosen
    at this state, and not at another one that was compiled before."""
    arrays, static = eqx.partition(program, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    types = [x.dtype for x in leaves]  # machine code is given doubles

    def rebuild(new) -> StepProgram:
        typed = [jnp.asarray(x, dtype) for x, dtype in zip(new, types, strict=True)]
        return eqx.combine(jax.tree.unflatten(tree, typed), static)

    reduced = jax.tree.structure(carry.reduced), tuple((np.shape(x), x.dtype) for x in jax.tree.leaves(carry.reduced))
    walk = Walk()
    rules = (
        step_options.branch,
        step_options.stop,
        step_options.domain,
        step_options.feedback and step_options.feedback.rule,
        step_options.reduce,
    )
    key = split(walk, program, []), walk.of(rules), carry.q.shape, carry.s.shape, reduced
    found = _COMPILED.get(key) if walk.lasting and not own else None
    if found is None or not (found.settled or _is_tracer(carry.q)):
        found = _compile(program, step_options, carry, leaves, rebuild, _sample(carry, leaves, t0, h))
        if walk.lasting and not own:
            _COMPILED.put(key, found)
    return Native(found, leaves, rebuild)


def _sample(carry: RunState, leaves, t0, h) -> Sample:
    """The state at which pivots are chosen."""
    p = [_known(x, 1.0) for x in leaves]
    return Sample(_known(carry.q, 0.5), _known(carry.s, 1.0), float(_known(t0, 0.0)[0]), float(_known(h, 0.01)[0]),
                  np.concatenate(p) if p else np.zeros(0))  # fmt: skip


def _compile(program, step_options: StepOptions, carry: RunState, leaves, rebuild, sample: Sample) -> CompiledStep:
    for x in jax.tree.leaves(carry.reduced):
        check_type("reduce", x.dtype)
    try:
        return compile_step(_functions(program, step_options, carry, leaves, rebuild), sample)
    except Unsupported as reason:
        if reason.place is not None:
            reason.role = _role(program, step_options, reason.place.codes)
        raise


def _role(program, step_options: StepOptions, codes: tuple[CodeType, ...]) -> str:
    """Which of the user's functions these are the code of."""
    feedback, factor = step_options.feedback, getattr(step_options.branch, "factor", None)
    others = {
        "stop": step_options.stop, "domain": step_options.domain, "feedback law": feedback and feedback.law,
        "reduce": step_options.reduce, "branch factor": factor,
    }  # fmt: skip
    return role_of(codes, program.system, others)


def _known(value, about: float) -> np.ndarray:
    """The numbers of an array, flat; others where they are not known yet: they only serve to choose pivots."""
    if not _is_tracer(value):
        return np.ravel(np.asarray(value, float))
    return about * (1.0 + 0.3 * np.random.default_rng(1).standard_normal(int(np.prod(np.shape(value), initial=1))))


def _is_tracer(value) -> bool:
    return isinstance(value, Tracer)


def _functions(program, step_options: StepOptions, carry: RunState, leaves, rebuild) -> StepFunctions:
    def method(name: str):
        return lambda *x: getattr(rebuild(x[-1]), name)(*x[:-1])

    def callback(function, dtype=None):
        return function and (lambda q, v, t, p: jnp.asarray(call_system(rebuild(p), function, q, v, t), dtype))

    reduce, feedback = step_options.reduce and flat(step_options.reduce, carry.reduced), step_options.feedback
    point = (program, carry.history[0], carry.q, carry.s, np.zeros(()), np.ones(()))
    has_factor = eqx.filter_eval_shape(type(program).factor, *point) is not None
    ends = step_options.branch is None and not has_factor  # nothing explains a crossing
    watched = ends and eqx.filter_eval_shape(type(program).overlap, *point) is not None
    varies = isinstance(program, VaryingSteps)
    return StepFunctions(
        n=carry.q.size, k=carry.s.size, shapes=tuple(x.shape for x in leaves),
        residual=_residual(step_options, rebuild) or method("residual"),
        guess=method("guess"), scale=method("scale"), advance=method("advance"),
        outputs=lambda *x: tuple(method("outputs")(*x)), velocity=method("velocity"),
        factor=method("factor") if has_factor else None, ends=ends,
        overlap=method("overlap") if watched else None,
        stop=_stop(program, step_options, rebuild), domain=callback(step_options.domain),
        law=feedback and (lambda q, v, t, p: jnp.asarray(feedback.force(rebuild(p), q, v, t), float)),
        reduce=reduce and (lambda *x: reduce(*x[:-1])), reduced=lengths(carry.reduced),
        clock=method("clock") if varies else None, astray=method("astray") if varies else None,
        length=method("length") if varies else None,
        weights=program.weights, extrapolation=extrapolation(program),
    )  # fmt: skip


def _stop(program, step_options: StepOptions, rebuild) -> Callable | None:
    """Whether anything ends the run after a step."""
    if not stops(program, step_options):
        return None

    def stop(q, v, t, p):
        found = [jnp.all(jnp.asarray(one(q, v, t), bool)) for one in stops(rebuild(p), step_options)]
        return functools.reduce(jnp.logical_or, found)

    return stop


def _residual(step_options: StepOptions, rebuild) -> Callable | None:
    """The equations of a branch rule that changes them; None where the program's own are solved."""
    branch = step_options.branch
    if branch is None or (isinstance(branch, Avoid) and branch.factor is None):
        return None
    if not isinstance(branch, Avoid):
        raise Unsupported("branch", f"the rule {type(branch).__name__} needs the JAX back-end")
    return lambda z, q, s, t, h, held_force, p: divided_by_factor(rebuild(p), branch, z, Call(q, s, t, h, held_force))
