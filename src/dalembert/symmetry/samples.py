"""Points at which symmetries are looked at: an open neighbourhood of a state, moved onto the constraints."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.discretize import DiscreteSystem
from dalembert.numbers import as_number, as_numbers, as_state, as_vector, is_traced
from dalembert.symmetry.conditions import (
    Facts,
    Sampled,
    action,
    facts_at,
    fastest_slot,
    place_of_node,
    restricted,
    slots_of,
)
from dalembert.systems.sizes import CONSISTENT, with_inertia
from dalembert.tracing import seldom

ITERATIONS = 12  # of Gauss and Newton: a start further away is left out
SEED = 20
SLOW = 0.1  # of the speed at which a coordinate has the energy of the others
ROUNDS = 5  # of drawing points, where some are outside the domain


class Neighbourhood(NamedTuple):
    """Where it is looked: q0 and v0 (n,) at t0, and how far, (n,) or None."""

    q0: np.ndarray
    v0: np.ndarray
    t0: float
    size: np.ndarray | None


def place_of_search(door: str, system: Any, q0: Any, v0: Any, t0: Any, size: Any) -> Neighbourhood:
    """The place as it was given to a door, checked."""
    q, v = as_state(q0, v0, getattr(system, "coordinates", None), as_numbers)
    now = float(as_number(t0, "t0", "a finite time"))
    reach = None if size is None else as_vector(size, "size", len(q), as_numbers)
    if reach is not None and np.any(reach <= 0.0):
        raise ValueError(f"size: found {reach}; give a positive size for each coordinate")
    if is_traced(system):
        raise TypeError(f"{door}: works on numbers and not under jit, vmap or grad")
    return Neighbourhood(q, v, now, reach)


class Samples(NamedTuple):
    """jets: (K, slots, n) on the constraints, at times (K,). scales: (slots, n) of the jets. centre: (n,) of the samples."""

    jets: np.ndarray
    times: np.ndarray
    facts: Facts
    scales: np.ndarray
    centre: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """(n,) of the coordinates."""
        return self.scales[0]


@seldom
def _inertia(problem, jet, t):
    """|∂²L/∂x_j²| of the highest derivative that L reads."""
    highest = fastest_slot(problem)
    of = lambda x: action(problem, jet.at[highest].set(x), t)  # noqa: E731
    return abs(jax.hessian(of)(jet[highest]).diagonal())


def sample(problem: Sampled, place: Neighbourhood, count: int) -> Samples:
    """At least `count` jets around (q0, v0), on the constraints, some at rest; ValueError where too few are found.

    More than `count` are drawn where some have to be left out: with fewer conditions than unknowns fields would be found
    that are no symmetries.
    """
    q0, v0, t0, size = place
    start = np.zeros((slots_of(problem), len(q0)))
    start[:2] = q0, v0
    if isinstance(problem, DiscreteSystem):
        here, each = place_of_node(problem), np.arange(len(start))
        start[1:] = (each[each != here] - here)[:, None] * v0
    scales = _scales(problem, start, t0, size)
    random, kept = np.random.default_rng(SEED), []
    for _ in range(ROUNDS):
        kept.append(_drawn(problem, start, t0, scales, count, random))
        if sum(len(jets) for jets, *_ in kept) >= count:
            jets, times = (np.concatenate(x) for x in zip(*(x[:2] for x in kept), strict=True))
            facts = Facts(*map(np.concatenate, zip(*(x[2] for x in kept), strict=True)))
            return Samples(jets, times, facts, scales, np.mean(jets[:, 0], axis=0))
    raise ValueError(
        f"q0, v0, size: of {ROUNDS * count} points drawn around them only {sum(len(x[0]) for x in kept)} lie on the "
        f"constraints with finite derivatives, and {count} are needed; give a state inside the domain, and a size (n,) in "
        "which the functions are smooth"
    )


def _scales(problem, start: np.ndarray, t0: float, size) -> np.ndarray:
    """How far to look, (slots, n)."""
    q0, v0 = start[0], np.abs(start[1])
    inertia = np.asarray(_inertia(problem, start, t0))
    place = with_inertia(np.abs(q0) if np.any(q0) else np.abs(v0), inertia, 1.0) if size is None else size
    place = np.where(place > 0.0, place, 1.0)
    speed = with_inertia(np.abs(v0), inertia, SLOW) if np.any(v0) else place
    speed = np.where(speed > 0.0, speed, 1.0)
    time = float(np.min(place / speed))
    time = 1.0 if isinstance(problem, DiscreteSystem) else time
    return np.stack([place, *(speed / time**j for j in range(len(start) - 1))])


def _drawn(problem, start: np.ndarray, t0: float, scales: np.ndarray, count: int, random) -> tuple:
    """(jets, times, facts) of `count` random points, without those that do not come to lie on the constraints."""
    jets = random.uniform(-1.0, 1.0, (count, *start.shape)) * scales
    jets[: count // 4, 1:] = -start[1:]
    time = float(np.min(scales[0] / scales[1])) if problem.time_dependent else 0.0
    times = t0 + time * random.uniform(-1.0, 1.0, count)
    jets, near = _onto(problem, start + jets, times, scales)
    facts = facts_at(problem, jets, times)
    finite = near & np.all([np.isfinite(x).reshape(count, -1).all(axis=1) for x in facts], axis=0)
    return jets[finite], times[finite], Facts(*(x[finite] for x in facts))


def _onto(problem, jets: np.ndarray, times: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Newton with steps of least norm in units of `scales`; which of the jets arrived."""
    count, near = len(jets), np.ones(len(jets), dtype=bool)
    for last in range(ITERATIONS + 1):
        values, slopes = restricted(problem, jets, times)
        if not values.shape[1]:
            break
        scaled = (slopes * scales).reshape(count, values.shape[1], -1)
        near = np.isfinite(scaled).all(axis=(1, 2)) & np.isfinite(values).all(axis=1)
        lengths = np.sum(np.abs(scaled), axis=2)
        near &= np.all(np.abs(values) <= CONSISTENT**2 * 1e3 * lengths, axis=1)  # a last step below squares what is left
        scaled, lengths = (np.where(np.isfinite(x), x, 0.0) for x in (scaled, lengths))
        each = np.where(lengths > 0.0, lengths, 1.0)
        away = np.linalg.pinv(scaled / each[:, :, None], rcond=1e-10) @ np.nan_to_num(values / each)[:, :, None]
        if last == ITERATIONS or near.all():
            break
        jets = jets - away.reshape(jets.shape) * scales
    return jets, near
