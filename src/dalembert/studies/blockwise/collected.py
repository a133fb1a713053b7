"""A sweep of which the merged value over all runs is kept, and of each block its value where there is a store."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from pathlib import Path as File
from typing import Any

from dalembert.interrupts import Interrupted
from dalembert.path import tree_of_values
from dalembert.step.run.state import Watch
from dalembert.step.run.steps import Progress
from dalembert.store.reduced import flatten
from dalembert.store.regions import RUN, VALUES, StudyStore
from dalembert.studies.blockwise.job import SweepJob
from dalembert.studies.blockwise.over_runs import MergeTree, OverRuns
from dalembert.studies.blockwise.stored import Workers, begun, reported_results, taken_up
from dalembert.studies.folder import check_name
from dalembert.tracing import source

LEAF = "value_"
TITLE = "values of blocks of runs, computed by dalembert"


def collected(job: SweepJob, pair: OverRuns, store: Any, workers: Workers, progress: Progress) -> Any:
    """The value of all runs."""
    tree = MergeTree(job.blocks.number, pair.merge)
    with contextlib.ExitStack() as stack:
        kept = None if store is None else _Kept(stack, job, check_name(store, "a sweep"), pair, workers)
        there = {} if kept is None else kept.values()
        for i, value in there.items():
            tree.add(i, value)
        pending = [i for i in range(job.blocks.number) if i not in there]
        try:
            for i, value in reported_results(job, workers, functools.partial(value_of, pair), pending, progress):
                if kept is not None:
                    kept.write(i, value)
                tree.add(i, value)
        except KeyboardInterrupt:
            raise Interrupted(tree.value) from None
    return tree.value


def value_of(pair: OverRuns, job: SweepJob, i: int, watch: Watch = None) -> Any:
    """Of the runs of the i-th block, in arrays of NumPy."""
    tree, leaves = flatten(pair.of(job.study(i, watch)))
    return tree_of_values(tree, leaves.__getitem__)


class _Kept:
    """The values of the blocks in a store, each by its number."""

    def __init__(self, stack: contextlib.ExitStack, job: SweepJob, place: File, pair: OverRuns, workers: Workers):
        self._stack, self._job, self._place = stack, job, place
        text = "".join(map(source, pair))
        self._told = {"over_runs": hashlib.sha256(text.encode()).hexdigest()}
        self._store = taken_up(stack, job, place, workers, self._told)
        self._opening = None if self._store else workers.opening(job)

    def values(self) -> dict[int, Any]:
        """Those that are there."""
        if self._store is None:
            return {}
        tree = json.loads(self._store.attributes["tree"])
        found = {i: self._store.values(i) for i in sorted(self._store.committed())}
        return {i: tree_of_values(tree, lambda k, x=x: x[f"{LEAF}{k}"]) for i, x in found.items()}

    def write(self, i: int, value: Any) -> None:
        """One of them; the first makes the store, which is of its form."""
        import xarray as xr

        tree, leaves = flatten(value)
        axes = [(RUN, *(f"{LEAF}{k}_{j}" for j in range(leaf.ndim))) for k, leaf in enumerate(leaves)]
        data = xr.Dataset({f"{LEAF}{k}": (axes[k], leaf[None]) for k, leaf in enumerate(leaves)})
        if self._store is None:
            assert self._opening is not None
            own = {"title": TITLE, "content": VALUES, "tree": json.dumps(tree)}
            opening = self._opening._replace(template=data.assign_attrs(self._opening.template.attrs | own))
            blocks = {"block": self._job.blocks.number}, (1,)
            lock = begun(self._place, opening, self._job, blocks, self._told)
            self._stack.enter_context(contextlib.closing(lock))
            self._store = StudyStore(self._place)
        self._store.write(i, (i,), data, (1,))
