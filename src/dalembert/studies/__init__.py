"""Studies: many runs with names, `sweep`; and runs that survive their process, streamed into a store, `stream` first."""

from dalembert.studies.blockwise.over_runs import run_statistics
from dalembert.studies.resume import resume
from dalembert.studies.sweep import sweep

__all__ = ["resume", "run_statistics", "sweep"]
