"""sweep: a system for every combination of parameters and initial data, or a boundary problem for every combination of what
is given, with a map of how they ended."""

from __future__ import annotations

from pathlib import Path as File
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from dalembert.cli.application import (
    SILENT,
    BranchName,
    Data,
    Either,
    Figure,
    Force,
    Json,
    Length,
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
from dalembert.cli.words import check_grid, check_left_out, check_words, is_problem, parameters_of, swept_of

Values = Annotated[
    list[str] | None,
    typer.Option("--set", help="values, such as m=0.5:2:7 (from, to, how many) or m=1,2,4; m=2 is fixed; may be repeated"),
]


@app.command(
    "sweep",
    epilog=examples(
        "sweep pendulum --set g_over_l=0.5:2:4 --set q0=0.5,1,1.5 --time 10 --save study.nc --plot study.png",
        "sweep curvature_particle --set k=0.5:6:12 --h 0.1 --steps 50 --last --json",
        "sweep double_integrator --set T=1:2:4 --set bounds.u=2:8:4 --steps 40 --plot cost.png",
    ),
)
def sweep_runs(
    name: Either,
    *,
    values: Values = None,
    together: Annotated[
        bool,
        typer.Option(
            "--zip", help="combine the first values of all names, then the second ones; by default every combination"
        ),
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
    save_every: Annotated[int, typer.Option(help="save every Nth state")] = 1,
    last: Annotated[bool, typer.Option("--last", help="save the last states only")] = False,
    file: Annotated[
        File | None,
        typer.Option(
            "--save", help="NetCDF file to write, such as study.nc; or a store, study.zarr, written while the sweep goes on"
        ),
    ] = None,
    picture: Figure = None,
    drawn: Annotated[
        str | None,
        typer.Option("--value", help="what --plot draws: a coordinate at the end, steps_done, cost or action"),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run a system, or solve a boundary problem, for every combination of values, and print the outcomes.

    You can sweep parameters; q0 and v0 of a system with one coordinate; T of a problem, and numbers at its ends and in its
    bounds, such as final.x, initial.v.x, bounds.u. The exit code is 1 only if all of them fail. With --save study.zarr the
    same command continues where it stopped."""
    with one_line_errors():
        check_words({"either": name, "--q0": q0, "--v0": v0})
        check_grid(h, steps, time)
        fixed, swept = swept_of(values)
        if picture is not None and not together and len(swept) > 2:
            raise ValueError(f"--plot: {len(swept)} names are swept, {', '.join(swept)}; a figure shows one or two")
        streamed = file is not None and file.suffix == ZARR
        check_target(None if streamed else file, (*STORED, ZARR), "--save", force)
        check_target(picture, DRAWN, "--plot", force)
        if not is_problem(name):
            check_words({"scheme": scheme, "starter": starter, "branch": branch})
        from dalembert.cli.arguments import boundary_entry, named_recipe
        from dalembert.cli.records import study_record
        from dalembert.interrupts import Interrupted
        from dalembert.path import Study
        from dalembert.show import plot
        from dalembert.step.run.progress import Bar
        from dalembert.studies import sweep

        entry = boundary_entry(name)
        if entry is None:
            problem, given = _start((name, fixed, swept), (q0, v0), (h, steps, time))
            given |= named_recipe(scheme, composed, starter, branch) | {"save_every": None if last else save_every}
        else:
            check_left_out({
                "--q0": q0, "--v0": v0, "--h": h, "--time": time, "--branch": branch, "--last": last or None,
                "--order": None if composed == 2 else composed, "--save-every": None if save_every == 1 else save_every,
                "--starter": None if starter == "second_order" else starter,
            }, f"is for runs from initial data; {name} is a boundary problem")  # fmt: skip
            problem, given = _ends(entry, (fixed, swept), steps, None if scheme == "default" else scheme)
        ended = False
        try:
            study = sweep(
                problem, swept, combine="zip" if together else "product", **given, store=file if streamed else None,
                progress=Bar(SILENT, "steps" if entry is None else "problems"),
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


def _start(
    what: tuple[str, list[str], dict], data: tuple[str | None, str | None], grid: tuple
) -> tuple[Any, dict[str, Any]]:
    """A system, and the data of its runs that are not swept. what: name, what is fixed, what is swept; grid: --h, --steps,
    --time."""
    from dalembert.cli.arguments import named_problem, step_and_count, with_data

    (name, fixed, swept), (h, steps, time) = what, grid
    start = with_data(named_problem(name), fixed, *data)
    own = {"q0": start.q0, "v0": start.v0}
    given = {key: x if text is not None or key not in swept else None
             for (key, x), text in zip(own.items(), data, strict=True)}  # fmt: skip
    step, count = step_and_count(start, h, steps, time, name)
    return start.system, given | {"h": step, "steps": count}


def _ends(entry: Any, what: tuple[list[str], dict], steps: int | None, scheme: str | None) -> tuple[Any, dict[str, Any]]:
    """A problem with what is fixed, such as T=2, m=1, bounds.u=10, and what is given of it that is not swept."""
    from dalembert.cli.arguments import first_guess, named_discretization
    from dalembert.studies.blockwise.swept_arguments import ARGUMENTS, SweptProblem

    fixed, swept = what
    values = {name: [value] for _, name, value in parameters_of(fixed)}
    given = {name: x for name, x in entry.boundary.items() if name not in (*values, *swept)}
    problem, arguments = entry.problem, {name: given.get(name) for name in ARGUMENTS}
    if values:
        problem, arguments = SweptProblem.of(problem, values, arguments, "zip").one({"run": 0})
    count = entry.steps if steps is None else steps
    more = {"steps": count, "scheme": named_discretization(problem, scheme), "guess": first_guess(entry, count)}
    return problem, given | {name: x for name, x in arguments.items() if x is not None} | more
