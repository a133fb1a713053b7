"""Dense linear systems: the pivoted solver, in loops, for Jacobians whose pivots fail the check and for large dense ones;
and LAPACK's, called from machine code by a pointer that SciPy hands out.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Sequence

from dalembert.algebra.roots import SINGULAR_PIVOT
from dalembert.native.graph.graph import size_of_system
from dalembert.native.llvm.builder import Code, real

LAPACK_SOLVE = "dalembert_dgesv"  # what machine code calls it; an object file on disk may hold the name


@functools.cache
def lapack_address() -> int:
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
        _solve_in_place(c, n, given)
    else:
        _one_by_one(c, n, given, c.at(given, count, c.real))
    found = [c.load(c.at(given, n * n + k, c.real)) for k in range(n)]
    c.act("free", ("ptr", given))
    return found


def _one_by_one(c: Code, n: int, given: str, alone: str) -> None:
    count = n * n + n
    with c.loop(0, c.width) as lane:
        with c.loop(0, count) as i:
            c.store(c.load(_entry_address(c, given, i, lane), "double"), c.at(alone, i), "double")
        _solve_in_place(c, n, alone)
        with c.loop(n * n, count) as i:
            c.store(c.load(c.at(alone, i), "double"), _entry_address(c, given, i, lane), "double")


def _entry_address(c: Code, vectors: str, i: str, lane: str) -> str:
    return c.at(vectors, c.let(f"add i64 {c.let(f'mul i64 {i}, {c.width}')}, {lane}"))


def _solve_in_place(c: Code, n: int, system: str) -> None:
    """In place; NaN where the matrix is singular."""
    size, one, info = (c.slot(name, "i32") for name in ("size", "one", "info"))
    c.store(str(n), size, "i32")
    c.store("1", one, "i32")
    right = c.at(system, n * n)
    arguments = (size, one, system, size, c.slot("order", "i32", n), right, size, info)
    c.act(LAPACK_SOLVE, *(("ptr", x) for x in arguments))
    solved = c.let(f"icmp eq i32 {c.load(info, 'i32')}, 0")
    with c.loop(0, n) as i:
        at = c.at(right, i)
        c.store(c.let(f"select i1 {solved}, double {c.load(at, 'double')}, double 0x7FF8000000000000"), at, "double")


SOLVED, SINGULAR, NOT_FINITE, EXACT = range(4)


def pivoted_solver(size: int | None = None) -> str:
    """LLVM module with  i64 @pivoted(i64 n, ptr a, ptr b, ptr report): b ← a⁻¹b, a (n, n) by rows.

    With a size, n is that number, so that the loops are compiled for it.
    Rows are scaled to unit maximum, then partial pivoting. report: largest row-scaled |b_i|, sign and size of the
    determinant. Returns SOLVED; EXACT (b is zero: nothing to solve); SINGULAR (a pivot is at most SINGULAR_PIVOT of the
    largest); NOT_FINITE (an entry of a or b is).
    """
    c = Code()
    n = "%n" if size is None else str(size)
    finite, zero, residual, whole = c.slot("finite", "i1"), c.slot("zero", "i1"), c.slot("residual"), c.slot("whole")
    for slot in (finite, zero):
        c.store("true", slot, "i1")
    c.store("0.0", residual)
    c.store("1.0", whole)
    with c.loop(0, n) as i:
        _times(c, whole, _scale_row(c, n, i, finite, zero, residual))
    c.store(c.load(residual), "%report")
    c.fork(c.load(finite, "i1"), "factor", "bad")
    c.label("bad")
    c.line(f"ret i64 {NOT_FINITE}")
    c.label("factor")
    low, high, sign = c.slot("low"), c.slot("high"), c.slot("sign")
    for slot, start in ((low, real(float("inf"))), (high, "0.0"), (sign, "1.0")):
        c.store(start, slot)
    with c.loop(0, n) as k:
        _swap_pivot(c, n, k, sign)
        _times(c, whole, _note_pivot(c, n, k, low, high, sign))
        _eliminate_below(c, n, k)
    _substitute_back(c, n)
    c.store(c.load(sign), c.at("%report", 1))
    c.store(c.load(whole), c.at("%report", 2))
    limit = c.let(f"fmul double {c.load(high)}, {real(SINGULAR_PIVOT)}")
    singular = c.let(f"fcmp ole double {c.load(low)}, {limit}")
    code = c.let(f"select i1 {singular}, i64 {SINGULAR}, i64 {SOLVED}")
    exact = c.load(zero, "i1")
    code = c.let(f"select i1 {exact}, i64 {EXACT}, i64 {code}")
    c.line(f"ret i64 {code}")
    head = "define i64 @pivoted(i64 %n, ptr noalias %a, ptr noalias %b, ptr noalias %report) nounwind"
    return "\n".join([c.function(head), *sorted(c.declared)])


def _absolute(c: Code, x: str) -> str:
    return c.call("double", "llvm.fabs.f64", ("double", x))


def _entry(c: Code, n: str, i: str, j: str) -> str:
    start = c.let(f"mul i64 {i}, {n}")
    return c.at("%a", c.let(f"add i64 {start}, {j}"))


def _raise(c: Code, slot: str, value: str) -> None:
    """slot ← max(slot, value)."""
    old = c.load(slot)
    larger = c.let(f"fcmp ogt double {value}, {old}")
    c.store(c.let(f"select i1 {larger}, double {value}, double {old}"), slot)


def _times(c: Code, slot: str, factor: str) -> None:
    c.store(c.let(f"fmul double {c.load(slot)}, {factor}"), slot)


def _and(c: Code, slot: str, condition: str) -> None:
    old = c.load(slot, "i1")
    c.store(c.let(f"and i1 {old}, {condition}"), slot, "i1")


def _scale_row(c: Code, n: str, i: str, finite: str, zero: str, residual: str) -> str:
    """Divide a row and its right side by the row's largest entry, which is returned."""
    largest, total = c.slot("largest"), c.slot("total")
    c.store("0.0", largest)
    right = c.at("%b", i)
    b = c.load(right)
    c.store(_absolute(c, b), total)
    with c.loop(0, n) as j:
        size = _absolute(c, c.load(_entry(c, n, i, j)))
        _raise(c, largest, size)
        not_finite = c.let(f"fcmp uge double {size}, {real(float('inf'))}")
        c.store(c.let(f"select i1 {not_finite}, double {size}, double {c.load(total)}"), total)
    _and(c, finite, c.let(f"fcmp olt double {c.load(total)}, {real(float('inf'))}"))
    _and(c, zero, c.let(f"fcmp oeq double {b}, 0.0"))
    size = c.load(largest)
    positive = c.let(f"fcmp ogt double {size}, 0.0")
    scale = c.let(f"select i1 {positive}, double {size}, double 1.0")
    with c.loop(0, n) as j:
        entry = _entry(c, n, i, j)
        c.store(c.let(f"fdiv double {c.load(entry)}, {scale}"), entry)
    scaled = c.let(f"fdiv double {b}, {scale}")
    c.store(scaled, right)
    size = _absolute(c, scaled)
    old = c.load(residual)
    keep = c.let(f"fcmp ule double {size}, {old}")
    valid = c.let(f"fcmp ord double {size}, {size}")
    keep = c.let(f"and i1 {keep}, {valid}")
    c.store(c.let(f"select i1 {keep}, double {old}, double {size}"), residual)
    return scale


def _swap_pivot(c: Code, n: str, k: str, sign: str) -> None:
    best, largest = c.slot("best", "i64"), c.slot("largest")
    c.store(k, best, "i64")
    c.store(_absolute(c, c.load(_entry(c, n, k, k))), largest)
    with c.loop(c.let(f"add i64 {k}, 1"), n) as i:
        size = _absolute(c, c.load(_entry(c, n, i, k)))
        larger = c.let(f"fcmp ogt double {size}, {c.load(largest)}")
        c.store(c.let(f"select i1 {larger}, i64 {i}, i64 {c.load(best, 'i64')}"), best, "i64")
        _raise(c, largest, size)
    row = c.load(best, "i64")
    swap, done = c.name("swap"), c.name("swapped")
    c.fork(c.let(f"icmp eq i64 {row}, {k}"), done, swap)
    c.label(swap)
    c.store(c.let(f"fneg double {c.load(sign)}"), sign)
    with c.loop(0, n) as j:
        _exchange(c, _entry(c, n, k, j), _entry(c, n, row, j))
    _exchange(c, c.at("%b", k), c.at("%b", row))
    c.label(done)


def _exchange(c: Code, first: str, second: str) -> None:
    x, y = c.load(first), c.load(second)
    c.store(y, first)
    c.store(x, second)


def _note_pivot(c: Code, n: str, k: str, low: str, high: str, sign: str) -> str:
    """The extremes of the pivots and their sign; returns the size of this one."""
    pivot = c.load(_entry(c, n, k, k))
    size = _absolute(c, pivot)
    _raise(c, high, size)
    old = c.load(low)
    smaller = c.let(f"fcmp olt double {size}, {old}")
    c.store(c.let(f"select i1 {smaller}, double {size}, double {old}"), low)
    old = c.load(sign)
    turned, negative = c.let(f"fneg double {old}"), c.let(f"fcmp olt double {pivot}, 0.0")
    turned = c.let(f"select i1 {negative}, double {turned}, double {old}")
    zero = c.let(f"fcmp oeq double {pivot}, 0.0")
    c.store(c.let(f"select i1 {zero}, double 0.0, double {turned}"), sign)
    return size


def _eliminate_below(c: Code, n: str, k: str) -> None:
    inverse = c.let(f"fdiv double 1.0, {c.load(_entry(c, n, k, k))}")
    after = c.let(f"add i64 {k}, 1")
    above = c.load(c.at("%b", k))
    with c.loop(after, n) as i:
        factor = c.let(f"fmul double {c.load(_entry(c, n, i, k))}, {inverse}")
        with c.loop(after, n) as j:
            entry = _entry(c, n, i, j)
            product = c.let(f"fmul contract double {factor}, {c.load(_entry(c, n, k, j))}")
            c.store(c.let(f"fsub contract double {c.load(entry)}, {product}"), entry)
        right = c.at("%b", i)
        product = c.let(f"fmul contract double {factor}, {above}")
        c.store(c.let(f"fsub contract double {c.load(right)}, {product}"), right)


def _substitute_back(c: Code, n: str) -> None:
    with c.loop(0, n) as up:
        k = c.let(f"sub i64 {c.let(f'sub i64 {n}, 1')}, {up}")
        right = c.at("%b", k)
        rest = c.slot("rest")
        c.store(c.load(right), rest)
        with c.loop(c.let(f"add i64 {k}, 1"), n) as j:
            entry, known = c.load(_entry(c, n, k, j)), c.load(c.at("%b", j))
            product = c.let(f"fmul contract double {entry}, {known}")
            c.store(c.let(f"fsub contract double {c.load(rest)}, {product}"), rest)
        c.store(c.let(f"fdiv double {c.load(rest)}, {c.load(_entry(c, n, k, k))}"), right)
