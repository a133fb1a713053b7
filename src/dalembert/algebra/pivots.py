"""An order of pivots of one and two rows for symmetric matrices of one pattern, chosen from samples."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

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
    a, factors = _scaled(samples, coupling)
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


def _scaled(samples: np.ndarray, coupling: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
