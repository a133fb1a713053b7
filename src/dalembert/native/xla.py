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
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.cache import CACHE, Loaded
from dalembert.native.llvm.packing import Packing
from dalembert.native.stepper.arrays import COUNTED
from dalembert.native.stepper.compiled import TABLE, CompiledStep, ensemble
from dalembert.native.threads import processors

# Offsets in the structures of xla/ffi/api/c_api.h, in bytes.
_FRAME = {"extension": 8, "api": 16, "arguments": 72, "results": 112}
_BUFFER = {"data": 24, "rank": 32, "dims": 40}
_EXTENSION = {"type": 8, "metadata": 24}
_METADATA = {"major": 24, "minor": 28}
_CREATE_ERROR = 48  # in the table of functions
_ERROR = {"size": 0, "extension": 8, "message": 16, "code": 24, "end": 32}
_INTERNAL = 13  # code of an internal error
MAJOR = 0  # of the interface these offsets belong to

SLOTS = 65536  # codes that XLA may know at the same time
SLOT = Packing.words("key", "table", "users")  # users: calls that are running
# What a slot's table tells: what @ensemble is told, the address of @ensemble, the length of the inputs, how many threads.
CALL = Packing.words(*TABLE.fields, "ensemble", "inputs", "threads")
GONE = b"dalembert: the machine code of this program is no longer loaded"


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


def ffi_handler(major: int, minor: int) -> str:
    """Module with  ptr @handler(ptr frame)  for  (carry, count, inputs, key) → (carry, count, rows), and the slots it reads.

    Arrays may have leading axes, the same for all: so many runs. A table is packed as CALL. An unknown key: an error of XLA.
    """
    c = Code()
    extension = c.load(_byte(c, "%frame", _FRAME["extension"]), "ptr")
    c.fork(c.let(f"icmp eq ptr {extension}, null"), "find", "asked")
    c.label("asked")
    kind = c.load(_byte(c, extension, _EXTENSION["type"]), "i32")
    c.fork(c.let(f"icmp eq i32 {kind}, 1"), "metadata", "find")
    c.label("metadata")
    metadata = c.load(_byte(c, extension, _EXTENSION["metadata"]), "ptr")
    for name, number in (("major", major), ("minor", minor)):
        c.store(str(number), _byte(c, metadata, _METADATA[name]), "i32")
    c.line("ret ptr null")
    c.label("find")
    arguments, results = (c.load(_byte(c, "%frame", _FRAME[x]), "ptr") for x in ("arguments", "results"))
    buffers = {name: c.load(c.at(arguments, i, "ptr"), "ptr") for i, name in enumerate(("carry", "count", "inputs", "key"))}
    buffers |= {name: c.load(c.at(results, i, "ptr"), "ptr") for i, name in enumerate(("new carry", "new count", "rows"))}
    data = {name: c.load(_byte(c, b, _BUFFER["data"]), "ptr") for name, b in buffers.items()}
    users, table = _find_slot(c, c.load(data["key"], "i64"))
    _run_code(c, buffers, data, table)
    c.line(f"atomicrmw sub ptr {users}, i64 1 seq_cst")
    c.line("ret ptr null")
    _refuse(c)
    slots = f"@slots = global [{SLOT.size * SLOTS} x i64] zeroinitializer\n@used = global i64 0"
    message = f'@gone = internal constant [{len(GONE) + 1} x i8] c"{GONE.decode()}\\00"'
    return module(slots, message, c.function("define ptr @handler(ptr %frame) nounwind"), declared=c.declared)


def _byte(c: Code, pointer: str, offset: int) -> str:
    return c.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def _find_slot(c: Code, key: str) -> tuple[str, str]:
    """(address of the number of users, table) of the slot with this key, now in use; goes to "gone" where there is none."""
    at, used = c.slot("at", "i64"), c.let("load atomic i64, ptr @used acquire, align 8")
    c.store("0", at, "i64")
    c.go("look")
    c.label("look")
    i = c.load(at, "i64")
    c.fork(c.let(f"icmp slt i64 {i}, {used}"), "compare", "gone")
    c.label("compare")
    place = {name: c.at("@slots", c.let(f"add i64 {c.let(f'mul i64 {i}, {SLOT.size}')}, {SLOT.offset(name)}"), "i64")
             for name in SLOT.fields}  # fmt: skip
    c.store(c.let(f"add i64 {i}, 1"), at, "i64")
    here = c.let(f"load atomic i64, ptr {place['key']} acquire, align 8")
    c.fork(c.let(f"icmp eq i64 {here}, {key}"), "enter", "look")
    c.label("enter")  # first in use, then read: whoever empties the slot does it the other way round
    c.line(f"atomicrmw add ptr {place['users']}, i64 1 seq_cst")
    table = c.let(f"load atomic i64, ptr {place['table']} seq_cst, align 8")
    again = c.let(f"load atomic i64, ptr {place['key']} seq_cst, align 8")
    there = c.let(f"and i1 {c.let(f'icmp ne i64 {table}, 0')}, {c.let(f'icmp eq i64 {again}, {key}')}")
    c.fork(there, "run", "leave")
    c.label("leave")
    c.line(f"atomicrmw sub ptr {place['users']}, i64 1 seq_cst")
    c.go("look")
    c.label("run")
    return place["users"], c.let(f"inttoptr i64 {table} to ptr")


def _refuse(c: Code) -> None:
    """Return an error."""
    c.label("gone")
    c.slots.append(f"  %error = alloca [{_ERROR['end']} x i8], align 8")
    values = {"size": (str(_ERROR["end"]), "i64"), "extension": ("null", "ptr"), "message": ("@gone", "ptr"),
              "code": (str(_INTERNAL), "i32")}  # fmt: skip
    for name, (value, kind) in values.items():
        c.store(value, _byte(c, "%error", _ERROR[name]), kind)
    create = c.load(_byte(c, c.load(_byte(c, "%frame", _FRAME["api"]), "ptr"), _CREATE_ERROR), "ptr")
    c.line(f"ret ptr {c.let(f'call ptr {create}(ptr %error)')}")


def _run_code(c: Code, buffers: dict[str, str], data: dict[str, str], table: str) -> None:
    """Copy carry and count to the results, and run there."""
    sizes = {name: _buffer_size(c, buffers[name]) for name in ("carry", "count", "rows")}
    number = c.let(f"sdiv i64 {sizes['count']}, {COUNTED.size}")
    for name in ("carry", "count"):
        length = c.let(f"shl i64 {sizes[name]}, 3")
        c.act("llvm.memcpy.p0.p0.i64", ("ptr", data[f"new {name}"]), ("ptr", data[name]), ("i64", length), ("i1", "false"))
    c.fork(c.let(f"icmp sgt i64 {number}, 0"), "some", "none")
    c.label("some")
    rows = c.let(f"sdiv i64 {sizes['rows']}, {number}")
    known = {name: c.load(c.at(table, CALL.offset(name), "i64"), "i64") for name in ("ensemble", "inputs", "threads")}
    call = c.let(f"inttoptr i64 {known['ensemble']} to ptr")
    arrays = ", ".join(f"ptr {x}" for x in (table, *(data[n] for n in ("new carry", "new count", "inputs", "rows"))))
    numbers = ", ".join(f"i64 {x}" for x in (number, known["inputs"], rows, known["threads"]))
    c.line(f"call void {call}({arrays}, {numbers})")
    c.go("none")
    c.label("none")


def _buffer_size(c: Code, buffer: str) -> str:
    """Number of entries in a buffer."""
    rank, dims = c.load(_byte(c, buffer, _BUFFER["rank"]), "i64"), c.load(_byte(c, buffer, _BUFFER["dims"]), "ptr")
    size = c.slot("size", "i64")
    c.store("1", size, "i64")
    with c.loop(0, rank) as i:
        c.store(c.let(f"mul i64 {c.load(size, 'i64')}, {c.load(c.at(dims, i, 'i64'), 'i64')}"), size, "i64")
    return c.load(size, "i64")


TARGET = "dalembert_run"


class Handle:
    """A code that XLA may call, as long as this object lives, which the programs that call it keep alive. table: what the
    handler is told; owners: what must live as long."""

    def __init__(self, key: int, row_size: int, table: np.ndarray, owners: Any):
        self.key, self.row_size, self.table, self.owners = key, row_size, table, owners

    @classmethod
    def of(cls, key: int, code: CompiledStep, lanes: bool) -> Handle:
        """Of the run of a step."""
        driver = code.cache.load(ensemble(), plain=False)
        table = CALL.pack(
            **TABLE.unpack(code.table(lanes)), ensemble=driver.address("ensemble"),
            inputs=code.layout.packed_inputs.size, threads=processors(),
        )  # fmt: skip
        return cls(key, code.row_size, table, (code, driver))


class _Slots:
    """The table of the handler. What was dropped while it runs is let go after it."""

    def __init__(self) -> None:
        self.loaded: Loaded = CACHE.load(ffi_handler(*interface()), plain=False)
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
