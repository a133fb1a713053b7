"""Small dense matrices: the shortest solution of a few equations, the numerical rank, and an order of pivots."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# A pivot this much smaller than the largest of the row-scaled matrix is taken as zero. Row scaling makes a healthy
# matrix have pivots between about h² and 1, so that 1e-13 leaves room for h = 1e-5.
SINGULAR_PIVOT = 1e-13


def least_norm(rows: Float[Array, "m n"], side: Float[Array, "m"]) -> Float[Array, "n"]:
    """Jᵀ(JJᵀ)⁻¹f; NaN or infinite where the rows are dependent."""
    return rows.T @ (inverse(rows @ rows.T) @ side)


def inverse(a: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """a⁻¹; for m = 1, 2 written out, as matrices that small are not worth a call of LAPACK, nor its time to compile."""
    if a.shape[0] == 1:
        return 1.0 / a
    if a.shape[0] == 2:
        adjugate = jnp.stack([a[1, 1], -a[0, 1], -a[1, 0], a[0, 0]]).reshape(2, 2)  # no sums: rows may differ in unit
        return adjugate / (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0])
    return jnp.linalg.inv(a)


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


LARGEST = 2.0  # multiplier of a pivot that is taken for its few neighbours
ROUNDS = 5  # of the scaling


class Pivots(NamedTuple):
    """groups: of one or two rows, in their order. sizes: of a diagonal entry of each row, where all rows are scaled to 1."""

    groups: tuple[tuple[int, ...], ...]
    sizes: Float[np.ndarray, " b"]


def choose_pivots(samples: Float[np.ndarray, "m b b"], coupling: Float[np.ndarray, "m b w"]) -> Pivots | None:
    """Groups of one or two rows of S such that LDLᵀ = [S E; Eᵀ 0] in this order has small multipliers in all samples; None
    where every pivot that is left is singular in one of them, as where a row of S is zero.

    coupling: E, the columns that are not eliminated. Among pivots with multipliers up to 2 in every sample, in the scaling
    |row| = 1, that with the fewest neighbours is next; where there is none, that with the smallest multipliers.
    Source: the pivots of J. R. Bunch, B. N. Parlett (1971), with Markowitz's rule and a threshold.
    """
    a, factors = _scale_alike(samples, coupling)
    b = samples.shape[1]
    left, order = list(range(b)), []
    while left:
        groups = [(p,) for p in left] + list(itertools.combinations(left, 2))
        ranked = [(*_cost(a, group, left, b), group) for group in groups]
        _, largest, group = min(ranked)
        if not np.isfinite(largest):
            return None
        order.append(group)
        left = [p for p in left if p not in group]
        rest = [*left, *range(b, a.shape[1])]
        solved = np.linalg.solve(a[:, group][:, :, group], a[:, group][:, :, rest])
        a[np.ix_(range(len(a)), rest, rest)] -= np.swapaxes(a[:, group][:, :, rest], 1, 2) @ solved
    return Pivots(tuple(order), 1 / np.max(factors[:, :b], axis=0) ** 2)


def _scale_alike(samples: np.ndarray, coupling: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[S E; Eᵀ 0] with rows and columns scaled alike, the largest entry of each row near 1; the factors of the rows."""
    m, b, w = coupling.shape
    a = np.zeros((m, b + w, b + w))
    a[:, :b, :b], a[:, :b, b:], a[:, b:, :b] = samples, coupling, np.swapaxes(coupling, 1, 2)
    factors = np.ones((m, b + w))
    for _ in range(ROUNDS):
        largest = np.abs(a).max(axis=2)
        factor = 1 / np.sqrt(np.where(largest > 0, largest, 1.0))
        a *= factor[:, :, None] * factor[:, None, :]
        factors *= factor
    return a, factors


def _cost(a: np.ndarray, group: tuple[int, ...], left: list[int], b: int) -> tuple[int, float]:
    """(neighbours, largest multiplier) if that is small, else beyond all these (many, largest multiplier)."""
    rest = [*(p for p in left if p not in group), *range(b, a.shape[1])]
    rows = a[:, group][:, :, rest]
    block = a[:, group][:, :, group]
    determinant = np.linalg.det(block)
    if np.any(np.abs(determinant) < 1e-30):
        return a.shape[1] ** 2 + 1, np.inf
    largest = float(np.max(np.abs(np.linalg.solve(block, rows)), initial=0.0))
    neighbours = int(np.count_nonzero(np.any(rows != 0.0, axis=(0, 1))))
    return (neighbours, largest) if largest <= LARGEST else (a.shape[1] ** 2, largest)
