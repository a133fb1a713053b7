"""One root of F(z) = 0, with everything that is evaluated there, in one call of machine code."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert.native.assembly.function import CompiledFunction, compile_function
from dalembert.native.llvm.cache import CACHE, Loaded
from dalembert.native.llvm.dense import iteration, pivoted_solver
from dalembert.native.trace.place import refusing

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

    def over(self, given: np.ndarray, tolerance: float, most: int) -> tuple[Callable[[], int], np.ndarray, np.ndarray]:
        """(call, result, report): call() moves z in `given`, which holds everything the function reads, and returns the
        code. The array may be filled anew before every call: addresses are found once."""
        k, size = self.k, self.function.result_size
        result = np.empty(size + k * (k + 1) + REPORT)
        at, begin = result.ctypes.data, given.ctypes.data
        held = functools.partial(self._run, begin, at, at + 8 * size, k, tolerance, most)
        return held, result[:size], result[-REPORT:]


@refusing
def compile_root(function: Callable, k: int, examples: Sequence[Any]) -> CompiledRoot:
    """function(z, *others) → [F (k,), F' (k, k) with columns in units, the units (k,), …]; examples: of the others."""
    compiled = compile_function(function, np.zeros(k), *examples)
    loop, solver = (CACHE.load(text, plain=True) for text in (iteration(), pivoted_solver()))
    return CompiledRoot(k, compiled, loop, solver)
