"""The one numerical-rank routine of the library."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rank(NamedTuple):
    """rank A, and how it was determined.

    Attributes:
        rank: the rank.
        singular_values: those of the row-scaled matrix, in decreasing order.
        dependent_rows: indices of the rows that depend on the others, found by a pivoted QR factorization.
    """

    rank: int
    singular_values: np.ndarray
    dependent_rows: tuple[int, ...]

    @property
    def full(self) -> bool:
        return not self.dependent_rows


def numerical_rank(matrix: np.ndarray, tolerance: float = 1e-10) -> Rank:
    """rank A = number of singular values of the row-scaled A above tolerance · max(shape) times the largest.

    Rows are scaled to unit length first, so that a constraint written in other units does not look dependent; a zero row
    stays zero and counts as dependent.

    Args:
        matrix: (m, n), real and finite.
        tolerance: relative to the largest singular value; far above round-off on purpose, because the matrices are
            derivatives of functions written by users.

    Returns:
        A Rank.

    Raises:
        ValueError: the matrix has entries that are not finite.

    Example:
        >>> from dalembert.algebra import numerical_rank
        >>> found = numerical_rank(np.array([[1.0, 0.0], [1e-9, 0.0]]))
        >>> found.rank, len(found.dependent_rows)
        (1, 1)
    """
    import scipy.linalg  # a third of the time to import the package, were it loaded with it

    a = np.atleast_2d(np.asarray(matrix, dtype=float))
    if a.size == 0:
        return Rank(0, np.zeros(0), tuple(range(a.shape[0])))
    if not np.all(np.isfinite(a)):
        raise ValueError("matrix: found NaN or infinity; the rank of such a matrix is not defined")
    lengths = np.linalg.norm(a, axis=1)
    scaled = a / np.where(lengths > 0, lengths, 1.0)[:, None]
    values = np.linalg.svd(scaled, compute_uv=False)
    rank = int(np.sum(values > tolerance * max(a.shape))) if values[0] > 0 else 0
    pivots = scipy.linalg.qr(scaled.T, mode="r", pivoting=True)[-1]
    return Rank(rank, values, tuple(sorted(int(i) for i in pivots[rank:])))
