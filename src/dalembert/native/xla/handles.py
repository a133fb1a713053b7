"""The compiled run behind XLA's calling convention, so that jitted and batched programs can call it.

XLA keeps the address of every handler that it was given. It gets one, once, and with each call a key, made from the content
of the code, by which the handler finds the code in a table of slots. A compiled program of XLA holds on to its codes.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections import deque
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.cache import CACHE
from dalembert.native.llvm.jit import Loaded
from dalembert.native.stepper.compiled import TABLE, CompiledStep, ensemble
from dalembert.native.threads import processors
from dalembert.native.xla.ffi import CALL, SLOT, SLOTS, ffi_handler, interface

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
    """Where a word of a slot stands in the table."""
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
            found = _HANDLES[key] = entered(Handle.of(key, code, lanes))
        return found


def entered(handle: Handle) -> Handle:
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
