"""Drawn paths moved onto the constraints: what the way from node to node implies is what those up to order 1 read.

Where some have a higher order the paths are moved as polynomials, which have all derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial import legendre

ITERATIONS = 40  # of Levenberg and Marquardt
NEAR = 1e-8  # of the constraints' largest change: where they are missed by less a path is left as it is
DEGREE, DECAY = 24, 2.0  # of the polynomials beside what is given, and how much smoother they stay than necessary
CALM = 3e-3  # weight of the polynomials beside that of the constraints: wild paths lead nowhere
FINE = 3  # points in a step at which they are to meet the constraints
LEAST, FIRST, CHANGE = 1e-10, 1e-4, 10.0  # damping: the least, the first after a refusal, its change from step to step


def sine_waves(t: Float[np.ndarray, "N+1"], number: int) -> Float[np.ndarray, "number N+1"]:
    """sin(jπ(t - t₀)/T), j = 1, …: 0 at both ends."""
    return np.sin(np.pi * np.arange(1, number + 1)[:, None] * (t - t[0]) / (t[-1] - t[0]))


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
    found = _slopes_at(rows, paths)
    before, after = (np.sum((slope * by[:, None, :]) ** 2, axis=3) for slope, by in (
        (found.before, units[:-1]), (found.after, units[1:])))  # fmt: skip
    lengths = np.sqrt(np.max(np.nan_to_num(before + after, posinf=0.0), axis=(0, 1), initial=0.0))
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    read = lambda moved: _in_units(_slopes_at(rows, moved), units, lengths)  # noqa: E731
    return _descend(paths, read, lambda found, damping: units * _step(found[0], found[1], found[2], damping))


def onto_constraints_by_polynomials(
    linearise: Callable[[np.ndarray, np.ndarray], Any],
    paths: Float[np.ndarray, "batch N+1 n"],
    smooth: Callable[[np.ndarray, int], np.ndarray],
    order: int,
    t: Float[np.ndarray, "N+1"],
    given: tuple[np.ndarray, np.ndarray],
) -> Float[np.ndarray, "batch N+1 n"]:
    """The paths moved near φ(q, …, q⁽ᵒʳᵈᵉʳ⁾) = 0, as a smooth path plus polynomials.

    linearise: see `find_integrals`; smooth: (times, order) → a derivative; given: nodes and orders of those that stay.
    """
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
    apart = np.moveaxis(paths - begun[0, ::FINE], 0, 1).reshape(len(t), -1)
    first = np.linalg.lstsq(moves[0, ::FINE], apart, rcond=1e-8)[0]

    def evaluate_paths(y):
        jets = np.moveaxis(begun[:, None] + np.einsum("rtf,bfn->rbtn", moves, y), 0, 2)
        values, slopes = linearise(jets.reshape(-1, *jets.shape[2:]), np.tile(fine, len(y)))
        slopes = slopes.reshape(*jets.shape[:2], *slopes.shape[1:])
        return values.reshape(len(y), -1), np.einsum("btmrn,rtf->btmfn", slopes, moves).reshape(len(y), -1, y[0].size)

    y = np.moveaxis(first.reshape(moves.shape[2], len(paths), -1), 1, 0)
    calm = CALM * np.sqrt(np.mean(np.sum(evaluate_paths(y)[1] ** 2, axis=1)))

    def read_calm(y):
        flat = y.reshape(len(y), -1)
        own = np.tile(calm * np.eye(flat.shape[1]), (len(y), 1, 1))
        return [np.concatenate(pair, axis=1) for pair in zip(evaluate_paths(y), (calm * flat, own), strict=True)]

    def step(found, damping):
        values, matrix = found
        square = matrix.T @ matrix
        square += damping * np.trace(square) / len(square) * np.eye(len(square))
        return np.linalg.solve(square, matrix.T @ values).reshape(moves.shape[2], -1)

    y = _descend(y, read_calm, step)
    return begun[0, ::FINE] + np.einsum("tf,bfn->btn", moves[0, ::FINE], y)


def _descend(x: np.ndarray, read: Callable, step: Callable) -> np.ndarray:
    """The x (batch, …) after steps of Levenberg and Marquardt; read: φ and its slopes, step: of one of them."""
    found, damping = read(x), np.full(len(x), LEAST)
    for _ in range(ITERATIONS):
        total = _squared_sums(found)
        going = np.flatnonzero((total > NEAR**2) & np.isfinite(total))
        if not len(going):
            break
        moved = x.copy()
        for i in going:
            moved[i] = x[i] - step([one[i] for one in found], damping[i])
        new = read(moved)
        better = _squared_sums(new) < total
        x[better] = moved[better]
        found = [np.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(new, found, strict=True)]
        damping = np.where(better, np.maximum(LEAST, damping / CHANGE), CHANGE * np.maximum(FIRST, damping))
    return x


def _slopes_at(rows: Callable[[np.ndarray], Any], paths: np.ndarray) -> Slopes:
    return Slopes(*map(np.asarray, rows(paths)))


def _in_units(found: Slopes, units: np.ndarray, lengths: np.ndarray) -> Slopes:
    """In units of what is free and of the constraints' largest change by it."""
    return Slopes(
        found.values / lengths,
        found.before * units[:-1, None, :] / lengths[:, None],
        found.after * units[1:, None, :] / lengths[:, None],
    )


def _squared_sums(found: Sequence[np.ndarray]) -> np.ndarray:
    """Sums of squares, infinite where something is not finite: such paths are left as they are."""
    finite = [np.isfinite(x).reshape(len(x), -1).all(axis=1) for x in found]
    return np.where(np.all(finite, axis=0), np.sum(found[0].reshape(len(found[0]), -1) ** 2, axis=1), np.inf)


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
