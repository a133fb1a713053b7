"""Interior steps on a KKT system as one loop of machine code, as long as nothing rare is met.

    K dx = -∇L̃ ± κμ/(Us),   taken as `InteriorRules` say

The caller does an iteration of its own where the loop is refused one, and comes back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from dalembert.native.assembly.interior_code import interior_text
from dalembert.native.assembly.interior_parts import LIMIT, SCALARS, WORDS, InteriorRules
from dalembert.native.assembly.newton import ElementSum
from dalembert.native.llvm.cache import CACHE, Cache

__all__ = ["LIMIT", "InteriorRules", "InteriorSteps"]


class InteriorSteps:
    """The loop for some sums. data: the last arguments of `first`; coordinates: n."""

    def __init__(
        self, sums: Sequence[ElementSum], data: Sequence[int], coordinates: int, rules: InteriorRules, cache: Cache = CACHE
    ):
        self._run = _compiled(len(sums), len(data), coordinates, rules, cache)
        self._last = np.concatenate([*(s.packed for s in sums), np.array(data, np.int64)])

    def job(self, words: dict[str, int]) -> np.ndarray:
        """What the loop is told of one workspace: counts and addresses by their names."""
        return np.concatenate([WORDS.pack(**words), self._last])

    def __call__(self, job: np.ndarray, scalars: dict[str, float]) -> tuple[int, dict[str, float]]:
        """(REFUSED, CONVERGED or LIMIT, the numbers at the end). The path and all that belongs to it are those of the last
        accepted step."""
        values = SCALARS.pack(**scalars)
        status = self._run(job.ctypes.data, values.ctypes.data)
        return int(status), dict(zip(SCALARS.fields, values.tolist(), strict=True))


_RUNS: dict[tuple, tuple[Callable, object]] = {}


def _compiled(terms: int, data: int, coordinates: int, rules: InteriorRules, cache: Cache) -> Callable:
    key = terms, data, coordinates, rules
    if key not in _RUNS:
        loaded = cache.load(interior_text(*key), plain=False)
        _RUNS[key] = (
            ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(loaded.address("interior")), loaded
        )  # fmt: skip
    return _RUNS[key][0]
