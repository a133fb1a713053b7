"""The application: what its commands share, the words for their arguments, errors in one line, where they print.

Nothing here and in the modules that declare commands imports JAX: help, completion and mistakes are answered at once. A
command imports what it runs when it is called.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import platform
import sys
from collections.abc import Iterator
from pathlib import Path as File
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from dalembert.cli.words import BRANCHES, SCHEMES, STARTERS, all_names, scheme_names, system_names

SILENT = 2.0  # seconds of work that is over before anybody asks how far it is

app = typer.Typer(
    help="Discrete Lagrange-d'Alembert mechanics: run systems, solve boundary problems, measure what the theory promises.",
    epilog="dalembert COMMAND --help has examples. The names are those of dalembert list, or file.py:name.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def examples(*lines: str) -> str:
    """The end of a command's help; tests run these lines."""
    return "\n\n".join(["Examples:", *(f"  dalembert {line}" for line in lines)])


def _tell_versions(wanted: bool) -> None:
    if wanted:
        own, *others = (f"{name} {importlib.metadata.version(name)}" for name in ("dalembert", "jax", "numpy"))
        typer.echo(f"{own} ({', '.join([f'Python {platform.python_version()}', *others])})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Versions of dalembert and what it computes with.", callback=_tell_versions, is_eager=True
        ),
    ] = False,
) -> None:
    """Typer's place for options of the whole program."""


_NAME = "a name of the gallery, or file.py:name for a System or an Entry of your own"
Name = Annotated[str, typer.Argument(help=_NAME, autocompletion=system_names)]
Either = Annotated[str, typer.Argument(help=f"{_NAME}, or a BoundaryEntry", autocompletion=all_names)]
Set = Annotated[list[str] | None, typer.Option("--set", help="parameter, such as m=2 or weights=1,2,3; may be repeated")]
Data = Annotated[str | None, typer.Option(help="numbers separated by commas, such as 0,1")]
SchemeName = Annotated[str, typer.Option(help=f"{', '.join(SCHEMES)}, or file.py:name", autocompletion=scheme_names)]
StarterName = Annotated[str, typer.Option(help=", ".join(STARTERS))]
OrderNumber = Annotated[int, typer.Option("--order", help="2, or 4, 6, 8, 10 by composition of a self-adjoint scheme")]
BranchName = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(BRANCHES)}; append :0,1 for the indices of the coordinates that count; or file.py:name"),
]
Step = Annotated[float | None, typer.Option("--h", help="time step; negative for a run backwards in time")]
Steps = Annotated[int | None, typer.Option(help="number of steps")]
Length = Annotated[float | None, typer.Option("--time", help="duration of the run, a multiple of h, instead of --steps")]
Figure = Annotated[File | None, typer.Option("--plot", help="figure to write: .png, .pdf or .svg")]
Force = Annotated[bool, typer.Option("--force", help="replace files that exist")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, as described on the page Command line of the documentation")]


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
    """Entry point of the command `dalembert`. Where the output has not all letters, "?" stands for a formula's signs."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
