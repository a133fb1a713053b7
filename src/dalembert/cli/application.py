"""The application: what its commands share, the words for their arguments, errors in one line, where they print."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path as File
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from dalembert.cli.arguments import BRANCHES, SCHEMES
from dalembert.step.start.second_node import STARTERS

app = typer.Typer(
    help="Discrete Lagrange-d'Alembert mechanics.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="a name of the gallery, or file.py:name for a System or an Entry of your own")]
Set = Annotated[list[str] | None, typer.Option("--set", help="parameter, such as m=2 or weights=1,2,3; may be repeated")]
Data = Annotated[str | None, typer.Option(help="numbers between commas, such as 0,1")]
SchemeName = Annotated[str, typer.Option(help=f"{', '.join(SCHEMES)}, or file.py:name")]
StarterName = Annotated[str, typer.Option(help=", ".join(STARTERS))]
OrderNumber = Annotated[int, typer.Option("--order", help="2, or 4, 6, 8 by composition of a self-adjoint scheme")]
BranchName = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(BRANCHES)}; :0,1 behind it names the coordinates that count; or file.py:name"),
]
Step = Annotated[float | None, typer.Option("--h", help="step; below 0 for a run backwards in time")]
Steps = Annotated[int | None, typer.Option(help="number of steps")]
Length = Annotated[float | None, typer.Option("--time", help="length of the run, instead of --steps")]
Figure = Annotated[File | None, typer.Option("--plot", help="figure to write: .png, .pdf or .svg")]
Force = Annotated[bool, typer.Option("--force", help="replace files that exist")]


def console(stderr: bool = False) -> Console:
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = 240  # a file or a pipe has no width of its own
    return made


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Bad input is one line on stderr and exit code 2, without a traceback."""
    try:
        yield
    except typer.Exit:  # a RuntimeError, and no error: the command has said what it had to
        raise
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        _fail(" ".join(str(error).split()))


def _fail(message: str) -> NoReturn:
    console(stderr=True).print(Text(f"dalembert: {message}"), soft_wrap=True)
    raise typer.Exit(2)


def main() -> None:
    """Entry point of the command `dalembert`."""
    app()
