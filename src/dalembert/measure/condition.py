"""Condition: a rank that must be full, at many windows."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.algebra import numerical_rank


@dataclasses.dataclass(frozen=True)
class Condition:
    """rank A_i = wanted at every window i: a matrix that must have full rank.

    A smallest singular value near zero is a warning that the rank is about to drop.

    Attributes:
        name: what the matrix is.
        wanted: the rank that is needed.
        ranks: (K,) rank of each matrix.
        smallest: (K,) the wanted-th singular value of each, with rows of unit length.
    """

    name: str
    wanted: int
    ranks: np.ndarray
    smallest: np.ndarray

    @property
    def holds(self) -> bool:
        """Whether the rank is full at every window."""
        return bool(np.all(self.ranks >= self.wanted))

    @property
    def worst(self) -> int:
        """Index of the window with the smallest singular value."""
        return int(np.argmin(self.smallest))


def condition(name: str, matrices: np.ndarray, wanted: int, t) -> Condition:
    if wanted == 0:
        return Condition(name, 0, np.zeros(len(matrices), int), np.full(len(matrices), np.inf))
    if not np.all(np.isfinite(matrices)):
        k = int(np.argmin(np.all(np.isfinite(matrices), axis=(1, 2))))
        raise ValueError(f"nodes: a derivative of the node equations is not finite at t = {float(t[k]):g}")
    found = [numerical_rank(matrix) for matrix in matrices]
    smallest = np.array([rank.singular_values[wanted - 1] for rank in found])
    return Condition(name, wanted, np.array([rank.rank for rank in found]), smallest)
