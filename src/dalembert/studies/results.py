"""Results of a sweep, block by block: in the memory of this process, in a store, or merged into one value.

Blocks that a store has are kept; the others are computed, by whatever workers. Values over all runs are merged in a tree
that the number of blocks alone decides: the order in which they come does not matter, to the bit, and none is kept longer
than its neighbour takes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.numbers import as_function, as_numbers, described
from dalembert.outcome import Outcome
from dalembert.path import Study, tree_of_values
from dalembert.step.run.state import Watch
from dalembert.step.run.steps import Progress, report_progress
from dalembert.store import FileError
from dalembert.store.atomic import Lock, as_new_store, create_folder, drop_partial, explain_errors
from dalembert.store.paths import flatten
from dalembert.store.studies import COMMITTED, RUN, VALUES, StudyStore, empty_rows, place_on_axes, record_of
from dalembert.studies.fingerprint import check_same
from dalembert.studies.job import Blocks, SweepJob, Task, Workers
from dalembert.tracing import source

if TYPE_CHECKING:
    import xarray


class OverRuns(NamedTuple):
    """of: the value of the runs of a block, study → a number, an array, or a dict, list or tuple of them; merge: that of two
    neighbouring blocks of runs, (a, b) → value, associative but for rounding."""

    of: Callable[[Study], Any]
    merge: Callable[[Any, Any], Any]


def as_over_runs(pair: Any) -> OverRuns:
    """TypeError for what is no pair of functions."""
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(map(callable, pair))):
        raise TypeError(
            f"over_runs: found {described(pair)}; give run_statistics(...), or (of, merge) with of(study) → value and "
            "merge(value, value) → value"
        )
    return OverRuns(*pair)


class MergeTree:
    """Leaves 0 … count-1, merged two and two, level by level; one that is left over rises alone."""

    def __init__(self, count: int, merge: Callable[[Any, Any], Any]):
        self._count, self._merge, self._waiting = count, merge, {}

    def add(self, i: int, value: Any) -> None:
        """The i-th leaf, once."""
        level, size = 0, self._count
        while size > 1:
            mate = i ^ 1
            if mate < size:
                if (level, mate) not in self._waiting:
                    break
                other = self._waiting.pop((level, mate))
                value = self._merge(value, other) if i < mate else self._merge(other, value)
            i, level, size = i // 2, level + 1, -(-size // 2)
        self._waiting[level, i] = value

    @property
    def waiting(self) -> int:
        """Number of values that are kept."""
        return len(self._waiting)

    @property
    def total(self) -> Any:
        """Of all leaves that are there, in their order; None of none."""
        found = None
        for _, value in sorted(self._waiting.items(), key=lambda one: one[0][1] << one[0][0]):
            found = value if found is None else self._merge(found, value)
        return found


def run_statistics(value: Callable[[Study], xarray.DataArray], bins: Any = None) -> OverRuns:
    """Keep only statistics over the runs of a sweep.

    n, Σx/n, Σ(x-x̄)²/n, min x, max x over the runs of a sweep, for its argument over_runs; the runs themselves are
    not kept.

    Failed runs and numbers that are not finite are left out; the number of failed runs is returned.

    Args:
        value: study → x of each run: an array over the axes of the study, such as study.reduced. It may have further
            axes after these, such as the times of study["x"]. It is called with one block of runs after the other.
        bins: (K+1,) increasing edges, for a histogram of one number per run: bin i counts bins[i] ≤ x < bins[i+1]; the
            last bin includes its upper edge.

    Returns:
        A pair for the argument over_runs of `sweep`, which then returns a dict of arrays: runs, failed, count, mean,
        variance (of the population, divided by n), minimum, maximum; with bins also histogram, below and above.

    Raises:
        TypeError: value is not a function, or bins are not numbers.
        ValueError: bins are not increasing, or fewer than two; in the sweep: value returns another shape.

    Source: mean and variance are merged as in Chan, Golub, LeVeque (1979).

    Example:
        >>> ends = da.studies.run_statistics(lambda study: study.data.q.isel(time=-1, coordinate=0), bins=[-2.0, 0.0, 2.0])
        >>> swings = {"q0": np.linspace(0.5, 1.5, 100)}
        >>> found = da.sweep(pendulum, swings, {"v0": [0.0], "h": 0.1, "steps": 20}, over_runs=ends)
        >>> int(found["count"]), found["histogram"].tolist()
        (100, [100, 0])
    """
    as_function(value, "value", "of a study that returns a number for each run")
    edges = None if bins is None else _edges(bins)
    return OverRuns(lambda study: _statistics(study, value(study), edges), _merged)


def _edges(bins: Any) -> np.ndarray:
    edges = as_numbers(bins, "bins")
    if edges.ndim != 1 or len(edges) < 2 or not np.all(np.diff(edges) > 0):
        raise ValueError(f"bins: found {described(bins)}; give two or more edges that grow, (K+1,)")
    return edges


def _statistics(study: Study, x: Any, edges: np.ndarray | None) -> dict[str, np.ndarray]:
    sizes = tuple(study.data.sizes[axis] for axis in study.axes)
    if hasattr(x, "transpose") and hasattr(x, "dims") and set(study.axes) <= set(x.dims):
        x = x.transpose(*study.axes, ...)
    numbers = np.asarray(x, float)
    if numbers.shape[: len(sizes)] != sizes:
        raise ValueError(
            f"over_runs: value returns shape {numbers.shape}; an array over the axes {', '.join(study.axes)} is needed, "
            f"{sizes} of this block"
        )
    numbers = numbers.reshape(-1, *numbers.shape[len(sizes) :])
    failed = ~np.isin(study.data["code"].values.ravel(), (int(Outcome.SUCCESS), int(Outcome.STOPPED)))
    counted = np.isfinite(numbers) & ~failed.reshape(-1, *[1] * (numbers.ndim - 1))
    count = counted.sum(axis=0)
    some = np.where(count > 0, count, np.nan)
    mean = np.where(counted, numbers, 0.0).sum(axis=0) / some
    variance = (np.where(counted, numbers - mean, 0.0) ** 2).sum(axis=0) / some
    low, high = (np.where(counted, numbers, end) for end in (np.inf, -np.inf))
    found = {
        "runs": np.asarray(len(failed)), "failed": failed.sum(), "count": count, "mean": mean, "variance": variance,
        "minimum": np.where(count > 0, low.min(axis=0), np.nan), "maximum": np.where(count > 0, high.max(axis=0), np.nan),
    }  # fmt: skip
    return found if edges is None else found | _histogram(numbers, counted, edges)


def _histogram(numbers: np.ndarray, counted: np.ndarray, edges: np.ndarray) -> dict[str, Any]:
    if numbers.ndim != 1:
        raise ValueError(f"bins: value returns shape {numbers.shape[1:]} for each run; a histogram is of one number")
    x = numbers[counted]
    return {
        "histogram": np.histogram(x, edges)[0], "below": np.count_nonzero(x < edges[0]),
        "above": np.count_nonzero(x > edges[-1]),
    }  # fmt: skip


# A store knows the pair by its text: with another name in it, statistics that were begun by older versions would not go on.
def _merged(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """x̄ = x̄_a + δ n_b/n,  s² = (n_a s_a² + n_b s_b²)/n + δ² n_a n_b/n²,  δ = x̄_b - x̄_a."""
    one, other = np.asarray(a["count"], float), np.asarray(b["count"], float)
    n = np.where(one + other > 0, one + other, np.nan)
    delta = b["mean"] - a["mean"]
    mean = a["mean"] + delta * (other / n)
    variance = (one * a["variance"] + other * b["variance"]) / n + delta**2 * ((one / n) * (other / n))
    both = (one > 0) & (other > 0)
    found = {name: a[name] + b[name] for name in a if name not in ("mean", "variance", "minimum", "maximum")}
    found["mean"] = np.where(both, mean, np.where(one > 0, a["mean"], b["mean"]))
    found["variance"] = np.where(both, variance, np.where(one > 0, a["variance"], b["variance"]))
    return found | {"minimum": np.fmin(a["minimum"], b["minimum"]), "maximum": np.fmax(a["maximum"], b["maximum"])}


BLOCKS = "blocks"
LOCK = f"{COMMITTED}/.lock"
LEAF = "value_"
TITLE = "values of blocks of runs, computed by dalembert"


def _opening(job: SweepJob, workers: Workers) -> tuple[xarray.Dataset, dict[str, str]]:
    """Template and fingerprint, by whichever worker is free: its processor counts, not that of the client."""
    return next(iter(workers(job, lambda job, i, watch: (job.template(), job.fingerprint), [0], None)))[1]


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
    data = empty_rows(_opening(job, workers)[0], math.prod(job.swept.shape.values()))

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
            stack.enter_context(contextlib.closing(_begin_store(place, _opening(job, workers), job, blocks)))
        write, done = functools.partial(_write_block, os.path.abspath(place)), kept.committed_blocks() if kept else set()
        result = lambda: Study(StudyStore(place).open(), job.subject)  # noqa: E731
        return _compute(job, workers, write, done=done, progress=progress, take=lambda *_: None, result=result)


def _write_block(place: str, job: SweepJob, i: int, watch: Watch = None) -> None:
    """The i-th block is computed and is in the store."""
    store, fingerprint = StudyStore(File(place)), job.fingerprint
    if fingerprint != {name: store.fingerprint.get(name) for name in fingerprint}:
        raise ValueError("store: this worker has another processor, or other versions, than the one that began it")
    data = job.block(i, watch)
    with explain_errors(place, "store: cannot be written", "what is there is kept, the same sweep goes on"):
        store.write(i, job.blocks.place(i), data, tuple(map(len, job.blocks.ranges(i))))


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
                    begun = data.assign_attrs(opening[0].attrs | data.attrs), opening[1] | told
                    lock = _begin_store(place, begun, job, ({"block": job.blocks.number}, (1,)))
                    stack.enter_context(contextlib.closing(lock))
                    kept = StudyStore(place)
                assert kept is not None
                kept.write(i, (i,), data, (1,))
            tree.add(i, value)

        task = functools.partial(_block_value, pair)
        return _compute(job, workers, task, done=done, progress=progress, take=take_value, result=lambda: tree.total)


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
        check_same(record_of(kept), job.record, kept.fingerprint, _opening(job, workers)[1])
    drop_partial(place)
    return kept


def _begin_store(
    place: File, opening: tuple[xarray.Dataset, dict[str, str]], job: SweepJob, blocks: tuple[dict, tuple[int, ...]]
) -> Lock:
    """A store without any run, and its lock. opening: template and fingerprint; blocks: lengths of its axes by name, and of
    a block along each."""
    with create_folder(place) as partial:
        labels = job.swept.labels() if job.swept.shape == blocks[0] else {}
        axes = json.dumps([*job.swept.shape.items(), job.blocks.block])
        StudyStore.begin(partial, opening[0], labels, blocks, opening[1] | _values_of(job) | {BLOCKS: axes})
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
