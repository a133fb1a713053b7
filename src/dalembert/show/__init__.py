"""Plots of a path and of a solution."""

from dalembert.show.figure import plot
from dalembert.show.solution import plot_solution

__all__ = ["plot", "plot_solution"]
