"""Work of which each piece is long, a boundary problem or an integration, in several threads at once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dalembert.interrupts import Leaving, held_back, leave_if_wanted
from dalembert.native.stepper.compiled import processors
from dalembert.numbers import MOST_THREADS, whole_number

A = TypeVar("A")
B = TypeVar("B")


def as_threads(threads: int | None) -> int:
    """All processors if None."""
    return processors() if threads is None else whole_number(threads, "threads", most=MOST_THREADS)


def on_threads(
    one: Callable[[A], B], each: Sequence[A], threads: int, watch: Callable[[int], None] | None = None
) -> list[B]:
    """one(x) of each, so many at once. After Ctrl-C none begins any more, and those that are under way are left. watch: is
    told, in this thread, how many are ready."""
    if threads == 1 or len(each) <= 1:
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


def share(begin: Callable[[], Callable[[int], None]], number: int, threads: int) -> None:
    """one(i) for all i below number, where one = begin() is made once in each thread; for pieces so short that to hand each
    of them to a thread would take longer. Ctrl-C as in `on_threads`."""
    places = itertools.count()

    def take(_: int) -> None:
        one = begin()
        while (i := next(places)) < number:
            leave_if_wanted()
            one(i)

    threads = min(threads, number)
    on_threads(take, range(threads), threads)


def _counted(ready: Iterator[B], watch: Callable[[int], None] | None) -> Iterator[B]:
    for i, x in enumerate(ready):
        yield x
        if watch is not None:
            watch(i + 1)
