"""Several boundary problems at once, each in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dalembert.interrupts import Leaving, held_back, leave_if_wanted

A = TypeVar("A")
B = TypeVar("B")


def on_threads(one: Callable[[A], B], each: Sequence[A], threads: int) -> list[B]:
    """one(x) of each, so many at once. After Ctrl-C none begins any more, and those that are under way are left."""
    if threads == 1 or len(each) == 1:
        return [one(x) for x in each]

    def unless_left(x: A) -> B:
        leave_if_wanted()
        return one(x)

    found: list[B] = []
    with held_back() as noted, contextlib.suppress(Leaving), ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(unless_left, each))
    if noted.pressed:
        raise KeyboardInterrupt
    return found
