"""An estimate of the region of attraction: a sublevel set of V inside of which V > 0, F ≥ 0 and dV/dt = -F on samples."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from dalembert.laws.mechanical import unactuated
from dalembert.laws.shaping import PLACES, EnergyShaping, Parts, free_rate, parts_at
from dalembert.tracing import seldom

MATCHED = 1e-6  # residual of dV/dt = -F, relative to its terms, where V is taken to be a solution
RAYS = 64  # in the plane; n times as many in more dimensions


class Region(NamedTuple):
    """{V < level}: its connected part around the equilibrium, an estimated region of attraction.

    Attributes:
        level: the least V, over rays in q from the equilibrium, at which a ray leaves the reach, V stops increasing, or
            V no longer solves the matching condition.
        points: (B, 2n) samples of (q, v) inside.
        V: (B,) V at the samples: positive except at the equilibrium.
        F: (B,) F at the samples: not negative.
        residual: the largest |dV/dt + F| under the law, relative to the sum of the absolute values of its terms.
        worst: (2n,) the sample with that residual.
        reach: (n,) how far from the equilibrium the region may extend.

    Example:
        >>> design.region.level > 0.0, design.region.residual < 1e-6
        (True, True)
    """

    level: float
    points: Float[np.ndarray, "B 2n"]
    V: Float[np.ndarray, "B"]
    F: Float[np.ndarray, "B"]
    residual: float
    worst: Float[np.ndarray, "2n"]
    reach: Float[np.ndarray, "n"]


def region_of(design: EnergyShaping, reach: Float[np.ndarray, "n"], H: Float[np.ndarray, "n n"]) -> Region:
    """The largest level that no ray inside the reach denies, and what is found on samples inside.

    H: ∂²Û/∂q² at the equilibrium. Rays are even in the units in which it is 1: of rays that are even in the units of the
    reach none may go along a narrow valley of Û, by which it is left at a lower level.
    """
    random = np.random.default_rng(0)
    at, n = np.asarray(design.shaped.at), len(reach)
    if n == 2:
        angles = 2.0 * np.pi * np.arange(RAYS) / RAYS
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        rays = random.normal(size=(n * RAYS, n))
    scale = 1.0 / np.sqrt(np.diag(H))
    rays = scale * np.linalg.solve(np.linalg.cholesky(scale[:, None] * H * scale).T, rays.T).T
    rays = rays / np.abs(rays / reach).max(axis=1, keepdims=True)
    shares = np.arange(1, PLACES + 1) / PLACES
    q = at + shares[None, :, None] * rays[:, None, :]
    found = parts_of(design, q.reshape(-1, n))
    heights, good = (x.reshape(len(rays), PLACES) for x in (found.height, matched(found)))
    good = np.logical_and.accumulate(good & np.isfinite(heights), axis=1)
    tops = np.max(np.where(good, heights, -np.inf), axis=1)
    level = float(tops.min())
    inside = np.logical_and.accumulate(good & (heights < level), axis=1)
    if not (level > 0.0 and inside.any()):
        return Region(0.0, np.zeros((0, 2 * n)), np.zeros(0), np.zeros(0), np.nan, np.full(2 * n, np.nan), reach)
    where = q[inside]
    where = where[random.integers(len(where), size=len(heights.ravel()))]
    unit, radius = random.normal(size=where.shape), random.uniform(size=len(where)) ** (1.0 / n)
    unit = radius[:, None] * unit / np.linalg.norm(unit, axis=1, keepdims=True)
    parts = parts_of(design, where)
    v = _speeds(parts, unit, level)
    V, F, gap = _fall(design, parts, v)
    points, worst = np.concatenate([where, v], axis=1), int(np.argmax(gap))
    return Region(level, points, V, F, float(gap[worst]), points[worst], reach)


@seldom
def _parts(design: EnergyShaping, q) -> Parts:
    # One state after the other: a program for all of them together takes three times as long to compile.
    return jax.lax.map(lambda x: parts_at(design.problem, design.shaped, x), q)


def parts_of(design: EnergyShaping, q: np.ndarray) -> Parts:
    """Those of many positions (B, n), of NumPy."""
    return jax.tree.map(np.asarray, _parts(design, q))


def _uncontrolled_directions(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """w = M̂⁻¹Mb, where controls do not change V, and M̂w = Mb; NaN where there is no M̂, beyond m = 0."""
    row = np.einsum("bij,bj->bi", parts.M, unactuated(parts.B, np))
    with np.errstate(all="ignore"):
        size = np.abs(np.linalg.det(parts.shaped))
    regular = (parts.positive & (size > 0.0) & np.isfinite(size))[:, None]
    shaped = np.where(regular[..., None], parts.shaped, np.eye(row.shape[1]))
    return np.where(regular, np.linalg.solve(shaped, row[..., None])[..., 0], np.nan), row


def matched(parts: Parts) -> np.ndarray:
    """Whether m > 0, and dV/dt = 0 along w at a speed at which both parts of V are of a size."""
    w, row = _uncontrolled_directions(parts)
    speed = np.sqrt(np.abs(parts.height) / np.abs((w * row).sum(-1)))
    phi, size = free_rate(parts, speed[:, None] * w, np)
    return parts.positive & (np.abs(phi) <= MATCHED * size)


def _speeds(parts: Parts, unit: np.ndarray, level: float) -> np.ndarray:
    """Velocities √(2(level - Û)) L⁻ᵀ unit, M̂ = LLᵀ: the ball of unit vectors becomes {V < level} over a point."""
    back = np.linalg.solve(np.swapaxes(np.linalg.cholesky(parts.shaped), 1, 2), unit[..., None])[..., 0]
    return np.sqrt(2.0 * (level - parts.height))[:, None] * back


def _fall(design: EnergyShaping, parts: Parts, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V, F, and |dV/dt + F| relative to its terms: of the law it is what φ₀ is at the v₀ beside v where g vanishes."""
    p = np.einsum("bij,bj->bi", parts.shaped, v)
    g = np.einsum("bir,bi->br", parts.B, np.linalg.solve(parts.M, p[..., None])[..., 0])
    V, F = 0.5 * (p * v).sum(-1) + parts.height, np.einsum("br,rs,bs->b", g, np.asarray(design.shaped.damping), g)
    w, row = _uncontrolled_directions(parts)
    beside = w * ((row * v).sum(-1) / (row * w).sum(-1))[:, None]
    gap = np.abs(free_rate(parts, beside, np)[0]) / (free_rate(parts, v, np)[1] + F)
    return V, F, np.where(np.isfinite(gap), gap, np.inf)
