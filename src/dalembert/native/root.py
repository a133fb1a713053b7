"""One root of F(z) = 0, with everything that is evaluated there, in one call of machine code."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert.native.assembly.function import CompiledFunction, compile_function
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.cache import CACHE, Cache, Loaded
from dalembert.native.llvm.dense import EXACT, SOLVED, pivoted_solver
from dalembert.native.trace.place import refusing

CONVERGED, NOT_CONVERGED = SOLVED, 4  # between them the pivoted solver's own codes


def iteration() -> str:
    """LLVM module with  i64 @root(ptr evaluate, ptr pivoted, ptr given, ptr result, ptr work, i64 k, double tolerance,
    i64 most): z ← z - u F'(z)⁻¹F(z) until |update_i| ≤ tolerance (1 + |z_i|), which is left to the caller.

    given: z (k), which is moved, and whatever else evaluate(given, result) reads. result: F (k), F' (k, k) with its columns
    times u, and u (k), then whatever else it writes; at the end it is that of the z in `given`. work: k (k + 1) + 3 numbers.
    Returns CONVERGED, the code of the pivoted solver where it failed, or NOT_CONVERGED after `most` updates.
    """
    c = Code()
    square = c.let("mul i64 %k, %k")
    matrix, units = c.at("%result", "%k"), c.at("%result", c.let(f"add i64 %k, {square}"))
    right = c.at("%work", square)
    report = c.at(right, "%k")
    size = c.slot("size")
    with c.loop(0, "%most"):
        c.line("call void %evaluate(ptr %given, ptr %result)")
        _copy(c, matrix, "%work", square)
        _copy(c, "%result", right, "%k")
        code = c.let(f"call i64 %pivoted(i64 %k, ptr %work, ptr {right}, ptr {report})")
        _leave(c, c.let(f"icmp eq i64 {code}, {EXACT}"), CONVERGED)
        _leave(c, c.let(f"icmp ne i64 {code}, {SOLVED}"), code)
        c.store(c.constant(0.0), size)
        with c.loop(0, "%k") as i:
            update, new = _update(c, i, right, units)
            scale = c.let(f"fadd double {c.constant(1.0)}, {c.absolute(new)}")
            c.store(c.maximum([c.load(size), c.let(f"fdiv double {c.absolute(update)}, {scale}")]), size)
        _leave(c, c.let(f"fcmp ole double {c.load(size)}, %tolerance"), CONVERGED)
        with c.loop(0, "%k") as i:
            c.store(_update(c, i, right, units)[1], c.at("%given", i))
    c.line(f"ret i64 {NOT_CONVERGED}")
    head = (
        "define i64 @root(ptr %evaluate, ptr %pivoted, ptr noalias %given, ptr noalias %result, ptr noalias %work, i64 %k, "
        "double %tolerance, i64 %most) nounwind"
    )
    return module(c.function(head), declared=c.declared)


def _update(c: Code, i: str, right: str, units: str) -> tuple[str, str]:
    """The update of an unknown, and the unknown after it."""
    update = c.let(f"fmul double {c.load(c.at(right, i))}, {c.load(c.at(units, i))}")
    return update, c.let(f"fsub double {c.load(c.at('%given', i))}, {update}")


def _copy(c: Code, source: str, to: str, count: str) -> None:
    with c.loop(0, count) as i:
        c.store(c.load(c.at(source, i)), c.at(to, i))


def _leave(c: Code, condition: str, code: int | str) -> None:
    leave, on = c.name("leave"), c.name("on")
    c.fork(condition, leave, on)
    c.label(leave)
    c.line(f"ret i64 {code}")
    c.label(on)


REPORT = 3  # largest row-scaled |F_i|, sign and size of the determinant


@dataclasses.dataclass(frozen=True)
class CompiledRoot:
    """Newton's iteration for the first outputs of `function`, as `iteration` describes them; k: how many unknowns.

    All arrays are one-dimensional, of doubles, and the caller's own, so that it is safe under threads.
    """

    k: int
    function: CompiledFunction
    _loop: Loaded
    _solver: Loaded

    @functools.cached_property
    def _run(self) -> Any:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 5, ctypes.c_int64, ctypes.c_double, ctypes.c_int64)
        return functools.partial(kind(self._loop.address("root")), self.function.address, self._solver.address("pivoted"))

    def solve(self, given: np.ndarray, tolerance: float, most: int) -> tuple[int, np.ndarray, np.ndarray]:
        """(code, result, report) with z moved in `given`, which holds everything the function reads."""
        call, result, report = self.over(given, tolerance, most)
        return call(), result, report

    def over(self, given: np.ndarray, tolerance: float, most: int) -> tuple[Callable[[], int], np.ndarray, np.ndarray]:
        """`solve` for an array that is filled anew before every call, and its results: addresses are found once."""
        k, size = self.k, self.function.result_size
        result = np.empty(size + k * (k + 1) + REPORT)
        at, begin = result.ctypes.data, given.ctypes.data
        held = functools.partial(self._run, begin, at, at + 8 * size, k, tolerance, most)
        return held, result[:size], result[-REPORT:]


@refusing
def compile_root(function: Callable, k: int, examples: Sequence[Any], cache: Cache = CACHE) -> CompiledRoot:
    """function(z, *others) → [F (k,), F' (k, k) with columns in units, the units (k,), …]; examples: of the others."""
    compiled = compile_function(function, np.zeros(k), *examples, cache=cache)
    loop, solver = (cache.load(text, plain=True) for text in (iteration(), pivoted_solver(None)))
    return CompiledRoot(k, compiled, loop, solver)
