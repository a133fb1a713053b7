"""Dense linear systems: the pivoted solver, in loops, for Jacobians whose pivots fail the check and for large dense ones;
and LAPACK's, called from machine code by a pointer that SciPy hands out.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
from collections.abc import Sequence

from dalembert.algebra import SINGULAR_PIVOT
from dalembert.native.graph.graph import size_of_system
from dalembert.native.llvm.builder import Code, Operand, where
from dalembert.native.llvm.subset import Address, Real, Reals, Whole, machine, program

LAPACK_SOLVE = "dalembert_dgesv"  # what machine code calls it; an object file on disk may hold the name


@functools.cache
def lapack_address() -> int:
    """Of dgesv. SciPy is loaded by the first code that needs it."""
    capsule = importlib.import_module("scipy.linalg.cython_lapack").__pyx_capi__["dgesv"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name(capsule))


def solution(c: Code, numbers: Sequence[Operand]) -> list[Operand]:
    """x with A x = b; numbers: of A, by columns, and then b. In lanes one after the other, each number a vector.

    The numbers lie in memory of their own: for many lanes they are more than the stack of a thread may hold.
    """
    n, count = size_of_system(len(numbers)), len(numbers)
    given = c.call("ptr", "malloc", ("i64", 8 * count * (c.width + 1))).at(0, c.real)
    for i, x in enumerate(numbers):
        given[i] = x
    if c.width == 1:
        _solve_in_place(c, n, given)
    else:
        _one_by_one(c, n, given.at(0, "double"), given[count:].at(0, "double"))
    found = [given[n * n + k] for k in range(n)]
    c.call("void", "free", given)
    return found


def _one_by_one(c: Code, n: int, given: Operand, alone: Operand) -> None:
    count = n * n + n
    with c.loop(0, c.width) as lane:
        with c.loop(0, count) as i:
            alone[i] = given[i * c.width + lane]
        _solve_in_place(c, n, alone)
        with c.loop(n * n, count) as i:
            given[i * c.width + lane] = alone[i]


def _solve_in_place(c: Code, n: int, system: Operand) -> None:
    """In place; NaN where the matrix is singular."""
    size, one, info = (c.slot(name, "i32") for name in ("size", "one", "info"))
    size[0], one[0] = n, 1
    right = system[n * n :]
    c.call("void", LAPACK_SOLVE, size, one, system, size, c.slot("order", "i32", n), right, size, info)
    solved = info[0] == 0
    with c.loop(0, n) as i:
        right[i] = where(solved, right[i], math.nan)


SOLVED, SINGULAR, NOT_FINITE, EXACT = range(4)
INFINITY = math.inf


def pivoted_solver() -> str:
    """The module of `pivoted`."""
    return program([pivoted])


@machine(apart=True)
def pivoted(n: Whole, a: Reals, b: Reals, report: Reals) -> Whole:
    """b ← a⁻¹b, a (n, n) by rows.

    Rows are scaled to unit maximum, then partial pivoting. report: largest row-scaled |b_i|, sign and size of the
    determinant. Returns SOLVED; EXACT (b is zero: nothing to solve); SINGULAR (a pivot is at most SINGULAR_PIVOT of the
    largest); NOT_FINITE (an entry of a or b is).
    """
    finite, zero, residual, whole = True, True, 0.0, 1.0
    for i in range(n):
        row = a[i * n :]
        largest, total = 0.0, abs(b[i])
        for j in range(n):
            entry = abs(row[j])
            largest = max(largest, entry)
            total = total if entry < INFINITY else entry
        finite, zero = finite & (total < INFINITY), zero & (b[i] == 0.0)
        scale = largest if largest > 0.0 else 1.0
        for j in range(n):
            row[j] = row[j] / scale
        b[i] = b[i] / scale
        right = abs(b[i])
        residual = residual if not right > residual and right == right else right
        whole *= scale
    report[0] = residual
    if not finite:
        return NOT_FINITE
    low, high, sign = INFINITY, 0.0, 1.0
    for k in range(n):
        best, largest = k, abs(a[k * n + k])
        for i in range(k + 1, n):
            entry = abs(a[i * n + k])
            best, largest = i if entry > largest else best, max(largest, entry)
        if best != k:
            sign = -sign
            for j in range(n):
                a[k * n + j], a[best * n + j] = a[best * n + j], a[k * n + j]
            b[k], b[best] = b[best], b[k]
        pivot = a[k * n + k]
        low, high = min(low, abs(pivot)), max(high, abs(pivot))
        sign = 0.0 if pivot == 0.0 else -sign if pivot < 0.0 else sign
        whole *= abs(pivot)
        _eliminate_below(n, k, a, b)
    _substitute_back(n, a, b)
    report[1] = sign
    report[2] = whole
    return EXACT if zero else SINGULAR if low <= high * SINGULAR_PIVOT else SOLVED


@machine(flags="contract")
def _eliminate_below(n: Whole, k: Whole, a: Reals, b: Reals) -> None:
    inverse, above = 1.0 / a[k * n + k], b[k]
    for i in range(k + 1, n):
        factor = a[i * n + k] * inverse
        for j in range(k + 1, n):
            a[i * n + j] -= factor * a[k * n + j]
        b[i] -= factor * above


@machine(flags="contract")
def _substitute_back(n: Whole, a: Reals, b: Reals) -> None:
    for k in range(n - 1, -1, -1):
        rest = b[k]
        for j in range(k + 1, n):
            rest -= a[k * n + j] * b[j]
        b[k] = rest / a[k * n + k]


def copy(count: Whole, source: Reals, to: Reals) -> None:
    """to ← source, so many numbers."""
    for i in range(count):
        to[i] = source[i]


CONVERGED, NOT_CONVERGED = SOLVED, 4  # between them the pivoted solver's own codes


def iteration() -> str:
    """The module of `root`."""
    return program([root])


@machine(apart=True)
def root(
    evaluate: Address, pivoted: Address, given: Reals, result: Reals, work: Reals, *, k: Whole, tolerance: Real, most: Whole
) -> Whole:
    """z ← z - u F'(z)⁻¹F(z) until |update_i| ≤ tolerance (1 + |z_i|), which is left to the caller.

    given: z (k), which is moved, and whatever else evaluate(given, result) reads. result: F (k), F' (k, k) with its columns
    times u, and u (k), then whatever else it writes; at the end it is that of the z in `given`. work: k (k + 1) + 3 numbers.
    Returns CONVERGED, the code of the pivoted solver where it failed, or NOT_CONVERGED after `most` updates.
    """
    square = k * k
    units, right = result[k + square :], work[square:]
    for _ in range(most):
        evaluate(given, result)
        copy(square, result[k:], work)
        copy(k, result, right)
        code = pivoted(k, work, right, right[k:])
        if code == EXACT:
            return CONVERGED
        if code != SOLVED:
            return code
        size = 0.0
        for i in range(k):
            update = right[i] * units[i]
            size = max(abs(update) / (1.0 + abs(given[i] - update)), size)
        if size <= tolerance:
            return CONVERGED
        for i in range(k):
            given[i] -= right[i] * units[i]
    return NOT_CONVERGED
