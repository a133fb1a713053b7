"""Runs from initial data as the job of a sweep: a block is an ensemble, its code compiled once where the job arrives."""

from __future__ import annotations

import dataclasses
import math
import threading
import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.lazy import as_left, fields_as_left
from dalembert.messages import warn
from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance, Study
from dalembert.step.ensembles import Lanes, Running
from dalembert.step.options import RunOptions
from dalembert.step.run.assemble import warn_of_resolution
from dalembert.step.run.state import Watch
from dalembert.store.studies import study_to_xarray
from dalembert.studies.job import Blocks, SweepJob, SweepOpening
from dalembert.studies.swept import DATA, Swept
from dalembert.systems.batch import check_batch

if TYPE_CHECKING:
    import xarray


class RunsJob(SweepJob):
    """Runs of a system from initial data."""

    def __init__(
        self, system: Any, swept: Swept, options: RunOptions, blocks: Blocks, threads: int | None, shared: bool = True
    ):
        super().__init__(swept, blocks, threads)
        self.system, self.options, self.shared = system, options, shared

    @property
    def work(self) -> int:
        if self.options.until is None:
            return self.options.grid.steps
        return math.ceil((self.options.until - self.options.t0) / self.options.h)  # about

    @property
    def record(self) -> Provenance:
        # Of swept initial data their shape, as that of each run stands among the coordinates.
        swept = {name: {"shape": list(x.shape)} for name, x in self.swept.given.items() if name in DATA}
        return self.options.new_record(self.subject, **self.swept.fixed | swept)

    @property
    def fingerprint(self) -> dict[str, str]:
        return self._once()[2]

    def opening(self) -> SweepOpening:
        _, blank, fingerprint = self._once()
        assert blank is not None
        blank = dataclasses.replace(blank, provenance=self.record)
        return SweepOpening(study_to_xarray(blank, self.times, self.swept.names, self._last), fingerprint)

    def block(self, i: int, watch: Watch = None) -> xarray.Dataset:
        runs = self._runs(i, watch)
        self._warn(runs)
        return study_to_xarray(runs, self.times, self.swept.names, self._last)

    def study(self, i: int, watch: Watch = None) -> Study:
        def study_of(runs: Path) -> Study:
            recorded = Path.of(**fields_as_left(runs) | {"provenance": self.record})
            return self._study_of(i, study_to_xarray(recorded, self.times, self.swept.names, None))

        runs = None
        try:
            runs = self._runs(i, watch)
            self._warn(runs)
            return study_of(runs)
        except KeyboardInterrupt as end:  # in the runs, or where their study is made
            carried = end.path if isinstance(end, Interrupted) else runs
            if not isinstance(carried, Path):
                raise
            raise Interrupted.later(lambda: study_of(carried)) from None

    @property
    def subject(self) -> Any:
        return self.system.subject.under(self.options.scheme)

    @property
    def times(self) -> np.ndarray:
        """Of the saved nodes, in the arithmetic of a run."""
        t0, h, steps, every = self.options.grid
        if self.options.until is not None:
            return np.array([t0, self.options.until], float)
        number = -(-steps // every) + 1
        return np.asarray(t0 + np.minimum(every * np.arange(number), steps) * np.asarray(h))

    @property
    def _last(self) -> bool:
        """True where a run may end between two saved times."""
        return self.options.grid.every > 1

    def _runs(self, i: int, watch: Watch) -> Path:
        lanes, *_ = self._once()
        given, axes = self._data_at(self.blocks.places(i))
        try:
            path = lanes.run(given, axes, Running(self.threads, watch))
        except ValueError as error:
            if self.blocks.number > 1:
                error.add_note(f"run 0 of this message is run {self.blocks.first(i)} of the sweep")
            raise
        if np.any(as_left(path, "code") == int(Outcome.INTERRUPTED)):
            raise Interrupted(path)
        if self.blocks.runs(i) == self.blocks.size:
            return path
        return jax.tree.map(lambda x: np.asarray(x)[: self.blocks.runs(i)], path)

    def _warn(self, path: Path) -> None:
        """Of the first block that does not resolve its motion; on a worker nobody would see it."""
        if self._warned or threading.current_thread() is not threading.main_thread():
            return
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warn_of_resolution(path)
        for one in found:
            self._warned = True
            warn(f"{one.message}{' (this block of runs is the first one where it is so)' if self.blocks.number > 1 else ''}")

    def _data_at(self, places: tuple[np.ndarray, ...]) -> tuple[dict, dict]:
        data, parameters = self.swept.data(dict(zip(self.swept.shape, places, strict=True)))
        return check_batch(self.system, data, parameters)

    def _prepare(self) -> tuple[Lanes, Path | None, dict[str, str]]:
        """Code of its own has the same pivots in every process; for one call alone that which is there does."""
        lanes = Lanes(self.system, self.options, *self._data_at((np.zeros(1, int),) * len(self.swept.shape)))
        if not self.shared:
            return lanes, None, {}
        blank, found = lanes.own_code(self.blocks.size)
        return lanes, blank, found | {"versions": self.record.versions}
