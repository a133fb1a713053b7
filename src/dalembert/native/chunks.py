"""Long runs of machine code, chunk by chunk: Python answers signals between two chunks, and within one cannot.

The state between two steps is whole in its arrays, so that the bits of a run do not depend on where its chunks end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from dalembert.native.stepper.arrays import COUNTED

FIRST = 256  # steps of the first chunk, and of most runs
SECONDS = 0.1  # that a chunk is to take
GROWTH = 8
K, CODE, UNTIL, LAST = (COUNTED.offset(name) for name in ("k", "code", "until", "last"))


def paced(steps: int, seconds: float) -> int:
    """Steps of the next chunk, from those of one and the time that they took."""
    return max(1, min(GROWTH * steps, int(steps * SECONDS / max(seconds, 1e-9))))


def watched(run: Callable[[], None], stop: np.ndarray, between: Callable[[], None] | None) -> bool:
    """Machine code that looks at stop[0] now and then, in a thread of its own, while Python answers signals here.

    Whether it was let run to its end. between: called now and then.
    """
    failed: list[BaseException] = []
    over = threading.Event()  # Thread.join, once interrupted, takes a running thread for one that has ended

    def work() -> None:
        try:
            run()
        except BaseException as error:
            failed.append(error)
        finally:
            over.set()

    threading.Thread(target=work, name="dalembert").start()
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
