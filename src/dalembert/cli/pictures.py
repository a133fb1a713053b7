"""page and animate: a gallery problem, or one of a file, as a page of HTML or as a moving picture."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path as File
from typing import Annotated, Any

import typer
from rich.text import Text

from dalembert.cli.application import (
    Data,
    Either,
    Force,
    Length,
    SchemeName,
    Set,
    Step,
    Steps,
    app,
    console,
    examples,
    one_line_errors,
)
from dalembert.cli.output import check_target, put
from dalembert.cli.words import check_grid, check_words, parameters_of

PAGES, MOTIONS = (".html", ".htm"), (".gif", ".mp4", ".webm", ".html")
Title = Annotated[str | None, typer.Option(help="title at the top; by default that of the gallery")]


@app.command("page", epilog=examples("page pendulum --output run.html", "page pendulum --time 2"))
def write_page(
    name: Either,
    *,
    file: Annotated[File | None, typer.Option("--output", help="file to write; by default NAME.html in this folder")] = None,
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    h: Step = None,
    steps: Steps = None,
    time: Length = None,
    scheme: SchemeName = "default",
    title: Title = None,
    force: Force = False,
) -> None:
    """Run a system, or solve a boundary problem, and write an HTML page with its motion and its diagrams."""
    with one_line_errors():
        _check(name, (q0, v0), scheme, parameter, (h, steps, time))
        file = _output_file(file, name, ".html")
        check_target(file, PAGES, "--output", force)
        from dalembert.show.html.report import page_text
        from dalembert.show.results import results_of

        result, own = _compute_result(name, parameter, (q0, v0), (h, steps, time), scheme)
        words = sys.argv[1:] if sys.argv and sys.argv[1:2] == ["page"] else ["page", name, "--output", str(file)]
        text = page_text(results_of(result), title or own, "dalembert " + shlex.join(words))
        put(file, "--output", force, lambda place: place.write_text(text, encoding="utf-8"))
        _report_result(result, file)


@app.command(
    "animate",
    epilog=examples("animate pendulum --time 2 --output swing.gif --speed 0.5", "animate cart_pole --output up.gif"),
)
def write_motion(
    name: Either,
    *,
    file: Annotated[
        File | None, typer.Option("--output", help="file to write; by default NAME.gif in this folder; .mp4 needs ffmpeg")
    ] = None,
    parameter: Set = None,
    q0: Data = None,
    v0: Data = None,
    h: Step = None,
    steps: Steps = None,
    time: Length = None,
    scheme: SchemeName = "default",
    speed: Annotated[
        float | None,
        typer.Option(help="units of time per second; by default real time, or faster so that it takes 8 seconds"),
    ] = None,
    fps: Annotated[int, typer.Option(help="frames per second")] = 25,
    dark: Annotated[bool, typer.Option("--dark", help="light on dark")] = False,
    title: Title = None,
    force: Force = False,
) -> None:
    """Run a system, or solve a boundary problem, and write its motion as an animation (.gif, .html, .mp4)."""
    with one_line_errors():
        _check(name, (q0, v0), scheme, parameter, (h, steps, time))
        file = _output_file(file, name, ".gif")
        check_target(file, MOTIONS, "--output", force)
        from dalembert.show import animate as animated

        result, own = _compute_result(name, parameter, (q0, v0), (h, steps, time), scheme)
        motion = animated(result, speed=speed, fps=fps, dark=dark, title=title or own)
        put(file, "--output", force, motion.save)
        _report_result(result, file)


def _output_file(file: File | None, name: str, ending: str) -> File:
    """The file that was asked for, or one that has the name of what it shows."""
    return File(name.rpartition(":")[2].replace("-", "_") + ending) if file is None else file


def _check(name: str, start: tuple, scheme: str, parameter: Any, grid: tuple) -> None:
    """What is wrong with the words, before anything heavy is loaded."""
    check_words({"either": name, "--q0": start[0], "--v0": start[1], "scheme": scheme})
    check_grid(*grid)
    parameters_of(parameter)


def _compute_result(name: str, parameter: Any, start: tuple, grid: tuple, scheme: str) -> tuple[Any, str]:
    """The path or the solution, however it ended, and its title."""
    from dalembert.boundary import solve as solved
    from dalembert.cli.arguments import (
        first_guess,
        found_of,
        named_boundary_problem,
        named_problem,
        named_scheme,
        step_and_count,
        with_data,
    )
    from dalembert.gallery import BoundaryEntry
    from dalembert.step import simulate

    h, steps, time = grid
    if isinstance(found_of(name), BoundaryEntry):
        entry = named_boundary_problem(name, parameter)
        given = {"--q0": start[0], "--v0": start[1], "--h": h, "--time": time}
        for option, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{option}: {name} is a boundary problem, with ends and time of its own; give --steps or --set"
                )
        count = entry.steps if steps is None else steps
        return solved(
            entry.problem, **entry.boundary, steps=count, guess=first_guess(entry, count), throw=False
        ), entry.title
    problem = with_data(named_problem(name), parameter, *start)
    step, count = step_and_count(problem, h, steps, time, name)
    path = simulate(problem.system, problem.q0, problem.v0, h=step, steps=count, scheme=named_scheme(scheme), throw=False)
    return path, getattr(found_of(name), "title", name)


def _report_result(result: Any, file: File) -> None:
    """What was written; a run that failed is shown as far as it came, and exits 1."""
    from dalembert.outcome import Outcome
    from dalembert.path import Path

    outcome = Outcome(int(result.code))
    failed = outcome.failed if isinstance(result, Path) else outcome is not Outcome.SUCCESS
    console(stderr=failed).print(Text(result.describe()))
    console(stderr=failed).print(Text(f"wrote {file}"))
    if failed:
        raise typer.Exit(1)
