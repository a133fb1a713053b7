"""Colombo, Martín de Diego, Zuccalli: Higher-order discrete variational problems with constraints.

The paper has no numbers. Here are those of its examples: the beam with fixed, free and prescribed steps, the spline on the
sphere, a vakonomic problem with k = 1, the forms and the flow of section 3, and the printed formulas that do not hold.
"""

from __future__ import annotations

from pathlib import Path

from papers.colombo_martin_de_diego_zuccalli import (
    beam,
    flow,
    free_steps,
    heisenberg,
    optimal_control,
    prescribed_steps,
    sphere,
)
from papers.colombo_martin_de_diego_zuccalli.report import Findings, write_report, write_table
from papers.drawing import saving
from papers.paper import Paper


def run(folder: Path, fast: bool = False) -> None:
    """Measure, then draw, then write the table and the report. fast: fewer steps."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = Findings(
        beam.measure(fast), free_steps.measure(fast), free_steps.from_equal_steps(), prescribed_steps.measure(fast),
        sphere.measure(fast), heisenberg.measure(fast), flow.measure(fast), optimal_control.measure(fast),
    )  # fmt: skip
    with saving(folder) as save:
        beam.draw(save, found.orders)
        free_steps.draw(save, found.free)
        prescribed_steps.draw(save, found.prescribed)
        sphere.draw(save, found.splines)
        heisenberg.draw(save, found.heisenberg)
        flow.draw(save, found.flow)
    write_table(folder / "table.csv", found)
    write_report(folder / "report.md", found, fast)


paper = Paper(
    name="colombo-martin-de-diego-zuccalli",
    title="Colombo, Martín de Diego, Zuccalli: Higher-order discrete variational problems with constraints",
    run=run,
)
