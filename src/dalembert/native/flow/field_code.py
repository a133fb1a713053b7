"""The right hand side of an equation as machine code: first the unknowns z with F(z, y, t) = 0, then g(z, y, t)."""

from __future__ import annotations

import math
from typing import Any

from dalembert.native.llvm.dense import CONVERGED, copy
from dalembert.native.llvm.packing import Packing
from dalembert.native.llvm.subset import Real, Reals, Whole, machine, program

# Run parameters of a field: sizes, functions and arrays.
FIELD = Packing.words(
    "unknowns", "size", "width", "most", "signs", "flat", "sides", Real=("tolerance", "clock", "factor"),
    Address=("root", "equations", "pivoted", "function", "written"),
    Reals=("start", "equations_given", "result", "work", "function_given", "written_given", "written_result", "sides_given"),
)  # fmt: skip
# And of a projection.
PROJECTION = Packing.words("size", Real=["clock"], Address=["function"], Reals=["given", "result"])
ROUNDING = 8.0 * 2.0**-53  # of the terms of a residual
NEAR = 1e-9  # of those with |y| + 1: what no update reduces, and is less, is rounding of a function with larger terms inside
UPDATES = 10


def field_text() -> str:
    """The module of `field`, `along` and `project`."""
    return program([field, along, project])


@machine(told=FIELD, constant=["told"])
def field(told: Any, s: Real, y: Reals, out: Reals) -> Whole:
    """out ← factor g(z, y, t), where F(z, y, t) = 0 and t = clock s: with a clock of -1, and a factor of -1, it is the field
    backwards in time.

    Newton's iteration begins at the same z each time, so that z depends on (y, t) alone. The update that passes its test is
    applied. Returns 0, or the code of `root` where it found no z. written: 0, or g with z eliminated, of this width, and
    whether it holds, of (y, t) alone; where it does not hold, z is solved for.
    """
    t, holds = told.clock * s, False
    if told.written is not None:
        _put_state(told.written_given, y, told.size, t)
        told.written(told.written_given, told.written_result)
        holds = told.written_result[told.width] > 0.5
        if holds:
            copy(told.width, told.written_result, out)
    if not holds:
        if told.unknowns != 0:
            code = _solve(told, y, t)
            if code != CONVERGED:
                return code
        _put_state(told.function_given[told.unknowns :], y, told.size, t)
        told.function(told.function_given, out)
    if told.factor != 1.0:
        for i in range(told.width):
            out[i] = told.factor * out[i]
    return 0


def _put_state(given: Reals, y: Reals, n: Whole, t: Real) -> None:
    copy(n, y, given)
    given[n] = t


def _solve(told: Any, y: Reals, t: Real) -> Whole:
    """z, with its last update, to the beginning of what g is given; the code of `root`."""
    k, z, units = told.unknowns, told.equations_given, told.result[told.unknowns + told.unknowns * told.unknowns :]
    copy(k, told.start, z)
    _put_state(z[k:], y, told.size, t)
    code = told.root(told.equations, told.pivoted, z, told.result, told.work, k, told.tolerance, told.most)
    if code == CONVERGED:
        for i in range(k):
            told.function_given[i] = z[i] - told.work[k * k + i] * units[i]
    return code


@machine(told=FIELD, constant=["told"])
def along(told: Any, times: Reals, rows: Reals, out: Reals, *, count: Whole, size: Whole, width: Whole) -> None:
    """g at every row, NaN where there is no z; size: of a row, width: of a result."""
    for i in range(count):
        if field(told, times[i], rows[i * size :], out[i * width :]) != 0:
            for l in range(width):
                out[i * width + l] = math.nan


@machine(told=PROJECTION, constant=["told"])
def project(told: Any, s: Real, y: Reals) -> Whole:
    """y ← y - correction(y) until it is on the constraints at t = clock s.

    The function writes y after one update of Newton's method, and the residual before and after it, as
    `compile_projection`. The updates end where it is rounding, or where they do not halve it any more: then it is rounding,
    too, or no root is near. Returns 0; or 1 where none is, and y is of no use.
    """
    for _ in range(UPDATES):
        _put_state(told.given, y, told.size, told.clock * s)
        told.function(told.given, told.result)
        sizes = told.result[told.size :]
        before, after, near = sizes[0], sizes[1], sizes[2] <= NEAR
        nearer = after <= 0.5 * before  # not so if it is NaN
        if not (near or nearer):
            return 1
        copy(told.size, told.result, y)
        if after <= ROUNDING or (near and not nearer):
            return 0
    return 1
