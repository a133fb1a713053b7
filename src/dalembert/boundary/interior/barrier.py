"""The barrier of bounds: slacks, their multipliers, and what they add to the KKT equations, in the units of the path.

    min Σf - μκ Σ_j log s_j,   s_j = ±(x_j - bound_j)/U_j > 0,   ∇Σf ∓ κ z_j/U_j = 0,   s_j z_j = μ

κ is the curvature of a node (`KKTSystem.curvature`), so that μ means the same for every unit, number of nodes and time.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.boundary.kkt.system import KKTSystem

PUSH = 1e-2  # how far inside the first path begins, in units or of the bound, and of the distance of two bounds


class Bounds(NamedTuple):
    """lower, upper: (blocks, b), of the components of a path, infinite where there is none."""

    lower: Float[np.ndarray, "blocks b"]
    upper: Float[np.ndarray, "blocks b"]


def placed(blocks: int, size: int, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Bounds:
    """Of a path (blocks, size). parts: places in the flat path, and (2, *places) lower and upper bounds there."""
    both = np.full((2, blocks * size), [[-np.inf], [np.inf]])
    for places, limits in parts:
        both[:, places] = limits
    return Bounds(*both.reshape(2, blocks, size))


@dataclasses.dataclass(frozen=True)
class Barrier:
    """Finite bounds one after the other, first all lower ones. places: in the flat path; signs: 1 of lower ones, -1 of upper
    ones; limits: the bounds; units: U."""

    kkt: KKTSystem
    bounds: Bounds
    places: np.ndarray
    signs: np.ndarray
    limits: np.ndarray
    units: np.ndarray

    @functools.cached_property
    def sides(self) -> tuple[tuple[float, slice, np.ndarray], ...]:
        """(sign, which, places) of the lower and of the upper bounds; no place stands twice in one of them."""
        lower = int(np.count_nonzero(self.signs > 0.0))
        parts = slice(None, lower), slice(lower, None)
        return tuple((sign, part, self.places[part]) for sign, part in zip((1.0, -1.0), parts, strict=True))

    def slacks(self, z: np.ndarray) -> np.ndarray:
        return self.signs * (z.ravel()[self.places] - self.limits) / self.units

    def changes(self, step: np.ndarray) -> np.ndarray:
        """Of the slacks."""
        return self.signs * step.ravel()[self.places] / self.units

    def slope(self, multipliers: np.ndarray) -> np.ndarray:
        """∓κ z/U, (blocks, b): what multipliers add to the gradient."""
        return self._summed(-self.signs * multipliers * self.kkt.curvature / self.units)

    def pulls(self, multipliers: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """∓z of lower and of upper bounds, with their places: `slope` in the units of the path, divided by κ."""
        return [(places, -sign * multipliers[part]) for sign, part, places in self.sides]

    def diagonal(self, weights: np.ndarray) -> np.ndarray:
        """κ w/U², (blocks, b): what weights w of squared slacks add to the second derivatives."""
        return self._summed(weights * self.kkt.curvature / self.units**2)

    def _summed(self, values: np.ndarray) -> np.ndarray:
        kkt = self.kkt
        return np.bincount(self.places, values, kkt.blocks * kkt.size).reshape(kkt.blocks, kkt.size)

    def of_forces(self, forces: Float[np.ndarray, "blocks b"]) -> np.ndarray:
        """The multipliers that add these forces to the gradient, see `slope`: those of the side that they press against."""
        return np.maximum(-self.signs * forces.ravel()[self.places] * self.units / self.kkt.curvature, 0.0)

    def apart(self, z: Float[np.ndarray, "blocks b"], least: np.ndarray) -> Float[np.ndarray, "blocks b"]:
        """The path, moved where a slack is smaller than least, but no farther than a part of the distance of two bounds."""
        lower, upper = self.bounds
        with np.errstate(invalid="ignore"):
            width = np.where(np.isfinite(lower) & np.isfinite(upper), PUSH * (upper - lower), np.inf).ravel()[self.places]
        slacks, flat = self.slacks(z), z.ravel().copy()
        wanted = np.maximum(slacks, np.minimum(least, width / self.units))
        moved = wanted > slacks
        flat[self.places[moved]] = (self.limits + self.signs * self.units * wanted)[moved]
        return flat.reshape(z.shape)

    def cut(self, z: np.ndarray, step: np.ndarray, slacks: np.ndarray, fraction: float) -> Float[np.ndarray, "blocks b"]:
        """The path after the whole step, every slack for itself keeping a part 1 - fraction."""
        flat = (z + step).ravel()
        short = np.maximum((1.0 - fraction) * slacks - (slacks + self.changes(step)), 0.0)
        flat += np.bincount(self.places, self.signs * self.units * short, flat.size)
        return flat.reshape(z.shape)

    def inside(self, z: np.ndarray) -> np.ndarray:
        """The path, moved inside where it is not, or too near a bound."""
        low, high = self._nearest
        return np.minimum(np.maximum(z, low), high)

    @functools.cached_property
    def _nearest(self) -> tuple[np.ndarray, np.ndarray]:
        """How near a first path comes, infinite where there is no bound."""
        units, (lower, upper) = self.kkt.units, self.bounds
        with np.errstate(invalid="ignore"):
            width = np.where(np.isfinite(lower) & np.isfinite(upper), PUSH * (upper - lower), np.inf)
            low = lower + np.minimum(PUSH * np.maximum(units, np.abs(lower)), width)
            high = upper - np.minimum(PUSH * np.maximum(units, np.abs(upper)), width)
        return np.where(np.isfinite(lower), low, -np.inf), np.where(np.isfinite(upper), high, np.inf)


def barrier_of(kkt: KKTSystem, bounds: Bounds) -> Barrier:
    """Of the bounds on what is not fixed."""
    lower, upper = (np.where(kkt.fixed, infinite, b) for b, infinite in zip(bounds, (-np.inf, np.inf), strict=True))
    below, above = (np.flatnonzero(np.isfinite(b)) for b in (lower, upper))
    places = np.concatenate([below, above])
    signs = np.repeat([1.0, -1.0], [len(below), len(above)])
    limits = np.concatenate([lower.ravel()[below], upper.ravel()[above]])
    return Barrier(kkt, Bounds(lower, upper), places, signs, limits, kkt.flat_units[places])


def longest(values: np.ndarray, changes: np.ndarray, fraction: float) -> float:
    """The longest step α ≤ 1 with values + α changes ≥ (1 - fraction) values."""
    falling = changes < 0.0
    return float(np.min(-fraction * values[falling] / changes[falling], initial=1.0))
