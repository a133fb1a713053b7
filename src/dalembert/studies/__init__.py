"""Studies: many runs with names, `sweep`; and runs that survive their process, streamed into a store, `stored_runs`."""

from dalembert.studies.results import run_statistics
from dalembert.studies.stored_runs import resume
from dalembert.studies.sweeps import sweep

__all__ = ["resume", "run_statistics", "sweep"]
