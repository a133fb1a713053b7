"""The commands. Bad input is one line and exit code 2; a run that fails keeps what it computed and exits 1."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import shlex
import sys
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.table import Table
from rich.text import Text

from dalembert.cli.application import accept_old, check_target, command, console, examples, one_line_errors, print_json, put
from dalembert.cli.options import (
    BACKENDS,
    PROBLEMS,
    SCHEMES,
    STORED,
    SYSTEMS,
    WINDOWS,
    ZARR,
    Force,
    GridOptions,
    Json,
    OutputOptions,
    SchemeName,
    SchemeOptions,
    Set,
    StartOptions,
    Steps,
    SweepOptions,
    check_left_out,
    name_of,
)

if TYPE_CHECKING:
    from dalembert.claims import Verdict

SILENT = 2.0  # seconds of work that is over before anybody asks how far it is
PAGES, MOTIONS = (".html", ".htm"), (".gif", ".mp4", ".webm", ".html")
COLOURS = {"holds": "green", "does not hold": "bold red", "hypothesis fails": "dim"}


@command(
    epilog=examples(
        "run pendulum --set g_over_l=2 --time 20 --save run.nc --plot run.png",
        "run contact_oscillator --order 4 --h 0.5 --time 100 --json",
        "run mine.py:falling --q0 0,0 --v0 1,2 --h 0.1 --steps 40",
        "run pendulum --steps 2000 --save run.zarr",
        "run pendulum --save run.zarr --resume",
        "run pendulum --varying --h 0.05 --time 20",
        "run pendulum --set g_over_l=0.5:2:4 --set q0=0.5,1,1.5 --time 10 --save study.nc --plot study.png",
        "run curvature_particle --set k=0.5:6:12 --h 0.1 --steps 50 --last --json",
    )
)
def run(
    name: Annotated[str, name_of(SYSTEMS)],
    *,
    several: SweepOptions,
    start: StartOptions,
    lengths: GridOptions,
    recipe: SchemeOptions,
    output: OutputOptions,
    store: Annotated[File | None, typer.Argument(hidden=True)] = None,
    varying: Annotated[
        bool, typer.Option("--varying", help="steps whose length follows the motion, reversibly; --h is the first step")
    ] = False,
    backend: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(BACKENDS)}; if not given, native on CPUs where the run allows it"),
    ] = None,
    save_every: Annotated[int, typer.Option(help="save every Nth state")] = 1,
    last: Annotated[bool, typer.Option("--last", help="save the last states of a sweep only")] = False,
    resumed: Annotated[
        bool, typer.Option("--resume", help="continue the run in the store --save that Ctrl-C, a kill or a full disk ended")
    ] = False,
    rounding: Annotated[
        bool, typer.Option("--allow-rounding", help="resume even with another processor or other versions")
    ] = False,
) -> None:
    """Simulate a system; print the outcome, and store or plot the path. With several values of --set it is simulated for
    every combination of parameters, or of q0 and v0 if it has one coordinate.

    A run that fails keeps its path, and the exit code is 1; after Ctrl-C it is 130. Of a sweep it is 1 only if all runs
    fail. A run that is resumed has the same path, bit by bit; a sweep with --save study.zarr continues where it stopped."""
    output = output if store is None else dataclasses.replace(output, file=store)
    of_runs = start.given() | lengths.given("h", "time") | recipe.given("starter") | {
        "--varying": varying, "--last": last, "--save-every": save_every != 1,
    }  # fmt: skip
    with one_line_errors():
        if resumed and output.store is None:
            raise ValueError("--resume: needs the store of the run, --save run.zarr")
        output.check_targets(stores=True)
        from dalembert.cli import arguments
        from dalembert.cli.records import run_record
        from dalembert.gallery import BoundaryEntry
        from dalembert.options import Save, Start
        from dalembert.outcome import Outcome
        from dalembert.step import simulate
        from dalembert.step.run.steps import Bar
        from dalembert.studies import resume
        from dalembert.studies.stored_runs import replacing

        entry, settings = arguments.entry_of(name), several.set or ()
        if isinstance(entry, BoundaryEntry):
            why = f"is for runs from initial data; {name} is a boundary problem"
            check_left_out(of_runs | recipe.given("order", "branch"), why)
            problem = arguments.ends_of(entry, settings, lengths.steps, recipe.scheme)
            if not problem.swept:
                arguments.system_entry(name)
            _sweep(problem, name, several, output)
            return
        how = arguments.scheme_and_solver(recipe, backend)
        if resumed and output.store is not None:
            check_left_out(of_runs | lengths.given("steps"), "is read from the store that is resumed")
            system = arguments.with_parameters(entry.system, settings)
            path = resume(output.store, system, **how, allow_rounding=rounding, throw=False, progress=Bar(SILENT))
        else:
            problem = arguments.start_of(entry, settings, start.q0, start.v0)
            grid = arguments.grid_of(entry, lengths.h, lengths.steps, lengths.time, varying)
            problem.options.update(**grid, **how, start=Start(starter=cast(Any, recipe.starter)))
            problem.options.update(save=Save(every=None if last else save_every))
            if problem.swept:
                _sweep(problem, name, several, output)
                return
            check_left_out(several.given("zip", "value") | {"--last": last}, "is for several values of --set")
            with replacing(output.store) if output.store and output.force else contextlib.nullcontext():
                problem.options.update(save=Save(every=save_every, store=output.store))
                path = simulate(
                    problem.subject, **problem.options, throw=False,
                    progress=False if "until" in grid else Bar(SILENT),
                )  # fmt: skip
        record = run_record(path, name, output.files)
    ended = int(path.code) == int(Outcome.INTERRUPTED)
    if ended and output.store:
        console(stderr=True).print(Text(f"dalembert run {name} --save {output.store} --resume goes on with it"))
    output.finish("run", path, record, ended=ended, title=name)


@command(
    epilog=examples(
        "solve elastic_beam --steps 40 --plot beam.png --json",
        "solve double_integrator --steps 40 --refine 1e-4",
        "solve double_integrator --set T=1:2:4 --set bounds.u=2:8:4 --steps 40 --plot cost.png",
    )
)
def solve(
    name: Annotated[str, name_of(PROBLEMS)],
    several: SweepOptions,
    output: OutputOptions,
    *,
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
) -> None:
    """Solve a boundary problem; print the outcome, and store or plot the solution. With several values of --set it is solved
    for every combination of parameters, T, numbers at its ends or bounds, such as final.x, initial.v.x, bounds.u.

    If none is found, the exit code is 1. A sweep with --save study.zarr continues where it stopped."""
    settings = several.set or ()
    with one_line_errors():
        output.check_targets(stores=any(x.many for x in settings))
        from dalembert.boundary import solve as solve_problem
        from dalembert.cli import arguments
        from dalembert.cli.records import solution_record
        from dalembert.options import Solver

        entry = arguments.boundary_entry(name)
        problem = arguments.ends_of(entry, settings, steps, scheme)
        problem.options.update(solver=Solver(tolerance=tolerance))
        if problem.swept:
            check_left_out({"--refine": accuracy}, "is for one problem")
            _sweep(problem, name, several, output)
            return
        output.check_targets(stores=False)
        check_left_out(several.given("zip", "value"), "is for several values of --set")
        solution = solve_problem(problem.subject, **problem.options, throw=False)
        if accuracy is not None and int(solution.code) == 0:
            solution = _refine_nodes(problem, name, solution, accuracy)
        record = solution_record(solution, entry, bool(settings), output.files)
        record["failed"] |= accuracy is not None and getattr(solution, "refinement", None) is None
        exact = None if settings else entry.exact
    output.finish("solve", solution, record, _comparison_lines(record), title=entry.title, exact=exact)


def _refine_nodes(problem: Any, name: str, solution: Any, accuracy: float) -> Any:
    """On finer nodes."""
    from dalembert.boundary import Free
    from dalembert.control import OptimalControl, refine

    if not isinstance(problem.subject, OptimalControl):
        raise ValueError(f"--refine: is for optimal control; {name} is a variational problem, give --steps")
    given = {key: value for key, value in problem.options.items() if key not in ("T", "steps", "guess", "solver")}
    T = problem.options.get("T")
    return refine(problem.subject, solution, **given, T=T if isinstance(T, Free) else None, tolerance=accuracy)


def _comparison_lines(record: dict[str, Any]) -> list[str]:
    """The solution beside what is known of it."""
    lines, (error, limit) = [], (record["error"], record["cost_limit"])
    if error is not None:
        lines.append(f"largest error of q against the closed form {error:.2e}")
    if limit is not None and not record["failed"] and math.isfinite(record["value"]):
        difference = record["value"] - limit
        lines.append(f"{record['value_of']} {difference:+.2e} beside the limit of small steps, {limit:.12g}")
    return lines


def _sweep(problem: Any, name: str, several: SweepOptions, output: OutputOptions) -> None:
    """Runs or solutions for every combination of values, with a map of how they ended."""
    with one_line_errors():
        if output.picture is not None and not several.zip and len(problem.swept) > 2:
            raise ValueError(
                f"--plot: {len(problem.swept)} names are swept, {', '.join(problem.swept)}; a figure shows one or two"
            )
        from dalembert.cli.records import study_record
        from dalembert.interrupts import Interrupted
        from dalembert.step.run.steps import Bar
        from dalembert.studies import sweep

        bar = Bar(SILENT, "steps" if "h" in problem.options else "problems")
        combine, ended = "zip" if several.zip else "product", False
        try:
            study: Any = sweep(
                problem.subject, problem.swept, problem.options, combine=combine, store=output.store,
                progress=False if "until" in problem.options else bar,
            )  # fmt: skip
        except Interrupted as end:
            study, ended = end.path, True
        record = study_record(study, name, output.files)
    output.finish("sweep", study, record, ended=ended, title=name, value=several.value)


@command(
    epilog=examples(
        "check nonholonomic_particle --steps 70",
        "check curvature_particle --steps 70 --scheme borda-fernandez-grillo --json",
        "check pendulum --h 0.1 --h 0.05 --h 0.025 --time 2",
    )
)
def check(
    name: Annotated[str, name_of(SYSTEMS)],
    start: StartOptions,
    recipe: SchemeOptions,
    *,
    h: Annotated[
        list[float] | None, typer.Option(help="time step; several, with decreasing steps, measure the order of convergence")
    ] = None,
    time: Annotated[
        float | None, typer.Option(help="duration of the runs by which the order is measured, a multiple of every h")
    ] = None,
    steps: Annotated[int, typer.Option(help="number of steps of the run on which the claims are measured")] = 500,
    parameter: Set = None,
    coordinates: Annotated[
        str | None, typer.Option(help="names of the coordinates to be compared for the order, separated by commas")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check whether a system can be solved from its data, and which claims of the theory hold. If one does not, the exit
    code is 1.

    With several steps and a time, --h 0.1 --h 0.05 --time 2, measure the order of convergence of positions, velocities and
    multipliers against the reference flow."""
    measured = time is not None or len(h or ()) > 1
    with one_line_errors():
        from dalembert.claims import verdict
        from dalembert.cli import arguments
        from dalembert.cli.records import order_record
        from dalembert.measure import order
        from dalembert.options import Start
        from dalembert.systems import solvability

        entry = arguments.system_entry(name)
        system, data, _ = arguments.start_of(entry, parameter or (), start.q0, start.v0).single()
        found: Any = None
        how = arguments.scheme_and_solver(recipe)
        if measured:
            found = order(
                system, **data, time=arguments.require(time, "time", name), h=arguments.require(h, "h", name),
                coordinates=None if coordinates is None else [x.strip() for x in coordinates.split(",")],
                **how, start=Start(starter=cast(Any, recipe.starter)),
            )  # fmt: skip
            record = order_record(found, name)
        else:
            check_left_out(recipe.given("starter") | {"--coordinates": coordinates}, "is for the order")
            possible = solvability(system, *data.values())
            if not as_json:
                console(stderr=not possible.solvable).print(Text(str(possible)))
            step = arguments.require(entry.h if h is None else h[0], "h", name)
            record = {"name": name, "solvable": possible.solvable, "why": str(possible), "holds": None, "claims": []}
            if possible.solvable:
                found = verdict(system, *[how.pop("scheme"), *data.values()], h=step, steps=steps, **how)
                record |= found.to_dict()
    if as_json:
        print_json("order" if measured else "check", record)
    elif measured:
        console().print(Text(found.describe()))
    elif found is not None:
        _print_verdict(found)
    if record.get("failed", not record.get("holds", True)):
        raise typer.Exit(1)


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


@command(
    epilog=examples(
        "page pendulum --output run.html",
        "page pendulum --time 2",
        "page pendulum --animate --time 2 --output swing.gif --speed 0.5",
        "page cart_pole --animate --output up.gif",
        "page run.nc --output saved.html",
    )
)
def page(
    name: Annotated[str, name_of([*SYSTEMS, *PROBLEMS], ", or a file that was saved, run.nc or run.zarr")],
    start: StartOptions,
    lengths: GridOptions,
    *,
    file: Annotated[
        File | None,
        typer.Option("--output", help="file to write; by default NAME.html or NAME.gif in this folder; .mp4 needs ffmpeg"),
    ] = None,
    animated: Annotated[bool, typer.Option("--animate", help="the motion alone, as .gif, .html, .mp4 or .webm")] = False,
    parameter: Set = None,
    scheme: SchemeName = "default",
    speed: Annotated[
        float | None,
        typer.Option(
            help="of an animation, units of time per second; by default real time, or faster so that it takes 8 seconds"
        ),
    ] = None,
    fps: Annotated[int, typer.Option(help="frames per second of an animation")] = 25,
    dark: Annotated[bool, typer.Option("--dark", help="an animation light on dark")] = False,
    title: Annotated[str | None, typer.Option(help="title at the top; by default that of the gallery")] = None,
    force: Force = False,
) -> None:
    """Run a system, solve a boundary problem, or read a saved file, and write an HTML page with its motion and its diagrams,
    or with --animate its motion alone."""
    with one_line_errors():
        saved = File(name).suffix in (*STORED, ZARR)
        stem = File(name).stem if saved else name.rpartition(":")[2].replace("-", "_")
        file = file or File(stem + (".gif" if animated else ".html"))
        check_target(file, MOTIONS if animated else PAGES, "--output", force)
        if not animated:
            check_left_out({"--speed": speed, "--fps": fps != 25, "--dark": dark}, "is for --animate")
        from dalembert.boundary import solve as solve_problem
        from dalembert.cli import arguments
        from dalembert.gallery import BoundaryEntry
        from dalembert.outcome import Outcome
        from dalembert.path import Study
        from dalembert.show import animate, page_text
        from dalembert.step import simulate
        from dalembert.store import load

        entry = None if saved else arguments.entry_of(name)
        heading = title if entry is None else title or entry.title
        if entry is None:
            done = start.given() | lengths.given()
            why = f"{name} is a file, and what it holds is computed"
            check_left_out(done | {"--set": parameter or None, "--scheme": scheme != "default"}, why)
            result: Any = load(name)
        elif isinstance(entry, BoundaryEntry):
            why = f"{name} is a boundary problem, with ends and time of its own; give --steps or --set"
            check_left_out(start.given() | lengths.given("h", "time"), why)
            problem = arguments.ends_of(entry, parameter or (), lengths.steps, scheme).single()
            result = solve_problem(problem.subject, **problem.options, throw=False)
        else:
            problem = arguments.start_of(entry, parameter or (), start.q0, start.v0).single()
            grid = arguments.grid_of(entry, lengths.h, lengths.steps, lengths.time)
            chosen = arguments.named_scheme(scheme)
            result = simulate(problem.subject, **problem.options, **grid, scheme=chosen, throw=False)
        if animated:
            put(file, "--output", force, animate(result, speed=speed, fps=fps, dark=dark, title=heading).save)
        else:
            typed = sys.argv[1:] if sys.argv and sys.argv[1:2] == ["page"] else ["page", name, "--output", str(file)]
            text = page_text(result, heading, "dalembert " + shlex.join(typed))
            put(file, "--output", force, lambda place: place.write_text(text, encoding="utf-8"))
        outcome = Outcome.SUCCESS if isinstance(result, Study) else Outcome(int(result.code))
        failed = outcome is not Outcome.SUCCESS if isinstance(entry, BoundaryEntry) else outcome.failed and not saved
        console(stderr=failed).print(Text(result.describe()))
        console(stderr=failed).print(Text(f"wrote {file}"))
    if failed:
        raise typer.Exit(1)


@command("list", epilog=examples("list", "list --json"))
def list_gallery(
    files: Annotated[list[str] | None, typer.Argument(help="files of your own, in place of the gallery")] = None,
    as_json: Json = False,
) -> None:
    """List the systems and boundary problems of the gallery, or of files, with formula, parameters and source."""
    with one_line_errors():
        from dalembert.cli.arguments import entries_of
        from dalembert.cli.records import gallery_record

        found = [entries_of(file) for file in files or ()]
        record = gallery_record({name: x for each in found for name, x in each.items()} if files else None)
    if as_json:
        print_json("list", record)
        return
    for title, rows in (("dalembert run", record["systems"]), ("dalembert solve", record["problems"])):
        table = Table(title, "formula", "parameters", "source", box=None, padding=(0, 2, 0, 0))
        for row in rows:
            parameters = ", ".join(f"{name} = {_short(value)}" for name, value in row["parameters"].items())
            table.add_row(*(Text(x) for x in (row["name"], row["formula"], parameters, row["source"])))
        console().print(table)


def _short(value: float | list) -> str:
    return " ".join(map(_short, value)) if isinstance(value, list) else f"{value:g}"


@command(epilog=examples("cache", "cache --clear --force"))
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="remove all of it; the next runs compile again")] = False,
    force: Annotated[bool, typer.Option("--force", help="do not ask first")] = False,
    as_json: Json = False,
) -> None:
    """Show where compiled machine code is kept and how much there is, or remove it. $DALEMBERT_CACHE sets another folder."""
    with one_line_errors():
        from dalembert.native import CACHE

        found = CACHE.size()
        record = {"folder": None if CACHE.folder is None else str(CACHE.folder), "files": found[0], "bytes": found[1]}
        if clear and found[0] and not force:
            question = f"Remove {found[0]} files, {found[1] / 2**20:.1f} MiB, from {CACHE.folder}?"
            if not typer.confirm(question, err=True):
                raise typer.Exit(1)
        if clear:
            record["removed"] = CACHE.clear()
    if as_json:
        print_json("cache", record)
    elif CACHE.folder is None:
        console().print(Text("machine code is kept in memory only: $DALEMBERT_CACHE is empty, or there is no folder for it"))
    else:
        line = f"{CACHE.folder}: {found[0]} files of machine code, {found[1] / 2**20:.1f} MiB"
        console().print(Text(line + (f"; removed {record['removed']}" if clear else "")))


accept_old("resume", "run NAME --save STORE --resume", run, resumed=True)
accept_old("sweep", "run or solve with several values of --set", run)
accept_old("order", "check with several --h", check)
accept_old("animate", "page --animate", page, animated=True)
