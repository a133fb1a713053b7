"""The options that commands share, each told and checked once, before anything heavy is loaded; and groups of them, which a
command takes as one argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path as File
from typing import Annotated, Any

import typer
from rich.text import Text

from dalembert.cli import words
from dalembert.cli.application import (
    check_target,
    console,
    one_line_errors,
    print_json,
    put,
    save_figure,
)

STORED = (".nc", ".nc4", ".h5")
ZARR = ".zarr"
DRAWN = (".png", ".pdf", ".svg")


def check_with(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For an option: what is made of its words, or whether they are right, before anything heavy is loaded."""

    def callback(value: Any) -> Any:
        with one_line_errors():
            found = None if value is None else check(value)
        return value if found is None else found

    return callback


def _names(*collections: tuple[str, ...]) -> Callable[[str], list[str]]:
    """For the completion of a shell."""

    def complete(incomplete: str) -> list[str]:
        return [name for names in collections for name in names if name.startswith(incomplete)]

    return complete


def _numbers(option: str) -> Any:
    parse = check_with(lambda text: words.numbers_of(text, option))
    return typer.Option(option, help="numbers separated by commas, such as 0,1", parser=parse, metavar="NUMBERS")


def name_of(check: Callable[[str], None], *collections: tuple[str, ...]) -> Any:
    about = "a name of the gallery, or file.py:name for a System, an Entry or a BoundaryEntry of your own"
    return typer.Argument(help=about, autocompletion=_names(*collections), callback=check_with(check))


_ONE = "parameter, such as m=2 or weights=1,2,3; may be repeated"
_SEVERAL = f"{_ONE}; several values, m=0.5:2:7 (from, to, how many) or m=1,2,4, are a sweep"


def _settings(about: str) -> Any:
    parse, together = check_with(words.setting_of), check_with(words.check_apart)
    return typer.Option("--set", help=about, parser=parse, callback=together, metavar="NAME=VALUE")


Set = Annotated[list[words.Setting] | None, _settings(_ONE)]
SchemeName = Annotated[
    str,
    typer.Option(
        help=f"{', '.join(words.SCHEMES)}, or file.py:name",
        autocompletion=_names(words.SCHEMES),
        callback=check_with(words.check_scheme),
    ),
]
Steps = Annotated[int | None, typer.Option(help="number of steps")]
Force = Annotated[bool, typer.Option("--force", help="replace files that exist")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, as described on the page Command line of the documentation")]


@dataclasses.dataclass(frozen=True)
class StartOptions:
    """Options: the data of a run."""

    q0: Annotated[Any, _numbers("--q0")] = None
    v0: Annotated[Any, _numbers("--v0")] = None

    @property
    def by_option(self) -> dict[str, Any]:
        """By option."""
        return {"--q0": self.q0, "--v0": self.v0}


@dataclasses.dataclass(frozen=True)
class GridOptions:
    """Options: the nodes of a run."""

    h: Annotated[float | None, typer.Option("--h", help="time step; negative for a run backwards in time")] = None
    steps: Steps = None
    time: Annotated[
        float | None, typer.Option("--time", help="duration of the run, a multiple of h, instead of --steps")
    ] = None

    @property
    def by_option(self) -> dict[str, Any]:
        """Those of runs alone."""
        return {"--h": self.h, "--time": self.time}


@dataclasses.dataclass(frozen=True)
class SchemeOptions:
    """Options: how a run is discretized and begun, and which root it follows."""

    scheme: SchemeName = "default"
    composed: Annotated[int, typer.Option("--order", help="2, or 4, 6, 8, 10 by composition of a self-adjoint scheme")] = 2
    starter: Annotated[str, typer.Option(help=", ".join(words.STARTERS), callback=check_with(words.check_starter))] = (
        "second_order"
    )
    branch: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(words.BRANCHES)}; append :0,1 for the indices of the coordinates that count; or file.py:name",
            callback=check_with(words.check_branch),
        ),
    ] = None

    def scheme_and_branch(self) -> dict[str, Any]:
        """Scheme and branch."""
        from dalembert.cli.arguments import named_branch, named_scheme

        return {"scheme": named_scheme(self.scheme, self.composed), "branch": named_branch(self.branch)}


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """Options: parameters, of which each may have several values."""

    values: Annotated[list[words.Setting] | None, _settings(_SEVERAL)] = None
    together: Annotated[
        bool,
        typer.Option(
            "--zip", help="combine the first values of all names, then the second ones; by default every combination"
        ),
    ] = False
    drawn: Annotated[
        str | None,
        typer.Option("--value", help="what --plot draws of a sweep: a coordinate at the end, steps_done, cost or action"),
    ] = None

    @property
    def by_option(self) -> dict[str, Any]:
        """Those of several values alone."""
        return {"--zip": self.together, "--value": self.drawn}


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """Options: where a command puts what it found, a NetCDF file or a store, and a picture of it."""

    file: Annotated[
        File | None,
        typer.Option(
            "--save", help="NetCDF file to write, such as run.nc; or a store, run.zarr, written while the run goes on"
        ),
    ] = None
    picture: Annotated[File | None, typer.Option("--plot", help="figure to write: .png, .pdf or .svg")] = None
    force: Force = False
    as_json: Json = False

    @property
    def store(self) -> File | None:
        """The store, where that is what was asked for."""
        return self.file if self.file is not None and self.file.suffix == ZARR else None

    @property
    def files(self) -> list[str]:
        return [str(x) for x in (self.file, self.picture) if x is not None]

    def check(self, stores: bool, resumed: bool = False) -> None:
        """Before anything is computed. stores: whether it may be written to a store while it is computed."""
        if resumed and self.store is None:
            raise ValueError("--resume: needs the store of the run, --save run.zarr")
        if not (stores and self.store):
            check_target(self.file, (*STORED, *([ZARR] if stores else [])), "--save", self.force)
        check_target(self.picture, DRAWN, "--plot", self.force)

    def finish(
        self, command: str, result: Any, record: dict[str, Any], lines: Sequence[str] = (), ended: bool = False, **drawing
    ) -> None:
        """Store, print and draw a result. The exit code is 1 where it failed, 130 where Ctrl-C ended it. drawing: options of
        `plot`."""
        with one_line_errors():
            from dalembert.path import Path
            from dalembert.show import plot
            from dalembert.store import load, save

            if self.file is not None and not self.store:
                put(self.file, "--save", self.force, lambda place: save(result, place))
            if self.as_json:
                print_json(command, record)
            else:
                console(stderr=record["failed"]).print(Text(result.describe()))
                for line in lines:
                    console().print(Text(line))
            if self.picture is not None:
                whole = load(self.store) if self.store and isinstance(result, Path) else result
                figure = plot(whole, **drawing)
                put(self.picture, "--plot", self.force, lambda place: save_figure(figure, place))
        if ended:
            raise typer.Exit(130)
        if record["failed"]:
            raise typer.Exit(1)
