"""Jiménez, Scheurle: On the discretization of nonholonomic dynamics in Rⁿ.

The paper announces numbers for the nonholonomic particle and postpones them. Here are orders, the pairs (p, s), the
constraint and the energy over long runs, work, the integrators' own perturbation, and the printed formulas that do not hold.
"""

from __future__ import annotations

from pathlib import Path

from papers.drawing import saving
from papers.jimenez_scheurle import consistency, long_runs, orders, perturbations, work
from papers.jimenez_scheurle.report import write_report, write_table
from papers.paper import Paper


def run(folder: Path, fast: bool = False) -> None:
    """Measure, then draw, then write the table and the report. fast: all figures, of fewer systems and shorter times."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    results, pairs, runs = orders.measure(fast), consistency.measure(fast), long_runs.measure(fast)
    stages, found = work.measure(fast), perturbations.measure()
    with saving(folder) as save:
        orders.draw(save, results)
        long_runs.draw(save, runs)
        work.draw(save, stages)
        perturbations.draw(save, found)
    write_table(folder / "table.csv", results)
    write_report(folder / "report.md", results, pairs, runs, stages, found, fast=fast)


paper = Paper(
    name="jimenez-scheurle",
    title="Jiménez, Scheurle: On the discretization of nonholonomic dynamics in Rⁿ",
    run=run,
)
