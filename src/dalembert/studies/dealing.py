"""How a sweep is dealt out: into memory or a store, kept or merged, here or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dalembert.numbers import MOST_THREADS, whole_number
from dalembert.step.run.steps import Progress
from dalembert.studies.blockwise.blocks import Blocks
from dalembert.studies.blockwise.cluster import Cluster, check_client
from dalembert.studies.blockwise.collected import collected
from dalembert.studies.blockwise.gathered import gathered
from dalembert.studies.blockwise.job import SweepJob
from dalembert.studies.blockwise.over_runs import OverRuns, as_over_runs
from dalembert.studies.blockwise.stored import Here, stored_sweep


class Dealing(NamedTuple):
    """What `sweep` is told of it, checked. block: how many are computed at once, if it is not left to their size."""

    store: Any
    pair: OverRuns | None
    block: int | None
    client: Any
    threads: int | None
    progress: Progress

    @classmethod
    def of(cls, store: Any, over_runs: Any, block: Any, client: Any, threads: Any, progress: Any) -> Dealing:
        """With all checks."""
        if block is not None:
            whole_number(block, "block")
        if threads is not None:
            whole_number(threads, "threads", most=MOST_THREADS)
        if client is not None:
            check_client(client)
        return cls(store, None if over_runs is None else as_over_runs(over_runs), block, client, threads, progress)

    @property
    def in_memory(self) -> bool:
        """Whether all of it is to be in memory in the end."""
        return self.store is None and self.pair is None

    @property
    def of_a_block(self) -> int | None:
        """Threads: blocks of a cluster have workers of their own."""
        return 1 if self.client is not None and self.threads is None else self.threads

    def blocks(self, shape: Mapping[str, int], most: int) -> Blocks:
        """most: where nobody has chosen."""
        return Blocks.of(tuple(shape.values()), most if self.block is None else self.block)

    def study(self, job: SweepJob) -> Any:
        """The Study, or the merged value."""
        workers = Here() if self.client is None else Cluster(self.client)
        if self.pair is not None:
            return collected(job, self.pair, self.store, workers, self.progress)
        if self.store is None:
            return gathered(job, workers, self.progress)
        return stored_sweep(job, self.store, workers, self.progress)
