"""Ends of a variational problem that are not given, as conditions on the slots of its first and last node."""

from __future__ import annotations

import numpy as np

from dalembert.boundary.data.end_sets import sizes_of_set
from dalembert.boundary.data.moving_ends import MovingEnds, end_slots, state_of
from dalembert.boundary.data.sizes import Sizes
from dalembert.boundary.kkt.ends.end_terms import EndCondition, OnSet, Place, Tie
from dalembert.boundary.kkt.path_terms import as_given, moved_parameters
from dalembert.boundary.kkt.terms import BlockLayout
from dalembert.discretize.windows import Windows


def _places(windows: Windows, layout: BlockLayout, end: int) -> list[list[Place]]:
    """Where q, q̇, … of an end stand in a path (blocks, b)."""
    begin = layout.part("slots").start
    block, own = np.divmod(end_slots(windows, end), windows.stride)
    return [[(int(b), begin + int(s) * layout.n + i) for i in range(layout.n)] for b, s in zip(block, own, strict=True)]


def tie_of(ends: MovingEnds, windows: Windows, layout: BlockLayout) -> Tie | None:
    """What is the same at both ends."""
    tied = ends.sets.tied
    if not tied.any():
        return None
    chosen = [tuple(x) for x in np.argwhere(tied)]
    first, last = ([_places(windows, layout, end)[level][j] for level, j in chosen] for end in (0, -1))
    return Tie(first, last, ends.sets.shift[tied])


def conditions_of(
    ends: MovingEnds, windows: Windows, layout: BlockLayout, fixed: np.ndarray, sample: np.ndarray, sizes: Sizes
) -> list[EndCondition]:
    """ψ = 0 at the ends."""
    found, split = [], moved_parameters if np.any(ends.origin) else as_given
    path = sample + ends.origin * (windows.orders == 0)[:, None]
    for end, function, equations in zip((0, -1), ends.sets.on, ends.sets.equations, strict=True):
        if function is not None:
            places = [place for level in _places(windows, layout, end) for place in level]
            at = state_of(windows, path, fixed, end, sizes.positions)
            own = sizes_of_set(function, ends.problem, at, equations)
            term = OnSet(function, layout.n, layout.k, split)
            found.append(EndCondition(term, places, (windows.t[[end]],), own, max(places)[0]))
    return found


def end_multipliers(
    ends: MovingEnds | None, windows: Windows, layout: BlockLayout, z: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """ν of ψ = 0 at the first and at the last end of a path (blocks, b), where they lie on sets: L̃ has -νᵀψ."""
    if ends is None:
        return None, None
    found: list[np.ndarray | None] = []
    for end, function, number in zip((0, -1), ends.sets.on, ends.sets.equations, strict=True):
        owner = max(place for level in _places(windows, layout, end) for place in level)[0]
        own = z[owner, layout.part("ends")][2 * ends.sets.carried :][:number]
        found.append(None if function is None else -own)
    return found[0], found[1]
