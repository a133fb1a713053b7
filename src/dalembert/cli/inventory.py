"""list and cache: what the program has, systems, boundary problems and compiled code."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from dalembert.cli.application import Json, app, console, examples, one_line_errors
from dalembert.cli.output import print_json


@app.command("list", epilog=examples("list", "list --json"))
def list_gallery(as_json: Json = False) -> None:
    """List the systems and boundary problems of the gallery with formula, parameters and source."""
    from dalembert.cli.listing import gallery_record

    record = gallery_record()
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


@app.command(epilog=examples("cache", "cache --clear --force"))
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="remove all of it; the next runs compile again")] = False,
    force: Annotated[bool, typer.Option("--force", help="do not ask first")] = False,
    as_json: Json = False,
) -> None:
    """Show where compiled machine code is kept and how much there is, or remove it. $DALEMBERT_CACHE sets another folder."""
    with one_line_errors():
        from dalembert.native.llvm.cache import CACHE

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
