"""Work on the disk beside a run, so that little of it is left when the run has to stop."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

WORKERS = 4
SECONDS = 0.2  # that what waits may take


class Flusher:
    """Writes and flushes in threads of its own, in any order. What goes wrong in them is raised by `keep_up` or `wait`."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, "dalembert-flush")
        self._waiting: collections.deque[Future[None]] = collections.deque()
        self._mean = 0.0  # seconds of one piece of work

    def begin(self, work: Callable[[], None]) -> None:
        """Soon, in a thread."""
        self._waiting.append(self._pool.submit(self._measure_time, work))

    def keep_up(self) -> None:
        """Wait where more is left than `SECONDS` of work: the disk is slower than the run."""
        while self._waiting and (self._waiting[0].done() or len(self._waiting) * self._mean > WORKERS * SECONDS):
            self._waiting.popleft().result()

    def wait(self) -> None:
        """Until nothing is left."""
        while self._waiting:
            self._waiting.popleft().result()

    def close(self) -> None:
        """What has not begun is dropped."""
        self._waiting.clear()
        self._pool.shutdown(cancel_futures=True)

    def _measure_time(self, work: Callable[[], None]) -> None:
        began = time.monotonic()
        work()
        self._mean = 0.9 * self._mean + 0.1 * (time.monotonic() - began)
