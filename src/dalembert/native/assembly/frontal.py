"""A symmetric matrix that is a sum over windows, factorized block after block without being stored.

    K = Σ_i P_iᵀ K_i P_i = L D Lᵀ,   K_i: second derivatives of window i,   D of blocks of one and of two rows

The window that moves along the path carries the update matrix that the eliminated blocks leave to those that follow. Pivots
are those of an order chosen beforehand: no search, no exchange, and the whole elimination of a block is written out.
Multipliers of successive blocks go by their differences, see `SymbolicPlan`.
Source: B. M. Irons, A frontal solution program (1970); I. S. Duff, J. K. Reid, The multifrontal solution of indefinite
sparse symmetric linear equations (1983). Here the order is the same for all blocks, so that solutions must be checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from dalembert.native.assembly.frontal_code import text
from dalembert.native.assembly.symbolic_plan import Summand, SymbolicPlan
from dalembert.native.llvm.cache import CACHE, Cache


class FrontalFactorization:
    """Factorization and solution for the sum of some summands: machine code, called with addresses.

    reach: blocks after a block that are coupled to it. stored: numbers of a block that are kept.
    """

    def __init__(self, summands: Sequence[Summand], plan: SymbolicPlan, cache: Cache = CACHE):
        self.plan, self.stored = plan, plan.stored
        self.reach = max((q for near in plan.below for q in near), default=0) // plan.size
        code, self.constants = text(summands, plan)
        self.loaded = cache.load(code, plain=True)
        number = {"first": 6 + 3 * len(summands), "forward": 4, "backward": 4}
        self.addresses = {name: self.loaded.address(name) for name in number}
        self.first, self.forward, self.backward = (
            ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * count)(self.addresses[name])
            for name, count in number.items()
        )
        count = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        self.negative = count(self.loaded.address("negative"))

    def bind(
        self, free: np.ndarray, ranges: Sequence[np.ndarray], rows: Sequence[np.ndarray], shared: np.ndarray
    ) -> BoundFactorization:
        """For one matrix. free: (blocks, b), 1.0 where a component is free and 0.0 where it is fixed. ranges: first window
        and number of windows of every summand; rows: their data; shared: the data of all."""
        given = [np.concatenate([shared, constants]) for constants in self.constants]
        arguments = [a for triple in zip(ranges, rows, given, strict=True) for a in triple]
        return BoundFactorization(self, free, arguments)


class BoundFactorization:
    """The factorizations of one matrix. fixed_blocks: (blocks,), not zero where a component is fixed."""

    def __init__(self, factorization: FrontalFactorization, free: np.ndarray, arguments: Sequence[np.ndarray]):
        self.factorization, self.free, self._arguments = factorization, free, arguments
        self.unit, self.fixed_blocks = 1.0 - free, (1.0 - free).max(axis=1)
        self.data = [a.ctypes.data for a in arguments]
        self._free, self._unit, self._fixed_blocks = (a.ctypes.data for a in (self.free, self.unit, self.fixed_blocks))

    def factor(self, z: np.ndarray, diagonal: np.ndarray | None, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(stored, x): L and D of every block, and K⁻¹ right, at a path z (blocks, b). diagonal: (blocks, b), what is added
        to the diagonal, 1 where a component is fixed; None: nothing elsewhere. x is a view of an array with room after the
        last block."""
        found, x = np.empty((len(z), self.factorization.stored)), self._workspace(right)
        into, workspace, added = found.ctypes.data, x.ctypes.data, self._unit if diagonal is None else diagonal.ctypes.data
        self.factorization.first(
            len(z), z.ctypes.data, self._free, self._fixed_blocks, added, into, workspace, *self.data
        )  # fmt: skip
        self.factorization.backward(len(z), into, self._free, self._fixed_blocks, workspace)
        return found, x[: len(z)]

    def solve(self, stored: np.ndarray, right: np.ndarray) -> np.ndarray:
        """K⁻¹ right, (blocks, b)."""
        x = self._workspace(right)
        kept, workspace = stored.ctypes.data, x.ctypes.data
        self.factorization.forward(len(right), kept, self._free, self._fixed_blocks, workspace)
        self.factorization.backward(len(right), kept, self._free, self._fixed_blocks, workspace)
        return x[: len(right)]

    def negative(self, stored: np.ndarray) -> int:
        """How many eigenvalues of D are negative: as many as those of K."""
        return int(self.factorization.negative(len(stored), stored.ctypes.data))

    def _workspace(self, right: np.ndarray) -> np.ndarray:
        x = np.empty((len(right) + self.factorization.reach, right.shape[1]))
        x[: len(right)], x[len(right) :] = right, 0.0
        return x
