"""Plots, animations and pages of a path or of a solution. Begin with `plot`, `motion` and `html.report`."""

from dalembert.show.figure import plot
from dalembert.show.html.report import page, page_text
from dalembert.show.motion import Animation, animate
from dalembert.show.results import at_times, results_of, scene_for
from dalembert.show.stage import Scenery
from dalembert.show.style import LIGHT, Theme, theme_of, write_whole

__all__ = ["Animation", "animate", "page", "plot"]
