"""Borda, Fernández, Grillo: Discrete second order constrained Lagrangian systems: first results.

Figures 1-6 as printed, beside each figure of an order the corrected one, and three more: V after t = 500, which root a
rule takes, and the particle with a curvature that varies in the plane.
"""

from __future__ import annotations

from pathlib import Path

from papers.borda_fernandez_grillo import (
    branches,
    particle,
    particle_figures,
    pendulum,
    pendulum_figures,
    sketches,
)
from papers.borda_fernandez_grillo.report import write_report, write_table
from papers.drawing import saving
from papers.paper import Paper


def run(folder: Path, fast: bool = False) -> None:
    """Measure, then draw, then write the table and the report."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = pendulum.measure(fast)
    measured = particle.measure(fast), wheel, branches.measure(wheel.reference, fast)
    with saving(folder) as save:
        sketches.draw(save)
        particle_figures.draw(save, measured[0])
        pendulum_figures.draw(save, measured[1])
        branches.draw(save, measured[2])
    write_table(folder / "table.csv", measured[0], measured[1])
    write_report(folder / "report.md", *measured, fast=fast)


paper = Paper(
    name="borda-fernandez-grillo",
    title="Borda, Fernández, Grillo: Discrete second order constrained Lagrangian systems: first results",
    run=run,
)
