"""Newton's iteration on a chain as one loop of machine code, as long as whole steps are accepted.

    K dx = -∇L̃,   accepted where Σf + ρ|c|₁ falls (Armijo) or |∇L̃| is halved, at positive curvature dxᵀH dx

The caller goes on where a step is refused, with shifts, shorter steps and other factorizations. A call of NumPy costs
about a microsecond, and an iteration has a hundred of them: for a thousand nodes as much as the arithmetic.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.assembly.newton_code import CONVERGED, REFUSED, SCALARS, WORDS, DescentLoop
from dalembert.native.llvm.cache import CACHE, Cache

__all__ = ["CONVERGED", "REFUSED", "Sum", "descend"]


class Sum(NamedTuple):
    """One sum of windows: addresses of its gradient and of its second derivatives times a vector, with their data."""

    gradient: tuple[int, int, int]
    product: tuple[int, int, int]
    number: int
    offset: int

    @property
    def words(self) -> list[int]:
        """In the order of TERM."""
        return [*self.gradient, *self.product, self.number, self.offset]


def descend(
    words: dict[str, int],
    scalars: dict[str, float],
    sums: Sequence[Sum],
    data: Sequence[int],
    coordinates: int,
    cache: Cache = CACHE,
) -> tuple[int, dict[str, float]]:
    """(CONVERGED or REFUSED, the scalars at the end). words: counts and addresses by the names in WORDS; data: the last
    arguments of `first`; coordinates: n. z and g, the path and its gradient, are those of the last accepted step; norm is
    squared."""
    run = _compiled(len(sums), len(data), coordinates, cache)
    job = np.array([*(words[name] for name in WORDS), *(w for s in sums for w in s.words), *data], dtype=np.int64)
    values = np.array([scalars[name] for name in SCALARS])
    status = run(job.ctypes.data, values.ctypes.data)
    return int(status), dict(zip(SCALARS, values.tolist(), strict=True))


_RUNS: dict[tuple[int, ...], tuple[Callable, object]] = {}


def _compiled(terms: int, data: int, coordinates: int, cache: Cache) -> Callable:
    key = terms, data, coordinates
    if key not in _RUNS:
        loaded = cache.load(DescentLoop(*key).text(), plain=False)
        _RUNS[key] = (
            ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(loaded.address("descend")), loaded
        )  # fmt: skip
    return _RUNS[key][0]
