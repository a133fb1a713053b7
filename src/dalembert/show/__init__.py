"""Plots of a path."""

from dalembert.show.figure import plot

__all__ = ["plot"]
