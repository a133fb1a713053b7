"""The run in machine code: a StepProgram handed to the native back-end, with the same carry and rows as run.py."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from dalembert.native import COUNTS, CompiledStep, Sample, StepFunctions, Unsupported, compile_step, counts
from dalembert.step.branch import call_system
from dalembert.step.program import StepProgram
from dalembert.step.run import Carry, Choices, chunked_run

REMEMBERED = 128  # compiled programs found again without a new trace; machine code itself is kept by its content
_COMPILED: dict[Any, CompiledStep] = {}


_told: set[str] = set()


def native_or_jax_run(program: StepProgram, choices: Choices, carry: Carry, t0, h, steps: int, every: int):
    """The native run; the JAX run, with one warning for each reason, where the program cannot be translated."""
    try:
        return native_run(program, choices, carry, t0, h, steps, every)
    except Unsupported as reason:
        if str(reason) not in _told:
            _told.add(str(reason))
            warnings.warn(f"backend: the slower JAX back-end is used, because of {reason}", stacklevel=3)
        return chunked_run(program, choices, carry, t0, h, steps, every)


def native_run(program: StepProgram, choices: Choices, carry: Carry, t0, h, steps: int, every: int):
    """As `chunked_run`; Unsupported where the program cannot be translated."""
    leaves, rebuild = _split(program)
    p = np.concatenate([np.ravel(x) for x in leaves]) if leaves else np.zeros(0)
    reduced, join = jax.flatten_util.ravel_pytree(carry.reduced)
    code = _compiled(program, choices, carry, leaves, rebuild, p, t0, h, reduced, join)
    state = np.concatenate([np.ravel(x) for x in (
        carry.q, carry.lost, carry.s, carry.history, carry.held, carry.sign, carry.residual, carry.failed_residual,
        reduced)]).astype(float)  # fmt: skip
    # The state one step before is not known, and nothing is lost yet of s.
    state = np.concatenate([state, np.ravel(carry.q), np.ravel(carry.s), np.zeros(carry.s.size)])
    start = int(carry.k)
    due = min((start // every + 1) * every, steps)
    law_every = 1 if choices.feedback is None else choices.feedback.every
    count = counts(
        k=start, known=int(carry.known), code=int(carry.code), iterations=int(carry.iterations),
        max_iterations=int(carry.max_iterations), crossings=int(carry.crossings), saved=start, target=due, until=steps,
        last=steps, every=every, limit=choices.options.max_iterations, law_every=law_every, first=program.lead,
    )  # fmt: skip
    row = code.layout.row
    table = np.empty((math.ceil(steps / every) + 1, row["k"][0] + 1))
    code.run(state, count, code.inputs(float(t0), float(h), choices.options.tolerance, p), table)
    table = table[: count[COUNTS.index('rows')]]
    columns: dict[str, Any] = {name: table[:, at : at + size] for name, (at, size) in row.items()}
    columns["k"] = columns["k"][:, 0].astype(np.int64)
    part = {name: jnp.asarray(state[at : at + size]) for name, (at, size) in code.layout.carry.items()}
    after = carry._replace(
        q=part["q"], lost=part["lost"], s=part["s"], history=part["history"].reshape(carry.history.shape),
        held=part["held"], sign=part["sign"][0], residual=part["residual"][0],
        failed_residual=part["failed_residual"][0],
        multipliers=jnp.asarray(columns["multipliers"][-1]) if len(table) else carry.multipliers,
        force=jnp.asarray(columns["force"][-1]) if len(table) else carry.force,
        **{name: jnp.asarray(number) for name, number in zip(COUNTS[:6], count[:6], strict=True)},
        reduced=join(part["reduced"]),
    )  # fmt: skip
    return after, columns


def _split(program: StepProgram) -> tuple[list, Callable[[tuple], StepProgram]]:
    """Arrays of a program, and the function that puts others in their place."""
    arrays, static = eqx.partition(program, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    return leaves, lambda new: eqx.combine(jax.tree.unflatten(tree, list(new)), static)


def _compiled(program, choices: Choices, carry: Carry, leaves, rebuild, p, t0, h, reduced, join) -> CompiledStep:
    """Compiled code for the program's structure; other values of its arrays, h, N and states share it."""
    if choices.branch is not None:
        raise Unsupported("branch", f"the rule {type(choices.branch).__name__} needs the JAX back-end")
    structure = jax.tree.structure(program), tuple(x.shape for x in leaves), carry.q.shape, carry.s.shape
    chosen = (choices.stop, choices.domain, choices.feedback and choices.feedback.law, choices.reduce, reduced.shape)
    key = (*structure, *chosen)
    if key not in _COMPILED:
        while len(_COMPILED) >= REMEMBERED:
            _COMPILED.pop(next(iter(_COMPILED)))
        sample = Sample(np.asarray(carry.q), np.asarray(carry.s), float(t0), float(h), p)
        _COMPILED[key] = compile_step(_functions(program, choices, carry, leaves, rebuild, reduced, join), sample)
    return _COMPILED[key]


def _functions(program, choices: Choices, carry: Carry, leaves, rebuild, reduced, join) -> StepFunctions:
    def method(name: str):
        return lambda *x: getattr(rebuild(x[-1]), name)(*x[:-1])

    def callback(function):
        return function and (lambda q, v, t, p: jnp.asarray(call_system(rebuild(p), function, q, v, t)))

    def reduce(r, t, q, v, multipliers, p):
        assert choices.reduce is not None
        return jax.flatten_util.ravel_pytree(choices.reduce(join(r), t, q, v, multipliers))[0]

    point = (carry.history[0], carry.q, carry.s, jnp.zeros(()), jnp.ones(()))
    has_factor = eqx.filter_eval_shape(lambda: program.factor(*point)) is not None
    return StepFunctions(
        n=carry.q.size, k=carry.s.size, shapes=tuple(x.shape for x in leaves),
        residual=method("residual"), guess=method("guess"), scale=method("scale"), advance=method("advance"),
        outputs=lambda *x: tuple(method("outputs")(*x)), velocity=method("velocity"),
        factor=method("factor") if has_factor else None,
        stop=callback(choices.stop), domain=callback(choices.domain),
        law=callback(choices.feedback and choices.feedback.law),
        reduce=reduce if choices.reduce else None, reduced=reduced.size,
    )  # fmt: skip
