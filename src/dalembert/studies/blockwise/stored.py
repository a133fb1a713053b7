"""A sweep in a store: blocks that are not yet there are computed, by whatever workers, and written; the others are kept."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path as File
from typing import Any, Protocol

import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.path import Study
from dalembert.step.run.state import Watch
from dalembert.step.run.steps import Progress, reported
from dalembert.store.checksum import FileError
from dalembert.store.regions import COMMITTED, StudyStore, record_of
from dalembert.studies.blockwise.blocks import Blocks
from dalembert.studies.blockwise.job import SweepJob, SweepOpening
from dalembert.studies.fingerprint import check_same
from dalembert.studies.folder import check_name, drop_partial, made
from dalembert.studies.lock import Lock

BLOCKS = "blocks"
LOCK = f"{COMMITTED}/.lock"
Task = Callable[[SweepJob, int, Watch], Any]


class Workers(Protocol):
    """Who computes."""

    def opening(self, job: SweepJob) -> SweepOpening:
        """Of the job, by one of them."""
        ...

    def results(self, job: SweepJob, task: Task, pending: Iterable[int], watch: Watch) -> Iterator[tuple[int, Any]]:
        """task(job, i, watch) for all i, as they are ready."""
        ...


class Here:
    """This process, one block after the other, each on all threads."""

    def opening(self, job: SweepJob) -> SweepOpening:
        return job.opening()

    def results(self, job: SweepJob, task: Task, pending: Iterable[int], watch: Watch) -> Iterator[tuple[int, Any]]:
        done = 0

        def within(steps: int) -> None:
            assert watch is not None
            watch(done + steps)

        for i in pending:
            yield i, task(job, i, watch and within)
            done += job.blocks.runs(i) * job.work


def stored_sweep(job: SweepJob, store: Any, workers: Workers, progress: Progress) -> Study:
    """All blocks, those that the store has and those that it has not."""
    place = check_name(store, "a study")
    with contextlib.ExitStack() as stack:
        kept = taken_up(stack, job, place, workers, {})
        if kept is None:
            opening = workers.opening(job)
            stack.enter_context(contextlib.closing(begun(place, opening, job, (job.swept.shape, job.blocks.block), {})))
        pending = sorted(set(range(job.blocks.number)) - (kept.committed() if kept else set()))
        try:
            for _ in reported_results(job, workers, functools.partial(written, os.path.abspath(place)), pending, progress):
                pass
        except KeyboardInterrupt:  # a block that was broken off is computed again
            raise Interrupted(Study(StudyStore(place).open(), job.subject)) from None
    return Study(StudyStore(place).open(), job.subject)


def taken_up(
    stack: contextlib.ExitStack, job: SweepJob, place: File, workers: Workers, told: dict[str, str]
) -> StudyStore | None:
    """The store that is there, locked until the stack is closed, if it is that of this sweep; None where there is none.
    told: what its fingerprint has besides."""
    if not (place.exists() or place.is_symlink()):
        return None
    kept = StudyStore(place)  # before anything is put into a folder that is none of ours
    stack.enter_context(contextlib.closing(Lock(place / LOCK, place)))
    job.blocks = _as_stored(job, kept)
    check_same(record_of(kept), job.record, kept.told, values_of(job) | told)
    if len(kept.committed()) < job.blocks.number:
        check_same(record_of(kept), job.record, kept.told, workers.opening(job).fingerprint)
    drop_partial(place)
    return kept


def begun(
    place: File, opening: SweepOpening, job: SweepJob, blocks: tuple[dict[str, int], tuple[int, ...]], told: dict[str, str]
) -> Lock:
    """A store without any run, and its lock. blocks: lengths of its axes by name, and of a block along each."""
    with made(place) as partial:
        labels = job.swept.labels() if job.swept.shape == blocks[0] else {}
        told = (
            opening.fingerprint | values_of(job) | told | {BLOCKS: json.dumps([*job.swept.shape.items(), job.blocks.block])}
        )
        StudyStore.begin(partial, opening.template, labels, blocks, told)
        return Lock(partial / LOCK, place)


def reported_results(
    job: SweepJob, workers: Workers, task: Task, pending: list[int], progress: Progress
) -> Iterator[tuple[int, Any]]:
    """What the workers find, as it is ready; who asks is told how much is done."""
    done, total = 0, job.work * sum(map(job.blocks.runs, pending))
    with reported(progress, total, job.unit) as watch:
        for i, result in workers.results(job, task, pending, watch):
            yield i, result
            done += job.blocks.runs(i) * job.work
            if watch is not None:
                watch(done)


def written(place: str, job: SweepJob, i: int, watch: Watch = None) -> None:
    """The i-th block is computed and is in the store."""
    store, fingerprint = StudyStore(File(place)), job.fingerprint
    if fingerprint != {name: store.told.get(name) for name in fingerprint}:
        raise ValueError("store: this worker has another processor, or other versions, than the one that began it")
    data = job.block(i, watch)
    try:
        store.write(i, job.blocks.place(i), data, tuple(map(len, job.blocks.ranges(i))))
    except OSError as error:
        what = f"store: cannot be written ({error.strerror or error}); what is there is kept, the same sweep goes on"
        raise OSError(error.errno or errno.EIO, what, place) from error


def values_of(job: SweepJob) -> dict[str, str]:
    """What is swept, by its names and numbers."""
    return {f"values[{name!r}]": hashlib.sha256(repr(x.shape).encode() + np.ascontiguousarray(x).tobytes()).hexdigest()
            for name, x in job.swept.given.items()}  # fmt: skip


def _as_stored(job: SweepJob, kept: StudyStore) -> Blocks:
    """The blocks that the store was begun with; ValueError where those are of other axes."""
    try:
        *axes, block = json.loads(kept.told[BLOCKS])
        found = Blocks(job.blocks.shape, tuple(map(int, block)))
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(kept.place, f"is damaged: its fingerprint is not that of a sweep ({error})") from error
    if axes != [list(axis) for axis in job.swept.shape.items()]:
        here, there = (", ".join(f"{n} {axis}" for axis, n in x) for x in (job.swept.shape.items(), axes))
        raise ValueError(f"values, store: found {here}; the sweep in the store has {there}")
    if found != Blocks.of(found.shape, found.size):
        raise FileError(kept.place, "is damaged: its blocks are not those of a sweep")
    return found
