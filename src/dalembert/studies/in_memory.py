"""A sweep whose runs are all in memory at once, and whether they fit."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.lazy import as_left
from dalembert.numbers import as_double
from dalembert.path import Path, Study
from dalembert.step import ensemble
from dalembert.store.studies.of_runs import study_to_xarray
from dalembert.studies.blockwise.swept import DATA, Swept

COPIES = 3  # of all states, for a moment
BESIDE = 100  # numbers of each run besides, for a moment: a million runs that keep nothing took 1 GiB


def at_once(system, swept: Swept, options: dict[str, Any]) -> Study:
    """In memory, all runs side by side."""
    lengths = tuple(swept.shape.values())
    places = dict(zip(swept.shape, np.unravel_index(np.arange(math.prod(lengths)), lengths), strict=True))
    data, parameters = swept.data(places)

    def study(runs: Path) -> Study:
        times = _times(options, as_left(runs, "t").shape[1], as_left(runs, "h")[0])
        labelled = study_to_xarray(runs, times, swept.names, swept.labels(), swept.shape)
        return Study(labelled, system.subject.under(options["scheme"]))

    runs = None
    try:
        runs = ensemble(system, **data, parameters=parameters or None, **options)
        return study(runs)
    except KeyboardInterrupt as end:  # in the runs, or where their study is made
        carried = end.path if isinstance(end, Interrupted) else runs
        if not isinstance(carried, Path):
            raise
        raise Interrupted.later(lambda: study(carried)) from None


def _times(options: dict[str, Any], rows: int, h: Any) -> np.ndarray:
    """Of the saved nodes of a run that is not ended early."""
    if options["until"] is not None:
        return np.array([options["t0"], options["until"]], float)
    every = options["steps"] if options["save_every"] is None else options["save_every"]
    return np.asarray(as_double(options["t0"]) + np.minimum(every * np.arange(rows), options["steps"]) * h)


def coordinates_of(system, swept: Swept) -> int:
    """How many there are, as far as the data tell."""
    data = [x.shape[-1] for name, x in swept.given.items() if name in DATA]
    data += [x.shape[-1] for x in swept.fixed.values() if x is not None]
    return max(1, len(system.coordinates or ()), *data)


class SweepSize(NamedTuple):
    """Of all states: axes with their lengths, saved states of a run, coordinates."""

    shape: dict[str, int]
    rows: int
    n: int

    @property
    def numbers(self) -> int:
        """Of one run."""
        return self.rows * (3 * self.n + 3) + BESIDE // COPIES

    def check(self) -> None:
        """Before anything is computed: a machine that runs out of memory says nothing clear."""
        runs, memory = math.prod(self.shape.values()), _memory()
        numbers = runs * self.rows * (3 * self.n + 3)
        if 8 * (COPIES * numbers + BESIDE * runs) > memory:
            product = " × ".join(map(str, self.shape.values()))
            raise ValueError(
                f"values, save_every: {product} = {runs} runs with {self.rows} saved states of each are {numbers:.2g} "
                f"numbers, {8 * numbers / 2**30:.3g} GiB and some copies, and this machine has {memory / 2**30:.3g} GiB of "
                "memory; give store='study.zarr', fewer values, or a larger save_every, or save_every=None with reduce= for "
                "what you look for"
            )


def check_memory(size: int, count: int) -> None:
    """ValueError where so many solutions of so many bytes do not fit."""
    if COPIES * size * count > _memory():
        raise ValueError(
            f"values: {count} solutions are {size * count / 2**30:.3g} GiB and some copies, and this machine has "
            f"{_memory() / 2**30:.3g} GiB of memory; give store='study.zarr', or over_runs=, or fewer values"
        )


def _memory() -> int:
    """Bytes of this machine's memory; where it does not tell, 16 GiB."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**34
