"""The options that commands share, each declared and read once, before anything heavy is loaded; and groups of them, which a
command takes as one argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path as File
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from dalembert.cli.application import check_target, console, one_line_errors, print_json, put

STORED = (".nc", ".nc4", ".h5")
ZARR = ".zarr"
DRAWN = (".png", ".pdf", ".svg")

# Names that help and completion show. `tests/cli/test_options.py` compares them with the rooms that they come from.
_TEXTS = {file.stem: file.read_text("utf-8") for file in sorted((File(__file__).parents[1] / "gallery").glob("*.py"))}
SYSTEMS = [name for name, text in _TEXTS.items() if "\nentry = Entry(" in text]  # read, not run
PROBLEMS = [name for name, text in _TEXTS.items() if "\nentry = BoundaryEntry(" in text]
SCHEMES = (
    "default", "borda-fernandez-grillo", "jimenez-scheurle-explicit", "jimenez-scheurle-implicit", "nodes",
    "drift-kick-drift", "kick-drift-kick", "discrete-gradient",
)  # fmt: skip
WINDOWS = ("interpolated", "averaged", "hermite", "points")  # of boundary problems
STARTERS = ("second_order", "first_order", "reference")
BRANCHES = ("avoid", "nearest-prediction", "nearest-previous")
BACKENDS = ("native", "jax")
MOST_VALUES = 10**7  # of one swept name


def numbers_of(text: str, option: str) -> list[float]:
    try:
        return [float(x) for x in text.split(",")]
    except ValueError:
        raise ValueError(f"{option}: found {text!r}; give numbers separated by commas, such as 0,1.5") from None


class Setting(NamedTuple):
    """One --set. text: as it was typed; spread: whether it is from:to:count, several values whatever they belong to."""

    text: str
    name: str
    values: list[float]
    spread: bool

    @property
    def value(self) -> float | list[float]:
        """One number, or those of an array."""
        return self.values if len(self.values) > 1 else self.values[0]

    @property
    def many(self) -> bool:
        """True where it may stand for several values."""
        return self.spread or len(self.values) > 1


def setting_of(text: str) -> Setting:
    """One --set: m=2, m=1,2,4, or m=0.5:2:7 for 7 values from 0.5 to 2."""
    name, _, value = text.partition("=")
    name, spread = name.strip(), ":" in value
    if not name or not value:
        raise ValueError(f"--set {text}: give name=value, such as m=2, or several values, m=1,2,4 or m=from:to:count")
    values = _space_evenly(value, f"--set {text}") if spread else numbers_of(value, f"--set {name}")
    return Setting(text, name, values, spread)


def _space_evenly(value: str, option: str) -> list[float]:
    """Equally spaced values, both ends among them."""
    ends = value.split(":")
    if len(ends) != 3 or not ends[2].strip().isdecimal() or int(ends[2]) < 1:
        raise ValueError(f"{option}: found {value}; give from:to:count, such as 0.5:2:7, with a count of 1 or more")
    first, last = (numbers_of(end, option)[0] for end in ends[:2])
    count = int(ends[2])
    if count > MOST_VALUES:
        raise ValueError(f"{option}: found {count} values; at most {MOST_VALUES} can be swept on one axis")
    if count == 1 and first != last:
        raise ValueError(f"{option}: found one value from {first:g} to {last:g}; give a count of 2 or more")
    return [first + (last - first) * i / (count - 1) for i in range(count - 1)] + [last]


def check_apart(settings: Sequence[Setting]) -> None:
    """ValueError where a name that has several values was given before."""
    found: dict[str, Setting] = {}
    for one in settings:
        if one.name in found and (one.many or found[one.name].many):
            raise ValueError(f"--set {one.text}: {one.name} was given before; give each name once")
        found[one.name] = one


def check_left_out(given: dict[str, Any], why: str) -> None:
    """ValueError for an option that was given; None or False where it was not."""
    for option, value in given.items():
        if value not in (None, False):
            raise ValueError(f"{option}: {why}; leave it out")


def _in_one_line(read: Callable[..., Any]) -> Callable[[Any], Any]:
    """The function that reads an option, whose errors are one line."""

    def call(value: Any) -> Any:
        with one_line_errors():
            return read(value)

    return call


def _complete(names: Sequence[str]) -> Callable[[str], list[str]]:
    """For the completion of a shell."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def _numbers_option(option: str) -> Any:
    parse = _in_one_line(lambda text: numbers_of(text, option))
    return typer.Option(option, help="numbers separated by commas, such as 0,1", parser=parse, metavar="NUMBERS")


def name_of(names: Sequence[str], also: str = "") -> Any:
    about = f"a name of the gallery, or file.py:name for a System, an Entry or a BoundaryEntry of your own{also}"
    return typer.Argument(help=about, autocompletion=_complete(names))


_ONE = "parameter, such as m=2 or weights=1,2,3; may be repeated"
_SEVERAL = f"{_ONE}; several values, m=0.5:2:7 (from, to, how many) or m=1,2,4, are a sweep"


def _settings(about: str) -> Any:
    return typer.Option("--set", help=about, parser=_in_one_line(setting_of), metavar="NAME=VALUE")


Set = Annotated[list[Setting] | None, _settings(_ONE)]
SchemeName = Annotated[str, typer.Option(help=f"{', '.join(SCHEMES)}, or file.py:name", autocompletion=_complete(SCHEMES))]
Steps = Annotated[int | None, typer.Option(help="number of steps")]
Force = Annotated[bool, typer.Option("--force", help="replace files that exist")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, as described on the page Command line of the documentation")]


class OptionGroup:
    """Options that belong together, fields of a dataclass that are called as they are typed."""

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these names with their values, by option: None where one was not given."""
        fields: Any = {field.name: field for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in names or fields}
        return {f"--{name}": None if x == fields[name].default else x for name, x in values.items()}


@dataclasses.dataclass(frozen=True)
class StartOptions(OptionGroup):
    """Options: the data of a run."""

    q0: Annotated[Any, _numbers_option("--q0")] = None
    v0: Annotated[Any, _numbers_option("--v0")] = None


@dataclasses.dataclass(frozen=True)
class GridOptions(OptionGroup):
    """Options: the nodes of a run."""

    h: Annotated[float | None, typer.Option("--h", help="time step; negative for a run backwards in time")] = None
    steps: Steps = None
    time: Annotated[
        float | None, typer.Option("--time", help="duration of the run, a multiple of h, instead of --steps")
    ] = None


@dataclasses.dataclass(frozen=True)
class SchemeOptions(OptionGroup):
    """Options: how a run is discretized and begun, and which root it follows."""

    scheme: SchemeName = "default"
    order: Annotated[int, typer.Option(help="2, or 4, 6, 8, 10 by composition of a self-adjoint scheme")] = 2
    starter: Annotated[str, typer.Option(help=", ".join(STARTERS))] = "second_order"
    branch: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(BRANCHES)}; append :0,1 for the indices of the coordinates that count; or file.py:name"
        ),
    ] = None


@dataclasses.dataclass(frozen=True)
class SweepOptions(OptionGroup):
    """Options: parameters, of which each may have several values."""

    set: Annotated[list[Setting] | None, _settings(_SEVERAL)] = None
    zip: Annotated[
        bool,
        typer.Option(
            "--zip", help="combine the first values of all names, then the second ones; by default every combination"
        ),
    ] = False
    value: Annotated[
        str | None, typer.Option(help="what --plot draws of a sweep: a coordinate at the end, steps_done, cost or action")
    ] = None


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

    def check_targets(self, stores: bool) -> None:
        """Before anything is computed. stores: whether it may be written to a store while it is computed."""
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
            from dalembert.show import plot, write_whole
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
                put(self.picture, "--plot", self.force, lambda place: write_whole(place, figure.savefig))
        if ended:
            raise typer.Exit(130)
        if record["failed"]:
            raise typer.Exit(1)
