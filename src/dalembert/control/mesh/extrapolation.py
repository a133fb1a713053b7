"""What four costs on meshes that are halves of each other tell: their limit, its error, and the orders that both have.

    J_h = J + bh² + ch⁴ + …,   E_h = (4J_h - J_{2h})/3 = J - 4ch⁴ + …
    p = log₂((J_{2h} - J_{4h})/(J_h - J_{2h})),   q = log₂((E_{2h} - E_{4h})/(E_h - E_{2h}))

p needs three meshes, q four. With q the error of E_h is |E_h - E_{2h}|/(2^q - 1); without it nobody knows more than that the
difference is an error of E_{2h}.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MEASURED = 1.5  # least q: a kink inside a step leaves differences that fall slower, and by chance
EXPECTED = 4.0  # largest q that counts: what falls faster does so by chance
SAFETY = 3.0


class Limit(NamedTuple):
    """cost: E of the finest meshes; error: estimated; order: p, limit_order: q, NaN where they cannot be told."""

    cost: float
    error: float
    order: float
    limit_order: float


def extrapolated(costs: Sequence[float]) -> list[float]:
    """E on all meshes but the coarsest."""
    return [(4.0 * fine - coarse) / 3.0 for fine, coarse in itertools.pairwise(costs)]


def apart(costs: Sequence[float]) -> float:
    """|E_h - E_{2h}|."""
    fine, coarse, *_ = extrapolated(costs)
    return abs(fine - coarse)


def limit_of(costs: Sequence[float], noise: float, least: float = 0.0) -> Limit:
    """costs: of three or four meshes, the finest first; noise: below which differences mean nothing; least: error where q is
    not known."""
    limits = extrapolated(costs)
    order, limit_order, difference = _order(costs, noise), _order(limits, noise), apart(costs)
    if limit_order >= MEASURED:
        error = SAFETY * difference / (2.0 ** min(limit_order, EXPECTED) - 1.0)
    elif order >= MEASURED or abs(costs[0] - costs[1]) <= noise:
        error = max(difference, least)
    else:  # the costs have another order, or none
        error = max(difference, least, abs(costs[0] - costs[1]))
    return Limit(limits[0], error + noise, order, limit_order)


def _order(values: Sequence[float], noise: float) -> float:
    """log₂ of the ratio of the two finest differences; NaN of two, where they do not fall, or below the noise."""
    if len(values) < 3:
        return np.nan
    fine, coarse = values[0] - values[1], values[1] - values[2]
    falls = fine * coarse > 0.0 and abs(coarse) > abs(fine) > noise
    return float(np.log2(coarse / fine)) if falls else np.nan
