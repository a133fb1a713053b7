"""The native run inside jit, vmap and grad: a call through XLA's foreign function interface, with a derivative rule."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from dalembert.native import COUNTED, CompiledStep, counts, register, run_by_xla
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.loop import row_of, rows_of, traced_run
from dalembert.step.run.native import Native, columns_of, compiled, joined, packed, told, unpacked
from dalembert.step.run.state import Grid, RunState, StepOptions


def native_traced_run(program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
    """As `traced_run`. Derivatives are those of `traced_run`, which is then what runs."""
    native = compiled(program, step_options, carry, grid.t0, grid.h)
    register(native.code, lanes=False)  # Unsupported, if XLA's interface is another one, must be known here

    @jax.custom_jvp
    def run(leaves, carry, t0, h):
        return _called(native._replace(leaves=leaves), program, step_options, carry, grid._replace(t0=t0, h=h))

    @run.defjvp
    def _(primals, tangents):
        def again(leaves, carry, t0, h):
            return traced_run(native.rebuild(leaves), step_options, carry, grid._replace(t0=t0, h=h))

        return jax.jvp(again, primals, tangents)

    return run(native.leaves, carry, grid.t0, grid.h)


def _called(native: Native, program: StepProgram, step_options: StepOptions, carry: RunState, grid: Grid):
    code, lead = native.code, program.starting_nodes
    state, inputs = packed(jnp, native, step_options, carry, grid)
    # A run under tracing begins at its first node.
    count = jnp.asarray(counts(**told(program, step_options, lead, grid))).at[COUNTED.offset("known")].set(carry.known)
    start, rows = rows_of(lead, grid.steps, grid.every)
    state, count, table = _call(code, state, count, inputs, rows - start)
    first = row_of(native.rebuild(native.leaves), carry)
    first = joined(jnp, code.layout.packed_row, {name: [jnp.ravel(x).astype(float)] for name, x in first.items()})
    done = count[COUNTED.offset("rows")]
    if rows > start:  # after the end of a run the last state is repeated
        table = table[jnp.minimum(jnp.arange(rows - start), done - 1)]
    table = jnp.where(done > 0, table, first)
    columns = columns_of(code, table)
    return unpacked(jnp, code, carry, state, count, columns), columns


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
