"""A sweep in a store: blocks that are not yet there are computed, by whatever workers, and written; the others are kept."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path as File
from typing import Any, Protocol

import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.path import Study
from dalembert.step.run.progress import Progress, reported
from dalembert.step.run.state import Watch
from dalembert.store.checksum import FileError
from dalembert.store.regions import COMMITTED, StudyStore, record_of
from dalembert.studies.blocks import Blocks
from dalembert.studies.fingerprint import check_same
from dalembert.studies.folder import check_name, drop_partial, made
from dalembert.studies.job import Opening, SweepJob
from dalembert.studies.lock import Lock

LOCK = f"{COMMITTED}/.lock"
Task = Callable[[SweepJob, int, Watch], Any]


class Workers(Protocol):
    """Who computes."""

    def opening(self, job: SweepJob) -> Opening:
        """Of the job, by one of them."""
        ...

    def results(self, job: SweepJob, task: Task, pending: Iterable[int], watch: Watch) -> Iterator[tuple[int, Any]]:
        """task(job, i, watch) for all i, as they are ready."""
        ...


class Here:
    """This process, one block after the other, each on all threads."""

    def opening(self, job: SweepJob) -> Opening:
        return job.opening()

    def results(self, job: SweepJob, task: Task, pending: Iterable[int], watch: Watch) -> Iterator[tuple[int, Any]]:
        done = 0

        def within(steps: int) -> None:
            assert watch is not None
            watch(done + steps)

        for i in pending:
            yield i, task(job, i, watch and within)
            done += job.blocks.runs(i) * job.options.steps


def stored_sweep(job: SweepJob, store: Any, workers: Workers, progress: Progress) -> Study:
    """All blocks, those that the store has and those that it has not."""
    place = check_name(store, "a study")
    with contextlib.ExitStack() as stack:
        if place.exists() or place.is_symlink():
            kept = StudyStore(place)  # before anything is put into a folder that is none of ours
            stack.enter_context(contextlib.closing(Lock(place / LOCK, place)))
            if job.blocks.shape != kept.shape or job.blocks.block != kept.block:
                job.blocks = _as_stored(job, kept)
            pending = sorted(set(range(job.blocks.count)) - kept.committed())
            told = workers.opening(job).fingerprint if pending else None
            check_same(record_of(kept), job.record, kept.told, (told or {}) | _values(job))
            drop_partial(place)
        else:
            stack.enter_context(contextlib.closing(_begun(job, place, workers.opening(job))))
            pending = list(range(job.blocks.count))
        _compute(job, place, workers, pending, progress)
    return Study(StudyStore(place).open(), job.subject)


def _compute(job: SweepJob, place: File, workers: Workers, pending: list[int], progress: Progress) -> None:
    steps = job.options.steps
    done, total = 0, steps * sum(map(job.blocks.runs, pending))
    try:
        with reported(progress, total) as watch:
            for i, _ in workers.results(job, functools.partial(written, os.path.abspath(place)), pending, watch):
                done += job.blocks.runs(i) * steps
                if watch is not None:
                    watch(done)
    except KeyboardInterrupt:  # a block that was broken off is computed again
        raise Interrupted(Study(StudyStore(place).open(), job.subject)) from None


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


def _begun(job: SweepJob, place: File, opening: Opening) -> Lock:
    with made(place) as partial:
        blocks = (job.swept.shape, job.blocks.block)
        StudyStore.begin(partial, opening.template, job.swept.labels(), blocks, opening.fingerprint | _values(job))
        return Lock(partial / LOCK, place)


def _values(job: SweepJob) -> dict[str, str]:
    """What is swept, by its names and numbers."""
    return {f"values[{name!r}]": hashlib.sha256(repr(x.shape).encode() + np.ascontiguousarray(x).tobytes()).hexdigest()
            for name, x in job.swept.given.items()}  # fmt: skip


def _as_stored(job: SweepJob, kept: StudyStore) -> Blocks:
    """The blocks that the store was begun with."""
    found = Blocks(kept.shape, kept.block)
    if found.shape != job.blocks.shape or list(job.swept.shape) != kept.axes:
        here = ", ".join(f"{n} {axis}" for axis, n in job.swept.shape.items())
        there = ", ".join(f"{n} {axis}" for axis, n in zip(kept.axes, kept.shape, strict=False))
        raise ValueError(f"values, store: found {here} runs; the sweep in the store has {there}")
    if found != Blocks.of(found.shape, found.size):
        raise FileError(kept.place, "is damaged: its blocks are none of a sweep")
    return found
