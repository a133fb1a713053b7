"""The application: errors in one line, where it prints and writes.

A finished file is replaced only with --force, and nothing that was computed is lost.

Nothing here and in the modules that declare commands imports JAX: help, completion and mistakes are answered at once. A
command imports what it runs when it is called.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import inspect
import io
import itertools
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

SCHEMA = 1  # of what --json prints; docs/command_line.md describes it

app = typer.Typer(
    help="Discrete Lagrange-d'Alembert mechanics: run systems, solve boundary problems, measure what the theory promises.",
    epilog="dalembert COMMAND --help has examples. The names are those of dalembert list, or file.py:name.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def examples(*lines: str) -> str:
    """The end of a command's help; tests run these lines."""
    return "\n\n".join(["Examples:", *(f"  dalembert {line}" for line in lines)])


def command(name: str | None = None, **options: Any) -> Callable[[Callable], Callable]:
    """A command, of whose arguments some are groups of options, dataclasses; typer sees the fields."""

    def register(function: Callable) -> Callable:
        parameters = inspect.signature(function, eval_str=True).parameters
        kinds: dict[str, Any] = {x.name: x.annotation for x in parameters.values() if dataclasses.is_dataclass(x.annotation)}
        groups = {name: inspect.signature(kind, eval_str=True).parameters for name, kind in kinds.items()}

        def call(**words: Any) -> None:
            made = {name: kinds[name](**{field: words.pop(field) for field in groups[name]}) for name in groups}
            function(**words, **made)

        flat = [one for x in parameters.values() for one in (groups[x.name].values() if x.name in groups else [x])]
        call.__signature__ = inspect.Signature([x.replace(kind=x.KEYWORD_ONLY) for x in flat])  # type: ignore[attr-defined]
        call.__annotations__ = {x.name: x.annotation for x in flat}
        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return app.command(name, **options)(call)

    return register


def accept_old(name: str, new: str, function: Callable, **options: Any) -> None:
    """Register a command under its old name: it warns, and calls the function of the new one with these options."""

    @functools.wraps(function)
    def warn_and_call(*positional: Any, **named: Any) -> None:
        console(stderr=True).print(Text(f"dalembert {name} is deprecated; use dalembert {new}"))
        function(*positional, **{**named, **options})

    app.command(name, hidden=True)(warn_and_call)


def _print_versions(wanted: bool) -> None:
    if wanted:
        own, *others = (f"{name} {importlib.metadata.version(name)}" for name in ("dalembert", "jax", "numpy"))
        typer.echo(f"{own} ({', '.join([f'Python {platform.python_version()}', *others])})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Versions of dalembert and what it computes with.", callback=_print_versions, is_eager=True
        ),
    ] = False,
) -> None:
    """Typer's place for options of the whole program."""


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
        console(stderr=True).print(Text(f"dalembert: {' '.join(str(error).split())}"), soft_wrap=True)
        raise typer.Exit(2) from error


def main() -> None:
    """Entry point of the command `dalembert`. Where the output has not all letters, "?" stands for a formula's signs."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


def print_json(command: str, record: dict[str, Any]) -> None:
    """One object with the name and version of its schema; JSON has no NaN and no infinity: they are null."""
    plain = not str(getattr(sys.stdout, "encoding", "utf-8")).lower().startswith("utf")
    typer.echo(json.dumps({"schema": f"dalembert.{command}/{SCHEMA}", **_finite(record)}, ensure_ascii=plain, indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_target(file: File | None, endings: tuple[str, ...], option: str, force: bool) -> None:
    """Before the run: a path that took an hour shall not be lost to a misspelt folder, nor to a name that is taken."""
    if file is None:
        return
    if file.suffix not in endings:
        raise ValueError(f"{option}: found {file}; give a name that ends in {', '.join(endings)}")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{option}: the folder {file.parent} does not exist; make it first")
    if not os.access(file.parent, os.W_OK):
        raise PermissionError(f"{option}: the folder {file.parent} cannot be written to")
    if file.exists() and not force:
        raise FileExistsError(f"{option}: {file} exists; --force replaces it, or give another name")
    if file.exists():
        from dalembert.store.atomic import check_replaceable

        check_replaceable(file)


def put(file: File, option: str, force: bool, writing: Callable[[File], Any]) -> None:
    """Somebody may have finished a file of that name during the run: both are kept. A full disk has a refuge."""
    place = file if force or not file.exists() else _free(file)
    try:
        writing(place)
    except OSError as error:
        refuge = File(tempfile.mkdtemp(prefix="dalembert-")) / file.name
        with contextlib.suppress(OSError):
            writing(refuge)
            raise RuntimeError(f"{option}: {error}. It is in {refuge} instead; move it to a safe place") from error
        raise
    if place != file:
        raise FileExistsError(f"{option}: {file} was written by another program during the run and is kept; this is {place}")


def _free(file: File) -> File:
    names = (file.with_stem(f"{file.stem}-{i}") for i in itertools.count(2))
    return next(name for name in names if not name.exists())
