"""Each paper worked out numerically: its figures, its tables, and what differs from print."""

from papers import borda_fernandez_grillo, colombo_martin_de_diego_zuccalli, jimenez_scheurle
from papers.paper import Paper

MODULES = (borda_fernandez_grillo, jimenez_scheurle, colombo_martin_de_diego_zuccalli)
PAPERS: dict[str, Paper] = {module.paper.name: module.paper for module in MODULES}

__all__ = ["PAPERS", "Paper"]
