"""The commands that measure: the order of convergence, and what the theory promises."""

from __future__ import annotations

import json
import math
from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from dalembert.claims import Finding, Verdict, verdict
from dalembert.cli.application import (
    BranchName,
    Data,
    Name,
    OrderNumber,
    SchemeName,
    Set,
    StarterName,
    app,
    console,
    one_line_errors,
)
from dalembert.cli.arguments import named_branch, named_problem, named_scheme, named_starter, needed, with_data
from dalembert.measure import Order
from dalembert.measure import order as measured_order
from dalembert.outcome import Outcome
from dalembert.systems import solvability


@app.command()
def order(
    name: Name,
    *,
    h: Annotated[list[float], typer.Option(help="step; give it several times, decreasing")],
    time: Annotated[float, typer.Option(help="length of the runs, a multiple of every h")],
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    coordinates: Annotated[str | None, typer.Option(help="names of the coordinates that count, between commas")] = None,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    starter: StarterName = "second_order",
    branch: BranchName = None,
) -> None:
    """Measure the order of convergence of positions, velocities and multipliers against the reference flow."""
    with one_line_errors():
        problem = with_data(named_problem(name), parameter, q0, v0)
        chosen = None if coordinates is None else [x.strip() for x in coordinates.split(",")]
        result = measured_order(
            problem.system,
            problem.q0,
            problem.v0,
            time=time,
            h=h,
            coordinates=chosen,
            scheme=named_scheme(scheme, composed),
            starter=named_starter(starter),
            branch=named_branch(branch),
        )
    _print_order(result)
    if any(Outcome(int(path.code)).failed for path in result.paths):
        raise typer.Exit(1)


@app.command()
def check(
    name: Name,
    *,
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    h: Annotated[float | None, typer.Option(help="step")] = None,
    steps: Annotated[int, typer.Option(help="number of steps of the run that is looked at")] = 500,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    branch: BranchName = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Say whether a system can be solved from its data, and which promises of the theory hold; exit 1 if one does not."""
    with one_line_errors():
        problem = with_data(named_problem(name), parameter, q0, v0)
        start = needed(problem.q0, "q0", name), needed(problem.v0, "v0", name)
        found = solvability(problem.system, *start)
    if not (as_json and found.solvable):
        console(stderr=not found.solvable).print(Text(str(found)))
    if not found.solvable:
        raise typer.Exit(1)
    with one_line_errors():
        step = needed(h if h is not None else problem.h, "h", name)
        result = verdict(
            problem.system, named_scheme(scheme, composed), *start, h=step, steps=steps, branch=named_branch(branch)
        )
    if as_json:
        typer.echo(json.dumps({"name": name, **result.to_dict()}, ensure_ascii=False, indent=2))
    else:
        _print_verdict(result)
    if not result.holds:
        raise typer.Exit(1)


COLOURS = {Finding.HOLDS: "green", Finding.FAILS: "bold red", Finding.HYPOTHESIS_FAILS: "dim"}


def _print_verdict(result: Verdict) -> None:
    table = Table("claim", "", "measured", "against", "why", "source", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[2:4]:
        column.justify = "right"
    for c in result.claims:
        numbers = ("" if math.isnan(x) else f"{x:.3g}" for x in (c.measured, c.tolerance))
        table.add_row(Text(c.claim), Text(c.finding, style=COLOURS[c.finding]), *numbers, Text(c.reason), Text(c.source))
    console().print(Text(f"{result.system}; {result.scheme}, h = {result.h:g}; {result.sampled}"))
    console().print(table)


def _print_order(result: Order) -> None:
    table = Table("", "h", "error", "order", "in the fit", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:4]:
        column.justify = "right"
    for name, c in result.quantities.items():
        orders = [np.nan, *c.orders]
        for i, h in enumerate(c.h):
            shown = "" if np.isnan(orders[i]) else f"{orders[i]:.3f}"
            table.add_row(name if i == 0 else "", f"{h:g}", f"{c.error[i]:.4e}", shown, c.use[i])
        slope = "too few steps for a slope" if np.isnan(c.slope) else f"slope {c.slope:.3f}"
        table.add_row("", "", "", "", Text(slope, style="bold"), end_section=True)
    console().print(table)
