"""Plots, animations and pages of a path or of a solution. Begin with `plot`, `motion` and `html.report`."""

from dalembert.show.figure import plot
from dalembert.show.html.report import page
from dalembert.show.motion import Animation, animate

__all__ = ["Animation", "animate", "page", "plot"]
