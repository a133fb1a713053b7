"""The commands. Bad input ends with one line and exit code 2; a run that fails keeps what it computed and exits 1."""

from __future__ import annotations

from pathlib import Path as File
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from dalembert.boundary import Free
from dalembert.boundary import solve as solved
from dalembert.cli.application import (
    BranchName,
    Data,
    Figure,
    Force,
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
    one_line_errors,
)
from dalembert.cli.arguments import (
    BACKENDS,
    SCHEMES,
    first_guess,
    named_backend,
    named_boundary_problem,
    named_branch,
    named_discretization,
    named_problem,
    named_scheme,
    named_starter,
    step_and_count,
    with_data,
    with_parameters,
)
from dalembert.cli.output import DRAWN, STORED, check_folder, check_target, draw, store
from dalembert.control import OptimalControl, refine
from dalembert.discretize.window_maps import MAPS
from dalembert.gallery import ENTRIES, PROBLEMS
from dalembert.gallery.entry import BoundaryEntry
from dalembert.outcome import Outcome
from dalembert.papers import PAPERS
from dalembert.path import Path
from dalembert.show import plot
from dalembert.solution import ControlSolution
from dalembert.step import simulate
from dalembert.step.run.progress import Bar
from dalembert.store import load
from dalembert.studies import resume as resumed

ZARR = ".zarr"
SILENT = 2.0  # seconds of work that is over before anybody asks how far it is


@app.command("list")
def list_gallery() -> None:
    """List the systems and boundary problems of the gallery with formula, parameters and source."""
    for title, known in (
        ("dalembert run", [(entry, entry.system) for entry in ENTRIES.values()]),
        ("dalembert solve", [(entry, entry.problem) for entry in PROBLEMS.values()]),
    ):
        table = Table(title, "formula", "parameters", "source", box=None, padding=(0, 2, 0, 0))
        for entry, system in known:
            values = system.parameters or {}
            parameters = ", ".join(
                f"{name} = {' '.join(f'{x:g}' for x in np.ravel(value))}" for name, value in values.items()
            )
            table.add_row(*(Text(x) for x in (entry.name, entry.formula, parameters, entry.source)))
        console().print(table)


@app.command()
def run(
    name: Name,
    *,
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    h: Step = None,
    steps: Steps = None,
    time: Length = None,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    starter: StarterName = "second_order",
    branch: BranchName = None,
    backend: Annotated[
        str | None, typer.Option(help=f"{', '.join(BACKENDS)}; if not given, native on CPUs where the run allows it")
    ] = None,
    save_every: Annotated[int, typer.Option(help="keep every that many states")] = 1,
    file: Annotated[
        File | None,
        typer.Option("--save", help="NetCDF file to write, such as run.nc; run.zarr takes states as they are computed"),
    ] = None,
    picture: Figure = None,
    force: Force = False,
) -> None:
    """Simulate a system; print how it went, and store or plot the path. A run that fails keeps its path and exits 1;
    after Ctrl-C the code is 130."""
    with one_line_errors():
        problem = with_data(named_problem(name), parameter, q0, v0)
        step, count = step_and_count(problem, h, steps, time, name)
        streamed = file is not None and file.suffix == ZARR
        check_target(None if streamed else file, (*STORED, ZARR), "--save", force)
        check_target(picture, DRAWN, "--plot", force)
        path = simulate(
            problem.system,
            problem.q0,
            problem.v0,
            h=step,
            steps=count,
            scheme=named_scheme(scheme, composed),
            starter=named_starter(starter),
            branch=named_branch(branch),
            backend=named_backend(backend),
            save_every=save_every,
            throw=False,
            store=file if streamed else None,
            progress=Bar(SILENT),
        )
        if file is not None and not streamed:
            store(path, file, force)
        _told(path, file if streamed else None, name, picture, force)


@app.command("resume")
def resume_run(
    name: Name,
    store: Annotated[File, typer.Argument(help="a run that was begun with --save, such as run.zarr")],
    *,
    parameter: Set = None,
    scheme: SchemeName = "default",
    composed: OrderNumber = 2,
    branch: BranchName = None,
    rounding: Annotated[
        bool, typer.Option("--allow-rounding", help="go on also with another processor or other versions")
    ] = False,
    picture: Figure = None,
    force: Force = False,
) -> None:
    """Go on with a run that Ctrl-C, a kill, a full disk or a loss of power has ended, to the path it would have had."""
    with one_line_errors():
        check_target(picture, DRAWN, "--plot", force)
        path = resumed(
            store, with_parameters(named_problem(name).system, parameter), scheme=named_scheme(scheme, composed),
            branch=named_branch(branch), allow_rounding=rounding, throw=False, progress=Bar(SILENT),
        )  # fmt: skip
        _told(path, store, name, picture, force)


def _told(path: Path, stored: File | None, name: str, picture: File | None, force: bool) -> None:
    """How a run went, its picture, and the exit code. stored: where all of it is."""
    outcome = Outcome(int(path.code))
    console(stderr=outcome.failed).print(Text(path.describe()))
    if picture is not None:
        whole = path if stored is None else load(stored)
        draw(plot(whole, title=name), picture, force)
    if outcome is Outcome.INTERRUPTED:
        if stored is not None:
            console(stderr=True).print(Text(f"dalembert resume {name} {stored} goes on with it"))
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)


@app.command()
def solve(
    name: Annotated[str, typer.Argument(help="a boundary problem of the gallery, or file.py:name for a BoundaryEntry")],
    *,
    parameter: Set = None,
    steps: Steps = None,
    scheme: Annotated[
        str | None, typer.Option(help=f"{', '.join(MAPS)}; of an optimal control problem {', '.join(SCHEMES)}")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="on the last update, relative to the size of the path")] = 1e-9,
    accuracy: Annotated[
        float | None,
        typer.Option("--refine", help="finer nodes until the cost is known to this relative error; optimal control"),
    ] = None,
    file: Annotated[File | None, typer.Option("--save", help="NetCDF file to write, such as solution.nc")] = None,
    picture: Figure = None,
    force: Force = False,
) -> None:
    """Solve a boundary problem; print how it went, and store or plot the solution. One that is not found exits 1."""
    with one_line_errors():
        entry = named_boundary_problem(name, parameter)
        check_target(file, STORED, "--save", force)
        check_target(picture, DRAWN, "--plot", force)
        count = entry.steps if steps is None else steps
        solution = solved(
            entry.problem, **entry.boundary, steps=count, scheme=named_discretization(entry.problem, scheme),
            guess=first_guess(entry, count), tolerance=tolerance, throw=False,
        )  # fmt: skip
        failed = solution.outcome is not Outcome.SUCCESS
        if accuracy is not None and not failed:
            solution = _refined(entry, solution, named_discretization(entry.problem, scheme), accuracy)
            failed = solution.refinement is None or not solution.refinement.reached
        console(stderr=failed).print(Text(solution.describe()))
        if entry.exact is not None and not parameter:
            error = np.abs(np.asarray(solution.q) - entry.exact(solution.t)).max()
            console().print(Text(f"largest error of q against the closed form {error:.2e}"))
        if entry.cost is not None and not parameter and not failed:
            name, value = solution.value
            if isinstance(solution, ControlSolution) and solution.refinement is not None:
                value = float(solution.refinement.cost)
            console().print(Text(f"{name} {value - entry.cost:+.2e} beside the limit of small steps, {entry.cost:.12g}"))
        if file is not None:
            store(solution, file, force)
        if picture is not None:
            draw(plot(solution, title=entry.title, exact=None if parameter else entry.exact), picture, force)
    if failed:
        raise typer.Exit(1)


def _refined(entry: BoundaryEntry, solution: Any, scheme: Any, accuracy: float) -> ControlSolution:
    """On finer nodes."""
    if not isinstance(entry.problem, OptimalControl):
        raise ValueError(f"--refine: is for optimal control; {entry.name} is a variational problem, give --steps")
    given = {name: value for name, value in entry.boundary.items() if name != "T"}
    T = entry.boundary.get("T")
    T = T if isinstance(T, Free) else None
    return refine(entry.problem, solution, **given, T=T, scheme=scheme, tolerance=accuracy)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help=", ".join(PAPERS))],
    folder: Annotated[File | None, typer.Option(help="where to write; out/NAME by default")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="fewer steps, to see that everything works")] = False,
    force: Force = False,
) -> None:
    """Write the figures and tables of a paper, and what differs from print, into a folder."""
    with one_line_errors():
        known = {name.replace("_", "-"): entry for name, entry in PAPERS.items()}
        found = known.get(paper.replace("_", "-"))
        if found is None:
            raise ValueError(f"{paper}: no paper of the collection; there are {', '.join(known)}")
        target = folder if folder is not None else File("out") / paper
        check_folder(target, force)
        found.run(target, fast=fast)
        console().print(Text(f"{found.title}: {target}"))
