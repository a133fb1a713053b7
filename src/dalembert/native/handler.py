"""The compiled run behind XLA's calling convention, so that jitted and batched programs can call it."""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path

import jax
import numpy as np

from dalembert.native.code import Code, module
from dalembert.native.compiled import CompiledStep, processors
from dalembert.native.ensemble import TABLE, ensemble
from dalembert.native.graph import Unsupported
from dalembert.native.layout import COUNTS, total
from dalembert.native.machine import Loaded

# Offsets in the structures of xla/ffi/api/c_api.h, in bytes.
_FRAME = {"extension": 8, "arguments": 72, "results": 112}
_BUFFER = {"data": 24, "rank": 32, "dims": 40}
_EXTENSION = {"type": 8, "metadata": 24}
_METADATA = {"major": 24, "minor": 28}
MAJOR = 0  # of the interface these offsets belong to


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


def handler(major: int, minor: int) -> str:
    """Module with  ptr @handler(ptr frame)  for  (carry, count, inputs) → (carry, count, rows), and the table it uses.

    Arrays may have leading axes, the same for all: so many runs. The table is filled in after loading: ensemble.TABLE,
    then the address of @ensemble, the length of the inputs, the number of threads.
    """
    c = Code()
    extension = c.load(_byte(c, "%frame", _FRAME["extension"]), "ptr")
    c.fork(c.let(f"icmp eq ptr {extension}, null"), "work", "asked")
    c.label("asked")
    kind = c.load(_byte(c, extension, _EXTENSION["type"]), "i32")
    c.fork(c.let(f"icmp eq i32 {kind}, 1"), "metadata", "work")
    c.label("metadata")
    metadata = c.load(_byte(c, extension, _EXTENSION["metadata"]), "ptr")
    for name, number in (("major", major), ("minor", minor)):
        c.store(str(number), _byte(c, metadata, _METADATA[name]), "i32")
    c.line("ret ptr null")
    c.label("work")
    _work(c)
    c.line("ret ptr null")
    table = f"@table = global [{len(TABLE) + 3} x i64] zeroinitializer"
    return module(table, c.function("define ptr @handler(ptr %frame) nounwind"), declared=c.declared)


def _byte(c: Code, pointer: str, offset: int) -> str:
    return c.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def _work(c: Code) -> None:
    """Copy carry and count to the results, and run there."""
    arguments, results = (c.load(_byte(c, "%frame", _FRAME[x]), "ptr") for x in ("arguments", "results"))
    buffers = {name: c.load(c.at(arguments, i, "ptr"), "ptr") for i, name in enumerate(("carry", "count", "inputs"))}
    buffers |= {name: c.load(c.at(results, i, "ptr"), "ptr") for i, name in enumerate(("new carry", "new count", "rows"))}
    data = {name: c.load(_byte(c, b, _BUFFER["data"]), "ptr") for name, b in buffers.items()}
    sizes = {name: _size(c, buffers[name]) for name in ("carry", "count", "rows")}
    number = c.let(f"sdiv i64 {sizes['count']}, {len(COUNTS)}")
    for name in ("carry", "count"):
        length = c.let(f"shl i64 {sizes[name]}, 3")
        c.act("llvm.memcpy.p0.p0.i64", ("ptr", data[f"new {name}"]), ("ptr", data[name]), ("i64", length), ("i1", "false"))
    c.fork(c.let(f"icmp sgt i64 {number}, 0"), "some", "none")
    c.label("some")
    rows = c.let(f"sdiv i64 {sizes['rows']}, {number}")
    table = {
        name: c.load(c.at("@table", len(TABLE) + i, "i64"), "i64") for i, name in enumerate(("call", "inputs", "threads"))
    }
    call = c.let(f"inttoptr i64 {table['call']} to ptr")
    arrays = ", ".join(f"ptr {x}" for x in ("@table", *(data[n] for n in ("new carry", "new count", "inputs", "rows"))))
    numbers = ", ".join(f"i64 {x}" for x in (number, table["inputs"], rows, table["threads"]))
    c.line(f"call void {call}({arrays}, {numbers})")
    c.label("none")


def _size(c: Code, buffer: str) -> str:
    """How many numbers a buffer holds."""
    rank, dims = c.load(_byte(c, buffer, _BUFFER["rank"]), "i64"), c.load(_byte(c, buffer, _BUFFER["dims"]), "ptr")
    size = c.slot("size", "i64")
    c.store("1", size, "i64")
    with c.loop(0, rank) as i:
        c.store(c.let(f"mul i64 {c.load(size, 'i64')}, {c.load(c.at(dims, i, 'i64'), 'i64')}"), size, "i64")
    return c.load(size, "i64")


_REGISTERED: dict[str, tuple[CompiledStep, Loaded, Loaded]] = {}  # kept alive as long as XLA may call them


def register(code: CompiledStep, lanes: bool) -> str:
    """The name under which XLA knows the run: made from the content of its code. lanes: compile them, for batches."""
    name = f"dalembert_{'lanes' if lanes else 'run'}_{code.key[:24]}"
    if name not in _REGISTERED:
        text = f"; {name}\n" + handler(*interface())  # a table of its own for every name
        loaded, driver = code.cache.load(text, plain=False), code.cache.load(ensemble(), plain=False)
        extra = [driver.address("ensemble"), total(code.layout.inputs), processors()]
        numbers = np.concatenate([code.table(lanes), np.array(extra, np.int64)])
        ctypes.memmove(loaded.variable("table"), numbers.ctypes.data, numbers.nbytes)
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        jax.ffi.register_ffi_target(name, capsule(loaded.address("handler"), None, None), platform="cpu")
        _REGISTERED[name] = code, loaded, driver
    return name
