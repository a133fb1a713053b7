"""Which bounds are active at the end of an iteration, their multipliers, and the kind of critical point.

A bound is active where its multiplier is larger than its slack, z > s, in the units of the path. Where both are small it is
not strictly complementary: the bound is reached without a force.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dalembert.boundary.data.limits import Level, PathInequalities
from dalembert.boundary.interior.path import InteriorPath
from dalembert.boundary.kkt.linear import inertia_of, inertia_with_held
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.kkt.unknowns import PathUnknowns
from dalembert.boundary.newton import Iterate
from dalembert.lazy import with_state
from dalembert.solution import ActiveBounds

PINNED = 1e8  # added to the diagonal of what is at a bound, relative to the largest entry of its row
WEAK = 1e2  # times √μ: what is less, of slack and multiplier, is not strictly complementary


class Activity(NamedTuple):
    """Of every component of a path, (blocks, b). active: -1 at the lower bound, 1 at the upper one, 0 else. weak: where
    neither slack nor multiplier is clearly positive. multipliers: positive at upper, negative at lower bounds, as they enter
    the gradient. margins: max(slack, multiplier), in units, of the nearer bound, infinite where there is none."""

    active: Int[np.ndarray, "blocks b"]
    weak: np.ndarray
    multipliers: Float[np.ndarray, "blocks b"]
    margins: Float[np.ndarray, "blocks b"]

    def pins(self, kkt: KKTSystem, z: np.ndarray, strictly: bool = False) -> Float[np.ndarray, "blocks b"] | None:
        """Terms on the diagonal of K that hold the active components where they are; strictly: not the weakly active ones.
        None where nothing is active."""
        if not np.any(self.active):
            return None
        rows = np.maximum(kkt.row_sizes(kkt.matrix(z)), kkt.curvature)
        held = (self.active != 0) & ~(self.weak & strictly)
        return np.where(held, PINNED * rows / kkt.units**2, 0.0)

    def part(self, places: np.ndarray, limits: np.ndarray, level: Level, values: np.ndarray) -> ActiveBounds:
        """Of the components at places (K, m) of the flat path, with these values. limits: (2, K, m)."""
        active, multipliers, margins = (x.ravel()[places] for x in (self.active, self.multipliers, self.margins))
        fields = {
            "lower": limits[0].copy(), "upper": limits[1].copy(), "multipliers": multipliers / level.weights[:, None],
            "active": active, "margin": np.asarray(float(np.min(margins, initial=np.inf))), "t": level.times.copy(),
            "values": values,
        }  # fmt: skip
        return with_state(ActiveBounds, fields)

    def bounds_of(
        self, unknowns: PathUnknowns, it: Iterate, q: np.ndarray, v: np.ndarray, values: dict[str, np.ndarray]
    ) -> dict[str, ActiveBounds]:
        """Of everything that has bounds. q, v: (N+1, n), of the nodes; values: of what has bounds at the nodes. Multipliers
        of path inequalities have the gradient w (G - s), s: their values."""
        found = {x: self.part(unknowns.places(x), both, unknowns.nodes, values[x]) for x, both in unknowns.bounds.items()}
        places = unknowns.path_places("values"), unknowns.path_places("inequalities")
        for path, at, own in zip(unknowns.paths, *places, strict=True):
            true = it.z.ravel()[at] + it.at.gradient.ravel()[own] / path.level.weights[:, None]
            part = self.part(at, path.limits, path.level, true)
            found[path.name] = (
                part if path.name != "v" else _with_all_velocities(part, path, path.level.rates(unknowns.increments(q), v))
            )
        return found


def _with_all_velocities(part: ActiveBounds, path: PathInequalities, rates: np.ndarray) -> ActiveBounds:
    """Of all velocities, also of those without bounds. rates: (K, n)."""
    own, empty = list(path.function.velocities), np.zeros(rates.shape)

    def wide(values: np.ndarray, others: np.ndarray) -> np.ndarray:
        found = others.copy()
        found[:, own] = values
        return found

    return ActiveBounds(
        lower=wide(part.lower, empty - np.inf), upper=wide(part.upper, empty + np.inf),
        multipliers=wide(part.multipliers, empty), active=wide(part.active, empty.astype(np.int64)), margin=part.margin,
        t=part.t, values=wide(part.values, rates),
    )  # fmt: skip


def activity_of(path: InteriorPath) -> Activity:
    """At the end of an iteration."""
    bounds, kkt = path.bounds, path.newton.kkt
    shape, places = path.newton.z.shape, bounds.places
    margins, active = np.full(kkt.blocks * kkt.size, np.inf), np.zeros(kkt.blocks * kkt.size, dtype=np.int64)
    larger = np.maximum(path.slacks, path.multipliers)
    for _, part, at in bounds.sides:
        margins[at] = np.minimum(margins[at], larger[part])
    at = path.multipliers > path.slacks
    active[places[at]] = -bounds.signs[at].astype(np.int64)
    weak = margins < WEAK * np.sqrt(path.barrier)
    return Activity(active.reshape(shape), weak.reshape(shape), bounds.slope(path.multipliers), margins.reshape(shape))


def no_activity(kkt: KKTSystem) -> Activity:
    """Activity where there are no bounds: nothing is active."""
    shape = kkt.fixed.shape
    return Activity(np.zeros(shape, np.int64), np.zeros(shape, bool), np.zeros(shape), np.full(shape, np.inf))


DESCENT, SHARPER, ROUNDS = 0.1, 8.0, 4  # size of a step off a saddle; factor of δ; solutions that turn it to the steepest


def leave_saddle(it: Iterate, activity: Activity) -> Float[np.ndarray, "blocks b"]:
    """A step along which dxᵀH dx < 0 on A dx = 0, where active bounds are kept: (H + δW)dx = W dx' from a random dx', again
    and again, δ hardly larger than a minimum needs."""
    kkt, linear, shift = it.kkt, it.linear, 1e-4
    pins = activity.pins(kkt, it.z)
    while True:
        added = shift * kkt.shifted + (0.0 if pins is None else pins)
        if shift > 1e8 or inertia_of(kkt, linear, it.z, added)[0] <= 0:
            break
        shift *= SHARPER
    factors = linear.factor(it.z, added=added)
    step = np.random.default_rng(0).standard_normal(it.z.shape) * kkt.units * kkt.free
    for _ in range(ROUNDS):
        step = np.where(kkt.primal, factors.solve(np.where(kkt.primal, kkt.weights * step * kkt.free, 0.0)), 0.0)
        size = max(it.change(step), float(np.max(np.abs(step / kkt.units))))  # it may move controls alone
        step *= DESCENT / size if size > 0.0 else 0.0
    return step


def kind_of(it: Iterate, activity: Activity, pinned: np.ndarray | None) -> tuple[int, int]:
    """(negative, flat) directions that keep the active bounds, which `pinned` holds.

    The directions that bounds without a multiplier forbid are looked at first: without a negative one among them it is a
    minimum. What is negative only there is undecided, and counted as flat.
    """
    active = activity.active != 0
    strict = active & ~activity.weak

    def count(held: np.ndarray, added: np.ndarray | None) -> tuple[int, int]:
        found = inertia_of(it.kkt, it.linear, it.z, added)
        # a large diagonal gives a little, and what is flat a little less
        return inertia_with_held(it.kkt, it.z, held) if found[0] > 0 and np.any(held) else found

    if np.array_equal(active, strict):
        return count(active, pinned)
    wide = count(strict, activity.pins(it.kkt, it.z, strictly=True))
    if wide[0] == 0:
        return wide
    narrow = count(active, pinned)
    return narrow[0], narrow[1] + wide[0] - narrow[0]
