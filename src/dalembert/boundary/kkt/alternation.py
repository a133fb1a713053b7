"""Multipliers that alternate from node to node: no discretization of a function λ(t), however small the residual is.

At times t_i with values λ_i let A_i = 3/8 (λ_i - cubic through i±1, i±2) and M_i = λ_i - line through i±2. A wave of phase θ
from node to node has A = sin⁴(θ/2) and M = 2 sin²θ: M does not see θ = π, and what has more than three nodes in a period is
smaller in A than in M. A sequence alternates where A is the larger one, and not small against λ.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LARGE = 2.0  # A over M
SMALL = 1e-2  # of |λ|: less is left to the error of the discretization
ROUNDING = 1e3  # times the change by one more Newton step: what is less is rounding

NEAR = np.array([-2, -1, 1, 2])


class Sequence(NamedTuple):
    """The multipliers (K, m) of one kind at their times (K,), increasing."""

    times: Float[np.ndarray, "K"]
    values: Float[np.ndarray, "K m"]


def alternation(given: Sequence) -> Float[np.ndarray, "m"]:
    """The root mean square of A for each component, 0 where it does not alternate."""
    t, x = given
    if len(t) < 5 or not x.shape[1]:
        return np.zeros(x.shape[1])
    index = np.arange(2, len(t) - 2)[:, None]
    cubic, line = _weights(np.asarray(t, dtype=float).tobytes())
    middle = x[2:-2]
    fine = 0.375 * (middle - np.einsum("iw,iwm->im", cubic, x[index + NEAR]))
    coarse = middle - np.einsum("iw,iwm->im", line, x[index + NEAR[[0, 3]]])
    sizes = [np.sqrt(np.mean(y**2, axis=0)) for y in (fine, coarse, x)]
    return np.where((sizes[0] > LARGE * sizes[1]) & (sizes[0] > SMALL * sizes[2]), sizes[0], 0.0)


@functools.lru_cache(8)
def _weights(times: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Of cubic and line at all inner times: those of a batch, and of the sequences of a solution, are the same."""
    t = np.frombuffer(times)
    at, near = t[2:-2, None], t[np.arange(2, len(t) - 2)[:, None] + NEAR]
    return lagrange_weights(at, near), lagrange_weights(at, near[:, [0, 3]])


def lagrange_weights(at: Float[np.ndarray, "K 1"], knots: Float[np.ndarray, "K p"]) -> Float[np.ndarray, "K p"]:
    """Of the values at the knots, in the polynomial through them at `at`."""
    columns, places = [], np.arange(knots.shape[1])
    for a in places:
        others = np.delete(places, a)
        columns.append(np.prod((at - knots[:, others]) / (knots[:, [a]] - knots[:, others]), axis=1))
    return np.stack(columns, axis=1)
