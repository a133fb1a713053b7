"""Several boundary problems at once, each in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dalembert.interrupts import Leaving, held_back, leave_if_wanted

A = TypeVar("A")
B = TypeVar("B")


def on_threads(
    one: Callable[[A], B], each: Sequence[A], threads: int, watch: Callable[[int], None] | None = None
) -> list[B]:
    """one(x) of each, so many at once. After Ctrl-C none begins any more, and those that are under way are left. watch: is
    told, in this thread, how many are ready."""
    if threads == 1 or len(each) == 1:
        return list(_counted(map(one, each), watch))

    def unless_left(x: A) -> B:
        leave_if_wanted()
        return one(x)

    found: list[B] = []
    with held_back() as noted, contextlib.suppress(Leaving), ThreadPoolExecutor(threads) as pool:
        found = list(_counted(pool.map(unless_left, each), watch))
    if noted.pressed:
        raise KeyboardInterrupt
    return found


def _counted(ready: Iterator[B], watch: Callable[[int], None] | None) -> Iterator[B]:
    for i, x in enumerate(ready):
        yield x
        if watch is not None:
            watch(i + 1)
