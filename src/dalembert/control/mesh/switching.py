"""Nodes where a solution comes to a bound or leaves it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dalembert.solution import ActiveBounds, ControlSolution

NEAR = 0.3  # of a step: a node within it is moved to the switch, otherwise there is a new one
TINY = 1e-3  # of a step: a switch that near to a node which cannot move stays inside the step


def switch_times(solution: ControlSolution) -> Float[np.ndarray, "switches"]:
    """Of everything that has bounds, increasing."""
    found = [time for bounds in solution.bounds.values() for times in _switches(bounds) for time in times]
    return np.unique(np.array(found, dtype=float))


def _switches(bounds: ActiveBounds) -> list[np.ndarray]:
    """As `ActiveBounds.switches`; where one value alone stands between opposite bounds, the time at which the jump from one
    to the other has the same integral."""
    found = bounds.switches()
    for j, times in enumerate(found):
        active, x, t = bounds.active[:, j], bounds.values[:, j], bounds.t
        alone = 1 + np.flatnonzero((active[1:-1] == 0) & (active[:-2] * active[2:] < 0))
        if len(alone):
            share = (x[alone] - x[alone + 1]) / (x[alone - 1] - x[alone + 1])
            left, right = 0.5 * (t[alone - 1] + t[alone]), 0.5 * (t[alone] + t[alone + 1])
            outside = ~np.any((times[:, None] >= t[alone - 1]) & (times[:, None] <= t[alone + 1]), axis=1)
            found[j] = np.sort(np.concatenate([times[outside], left + share * (right - left)]))
    return found


def with_switches(
    t: Float[np.ndarray, "nodes"], switches: Float[np.ndarray, "switches"], kept: Sequence[float]
) -> Float[np.ndarray, "nodes"]:
    """The nodes, with one at every switch: the nearest is moved, or there is a new one. kept: times that stay nodes."""
    still = {0, len(t) - 1, *(int(np.argmin(np.abs(t - time))) for time in kept)}
    moved, new = t.copy(), []
    for time in switches:
        k = int(np.clip(np.searchsorted(t, time) - 1, 0, len(t) - 2))
        width = t[k + 1] - t[k]
        near = k if time - t[k] < t[k + 1] - time else k + 1
        off = abs(time - t[near]) / width
        if off < NEAR and near not in still:
            moved[near] = time
            still.add(near)
        elif off > TINY:
            new.append(time)
    return np.unique(np.concatenate([moved, new]))
