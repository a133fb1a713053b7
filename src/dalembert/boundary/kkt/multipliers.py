"""The multipliers of a path as functions of time: where they tend to λ(t) and μ(t), continued to where they do not.

Multipliers that alternate from node to node are no discretization of a function λ(t), however small the residual is. At
times t_i with values λ_i let A_i = 3/8 (λ_i - cubic through i±1, i±2) and M_i = λ_i - line through i±2. A wave of phase θ
from node to node has A = sin⁴(θ/2) and M = 2 sin²θ: M does not see θ = π, and what has more than three nodes in a period is
smaller in A than in M. A sequence alternates where A is the larger one, and not small against λ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.boundary.kkt.window_unknowns import Transcription
from dalembert.boundary.newton import Iterate, Termination
from dalembert.discretize.window_maps import ends_with_derivatives

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
    fine, middle, (first, *inner, last) = x, x[2:-2], (t[2:-2] - t[2 + k : len(t) - 2 + k] for k in NEAR)
    for k in range(1, 5):
        fine = np.diff(fine, axis=0) / (t[k:] - t[:-k])[:, None]
    fine = fine * (0.375 * first * last * inner[0] * inner[1])[:, None]
    coarse = middle - x[:-4] - (first / (first - last))[:, None] * (x[4:] - x[:-4])
    sizes = [np.sqrt(np.mean(y**2, axis=0)) for y in (fine, coarse, x)]
    return np.where((sizes[0] > LARGE * sizes[1]) & (sizes[0] > SMALL * sizes[2]), sizes[0], 0.0)


def lagrange_weights(at: Float[np.ndarray, "K 1"], knots: Float[np.ndarray, "K p"]) -> Float[np.ndarray, "K p"]:
    """Of the values at the knots, in the polynomial through them at `at`."""
    columns, places = [], np.arange(knots.shape[1])
    for a in places:
        others = np.delete(places, a)
        columns.append(np.prod((at - knots[:, others]) / (knots[:, [a]] - knots[:, others]), axis=1))
    return np.stack(columns, axis=1)


REFINEMENTS = 2


def differential(made: Transcription, z: np.ndarray) -> Float[np.ndarray, "windows m"]:
    """λ at the times of the windows of L, in the order of the problem's equations.

    Those of lower order by the parabola through the three nearest of their own windows that are clean, see `groups_of`.
    """
    times = made.windows.times.ravel()
    found = np.empty((len(times), len(made.equations) + sum(len(g.equations) for g in made.groups)))
    found[:, list(made.equations)] = _own(made, z)
    for g in made.groups:
        found[:, list(g.equations)] = by_parabolas(*g.raw(z), times)
    return found


def holonomic(made: Transcription, z: np.ndarray) -> Float[np.ndarray, "nodes mh"]:
    """μ at the nodes, 0 where a position is given.

    On node windows the k-1 nodes next to an end with derivatives share the end's point masses: there μ is continued.
    """
    w = made.windows
    found = z[:, made.layout.part("holonomic")].reshape(len(w.orders), -1)[w.nodes]
    clean, given = _clean(made)
    at = np.flatnonzero(~clean & ~given)
    found[at] = by_parabolas(w.t[clean & ~given], found[clean & ~given], w.t[at])
    if made.tie is not None and not given[0]:  # the last node bears what both ends, which are one, would bear
        found[[0, -1]] = 0.5 * found[-1]
    return found


def refine_multipliers(made: Transcription, it: Iterate, bounds: np.ndarray, pinned: np.ndarray | None) -> None:
    """One more step for the multipliers of lower order, on which convergence is not judged.

    bounds: (blocks, b), what the multipliers of bounds add to the gradient; pinned: what holds active components, on the
    diagonal. They are differences of order 2k-j of the path: what the factorization leaves of it near the ends is large in
    them.
    """
    if not made.groups or it.end is not Termination.CONVERGED:
        return
    factors = it.linear.factor(it.z, added=pinned)
    for _ in range(REFINEMENTS):
        step = factors.solve(-(it.at.gradient + bounds) * made.kkt.free)
        new = made.kkt.evaluate(it.z + step)
        if not (new.finite and it.change(step) <= it.update + np.finfo(float).eps):
            return
        it.move(it.z + step, new)


def alternating(
    it: Iterate, sequences: Callable[[np.ndarray], list[Sequence]], gradient: np.ndarray, pinned: np.ndarray | None
) -> float:
    """The largest alternating part of a sequence over the largest of its values, 0 where none alternates.

    sequences: z ↦ those that tend to functions of time. gradient, pinned: with the multipliers of bounds, and what holds
    active components, see `refine_multipliers`. Negative where it is no larger than what rounding explains: what one more
    step of Newton's method changes.
    """
    parts = [(alternation(s), s.values) for s in sequences(it.z)]
    sizes = [found[found > 0.0] / np.abs(values[:, found > 0.0]).max(axis=0) for found, values in parts if found.any()]
    if not sizes:
        return 0.0
    change = it.linear.factor(it.z, added=pinned).solve(-gradient * it.kkt.free)
    noise = [np.sqrt(np.mean(s.values**2, axis=0)) for s in sequences(change)]
    found = max(float(size.max()) for size in sizes)
    real = any(np.any(part > ROUNDING * n) for (part, _), n in zip(parts, noise, strict=True))
    return found if real else -found


def by_parabolas(
    known: Float[np.ndarray, "K"], values: Float[np.ndarray, "K m"], times: Float[np.ndarray, "T"]
) -> Float[np.ndarray, "T m"]:
    """Values at the times known, increasing, at other times: parabolas through the three nearest; NaN without any."""
    if not len(known) or not values.shape[1]:
        return np.full((len(times), values.shape[1]), np.nan)
    points = min(3, len(known))
    nearest = np.searchsorted(0.5 * (known[1:] + known[:-1]), times)
    start = np.clip(nearest - points // 2, 0, len(known) - points)
    near = start[:, None] + np.arange(points)
    return np.einsum("tp,tpm->tm", lagrange_weights(times[:, None], known[near]), values[near])


def _own(made: Transcription, z: np.ndarray) -> np.ndarray:
    """Of the constraints of L's order, (W·S, m_k)."""
    own = z[made.carriers, made.layout.part("multipliers")]
    return own.reshape(made.windows.times.size, len(made.equations))


def _clean(made: Transcription) -> tuple[np.ndarray, np.ndarray]:
    """(N+1,): nodes whose μ tends to μ(t), and nodes whose position is given."""
    w, k = made.windows, made.layout.k
    slots = made.kkt.fixed[:, made.layout.part("slots")].reshape(len(w.orders), -1)
    clean = np.ones(len(w.t), dtype=bool)
    if w.stride == 1 and w.differenced:
        first, last = ends_with_derivatives(w)
        clean[: k * first] = clean[len(clean) - k * last :] = False
    return clean, np.asarray(slots[w.nodes].all(axis=1))


def sequences_of(made: Transcription, z: np.ndarray) -> list[Sequence]:
    """The multipliers of every kind where they tend to functions of time."""
    w = made.windows
    clean, given = _clean(made)
    places = z[:, made.layout.part("holonomic")].reshape(len(w.orders), -1)[w.nodes][clean & ~given]
    groups = [Sequence(*g.raw(z)) for g in made.groups]
    return [Sequence(w.times.ravel(), _own(made, z)), *groups, Sequence(w.t[clean & ~given], places)]
