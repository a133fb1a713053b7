"""run, resume and solve. Bad input is one line and exit code 2; a run that fails keeps what it computed and exits 1."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, Any

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
    Set,
    StarterName,
    Step,
    Steps,
    app,
    console,
    examples,
    one_line_errors,
)
from dalembert.cli.output import DRAWN, STORED, ZARR, check_target, draw, print_json, store
from dalembert.cli.words import (
    BACKENDS,
    SCHEMES,
    WINDOWS,
    check_grid,
    check_words,
    parameters_of,
    problem_names,
)

if TYPE_CHECKING:
    from dalembert.path import Path
    from dalembert.solution import ControlSolution


@app.command(
    epilog=examples(
        "run pendulum --set g_over_l=2 --time 20 --save run.nc --plot run.png",
        "run contact_oscillator --order 4 --h 0.5 --time 100 --json",
        "run mine.py:falling --q0 0,0 --v0 1,2 --h 0.1 --steps 40",
        "run pendulum --steps 2000 --save run.zarr",
        "run pendulum --varying --h 0.05 --time 20",
    )
)
def run(
    name: Name,
    *,
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    h: Step = None,
    steps: Steps = None,
    time: Length = None,
    varying: Annotated[
        bool, typer.Option("--varying", help="steps whose length follows the motion, reversibly; --h is the first step")
    ] = False,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    starter: StarterName = "second_order",
    branch: BranchName = None,
    backend: Annotated[
        str | None, typer.Option(help=f"{', '.join(BACKENDS)}; if not given, native on CPUs where the run allows it")
    ] = None,
    save_every: Annotated[int, typer.Option(help="save every Nth state")] = 1,
    file: Annotated[
        File | None,
        typer.Option(
            "--save", help="NetCDF file to write, such as run.nc; or a store, run.zarr, written while the run goes on"
        ),
    ] = None,
    picture: Figure = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Simulate a system; print the outcome, and store or plot the path. A run that fails keeps its path, and the exit
    code is 1; after Ctrl-C it is 130."""
    with one_line_errors():
        check_words({"system": name, "--q0": q0, "--v0": v0, "scheme": scheme, "starter": starter, "branch": branch,
                     "backend": backend})  # fmt: skip
        check_grid(None if varying else h, steps, time)  # steps of varying length end at any time
        parameters_of(parameter)
        streamed = file is not None and file.suffix == ZARR
        check_target(None if streamed else file, (*STORED, ZARR), "--save", force)
        check_target(picture, DRAWN, "--plot", force)
        from dalembert.cli.arguments import (
            equal_steps,
            named_backend,
            named_problem,
            named_recipe,
            varying_steps,
            with_data,
        )
        from dalembert.step import simulate
        from dalembert.step.run.progress import Bar
        from dalembert.studies.stream import replacing

        problem = with_data(named_problem(name), parameter, q0, v0)
        grid = (varying_steps if varying else equal_steps)(problem, h, steps, time, name)
        over = file if streamed and force else None
        with replacing(over) if over else contextlib.nullcontext():
            path = simulate(
                problem.system,
                problem.q0,
                problem.v0,
                **grid,
                **named_recipe(scheme, composed, starter, branch),
                backend=named_backend(backend),
                save_every=save_every,
                throw=False,
                store=file if streamed else None,
                progress=False if "until" in grid else Bar(SILENT),
            )
        if file is not None and not streamed:
            store(path, file, force)
        _report_run(path, name, (file, picture), streamed, force, as_json)


@app.command("resume", epilog=examples("resume pendulum run.zarr"))
def resume_run(
    name: Name,
    store: Annotated[File, typer.Argument(help="the store of a run that was started with --save, such as run.zarr")],
    *,
    parameter: Set = None,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    branch: BranchName = None,
    rounding: Annotated[
        bool, typer.Option("--allow-rounding", help="continue even with another processor or other versions")
    ] = False,
    picture: Figure = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Continue a run that was ended by Ctrl-C, a kill, a full disk or a loss of power; the path is the same, bit by bit."""
    with one_line_errors():
        check_words({"system": name, "scheme": scheme, "branch": branch})
        parameters_of(parameter)
        check_target(picture, DRAWN, "--plot", force)
        from dalembert.cli.arguments import named_branch, named_problem, named_scheme, with_parameters
        from dalembert.step.run.progress import Bar
        from dalembert.studies import resume

        path = resume(
            store, with_parameters(named_problem(name).system, parameter), scheme=named_scheme(scheme, composed),
            branch=named_branch(branch), allow_rounding=rounding, throw=False, progress=Bar(SILENT),
        )  # fmt: skip
        _report_run(path, name, (store, picture), True, force, as_json)


def _report_run(
    path: Path, name: str, files: tuple[File | None, File | None], streamed: bool, force: bool, as_json: bool
) -> None:
    """How a run went, its picture, and the exit code. files: with the path and with its picture; streamed: all of the path
    is in the file, and not here."""
    from dalembert.cli.records import run_record
    from dalembert.outcome import Outcome
    from dalembert.show import plot
    from dalembert.store import load

    outcome, (stored, picture) = Outcome(int(path.code)), files
    if not as_json:
        console(stderr=outcome.failed).print(Text(path.describe()))
    if picture is not None:
        draw(plot(load(stored) if streamed and stored is not None else path, title=name), picture, force)
    if as_json:
        print_json("run", run_record(path, name, [str(file) for file in files if file is not None]))
    if outcome is Outcome.INTERRUPTED:
        if stored is not None and streamed:
            console(stderr=True).print(Text(f"dalembert resume {name} {stored} goes on with it"))
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        "solve elastic_beam --steps 40 --plot beam.png --json",
        "solve double_integrator --steps 40 --refine 1e-4",
    )
)
def solve(
    name: Annotated[
        str,
        typer.Argument(
            help="a boundary problem of the gallery, or file.py:name for a BoundaryEntry", autocompletion=problem_names
        ),
    ],
    *,
    parameter: Set = None,
    steps: Steps = None,
    scheme: Annotated[
        str | None, typer.Option(help=f"{', '.join(WINDOWS)}; for an optimal control problem {', '.join(SCHEMES)}")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="on the last update, relative to the size of the path")] = 1e-9,
    accuracy: Annotated[
        float | None,
        typer.Option(
            "--refine", help="refine the nodes until the cost is known to this relative error; for optimal control"
        ),
    ] = None,
    file: Annotated[File | None, typer.Option("--save", help="NetCDF file to write, such as solution.nc")] = None,
    picture: Figure = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Solve a boundary problem; print the outcome, and store or plot the solution. If none is found, the exit code is 1."""
    with one_line_errors():
        check_words({"problem": name, "windows": scheme})
        parameters_of(parameter)
        check_target(file, STORED, "--save", force)
        check_target(picture, DRAWN, "--plot", force)
        from dalembert.boundary import solve as solved
        from dalembert.cli.arguments import first_guess, named_boundary_problem, named_discretization
        from dalembert.cli.records import solution_record
        from dalembert.outcome import Outcome
        from dalembert.show import plot

        entry = named_boundary_problem(name, parameter)
        count = entry.steps if steps is None else steps
        solution = solved(
            entry.problem, **entry.boundary, steps=count, scheme=named_discretization(entry.problem, scheme),
            guess=first_guess(entry, count), tolerance=tolerance, throw=False,
        )  # fmt: skip
        failed = solution.outcome is not Outcome.SUCCESS
        if accuracy is not None and not failed:
            solution = _refine_nodes(entry, solution, named_discretization(entry.problem, scheme), accuracy)
            failed = solution.refinement is None or not solution.refinement.reached
        record = solution_record(solution, entry, bool(parameter), [str(x) for x in (file, picture) if x is not None])
        if as_json:
            print_json("solve", record)
        else:
            console(stderr=failed).print(Text(solution.describe()))
            for line in _comparison_lines(record):
                console().print(Text(line))
        if file is not None:
            store(solution, file, force)
        if picture is not None:
            draw(plot(solution, title=entry.title, exact=None if parameter else entry.exact), picture, force)
    if failed:
        raise typer.Exit(1)


def _comparison_lines(record: dict[str, Any]) -> list[str]:
    """The solution beside what is known of it."""
    lines, (error, limit) = [], (record["error"], record["cost_limit"])
    if error is not None:
        lines.append(f"largest error of q against the closed form {error:.2e}")
    if limit is not None and not record["failed"] and math.isfinite(record["value"]):
        difference = record["value"] - limit
        lines.append(f"{record['value_of']} {difference:+.2e} beside the limit of small steps, {limit:.12g}")
    return lines


def _refine_nodes(entry: Any, solution: Any, scheme: Any, accuracy: float) -> ControlSolution:
    """On finer nodes."""
    from dalembert.boundary import Free
    from dalembert.control import OptimalControl, refine

    if not isinstance(entry.problem, OptimalControl):
        raise ValueError(f"--refine: is for optimal control; {entry.name} is a variational problem, give --steps")
    given = {name: value for name, value in entry.boundary.items() if name != "T"}
    T = entry.boundary.get("T")
    T = T if isinstance(T, Free) else None
    return refine(entry.problem, solution, **given, T=T, scheme=scheme, tolerance=accuracy)
