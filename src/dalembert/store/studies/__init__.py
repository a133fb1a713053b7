"""A study as a labelled data set: `of_runs`, whose times stand once, and `of_solutions`; the names on its axes, `names`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dalembert.path import Path, Study
from dalembert.solution import CriticalPoint
from dalembert.store.studies.of_runs import CONTENT as RUNS
from dalembert.store.studies.of_runs import check_runs, path_of_one
from dalembert.store.studies.of_solutions import CONTENT as SOLUTIONS
from dalembert.store.studies.of_solutions import check_solutions, solution_of_one

if TYPE_CHECKING:
    import xarray

STUDIES = (RUNS, SOLUTIONS)


def study_from_xarray(data: xarray.Dataset) -> Study | Path | CriticalPoint:
    """The study, or where one is left its Path or Solution, bit for bit; ValueError naming what is missing or malformed."""
    check_study(data)
    if data["code"].dims:
        return Study(data)
    return path_of_one(data) if data.attrs["content"] == RUNS else solution_of_one(data)


def check_study(data: xarray.Dataset) -> None:
    """Whether the data set holds a study; ValueError naming what is wrong."""
    check_runs(data) if data.attrs["content"] == RUNS else check_solutions(data)
