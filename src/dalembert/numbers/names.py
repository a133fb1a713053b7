"""Which of the named coordinates is meant."""

from __future__ import annotations

from collections.abc import Sequence


def place_of(name: str, names: Sequence[str], owner: str) -> int:
    """Where a name stands among those of the coordinates; KeyError with what there is. owner: whose they are."""
    if name in names:
        return list(names).index(name)
    if names:
        raise KeyError(f"{name!r}: the coordinates of the {owner} are {', '.join(map(repr, names))}")
    raise KeyError(
        f'{name!r}: the {owner} has no names of coordinates; build the system with coordinates=("x", …), or take {owner}.q'
    )
