"""Each paper worked out numerically: its figures, its tables, and what differs from print."""

from dalembert.papers import borda_fernandez_grillo, jimenez_scheurle
from dalembert.papers.paper import Paper

PAPERS: dict[str, Paper] = {module.paper.name: module.paper for module in (borda_fernandez_grillo, jimenez_scheurle)}

__all__ = ["PAPERS", "Paper"]
