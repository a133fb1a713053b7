"""A dense linear system that LAPACK solves, called from machine code by a pointer that SciPy hands out."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Sequence

from dalembert.native.graph.nodes import size_of_system
from dalembert.native.llvm.builder import Code

NAME = "dalembert_dgesv"  # what machine code calls it; an object file on disk may hold the name


@functools.cache
def address() -> int:
    """Of dgesv. SciPy is loaded by the first code that needs it."""
    capsule = importlib.import_module("scipy.linalg.cython_lapack").__pyx_capi__["dgesv"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name(capsule))


def solution(c: Code, numbers: Sequence[str]) -> list[str]:
    """x with A x = b; numbers: of A, by columns, and then b. In lanes one after the other, each number a vector.

    The numbers lie in memory of their own: for many lanes they are more than the stack of a thread may hold.
    """
    n, count = size_of_system(len(numbers)), len(numbers)
    given = c.call("ptr", "malloc", ("i64", str(8 * count * (c.width + 1))))
    for i, x in enumerate(numbers):
        c.store(x, c.at(given, i, c.real))
    if c.width == 1:
        _solve(c, n, given)
    else:
        _one_by_one(c, n, given, c.at(given, count, c.real))
    found = [c.load(c.at(given, n * n + k, c.real)) for k in range(n)]
    c.act("free", ("ptr", given))
    return found


def _one_by_one(c: Code, n: int, given: str, alone: str) -> None:
    count = n * n + n
    with c.loop(0, c.width) as lane:
        with c.loop(0, count) as i:
            c.store(c.load(_place(c, given, i, lane), "double"), c.at(alone, i), "double")
        _solve(c, n, alone)
        with c.loop(n * n, count) as i:
            c.store(c.load(c.at(alone, i), "double"), _place(c, given, i, lane), "double")


def _place(c: Code, vectors: str, i: str, lane: str) -> str:
    return c.at(vectors, c.let(f"add i64 {c.let(f'mul i64 {i}, {c.width}')}, {lane}"))


def _solve(c: Code, n: int, system: str) -> None:
    """In place; NaN where the matrix is singular."""
    size, one, info = (c.slot(name, "i32") for name in ("size", "one", "info"))
    c.store(str(n), size, "i32")
    c.store("1", one, "i32")
    right = c.at(system, n * n)
    arguments = (size, one, system, size, c.slot("order", "i32", n), right, size, info)
    c.act(NAME, *(("ptr", x) for x in arguments))
    solved = c.let(f"icmp eq i32 {c.load(info, 'i32')}, 0")
    with c.loop(0, n) as i:
        at = c.at(right, i)
        c.store(c.let(f"select i1 {solved}, double {c.load(at, 'double')}, double 0x7FF8000000000000"), at, "double")
