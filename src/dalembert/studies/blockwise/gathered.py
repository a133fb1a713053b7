"""A sweep whose blocks come from workers into the memory of this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.interrupts import Interrupted
from dalembert.path import Study
from dalembert.step.run.state import Watch
from dalembert.step.run.steps import Progress
from dalembert.store.regions import RUN, first_value
from dalembert.studies.blockwise.job import SweepJob
from dalembert.studies.blockwise.stored import Workers, reported_results


def gathered(job: SweepJob, workers: Workers, progress: Progress) -> Study:
    """All runs."""
    import xarray as xr

    template, sizes = workers.opening(job).template, tuple(job.swept.shape.values())
    axes = tuple(job.swept.shape)
    variables: dict[str, Any] = {}
    for name, x in template.data_vars.items():
        if x.dims[:1] == (RUN,):
            array = np.full((*sizes, *x.shape[1:]), first_value(str(name), x.dtype), x.dtype)
            variables[str(name)] = ((*axes, *x.dims[1:]), array, x.attrs)
        else:
            variables[str(name)] = x.variable
    data = xr.Dataset(variables, {**job.swept.labels(), **template.coords}, template.attrs)
    study = Study(data, job.subject)
    try:
        for i, block in reported_results(job, workers, block_of, list(range(job.blocks.number)), progress):
            ranges = job.blocks.ranges(i)
            region = tuple(slice(part.start, part.stop) for part in ranges)
            for name, x in block.data_vars.items():
                if x.dims[:1] == (RUN,):
                    data[name].values[region] = x.values.reshape(*map(len, ranges), *x.shape[1:])
    except KeyboardInterrupt:
        raise Interrupted(study) from None
    return study


def block_of(job: SweepJob, i: int, watch: Watch = None) -> Any:
    """Its runs."""
    return job.block(i, watch)
