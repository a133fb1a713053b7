"""Blocks of a sweep on the workers of a dask.distributed client: each a task, of which only a few are under way."""

from __future__ import annotations

import itertools
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from dalembert.numbers import described
from dalembert.step.run.state import Watch
from dalembert.studies.blockwise.job import SweepJob, SweepOpening
from dalembert.studies.blockwise.stored import Task

AHEAD = 3  # tasks for each thread: one is computed, one has what it needs, one is on its way
JOBS = 2  # that a worker keeps
GONE = "client: its scheduler is gone ({}); what is in a store is kept, and the same sweep goes on"
LOST = ("CancelledError", "FutureCancelledError", "CommClosedError")
_ARRIVED: dict[str, tuple[SweepJob, Task | None]] = {}
_ARRIVING = threading.Lock()


def check_client(client: Any) -> None:
    """TypeError for what is no client whose calls wait."""
    module = sys.modules.get("distributed")  # who has a client has loaded it
    if module is None or not isinstance(client, module.Client):
        raise TypeError(f"client: found {described(client)}; give a dask.distributed.Client, of dalembert[cluster]")
    if client.asynchronous:
        raise TypeError("client: found one that is asynchronous; give a Client(..., asynchronous=False)")


class Cluster:
    """Workers of the client. They have to see the store under the same name."""

    def __init__(self, client: Any):
        self._client = client

    def opening(self, job: SweepJob) -> SweepOpening:
        """By whichever worker is free: its processor counts, not that of the client."""
        return next(self._done(job, None, [0]))[1]

    def results(self, job: SweepJob, task: Task, pending: Iterable[int], watch: Watch) -> Iterator[tuple[int, Any]]:
        """As they are ready, in any order."""
        yield from self._done(job, task, pending)

    def _done(self, job: SweepJob, task: Task | None, pending: Iterable[int]) -> Iterator[tuple[int, Any]]:
        import cloudpickle
        from distributed import wait

        client, name, left = self._client, f"dalembert-{secrets.token_hex(8)}", iter(pending)
        # Made by a task, and not scattered: what a worker loses that is killed is made again.
        sent = client.submit(bytes, cloudpickle.dumps((job, task)), key=name)
        waiting: dict[Any, int] = {}
        try:
            while True:
                room = AHEAD * max(1, sum(client.nthreads().values())) - len(waiting)
                for i in itertools.islice(left, max(0, room)):
                    waiting[client.submit(_compute_on_worker, sent, name, i, key=f"{name}-{i}", pure=False)] = i
                if not waiting:
                    return
                ready: Any = wait(list(waiting), return_when="FIRST_COMPLETED")
                for future in ready.done:
                    i, result = waiting.pop(future), future.result()
                    future.release()
                    yield i, result
        except Exception as error:
            if client.status != "running" or type(error).__name__ in LOST:
                raise ConnectionError(GONE.format(f"{type(error).__name__}: {error}")) from error
            raise
        finally:
            if client.status == "running":
                client.cancel([*waiting, sent], force=True)


def _compute_on_worker(sent: bytes, name: str, i: int) -> Any:
    """On a worker. A job is unpacked once, so that its code is compiled once."""
    import pickle

    with _ARRIVING:
        if name not in _ARRIVED:
            _ARRIVED[name] = pickle.loads(sent)
            for old in list(_ARRIVED)[:-JOBS]:
                del _ARRIVED[old]
        job, task = _ARRIVED[name]
    return job.opening() if task is None else task(job, i, None)
