"""Typical sizes of a boundary problem: of its positions, its unknowns, its constraints and its action.

An origin o and sizes s of the coordinates are read off what is given (docs/boundary.md states the rule). With the time T of
the problem q⁽ⁱ⁾ has the size s/Tⁱ, an equation φ the size γ = max |∂φ/∂q⁽ⁱ⁾| s/Tⁱ, L the second derivatives σ = max
|∂²L/∂q⁽ᵏ⁾²| (s/Tᵏ)² in these units, with a free T at least |L|, and its multiplier the size σ/γ. What is small is small
against these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.discretize import Windows
from dalembert.systems import power_of_two

SLIGHT = 1e-3  # part of the first path's extent that counts where the given positions lie closer together
SMALLEST = 1e-280  # the last digits of less are no normal numbers, and 0 in a thread of XLA
FAR = 2.0  # extents: a path farther than that from zero is counted from an origin of its own


class Densities(NamedTuple):
    """At sample points of the first path: |∂²L/∂q⁽ᵏ⁾²| by coordinate, |∂φ/∂q⁽ⁱ⁾| of every constraint, and |L|, 0 where a
    number added to L changes nothing: where T is given."""

    inertia: Float[np.ndarray, "n"]
    differential: Float[np.ndarray, "m k+1 n"]
    holonomic: Float[np.ndarray, "mh n"]
    value: float


class Sizes(NamedTuple):
    """positions: s. time: T, 1 where windows have no jet. action: σ. differential, holonomic: γ of every equation."""

    positions: Float[np.ndarray, "n"]
    time: float
    action: float
    differential: Float[np.ndarray, "m"]
    holonomic: Float[np.ndarray, "mh"]

    def of(self, order) -> np.ndarray:
        """Sizes of q⁽ⁱ⁾, i = order: (…, n)."""
        return self.positions / self.time ** np.asarray(order, dtype=float)[..., None]


def origin_of(given: Float[np.ndarray, "points n"], path: Float[np.ndarray, "nodes n"]) -> Float[np.ndarray, "n"]:
    """0 where the positions lie near 0; far from it a round number amidst them.

    It is a multiple of a power of two that is at least their extent, so that q - o is exact, and o + (q - o) is q.
    """
    points = given if len(given) else path
    low, high = points.min(axis=0), points.max(axis=0)
    low, high = (np.where(low == high, x, y) for x, y in ((path.min(axis=0), low), (path.max(axis=0), high)))
    middle = 0.5 * (low + high)
    least = np.spacing(np.maximum(np.abs(middle), SMALLEST)) * 2.0**20
    unit = power_of_two(np.where(high > low, high - low, least), upwards=True)
    return np.where(np.abs(middle) < FAR * unit, 0.0, unit * np.round(middle / unit))


def extents_of(given: Float[np.ndarray, "points n"], path: Float[np.ndarray, "nodes n"]) -> Float[np.ndarray, "n"]:
    """Extents of the given positions, (n,), or a thousandth of the extent of the first path where that is more."""
    apart = np.ptp(given, axis=0) if len(given) else 0.0
    return np.maximum(apart, SLIGHT * np.ptp(path, axis=0))


def sizes_of(s: Float[np.ndarray, "n"], w: Windows, found: Densities) -> Sizes:
    """All sizes from those of the positions, which are positive; 1 where nothing tells."""
    time = float(w.t[-1] - w.t[0]) if w.differenced else 1.0
    powers = time ** -np.arange(float(found.differential.shape[1]))
    rows = (found.differential * powers[:, None] * s).max(axis=(1, 2), initial=0.0)
    order = found.differential.shape[1] - 1 if w.differenced else 0
    action = float(np.max(found.inertia * (s / time**order) ** 2, initial=found.value))
    return Sizes(s, time, float(positive(action)), positive(rows), positive((found.holonomic * s).max(axis=1, initial=0.0)))


def positive(x):
    """1 where a size is not positive, or not finite."""
    return np.where(np.isfinite(x) & (np.asarray(x) > 0.0), x, 1.0)[()]


def median_size(x: Float[np.ndarray, "samples ..."]) -> Float[np.ndarray, "..."]:
    """Of sizes, 0 where they are not finite. By sorting: np.median takes ten times as long for so few numbers."""
    ordered = np.sort(np.where(np.isfinite(x), np.abs(x), 0.0), axis=0)
    return ordered[len(ordered) // 2]
