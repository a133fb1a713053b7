"""sweep: a system for every combination of parameters and initial data, with a map of how the runs ended."""

from __future__ import annotations

from pathlib import Path as File
from typing import Annotated, cast

import typer
from rich.text import Text

from dalembert.cli.application import (
    SILENT,
    BranchName,
    Data,
    Figure,
    Force,
    Json,
    Length,
    Name,
    OrderNumber,
    SchemeName,
    StarterName,
    Step,
    Steps,
    app,
    console,
    examples,
    one_line_errors,
)
from dalembert.cli.output import DRAWN, STORED, ZARR, check_target, draw, print_json, store
from dalembert.cli.words import check_grid, check_words, swept_of

Values = Annotated[
    list[str] | None,
    typer.Option("--set", help="values, such as m=0.5:2:7 (from, to, how many) or m=1,2,4; m=2 is fixed; to be repeated"),
]


@app.command(
    "sweep",
    epilog=examples(
        "sweep pendulum --set g_over_l=0.5:2:4 --set q0=0.5,1,1.5 --time 10 --save study.nc --plot study.png",
        "sweep curvature_particle --set k=0.5:6:12 --h 0.1 --steps 50 --last --json",
    ),
)
def sweep_runs(
    name: Name,
    *,
    values: Values = None,
    together: Annotated[
        bool, typer.Option("--zip", help="the first values together, then the second ones; by default every combination")
    ] = False,
    q0: Data = None,
    v0: Data = None,
    h: Step = None,
    steps: Steps = None,
    time: Length = None,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    starter: StarterName = "second_order",
    branch: BranchName = None,
    save_every: Annotated[int, typer.Option(help="keep every that many states")] = 1,
    last: Annotated[bool, typer.Option("--last", help="keep the last states only")] = False,
    file: Annotated[
        File | None,
        typer.Option("--save", help="NetCDF file to write, such as study.nc; study.zarr takes runs as they are computed"),
    ] = None,
    picture: Figure = None,
    drawn: Annotated[
        str | None, typer.Option("--value", help="what --plot draws: a coordinate, as it was at the end, or steps_done")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run a system for every combination of parameters, and of q0 or v0 where it has one coordinate; print how the runs
    ended. Runs that fail are part of the map: it exits 1 where all of them do. With --save study.zarr the same command goes
    on where it stopped."""
    with one_line_errors():
        check_words({"system": name, "--q0": q0, "--v0": v0, "scheme": scheme, "starter": starter, "branch": branch})
        check_grid(h, steps, time)
        fixed, swept = swept_of(values)
        if picture is not None and not together and len(swept) > 2:
            raise ValueError(f"--plot: {len(swept)} names are swept, {', '.join(swept)}; a figure shows one or two")
        streamed = file is not None and file.suffix == ZARR
        check_target(None if streamed else file, (*STORED, ZARR), "--save", force)
        check_target(picture, DRAWN, "--plot", force)
        from dalembert.cli.arguments import named_problem, named_recipe, step_and_count, with_data
        from dalembert.cli.records import study_record
        from dalembert.interrupts import Interrupted
        from dalembert.path import Study
        from dalembert.show import plot
        from dalembert.step.run.progress import Bar
        from dalembert.studies import sweep

        problem = with_data(named_problem(name), fixed, q0, v0)
        step, count = step_and_count(problem, h, steps, time, name)
        ended = False
        try:
            study = sweep(
                problem.system, swept, combine="zip" if together else "product",
                q0=problem.q0 if q0 is not None or "q0" not in swept else None,
                v0=problem.v0 if v0 is not None or "v0" not in swept else None,
                h=step, steps=count, **named_recipe(scheme, composed, starter, branch),
                save_every=None if last else save_every, progress=Bar(SILENT),
                store=file if streamed else None,
            )  # fmt: skip
        except Interrupted as end:
            study, ended = cast(Study, end.path), True
        record = study_record(study, name, [str(x) for x in (file, picture) if x is not None])
        if as_json:
            print_json("sweep", record)
        else:
            console(stderr=record["failed"]).print(Text(study.describe()))
        if file is not None and not streamed:
            store(study, file, force)
        if picture is not None:
            draw(plot(study, title=name, value=drawn), picture, force)
    if ended:
        raise typer.Exit(130)
    if record["failed"]:
        raise typer.Exit(1)
