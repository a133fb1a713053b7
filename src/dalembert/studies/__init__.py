"""Runs that survive their process: what streams a run into a store, and what goes on with one; `stream` comes first."""

from dalembert.studies.resume import resume

__all__ = ["resume"]
