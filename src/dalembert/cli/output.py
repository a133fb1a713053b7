"""Where the commands write. A finished file is replaced only with --force, and nothing that was computed is lost."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from dalembert.path import Path, Study
    from dalembert.solution import CriticalPoint

STORED = (".nc", ".nc4", ".h5")
ZARR = ".zarr"
DRAWN = (".png", ".pdf", ".svg")


SCHEMA = 1  # of what --json prints; docs/command_line.md describes it


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
        from dalembert.store.atomic import check

        check(file)


def store(path: Path | CriticalPoint | Study, file: File, force: bool) -> None:
    """The path as a NetCDF file."""
    from dalembert.store import save

    put(file, "--save", force, lambda place: save(path, place))


def draw(figure, file: File, force: bool) -> None:
    """The figure in the format of the file's ending."""
    from dalembert.store.atomic import write

    def save_figure(place: File) -> None:
        content = io.BytesIO()
        figure.savefig(content, format=place.suffix[1:])
        write(place, content.getbuffer())

    put(file, "--plot", force, save_figure)


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
