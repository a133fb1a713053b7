"""The commands that measure: the order of convergence, and what the theory promises."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dalembert.cli.application import (
    BranchName,
    Data,
    Json,
    Name,
    OrderNumber,
    SchemeName,
    Set,
    StarterName,
    app,
    console,
    examples,
    one_line_errors,
)
from dalembert.cli.output import print_json
from dalembert.cli.words import check_grid, check_words, parameters_of

if TYPE_CHECKING:
    from dalembert.claims import Verdict
    from dalembert.measure import Order


@app.command(epilog=examples("order pendulum --h 0.1 --h 0.05 --h 0.025 --time 2"))
def order(
    name: Name,
    *,
    h: Annotated[list[float], typer.Option(help="time step; give this option several times, with decreasing steps")],
    time: Annotated[float, typer.Option(help="duration of the runs, a multiple of every h")],
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    coordinates: Annotated[
        str | None, typer.Option(help="names of the coordinates to be compared, separated by commas")
    ] = None,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    starter: StarterName = "second_order",
    branch: BranchName = None,
    as_json: Json = False,
) -> None:
    """Measure the order of convergence of positions, velocities and multipliers against the reference flow."""
    with one_line_errors():
        check_words({"system": name, "--q0": q0, "--v0": v0, "scheme": scheme, "starter": starter, "branch": branch})
        parameters_of(parameter)
        from dalembert.cli.arguments import named_problem, named_recipe, with_data
        from dalembert.cli.records import order_record
        from dalembert.measure import order as measured_order

        problem = with_data(named_problem(name), parameter, q0, v0)
        chosen = None if coordinates is None else [x.strip() for x in coordinates.split(",")]
        result = measured_order(
            problem.system,
            problem.q0,
            problem.v0,
            time=time,
            h=h,
            coordinates=chosen,
            **named_recipe(scheme, composed, starter, branch),
        )
        record = order_record(result, name)
    if as_json:
        print_json("order", record)
    else:
        _print_order(result)
    if record["failed"]:
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        "check nonholonomic_particle --steps 70",
        "check curvature_particle --steps 70 --scheme borda-fernandez-grillo --json",
    )
)
def check(
    name: Name,
    *,
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    h: Annotated[float | None, typer.Option(help="time step")] = None,
    steps: Annotated[int, typer.Option(help="number of steps of the run on which the claims are measured")] = 500,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    branch: BranchName = None,
    as_json: Json = False,
) -> None:
    """Check whether a system can be solved from its data, and which claims of the theory hold. If one does not, the exit
    code is 1."""
    with one_line_errors():
        check_words({"system": name, "--q0": q0, "--v0": v0, "scheme": scheme, "branch": branch})
        check_grid(h, steps, None)
        parameters_of(parameter)
        from dalembert.claims import verdict
        from dalembert.cli.arguments import named_branch, named_problem, named_scheme, needed, with_data
        from dalembert.systems import solvability

        problem = with_data(named_problem(name), parameter, q0, v0)
        start = needed(problem.q0, "q0", name), needed(problem.v0, "v0", name)
        step = needed(h if h is not None else problem.h, "h", name)
        found = solvability(problem.system, *start)
    if not found.solvable:
        if as_json:
            print_json("check", {"name": name, "solvable": False, "why": str(found), "holds": None, "claims": []})
        else:
            console(stderr=True).print(Text(str(found)))
        raise typer.Exit(1)
    if not as_json:
        console().print(Text(str(found)))
    with one_line_errors():
        result = verdict(
            problem.system, named_scheme(scheme, composed), *start, h=step, steps=steps, branch=named_branch(branch)
        )
    if as_json:
        print_json("check", {"name": name, "solvable": True, "why": str(found), **result.to_dict()})
    else:
        _print_verdict(result)
    if not result.holds:
        raise typer.Exit(1)


COLOURS = {"holds": "green", "does not hold": "bold red", "hypothesis fails": "dim"}


def _print_verdict(result: Verdict) -> None:
    table = Table("claim", "", "measured", "against", "why", "source", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[2:4]:
        column.justify = "right"
    for c in result.claims:
        numbers = ("" if math.isnan(x) else f"{x:.3g}" for x in (c.measured, c.tolerance))
        table.add_row(
            Text(c.claim), Text(c.finding, style=COLOURS[str(c.finding)]), *numbers, Text(c.reason), Text(c.source)
        )
    console().print(Text(f"{result.system}; {result.scheme}, h = {result.h:g}; {result.sampled}"))
    console().print(table)


def _print_order(result: Order) -> None:
    table = Table("", "h", "error", "order", "in the fit", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:4]:
        column.justify = "right"
    for name, c in result.quantities.items():
        orders = [math.nan, *c.orders]
        for i, h in enumerate(c.h):
            shown = "" if math.isnan(orders[i]) else f"{orders[i]:.3f}"
            table.add_row(name if i == 0 else "", f"{h:g}", f"{c.error[i]:.4e}", shown, c.use[i])
        slope = "too few steps for a slope" if math.isnan(c.slope) else f"slope {c.slope:.3f}"
        table.add_row("", "", "", "", Text(slope, style="bold"), end_section=True)
    console().print(table)
