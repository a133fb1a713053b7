"""Which velocities follow from which: the choice of dependent coordinates for φ(q, v) = 0, and how good it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dalembert.algebra import numerical_rank
from dalembert.systems.checks import RankDeficientError
from dalembert.systems.system import System

Rows = Float[np.ndarray, "m n"]

USABLE = 1e-3  # quality below which a chart is refused: velocities in it then lose three digits
ENUMERATED = 1000  # so many charts are compared one by one; beyond, those that are best at one of the points


def guaranteed(m: int, n: int) -> float:
    """1/√(1 + m(n-m)): the quality that the best chart has at least, at any point."""
    return 1.0 / math.sqrt(1.0 + m * (n - m))


def other_coordinates(dependent: tuple[int, ...], n: int) -> tuple[int, ...]:
    """The other coordinates, in their order."""
    return tuple(i for i in range(n) if i not in dependent)


def largest_volume(rows: Rows) -> tuple[int, ...]:
    """Dependent coordinates with |A_ij| ≤ 1: a column-pivoted QR factorization, then exchanges while one enlarges |det φ_α|.

    Among equal pivots the last coordinates come first, as in the paper, which writes q = (q^a, q^α).
    """
    import scipy.linalg  # a third of the time to import the package, were it loaded with it

    m, n = rows.shape
    pivots = scipy.linalg.qr(rows[:, ::-1], mode="r", pivoting=True)[-1]
    chosen = [int(n - 1 - i) for i in pivots[:m]]
    while m:
        free = other_coordinates(tuple(chosen), n)
        a = np.linalg.solve(rows[:, chosen], rows[:, list(free)])
        if not a.size or np.abs(a).max() <= 1.0 + 1e-9:
            break
        i, j = np.unravel_index(np.abs(a).argmax(), a.shape)
        chosen[i] = free[j]
    return tuple(sorted(chosen))


def best_chart(rows: Sequence[Rows]) -> tuple[tuple[int, ...], float]:
    """The dependent coordinates with the largest least quality over the points, and that quality."""
    for one in rows:
        if not np.all(np.isfinite(one)):
            raise ValueError("q, v: ∂φ/∂v is not finite there")
        found = numerical_rank(one)
        if not found.full:
            raise RankDeficientError(
                f"constraints: ∂φ/∂v has rank {found.rank} of {one.shape[0]} there, so that no choice of dependent "
                "velocities exists; dalembert.solvability says what is wrong"
            )
    m, n = rows[0].shape
    charts = {largest_volume(one) for one in rows}
    if len(rows) > 1 and math.comb(n, m) <= ENUMERATED:
        charts |= set(itertools.combinations(range(n), m))
    worst = {chart: least_quality(rows, chart) for chart in charts}
    best = max(charts, key=lambda chart: (round(worst[chart], 9), chart))
    return best, worst[best]


def least_quality(rows: Sequence[Rows], dependent: tuple[int, ...]) -> float:
    """The least 1/√(1 + |A|²) over the points, A = φ_α⁻¹φ_a; 0 where the choice is singular at one of them.

    It is at most the cosine of the largest angle between ker φ_v and the coordinate plane of the a, and does not depend
    on how the constraints are written.
    """
    found = []
    for one in rows:
        block, free = one[:, list(dependent)], other_coordinates(dependent, one.shape[1])
        regular = numerical_rank(block).full
        found.append(1 / math.sqrt(1 + np.sum(np.linalg.solve(block, one[:, list(free)]) ** 2)) if regular else 0.0)
    return min(found)


def indices_of(system: System, dependent: Sequence[int | str], n: int, m: int) -> tuple[int, ...]:
    """The user's choice of dependent coordinates as sorted indices."""
    names = list(system.coordinates or ())
    if isinstance(dependent, str | int) or not isinstance(dependent, Sequence):
        raise TypeError(f"dependent: found {dependent!r}; give a sequence of {m} names or indices")
    found = []
    for wanted in dependent:
        if isinstance(wanted, str) and wanted in names:
            found.append(names.index(wanted))
        elif not isinstance(wanted, str | bool) and isinstance(wanted, int | np.integer) and 0 <= wanted < n:
            found.append(int(wanted))
        else:
            raise ValueError(f"dependent: found {wanted!r}; the coordinates are {', '.join(names) or f'0 to {n - 1}'}")
    if len(set(found)) != m or len(found) != m:
        raise ValueError(f"dependent: found {tuple(dependent)}; {m} constraints need {m} different coordinates")
    return tuple(sorted(found))


def name_of(system: System, chart: tuple[int, ...]) -> str:
    """The coordinates of a choice by name, for messages."""
    names = system.coordinates
    return ", ".join(names[i] if names else f"q[{i}]" for i in chart) or "none"
