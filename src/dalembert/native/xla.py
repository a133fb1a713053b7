"""The compiled run behind XLA's calling convention, so that jitted and batched programs can call it.

XLA keeps the address of every handler that it was given. It gets one, once, and with each call a key, made from the content
of the code, by which the handler finds the code in a table of slots. A compiled program of XLA holds on to its codes.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from dalembert.native.flow.flow import CompiledFlow, FlowRuns, outputs_along, travel
from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.cache import CACHE, Loaded
from dalembert.native.llvm.dense import copy
from dalembert.native.llvm.packing import Packing
from dalembert.native.llvm.subset import (
    Address,
    Global,
    Record,
    Whole,
    atomic,
    fetch_add,
    local,
    machine,
    pointer,
    program,
)
from dalembert.native.stepper.arrays import COUNTED
from dalembert.native.stepper.compiled import TABLE, CompiledStep, ensemble_text
from dalembert.native.threads import processors

# The structures of xla/ffi/api/c_api.h, in words of 8 bytes; the types of an extension and of an error are halves of one.
FRAME = Packing.words("size", "extension", "api", "context", "stage", "args_size", "args_extension", "args_count",
                      "args_types", "arguments", "rets_size", "rets_extension", "rets_count", "rets_types", "results",
                      Addresses=("arguments", "results"), Address=("extension", "api"))  # fmt: skip
BUFFER = Packing.words("size", "extension", "type", "data", "rank", "dims", Wholes=("data", "dims"))
EXTENSION = Packing.words("size", "type", "next", "metadata", Wholes=["metadata"])
API = Packing.words("size", "extension", "version", "version_2", "version_3", "internal", Address=["create_error"])
ERROR = Packing.words("size", "extension", "message", "code", Address=["message"])
VERSION = 3  # word of the metadata that holds the version, its halves
INTERNAL = 13  # code of an internal error
HALF = 2**32
MAJOR = 0  # of the interface these offsets belong to

SLOTS = 65536  # codes that XLA may know at the same time
SLOT = Packing.words("key", "table", "users")  # users: calls that are running
# What a slot's table tells: what @ensemble is told, the address of @ensemble, the length of the inputs, how many threads.
CALL = Packing.words(*TABLE.fields, "inputs", "threads", Address=["ensemble"])
KEY, TABLE_, USERS = (SLOT.offset(name) for name in ("key", "table", "users"))
GONE = b"dalembert: the machine code of this program is no longer loaded"
KNOWN = Global("slots", f"global [{SLOT.size * SLOTS} x i64] zeroinitializer", "i64")
USED = Global("used", "global i64 0", "i64")
MESSAGE = Global("gone", f'internal constant [{len(GONE) + 1} x i8] c"{GONE.decode()}\\00"', "i8")
version = 0  # a constant of the program


@functools.cache
def interface() -> tuple[int, int]:
    """Version of XLA's foreign function interface; Unsupported if it is not the one the offsets belong to."""
    try:
        text = (Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text()
        major, minor = (int(re.findall(rf"#define XLA_FFI_API_{x} (\d+)", text)[0]) for x in ("MAJOR", "MINOR"))
    except (OSError, IndexError) as error:
        raise Unsupported("XLA's foreign function interface", f"its version cannot be read: {error}") from error
    if major != MAJOR:
        raise Unsupported("XLA's foreign function interface", f"version {major}.{minor}; {MAJOR}.x is known")
    return major, minor


def handler_text(major: int, minor: int) -> str:
    """The module of `handler`, and of the slots that it reads."""
    return program([handler], version=major + HALF * minor)


@machine()
def handler(frame: Address) -> Address:
    """(carry, count, inputs, key) → (carry, count, rows).

    Arrays may have leading axes, the same for all: so many runs. A table is packed as CALL. An unknown key: an error of XLA.
    """
    call = Record(FRAME, frame)
    if call.extension is not None:
        extension = Record(EXTENSION, call.extension)
        if extension.type & (HALF - 1) == 1:
            extension.metadata[VERSION] = version
            return None
    carry, count, inputs, key = [Record(BUFFER, call.arguments[i]) for i in (0, 1, 2, 3)]
    results = [Record(BUFFER, call.results[i]) for i in (0, 1, 2)]
    for i in range(atomic(USED)):
        slot = KNOWN[SLOT.size * i :]
        if (
            atomic(slot[KEY:]) == key.data[0]
        ):  # first in use, then read: whoever empties the slot does it the other way round
            fetch_add(slot[USERS:], 1)
            table = atomic(slot[TABLE_:])
            found = table != 0 and atomic(slot[KEY:]) == key.data[0]
            if found:
                run_code(Record(CALL, pointer(table)), carry, count, inputs, results)
            fetch_add(slot[USERS:], -1)
            if found:
                return None
    error = Record(ERROR, local(ERROR.size, "Whole"))
    error.size, error.extension, error.message, error.code = 8 * ERROR.size, 0, MESSAGE, INTERNAL
    return pointer(Record(API, call.api).create_error(error))


def run_code(table: Any, carry: Any, count: Any, inputs: Any, results: Any) -> None:
    """Copy carry and count to the results, and run there."""
    new_carry, new_count, rows = results
    copy(entries(carry), carry.data, new_carry.data)
    copy(entries(count), count.data, new_count.data)
    number = entries(count) // COUNTED.size
    if number > 0:
        strides = table.inputs, entries(rows) // number
        table.ensemble(table, new_carry.data, new_count.data, inputs.data, rows.data, number, *strides, table.threads)


def entries(buffer: Any) -> Whole:
    """Number of entries in a buffer."""
    size = 1
    for i in range(buffer.rank):
        size *= buffer.dims[i]
    return size


TARGET = "dalembert_run"


class Handle:
    """A code that XLA may call, as long as this object lives, which the programs that call it keep alive. table: what the
    handler is told; owners: what must live as long."""

    def __init__(self, key: int, row_size: int, table: np.ndarray, owners: Any):
        self.key, self.row_size, self.table, self.owners = key, row_size, table, owners

    @classmethod
    def of(cls, key: int, code: CompiledStep, lanes: bool) -> Handle:
        """Of the run of a step."""
        driver = code.cache.load(ensemble_text(), plain=False)
        table = CALL.pack(
            **TABLE.unpack(code.table(lanes)), ensemble=driver.address("ensemble"),
            inputs=code.layout.packed_inputs.size, threads=processors(),
        )  # fmt: skip
        return cls(key, code.row_size, table, (code, driver))


class _Slots:
    """The table of the handler. What was dropped while it runs is let go after it."""

    def __init__(self) -> None:
        self.loaded: Loaded = CACHE.load(handler_text(*interface()), plain=False)
        words = ctypes.c_int64 * (SLOT.size * SLOTS)
        self.words = words.from_address(self.loaded.variable("slots"))
        self.used = ctypes.c_int64.from_address(self.loaded.variable("used"))
        self.free: deque[int] = deque()
        self.running: list[tuple[int, Any]] = []
        self.lock = threading.RLock()
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        jax.ffi.register_ffi_target(TARGET, capsule(self.loaded.address("handler"), None, None), platform="cpu")

    def enter(self, handle: Handle) -> None:
        with self.lock:
            self.sweep()
            if not self.free and self.used.value == SLOTS:
                raise Unsupported("XLA's foreign function interface", f"more than {SLOTS} compiled runs are in use")
            slot = self.free.popleft() if self.free else self.used.value
            self.words[_word(slot, "table")] = handle.table.ctypes.data
            self.words[_word(slot, "key")] = handle.key
            self.used.value = max(self.used.value, slot + 1)
            weakref.finalize(handle, self.leave, slot, (handle.table, handle.owners)).atexit = False

    def leave(self, slot: int, kept: Any) -> None:
        with self.lock:
            self.words[_word(slot, "key")] = 0
            self.words[_word(slot, "table")] = 0
            self.running.append((slot, kept))
            self.sweep()

    def sweep(self) -> None:
        """Let go of what no call uses any more."""
        still = [(slot, kept) for slot, kept in self.running if self.words[_word(slot, "users")] != 0]
        self.free.extend(slot for slot, _ in self.running if self.words[_word(slot, "users")] == 0)
        self.running = still


def _word(slot: int, name: str) -> int:
    """Index in the table of a word of a slot."""
    return SLOT.size * slot + SLOT.offset(name)


_HANDLES: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
_slots = functools.cache(_Slots)
_LOCK = threading.Lock()


def register(code: CompiledStep, lanes: bool) -> Handle:
    """The handle by which XLA finds a run, made from the content of its code. lanes: compile them, for batches."""
    key = int.from_bytes(bytes.fromhex(code.key[:16]), "little", signed=True) ^ int(lanes) or 1
    with _LOCK:
        found = _HANDLES.get(key)
        if found is None:
            found = _HANDLES[key] = enter_handle(Handle.of(key, code, lanes))
        return found


def enter_handle(handle: Handle) -> Handle:
    """The same, known to XLA from now on."""
    _slots().enter(handle)
    return handle


def run_by_xla(handle: Handle, state: Any, count: Any, inputs: Any, rows: int) -> list:
    """(carry, count, rows) after a run, or after a batch of runs, as part of a traced program."""
    key = jnp.asarray(handle.key, dtype=np.int64)
    return _run.bind(state, count, inputs, key, handle=handle, rows=rows)


_run = Primitive("dalembert_run")
_run.multiple_results = True


@_run.def_abstract_eval
def _(state, count, inputs, key, *, handle: Handle, rows: int):
    return [state, count, state.update(shape=(*state.shape[:-1], rows, handle.row_size))]


@functools.partial(mlir.register_lowering, _run, platform="cpu")
def _(ctx, *operands, handle: Handle, rows: int):
    ctx.module_context.add_keepalive(handle)
    return jax.ffi.ffi_lowering(TARGET)(ctx, *operands)


def _batch(arguments, axes, *, handle: Handle, rows: int):
    """A batch of batches: one more leading axis of all arrays."""
    *arrays, key = arguments
    size = next(x.shape[axis] for x, axis in zip(arrays, axes, strict=False) if axis is not None)
    wide = [batching.bdim_at_front(x, axis, size) for x, axis in zip(arrays, axes, strict=False)]
    results = _run.bind(*wide, key, handle=handle, rows=rows)
    return results, [0] * len(results)


batching.primitive_batchers[_run] = _batch


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
        runs, sound = _check_runs(FlowRuns(y, given["times"], given["tolerance"][:, 0], given["given"]))
        solved = travel(flow, runs, steps, processors())
        found[..., : flow.size], found[..., flow.size :] = solved.rows, outputs_along(flow, runs, solved, processors())
        found[~sound] = np.nan
        counts[:, FOUND.offset("reached")], counts[:, FOUND.offset("steps")] = solved.reached & sound, solved.steps

    called = _KIND(_answering(integrate))
    address = ctypes.cast(called, ctypes.c_void_p).value or 0
    nothing = dict.fromkeys(TABLE.fields, 0)
    table = CALL.pack(**nothing, ensemble=address, inputs=layout.size, threads=1)
    key = int.from_bytes(os.urandom(8), "little", signed=True) or 1
    return enter_handle(Handle(key, width, table, (flow, called)))


def _answering(integrate: Callable[..., None]) -> Callable[..., None]:
    """Function that machine code calls to integrate. Ctrl-C, which XLA would not hear of, comes again after the call."""

    def call(table, carry, count, inputs, rows, number, *_: int) -> None:
        try:
            integrate(number, carry, count, inputs, rows)
        except KeyboardInterrupt:
            threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT)).start()

    return call


def _check_runs(runs: FlowRuns) -> tuple[FlowRuns, np.ndarray]:
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
