"""A sweep block by block, and who computes it: this process, or the workers of a dask.distributed client.

A block is a box over the axes of the sweep. `RunsJob` has runs from initial data, `SolutionsJob` solutions between ends.
"""

from __future__ import annotations

import abc
import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dalembert.numbers import described
from dalembert.path import Provenance, Study
from dalembert.step.run.state import Watch
from dalembert.store.studies import place_on_axes
from dalembert.studies.swept import Swept

if TYPE_CHECKING:
    import xarray

GONE = "client: its scheduler is gone ({}); what is in a store is kept, and the same sweep goes on"
LOST = ("CancelledError", "FutureCancelledError", "CommClosedError")


class Blocks(NamedTuple):
    """shape: of the axes; block: numbers of runs along each axis, in full along the last ones, 1 along the first ones; so
    that the runs of a block follow each other, the last axis running fastest."""

    shape: tuple[int, ...]
    block: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], most: int) -> Blocks:
        """Blocks as large as they can be with so many runs at the most."""
        block, room = [1] * len(shape), most
        for axis in reversed(range(len(shape))):
            block[axis] = min(shape[axis], room)
            room //= block[axis]
            if block[axis] < shape[axis] or room < 2:
                break
        return cls(shape, tuple(block))

    @property
    def size(self) -> int:
        """Runs of a block."""
        return math.prod(self.block)

    @property
    def grid(self) -> tuple[int, ...]:
        """Numbers of blocks along the axes."""
        return tuple(-(-n // b) for n, b in zip(self.shape, self.block, strict=True))

    @property
    def number(self) -> int:
        """All blocks."""
        return math.prod(self.grid)

    def place(self, i: int) -> tuple[int, ...]:
        """Of the i-th block in the grid."""
        return tuple(map(int, np.unravel_index(i, self.grid)))

    def ranges(self, i: int) -> tuple[range, ...]:
        """Of its runs along the axes; fewer in the last block of an axis."""
        begins = (k * b for k, b in zip(self.place(i), self.block, strict=True))
        return tuple(range(a, min(a + b, n)) for a, b, n in zip(begins, self.block, self.shape, strict=True))

    def first(self, i: int) -> int:
        """The number of its first run, the last axis running fastest."""
        return int(np.ravel_multi_index(tuple(part.start for part in self.ranges(i)), self.shape))

    def runs(self, i: int) -> int:
        """The number of its runs."""
        return math.prod(map(len, self.ranges(i)))

    def places(self, i: int) -> tuple[np.ndarray, ...]:
        """(size,) places of its runs along each axis. A block that has fewer runs repeats its last one: what is compiled for
        one size is compiled once."""
        first, runs = self.first(i), self.runs(i)
        return np.unravel_index(first + np.minimum(np.arange(self.size), runs - 1), self.shape)


class SweepOpening(NamedTuple):
    """The data before the first block. template: a data set of one, without values; fingerprint: as of the job."""

    template: xarray.Dataset
    fingerprint: dict[str, str]


class SweepJob(abc.ABC):
    """Runs or solutions in blocks. threads: of a block, all processors if None; unit: of what progress counts; shared: other
    calls or processes may compute other blocks. It travels to workers without what it has compiled."""

    unit: ClassVar[str] = "steps"
    shared = True

    def __init__(self, swept: Swept, blocks: Blocks, threads: int | None):
        self.swept, self.blocks, self.threads = swept, blocks, threads
        self._ready, self._making, self._warned = None, threading.Lock(), False

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name not in ("_ready", "_making")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _ready=None, _making=threading.Lock())

    @property
    @abc.abstractmethod
    def work(self) -> int:
        """Of one run or solution, in units of `unit`."""

    @property
    @abc.abstractmethod
    def subject(self) -> Any:
        """The system or problem, for pictures."""

    @property
    @abc.abstractmethod
    def record(self) -> Provenance:
        """Of the call."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """By what the bits of all are determined besides the record. May compile."""

    @abc.abstractmethod
    def opening(self) -> SweepOpening:
        """May compile."""

    @abc.abstractmethod
    def block(self, i: int, watch: Watch = None) -> xarray.Dataset:
        """The i-th block over the axis `run`; KeyboardInterrupt where Ctrl-C broke it off."""

    def study(self, i: int, watch: Watch = None) -> Study:
        """The i-th block over the axes of the sweep."""
        return self._study_of(i, self.block(i, watch))

    @abc.abstractmethod
    def _prepare(self) -> Any:
        """The code and the data that all blocks need."""

    def _once(self) -> Any:
        """It, made once in every process, by whichever thread comes first."""
        with self._making:
            if self._ready is None:
                self._ready = self._prepare()
        return self._ready

    def _study_of(self, i: int, data: xarray.Dataset) -> Study:
        """The data of the i-th block with its labels."""
        ranges = dict(zip(self.swept.shape, self.blocks.ranges(i), strict=True))
        lengths = {axis: len(part) for axis, part in ranges.items()}
        return Study(place_on_axes(data, self.swept.labels(ranges), lengths), self.subject)


Task = Callable[[SweepJob, int, Watch], Any]
# (i, task(job, i, watch)) for all i, as they are ready.
Workers = Callable[[SweepJob, Task, Iterable[int], Watch], Iterator[tuple[int, Any]]]


def compute_here(job: SweepJob, task: Task, pending: Iterable[int], watch: Watch) -> Iterator[tuple[int, Any]]:
    """In this process, one block after the other, each on all threads."""
    done = 0

    def within(steps: int) -> None:
        assert watch is not None
        watch(done + steps)

    for i in pending:
        yield i, task(job, i, watch and within)
        done += job.blocks.runs(i) * job.work


def workers_of(client: Any) -> Workers:
    """The workers of a client, which have to see a store under the same name; TypeError for what is no client whose calls
    wait."""
    module = sys.modules.get("distributed")  # who has a client has loaded it
    if module is None or not isinstance(client, module.Client):
        raise TypeError(f"client: found {described(client)}; give a dask.distributed.Client, of dalembert[cluster]")
    if client.asynchronous:
        raise TypeError("client: found one that is asynchronous; give a Client(..., asynchronous=False)")

    def compute(job: SweepJob, task: Task, pending: Iterable[int], watch: Watch) -> Iterator[tuple[int, Any]]:
        import cloudpickle
        from distributed import as_completed

        # Made by a task, and not scattered: what a worker loses that is killed is made again. A worker unpacks it once.
        sent = client.submit(cloudpickle.loads, cloudpickle.dumps((job, task)), pure=False)
        futures = client.map(_compute_on_worker, list(pending), sent=sent, pure=False)
        try:
            for future in as_completed(futures):
                i, result = future.result()
                future.release()
                yield i, result
        except Exception as error:
            if client.status != "running" or type(error).__name__ in LOST:
                raise ConnectionError(GONE.format(f"{type(error).__name__}: {error}")) from error
            raise
        finally:
            if client.status == "running":
                client.cancel([*futures, sent], force=True)

    return compute


def _compute_on_worker(i: int, sent: tuple[SweepJob, Task]) -> tuple[int, Any]:
    """The number of a block, and what the task makes of it."""
    job, task = sent
    return i, task(job, i, None)
