"""Integrations inside a program of XLA: its call comes to Python, which shares them out over threads.

By the handler of `ffi`, and not by jax.pure_callback, whose arguments are copied by XLA's own threads: on one processor a
call with some million numbers waited for itself for ever.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from dalembert.native.flow.flow import CompiledFlow, FlowRuns, outputs_along, travel
from dalembert.native.llvm.packing import Packing
from dalembert.native.stepper.arrays import COUNTED
from dalembert.native.stepper.compiled import TABLE
from dalembert.native.threads import processors
from dalembert.native.xla.ffi import CALL
from dalembert.native.xla.handles import Handle, entered, run_by_xla

AGAIN = 0.02  # seconds until Ctrl-C that came where it cannot be raised comes again
FOUND = Packing.words("reached", "steps")  # at the beginning of the counts that the handler expects
_KIND = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 4)


def travel_by_xla(flow: CompiledFlow, y, times, tolerance, leaves, steps: int):
    """(rows, outputs, reached, steps) of one integration as part of a traced program. leaves: their arrays."""
    given = jnp.concatenate([jnp.zeros(0), *(jnp.ravel(x).astype(float) for x in leaves)])
    inputs = jnp.concatenate([times, jnp.ravel(jnp.asarray(tolerance, float)), given])
    handle = _handle(flow, Packing.of({"times": len(times), "tolerance": 1, "given": len(given)}), steps)
    counts = jnp.zeros(COUNTED.size, jnp.int64)
    _, counts, rows = run_by_xla(handle, y, counts, inputs, len(times))
    return rows[:, : flow.size], rows[:, flow.size :], counts[FOUND.offset("reached")] > 0, counts[FOUND.offset("steps")]


def _handle(flow: CompiledFlow, layout: Packing, steps: int) -> Handle:
    width, length = flow.size + flow.outputs.result_size, layout.shapes[0][1][0]

    def integrate(number: int, carry: int, count: int, inputs: int, rows: int) -> None:
        y, given = _view(carry, number, flow.size), layout.unpack(_view(inputs, number, layout.size))
        found = _view(rows, number, length * width).reshape(number, length, width)
        counts = _view(count, number, COUNTED.size, ctypes.c_int64)
        counts[:], found[:] = 0, np.nan
        runs, sound = _checked(FlowRuns(y, given["times"], given["tolerance"][:, 0], given["given"]))
        solved = travel(flow, runs, steps, processors())
        found[..., : flow.size], found[..., flow.size :] = solved.rows, outputs_along(flow, runs, solved, processors())
        found[~sound] = np.nan
        counts[:, FOUND.offset("reached")], counts[:, FOUND.offset("steps")] = solved.reached & sound, solved.steps

    called = _KIND(_answering(integrate))
    address = ctypes.cast(called, ctypes.c_void_p).value or 0
    nothing = dict.fromkeys(TABLE.fields, 0)
    table = CALL.pack(**nothing, ensemble=address, inputs=layout.size, threads=1)
    key = int.from_bytes(os.urandom(8), "little", signed=True) or 1
    return entered(Handle(key, width, table, (flow, called)))


def _answering(integrate: Callable[..., None]) -> Callable[..., None]:
    """As machine code calls it. Ctrl-C, which XLA would not hear of, comes again after the call."""

    def call(table, carry, count, inputs, rows, number, *_: int) -> None:
        try:
            integrate(number, carry, count, inputs, rows)
        except KeyboardInterrupt:
            threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT)).start()

    return call


def _checked(runs: FlowRuns) -> tuple[FlowRuns, np.ndarray]:
    """Which have numbers, times in order and a tolerance; the others with such ones."""
    apart = np.diff(runs.times, axis=1) * runs.clocks[:, None]
    sound = (
        np.all(apart > 0, axis=1) & (runs.tolerance > 0) & np.isfinite(runs.tolerance) & np.all(np.isfinite(runs.y), axis=1)
    )
    sound &= np.all(np.isfinite(runs.times), axis=1)
    plain = np.arange(runs.times.shape[1], dtype=float)
    y, times = np.where(sound[:, None], runs.y, np.nan), np.where(sound[:, None], runs.times, plain)
    return runs._replace(y=y, times=times, tolerance=np.where(sound, runs.tolerance, 1.0)), sound


def _view(address: int, number: int, length: int, kind: Any = ctypes.c_double) -> np.ndarray:
    """(number, length) of what stands there."""
    return np.ctypeslib.as_array((kind * (number * length)).from_address(address)).reshape(number, length)
