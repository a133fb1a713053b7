"""Drawn paths moved onto the constraints: what the way from node to node implies is what the constraints read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

ITERATIONS = 40  # of Levenberg and Marquardt
NEAR = 1e-8  # of the constraints' largest change: where they are missed by less a path is left as it is
LEAST, FIRST, CHANGE = 1e-10, 1e-4, 10.0  # damping: the least, the first after a refusal, its change from step to step


class Slopes(NamedTuple):
    """φ of each interval (batch, N, m), and its slopes by the nodes before and after it (batch, N, m, n)."""

    values: Float[np.ndarray, "batch N m"]
    before: Float[np.ndarray, "batch N m n"]
    after: Float[np.ndarray, "batch N m n"]


def slopes_of_intervals(rows: Callable, paths, t) -> tuple[Any, Any, Any]:
    """`Slopes` of rows(q_i, q_{i+1}, t_i, h), to be traced."""
    a, b, h = paths[:, :-1], paths[:, 1:], jnp.diff(t)
    one = lambda x, y, s, k: (rows(x, y, s, k), *jax.jacfwd(rows, (0, 1))(x, y, s, k))  # noqa: E731
    return jax.vmap(lambda x, y: jax.vmap(one)(x, y, t[:-1], h))(a, b)


def onto_path_constraints(
    rows: Callable[[np.ndarray], Any],
    paths: Float[np.ndarray, "batch N+1 n"],
    given: Bool[np.ndarray, "N+1 n"],
    sizes: Float[np.ndarray, "n"],
) -> Float[np.ndarray, "batch N+1 n"]:
    """The paths with φ(½(q_i+q_{i+1}), (q_{i+1}-q_i)/h) = 0 and φ(q_{i+1}) = 0, moved as little as possible, in these sizes.

    rows: `slopes_of_intervals` of paths. What is given stays. Steps of Gauss and Newton of least norm, damped where they do
    not make the misses smaller: where the constraints cannot be met, the path is one that meets them better.
    """
    paths, units = np.array(paths), np.where(given, 0.0, sizes)
    found = _read(rows, paths)
    before, after = (np.sum((slope * by[:, None, :]) ** 2, axis=3) for slope, by in (
        (found.before, units[:-1]), (found.after, units[1:])))  # fmt: skip
    lengths = np.sqrt(np.max(np.nan_to_num(before + after, posinf=0.0), axis=(0, 1), initial=0.0))
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    found, damping = _scaled(found, units, lengths), np.full(len(paths), LEAST)
    for _ in range(ITERATIONS):
        total = _total(found)
        going = np.flatnonzero((total > NEAR**2) & np.isfinite(total))
        if not len(going):
            break
        moved = paths.copy()
        for i in going:
            moved[i] = paths[i] - units * _step(found.values[i], found.before[i], found.after[i], damping[i])
        new = _scaled(_read(rows, moved), units, lengths)
        better = _total(new) < total
        paths[better] = moved[better]
        found = Slopes._make(
            np.where(better.reshape(-1, *[1] * (x.ndim - 1)), x, y) for x, y in zip(new, found, strict=True)
        )
        damping = np.where(better, np.maximum(LEAST, damping / CHANGE), CHANGE * np.maximum(FIRST, damping))
    return paths


def _read(rows: Callable[[np.ndarray], Any], paths: np.ndarray) -> Slopes:
    return Slopes(*map(np.asarray, rows(paths)))


def _scaled(found: Slopes, units: np.ndarray, lengths: np.ndarray) -> Slopes:
    """In units of what is free and of the constraints' largest change by it."""
    return Slopes(
        found.values / lengths,
        found.before * units[:-1, None, :] / lengths[:, None],
        found.after * units[1:, None, :] / lengths[:, None],
    )


def _total(found: Slopes) -> np.ndarray:
    """Sums of squares, infinite where something is not finite: such paths are left as they are."""
    finite = [np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in found]
    return np.where(np.all(finite, axis=0), np.sum(found.values**2, axis=(1, 2)), np.inf)


def _step(values: np.ndarray, before: np.ndarray, after: np.ndarray, damping: float) -> np.ndarray:
    """Jᵀ(JJᵀ + μ)⁻¹φ of one path: JJᵀ has a block for each interval, and one for each pair of neighbours."""
    import scipy.linalg

    (count, m), n = values.shape, before.shape[2]
    own = before @ before.transpose(0, 2, 1) + after @ after.transpose(0, 2, 1)
    own[:, range(m), range(m)] += damping
    next_to = before[1:] @ after[:-1].transpose(0, 2, 1)
    band = np.zeros((2 * m, count, m))  # lower: band[i - j, j]
    for i in range(m):
        for j in range(i + 1):
            band[i - j, :, j] = own[:, i, j]
        for j in range(m):
            band[m + i - j, :-1, j] = next_to[:, i, j]
    try:
        weights = scipy.linalg.solveh_banded(band.reshape(2 * m, -1), values.ravel(), lower=True).reshape(count, m)
    except np.linalg.LinAlgError:  # rounding: to be damped more
        return np.full((count + 1, n), np.nan)
    step = np.zeros((count + 1, n))
    step[:-1] += np.einsum("imn,im->in", before, weights)
    step[1:] += np.einsum("imn,im->in", after, weights)
    return step
