"""The machine code that XLA calls: by the key that comes with a call it finds the compiled run, and runs it."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import jax

from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.packing import Packing
from dalembert.native.stepper.arrays import COUNTED
from dalembert.native.stepper.compiled import TABLE

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
    users, table = _found(c, c.load(data["key"], "i64"))
    _work(c, buffers, data, table)
    c.line(f"atomicrmw sub ptr {users}, i64 1 seq_cst")
    c.line("ret ptr null")
    _refuse(c)
    slots = f"@slots = global [{SLOT.size * SLOTS} x i64] zeroinitializer\n@used = global i64 0"
    message = f'@gone = internal constant [{len(GONE) + 1} x i8] c"{GONE.decode()}\\00"'
    return module(slots, message, c.function("define ptr @handler(ptr %frame) nounwind"), declared=c.declared)


def _byte(c: Code, pointer: str, offset: int) -> str:
    return c.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def _found(c: Code, key: str) -> tuple[str, str]:
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


def _work(c: Code, buffers: dict[str, str], data: dict[str, str], table: str) -> None:
    """Copy carry and count to the results, and run there."""
    sizes = {name: _size(c, buffers[name]) for name in ("carry", "count", "rows")}
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


def _size(c: Code, buffer: str) -> str:
    """How many numbers a buffer holds."""
    rank, dims = c.load(_byte(c, buffer, _BUFFER["rank"]), "i64"), c.load(_byte(c, buffer, _BUFFER["dims"]), "ptr")
    size = c.slot("size", "i64")
    c.store("1", size, "i64")
    with c.loop(0, rank) as i:
        c.store(c.let(f"mul i64 {c.load(size, 'i64')}, {c.load(c.at(dims, i, 'i64'), 'i64')}"), size, "i64")
    return c.load(size, "i64")
