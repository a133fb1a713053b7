"""Newton's iteration on a KKT system as one loop of machine code, as long as whole steps are accepted.

    K dx = -∇L̃,   taken as `Rules` say

The caller goes on where a step is refused, with shifts, shorter steps and other factorizations. A call of NumPy costs
about a microsecond, and an iteration has a hundred of them: for a thousand nodes as much as the arithmetic.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.assembly.newton_code import CONVERGED, REFUSED, SCALARS, WORDS, NewtonLoop, Rules
from dalembert.native.assembly.system_code import TERM, Point
from dalembert.native.llvm.cache import CACHE, Cache

__all__ = ["CONVERGED", "REFUSED", "ElementSum", "Point", "Rules", "WholeSteps"]


class ElementSum(NamedTuple):
    """One sum of windows: addresses of its gradient and of its second derivatives times a vector, with their data."""

    gradient: tuple[int, int, int]
    product: tuple[int, int, int]
    number: int
    offset: int

    @property
    def packed(self) -> np.ndarray:
        named = {
            f"{name}{part}": address
            for name in ("gradient", "product")
            for part, address in zip(("", "_rows", "_shared"), getattr(self, name), strict=True)
        }
        return TERM.pack(**named, number=self.number, offset=self.offset)


class WholeSteps:
    """The loop for some sums. data: the last arguments of `first`; coordinates: n."""

    def __init__(
        self, sums: Sequence[ElementSum], data: Sequence[int], coordinates: int, rules: Rules, cache: Cache = CACHE
    ):
        self._run = _compiled(len(sums), len(data), coordinates, rules, cache)
        self._last = np.concatenate([*(s.packed for s in sums), np.array(data, np.int64)])

    def job(self, words: dict[str, int]) -> np.ndarray:
        """What the loop is told of one workspace: counts and addresses by the names in WORDS."""
        return np.concatenate([WORDS.pack(**words), self._last])

    def __call__(self, job: np.ndarray, scalars: dict[str, float]) -> tuple[int, dict[str, float]]:
        """(CONVERGED or REFUSED, the scalars at the end). z and g, the path and its gradient, are those of the last accepted
        step."""
        values = SCALARS.pack(**scalars)
        status = self._run(job.ctypes.data, values.ctypes.data)
        return int(status), dict(zip(SCALARS.fields, values.tolist(), strict=True))


_RUNS: dict[tuple, tuple[Callable, object]] = {}


def _compiled(terms: int, data: int, coordinates: int, rules: Rules, cache: Cache) -> Callable:
    key = terms, data, coordinates, rules
    if key not in _RUNS:
        loaded = cache.load(NewtonLoop(*key).text(), plain=False)
        _RUNS[key] = (
            ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(loaded.address("descend")), loaded
        )  # fmt: skip
    return _RUNS[key][0]
