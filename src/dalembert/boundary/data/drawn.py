"""Drawn paths moved onto the constraints of their problem, as little as possible, by the equations of its KKT system:

    min ½|dx|² + |c + A dx|²/2δ,   c, A: the constraints that count and their slopes by what is free, all in typical sizes

δ is raised where a step does not make |c| smaller: where the constraints cannot be met, the path is one that meets them
better. Where some have a higher order than 1 the paths are moved as polynomials, which have all derivatives. Source:
Levenberg and Marquardt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial import legendre

from dalembert.boundary.kkt.linear import BandedFactors, LinearSolver
from dalembert.boundary.kkt.system import KKTSystem

ITERATIONS = 40
NEAR = 1e-8  # of the constraints' typical size: where they are missed by less a path is left as it is
DEGREE, DECAY = 24, 2.0  # of the polynomials beside what is given, and how much smoother they stay than necessary
CALM = 3e-3  # weight of the polynomials beside that of the constraints: wild paths lead nowhere
FINE = 3  # points in a step at which they are to meet the constraints
ROUGH = 3e-2  # relative fall of the squares that ends the steps of a polynomial
LEAST, FIRST, CHANGE = 1e-10, 1e-4, 10.0  # δ: the least, the first after a refusal, its change from step to step


def sine_waves(t: Float[np.ndarray, "N+1"], number: int) -> Float[np.ndarray, "number N+1"]:
    """sin(jπ(t - t₀)/T), j = 1, …: 0 at both ends."""
    return np.sin(np.pi * np.arange(1, number + 1)[:, None] * (t - t[0]) / (t[-1] - t[0]))


def onto_constraints(kkt: KKTSystem, z: Float[np.ndarray, "blocks b"], kept: Bool[np.ndarray, "b"]) -> np.ndarray:
    """The path z near the constraints; kept: the components that may change, and the multipliers of those that count."""
    held, linear, damping = kkt.fixed | ~kept, LinearSolver(kkt, z, kkt.blocks + 1), LEAST

    def defects(z: np.ndarray) -> tuple[np.ndarray, float]:
        c = np.where(held | kkt.primal, 0.0, kkt.evaluate(z).gradient)
        return c, float(np.linalg.norm(c * kkt.units)) / kkt.curvature

    c, size = defects(z)
    for _ in range(ITERATIONS):
        if not NEAR < size < np.inf:
            break
        factors = BandedFactors(linear, kkt.with_held(kkt.matrix(z, 1.0, damping, plain=True), held))
        moved = z + np.where(kkt.primal, factors.solve(-c), 0.0)
        after = defects(moved)
        if after[1] < size:
            z, (c, size), damping = moved, after, max(LEAST, damping / CHANGE)
        else:
            damping = CHANGE * max(FIRST, damping)
    return z


def onto_by_polynomials(
    linearise: Callable[[np.ndarray, np.ndarray], Any],
    path: Float[np.ndarray, "N+1 n"],
    smooth: Callable[[np.ndarray, int], np.ndarray],
    order: int,
    t: Float[np.ndarray, "N+1"],
    given: tuple[np.ndarray, np.ndarray],
) -> Float[np.ndarray, "N+1 n"]:
    """The path moved near φ(q, …, q⁽ᵒʳᵈᵉʳ⁾) = 0, as a smooth path plus polynomials.

    linearise: see `find_integrals`; smooth: (times, order) → a derivative; given: nodes and orders of those that stay.
    """
    from scipy.optimize import least_squares

    number, length = DEGREE + len(given[0]), float(np.ptp(t))
    fine = np.interp(np.arange(FINE * (len(t) - 1) + 1) / FINE, np.arange(len(t)), t)
    begun = np.stack([smooth(fine, r) for r in range(order + 1)])
    every = [
        legendre.legder(np.eye(number), r) * (2.0 / length) ** r for r in range(1 + max(order, given[1].max(initial=0)))
    ]
    basis = np.stack([legendre.legval(2.0 * (fine - t[0]) / length - 1.0, one).T for one in every])
    basis *= (1.0 + np.arange(number)) ** -DECAY
    held = basis[given[1], FINE * given[0]] * length ** given[1][:, None]
    moves = basis[: order + 1] @ np.linalg.svd(held)[2][len(held) :].T
    first = np.linalg.lstsq(moves[0, ::FINE], path - begun[0, ::FINE], rcond=1e-8)[0]

    @functools.lru_cache(1)
    def defects_at(y: bytes) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = linearise(np.moveaxis(begun + moves @ np.frombuffer(y).reshape(first.shape), 0, 1), fine)
        return values.ravel(), np.einsum("tmrn,rtf->tmfn", slopes, moves).reshape(values.size, -1)

    def defects(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return defects_at(y.tobytes())

    values, slopes = defects(first.ravel())
    if not (np.all(np.isfinite(values)) and np.all(np.isfinite(slopes))):
        return path
    calm = CALM * np.sqrt(np.mean(np.sum(slopes**2, axis=0)))
    slope: Any = lambda y: np.concatenate([defects(y)[1], calm * np.eye(y.size)])  # noqa: E731
    misses = lambda y: np.concatenate([defects(y)[0], calm * y])  # noqa: E731
    found = least_squares(misses, first.ravel(), slope, method="lm", max_nfev=ITERATIONS, ftol=ROUGH)
    return begun[0, ::FINE] + moves[0, ::FINE] @ found.x.reshape(first.shape)
