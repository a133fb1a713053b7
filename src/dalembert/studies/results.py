"""Results of a sweep, block by block: in the memory of this process, in a store, or merged into one value.

Blocks that a store has are kept; the others are computed, by whatever workers.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.path import Study, tree_of_values
from dalembert.step.run.state import Watch
from dalembert.step.run.steps import Progress, report_progress
from dalembert.store.checksum import FileError
from dalembert.store.folder import Lock, as_new_store, create_folder, drop_partial
from dalembert.store.regions import COMMITTED, VALUES, StudyStore, record_of
from dalembert.store.studies import RUN, empty_rows, place_on_axes
from dalembert.store.variables import flatten
from dalembert.studies.fingerprint import check_same
from dalembert.studies.job import Blocks, SweepJob, SweepOpening, Task, Workers
from dalembert.studies.over_runs import MergeTree, OverRuns
from dalembert.tracing import source

if TYPE_CHECKING:
    import xarray

BLOCKS = "blocks"
LOCK = f"{COMMITTED}/.lock"
LEAF = "value_"
TITLE = "values of blocks of runs, computed by dalembert"


def _opening(job: SweepJob, workers: Workers) -> SweepOpening:
    """By whichever worker is free: its processor counts, not that of the client."""
    return next(iter(workers(job, lambda job, i, watch: job.opening(), [0], None)))[1]


def _block(job: SweepJob, i: int, watch: Watch) -> Any:
    return job.block(i, watch)


def _compute(
    job: SweepJob, workers: Workers, task: Task, *, done: set[int], progress: Progress, take: Callable[[int, Any], None],
    result: Callable[[], Any],
) -> Any:  # fmt: skip
    """The result when all blocks but those that are done have been taken; with Interrupted where Ctrl-C came first."""
    pending = [i for i in range(job.blocks.number) if i not in done]
    count, total = 0, job.work * sum(map(job.blocks.runs, pending))
    try:
        with report_progress(progress, total, job.unit) as watch:
            for i, value in workers(job, task, pending, watch):
                take(i, value)
                count += job.blocks.runs(i) * job.work
                if watch is not None:
                    watch(count)
    except KeyboardInterrupt:  # a block that was broken off is computed again
        raise Interrupted(result()) from None
    return result()


def gather_study(job: SweepJob, workers: Workers, progress: Progress) -> Study:
    """In memory."""
    if not job.shared:
        with report_progress(progress, job.work * job.blocks.runs(0), job.unit) as watch:
            return job.study(0, watch)
    data = empty_rows(_opening(job, workers).template, math.prod(job.swept.shape.values()))

    def take_block(i: int, block: Any) -> None:
        first = job.blocks.first(i)
        for name, x in block.data_vars.items():
            if x.dims[:1] == (RUN,):
                data[name].values[first : first + len(x)] = x.values

    result = lambda: Study(place_on_axes(data, job.swept.labels(), job.swept.shape), job.subject)  # noqa: E731
    return _compute(job, workers, _block, done=set(), progress=progress, take=take_block, result=result)


def store_study(job: SweepJob, store: Any, workers: Workers, progress: Progress) -> Study:
    """In a store."""
    place = as_new_store(store, "a study")
    with contextlib.ExitStack() as stack:
        kept = _taken_up(stack, job, place, workers, {})
        if kept is None:
            blocks = job.swept.shape, job.blocks.block
            stack.enter_context(contextlib.closing(_begin_store(place, _opening(job, workers), job, blocks, {})))
        write, done = functools.partial(_write_block, os.path.abspath(place)), kept.committed_blocks() if kept else set()
        result = lambda: Study(StudyStore(place).open(), job.subject)  # noqa: E731
        return _compute(job, workers, write, done=done, progress=progress, take=lambda *_: None, result=result)


def _write_block(place: str, job: SweepJob, i: int, watch: Watch = None) -> None:
    """The i-th block is computed and is in the store."""
    store, fingerprint = StudyStore(File(place)), job.fingerprint
    if fingerprint != {name: store.fingerprint.get(name) for name in fingerprint}:
        raise ValueError("store: this worker has another processor, or other versions, than the one that began it")
    data = job.block(i, watch)
    try:
        store.write(i, job.blocks.place(i), data, tuple(map(len, job.blocks.ranges(i))))
    except OSError as error:
        what = f"store: cannot be written ({error.strerror or error}); what is there is kept, the same sweep goes on"
        raise OSError(error.errno or errno.EIO, what, place) from error


def merge_values(job: SweepJob, pair: OverRuns, store: Any, workers: Workers, progress: Progress) -> Any:
    """The merged value of all runs, and that of each block where there is a store."""
    place = None if store is None else as_new_store(store, "a sweep")
    kept, opening, done, told = None, None, set(), {}
    with contextlib.ExitStack() as stack:
        if place is not None:
            told = {"over_runs": hashlib.sha256("".join(map(source, pair)).encode()).hexdigest()}
            kept = _taken_up(stack, job, place, workers, told)
            opening = None if kept else _opening(job, workers)
        tree = MergeTree(job.blocks.number, pair.merge)
        if kept is not None:
            done, form = kept.committed_blocks(), json.loads(kept.attributes["tree"])
            for i in sorted(done):
                tree.add(i, tree_of_values(form, kept.values(i).__getitem__))

        def take_value(i: int, value: Any) -> None:
            """The first makes the store, which is of its form."""
            nonlocal kept
            if place is not None:
                data = _value_to_xarray(value)
                if opening is not None and kept is None:
                    begun = opening._replace(template=data.assign_attrs(opening.template.attrs | data.attrs))
                    lock = _begin_store(place, begun, job, ({"block": job.blocks.number}, (1,)), told)
                    stack.enter_context(contextlib.closing(lock))
                    kept = StudyStore(place)
                assert kept is not None
                kept.write(i, (i,), data, (1,))
            tree.add(i, value)

        task = functools.partial(_block_value, pair)
        return _compute(job, workers, task, done=done, progress=progress, take=take_value, result=lambda: tree.value)


def _block_value(pair: OverRuns, job: SweepJob, i: int, watch: Watch = None) -> Any:
    """Of the runs of the i-th block, in arrays of NumPy."""
    tree, leaves = flatten(pair.of(job.study(i, watch)))
    return tree_of_values(tree, leaves.__getitem__)


def _value_to_xarray(value: Any) -> xarray.Dataset:
    """The value of one block."""
    import xarray as xr

    tree, leaves = flatten(value)
    axes = [(RUN, *(f"{LEAF}{k}_{j}" for j in range(leaf.ndim))) for k, leaf in enumerate(leaves)]
    variables = {f"{LEAF}{k}": (axes[k], leaf[None]) for k, leaf in enumerate(leaves)}
    return xr.Dataset(variables, attrs={"title": TITLE, "content": VALUES, "tree": json.dumps(tree)})


def _taken_up(
    stack: contextlib.ExitStack, job: SweepJob, place: File, workers: Workers, told: dict[str, str]
) -> StudyStore | None:
    """The store that is there, locked until the stack is closed, if it is that of this sweep; None where there is none.
    told: what its fingerprint has besides."""
    if not (place.exists() or place.is_symlink()):
        return None
    kept = StudyStore(place)  # before anything is put into a folder that is none of ours
    stack.enter_context(contextlib.closing(Lock(place / LOCK, place)))
    job.blocks = _as_stored(job, kept)
    check_same(record_of(kept), job.record, kept.fingerprint, _values_of(job) | told)
    if len(kept.committed_blocks()) < job.blocks.number:
        check_same(record_of(kept), job.record, kept.fingerprint, _opening(job, workers).fingerprint)
    drop_partial(place)
    return kept


def _begin_store(
    place: File, opening: SweepOpening, job: SweepJob, blocks: tuple[dict[str, int], tuple[int, ...]], told: dict[str, str]
) -> Lock:
    """A store without any run, and its lock. blocks: lengths of its axes by name, and of a block along each."""
    with create_folder(place) as partial:
        labels = job.swept.labels() if job.swept.shape == blocks[0] else {}
        axes = json.dumps([*job.swept.shape.items(), job.blocks.block])
        StudyStore.begin(
            partial, opening.template, labels, blocks, opening.fingerprint | _values_of(job) | told | {BLOCKS: axes}
        )
        return Lock(partial / LOCK, place)


def _values_of(job: SweepJob) -> dict[str, str]:
    """Hashes of the swept values, by name."""
    return {f"values[{name!r}]": hashlib.sha256(repr(x.shape).encode() + np.ascontiguousarray(x).tobytes()).hexdigest()
            for name, x in job.swept.given.items()}  # fmt: skip


def _as_stored(job: SweepJob, kept: StudyStore) -> Blocks:
    """The blocks that the store was begun with; ValueError where those are of other axes."""
    try:
        *axes, block = json.loads(kept.fingerprint[BLOCKS])
        found = Blocks(job.blocks.shape, tuple(map(int, block)))
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(kept.place, f"is damaged: its fingerprint is not that of a sweep ({error})") from error
    if axes != [list(axis) for axis in job.swept.shape.items()]:
        here, there = (", ".join(f"{n} {axis}" for axis, n in x) for x in (job.swept.shape.items(), axes))
        raise ValueError(f"values, store: found {here}; the sweep in the store has {there}")
    if found != Blocks.of(found.shape, found.size):
        raise FileError(kept.place, "is damaged: its blocks are not those of a sweep")
    return found
