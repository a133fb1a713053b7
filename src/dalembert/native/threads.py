"""Long work beside Python: pieces of it in several threads at once; and machine code chunk by chunk, because Python answers
signals between two chunks and within one cannot. The bits of a run do not depend on where its chunks end.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from dalembert.interrupts import Leaving, held_back, leave_if_wanted
from dalembert.numbers import MOST_THREADS, whole_number

A = TypeVar("A")
B = TypeVar("B")


FIRST_STEPS = 256  # steps of the first chunk, and of most runs
SECONDS = 0.1  # that a chunk is to take
GROWTH = 8


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_threads(threads: int | None) -> int:
    """All processors if None."""
    return processors() if threads is None else whole_number(threads, "threads", most=MOST_THREADS)


def on_threads(
    one: Callable[[A], B], each: Sequence[A], threads: int, watch: Callable[[int], None] | None = None
) -> list[B]:
    """one(x) of each, so many at once. After Ctrl-C none begins any more, and those that are under way are left. watch: is
    told, in this thread, how many are ready."""
    if threads == 1 or len(each) <= 1:
        return list(_count_results(map(one, each), watch))

    def unless_left(x: A) -> B:
        leave_if_wanted()
        return one(x)

    found: list[B] = []
    with held_back() as noted, contextlib.suppress(Leaving), ThreadPoolExecutor(threads) as pool:
        found = list(_count_results(pool.map(unless_left, each), watch))
    if noted.pressed:
        raise KeyboardInterrupt
    return found


def share(begin: Callable[[], Callable[[int], None]], number: int, threads: int) -> None:
    """one(i) for all i below number, where one = begin() is made once in each thread; for pieces so short that to hand each
    of them to a thread would take longer. Ctrl-C as in `on_threads`."""
    places = itertools.count()

    def take_next(_: int) -> None:
        one = begin()
        while (i := next(places)) < number:
            leave_if_wanted()
            one(i)

    threads = min(threads, number)
    on_threads(take_next, range(threads), threads)


def _count_results(ready: Iterator[B], watch: Callable[[int], None] | None) -> Iterator[B]:
    for i, x in enumerate(ready):
        yield x
        if watch is not None:
            watch(i + 1)


def next_chunk(steps: int, seconds: float) -> int:
    """Steps of the next chunk, from those of one and the time that they took."""
    return max(1, min(GROWTH * steps, int(steps * SECONDS / max(seconds, 1e-9))))


def run_watched(run: Callable[[], None], stop: np.ndarray, between: Callable[[], None] | None) -> bool:
    """Machine code that looks at stop[0] now and then, in a thread of its own, while Python answers signals here.

    Whether it was let run to its end. between: called now and then.
    """
    failed: list[BaseException] = []
    over = threading.Event()  # Thread.join, once interrupted, takes a running thread for one that has ended

    def run_noting_errors() -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)
        finally:
            over.set()

    threading.Thread(target=run_noting_errors, name="dalembert").start()
    try:
        while not over.wait(SECONDS):
            if between is not None:
                between()
        return True
    except KeyboardInterrupt:
        return False
    finally:
        stop[0] = 1
        over.wait()
        if failed:
            raise failed[0]
