"""Plots of a path and of a solution."""

from dalembert.show.plot import plot

__all__ = ["plot"]
