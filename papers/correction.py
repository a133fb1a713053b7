"""A printed formula that does not hold: what is right instead, and the numbers that show it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping


@dataclasses.dataclass(frozen=True)
class Correction:
    """One finding. text says in words what was found, with the numbers of `measure`."""

    equation: str
    printed: str
    correct: str
    measure: Callable[[], Mapping[str, float]]
    check: str  # format string of the numbers, {0}, {1}, … in their order

    @property
    def text(self) -> str:
        return self.check.format(*numbers(self.measure).values())


@functools.cache
def numbers(measure: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    """What a check measures, once."""
    return measure()
