"""page: a result as one page of HTML that needs nothing else, no network and no server."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from dalembert.drawing import Scene
from dalembert.messages import suggesting
from dalembert.notebook import words_of
from dalembert.numbers import as_text
from dalembert.path import Path, Study
from dalembert.show.html.content import as_json, content_of, draw_scene, share_arrays
from dalembert.show.measured import kind_of, plot_measurements
from dalembert.show.results import Shown, named_results, results_of
from dalembert.show.study import plot_study
from dalembert.show.style import DARK, LIGHT, Canvas, check_new, write_whole

ENDINGS = (".html", ".htm")

# No request leaves the page, and nothing runs in it but the script of this hash, whatever the data hold.
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; script-src 'sha256-{script_hash}'; style-src 'sha256-{style_hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><p id="summary">{summary}</p></header>
{moving}{figures}
<footer><p>Made by dalembert.{keys}</p></footer>
{script}</body>
</html>
"""
MOVING = """<main id="main"><noscript><p>The drawing and the diagrams of this page need JavaScript.</p></noscript></main>
"""
KEYS = """ Space plays and stops; the arrows go on and back, with Shift ten times as far;
Home and End go to the ends."""
SCRIPT = """<script type="application/json" id="data">{data}</script>
<script>{script}</script>
"""
FIGURE = """<figure class="card measured">
<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}"><img src="{light}" alt="{alt}"></picture>
<details><summary>numbers</summary><pre>{words}</pre></details></figure>
"""


@suggesting(overwrite="a file of that name is replaced", force="a file of that name is replaced")
def page(path: Any, file: str | os.PathLike, *, title: str | None = None, system: Any = None) -> None:
    """Write a path, a solution or several of them as one HTML page, which opens in any browser, without a network.

    The drawing moves with a slider; beside it are positions, velocities, phase portraits, energy and its change,
    residuals of the constraints, multipliers (for a servo-constraint: the control law), controls with their bounds,
    iterations and residuals of the solver, the outcome with cause and remedy, parameters, and how to run it again. Long
    paths are thinned; the smallest and the largest value of each section are kept. A page has some hundred kilobytes. A
    file of that name is replaced once the new one is complete.

    Args:
        path: a Path, a Solution, an ensemble or a Study (its first twelve runs), a measurement or a Verdict (their figure
            is that of `plot`), a list of these, or a mapping from names to these. Read stored results with `load` first.
        file: name of the file, which ends in .html.
        title: title at the top; by default the names of the coordinates.
        system: the system of a path that was loaded: with it energy and residuals are shown too.

    Raises:
        TypeError: an argument is of the wrong type; the message names it.
        ValueError: the path is traced, or the name has another ending.
        FileNotFoundError: the folder does not exist.

    Example:
        >>> da.page(path, "run.html", title="A pendulum")
        >>> import pathlib
        >>> "A pendulum" in pathlib.Path("run.html").read_text(encoding="utf-8")
        True
    """
    target = check_new(file, ENDINGS, "a page is HTML")
    as_text(title, "title")
    text = page_text(path, title, system=system)
    write_whole(target, lambda place: place.write_text(text, encoding="utf-8"))


def page_text(path: Any, title: str | None, command: str = "", system: Any = None) -> str:
    """The page. command: of the command line, that makes it again."""
    named = named_results(path)
    groups = {name: one if isinstance(one, Mapping) else {name: one} for name, one in named.items()}
    measured = {name: group for name, group in groups.items() if kind_of(group) is not None}
    rest = {name: one for name, one in named.items() if name not in measured}
    figures: list[Any] = [path] if isinstance(path, Study) else [named] if kind_of(named) else list(measured.values())
    pictures = "".join(map(_figure, figures))
    if not rest:
        heading = title or ", ".join(dict.fromkeys(type(one).__name__ for each in figures for one in each.values()))
        return _fill_page(heading, "", None, pictures)
    shown = results_of(rest if measured else path, system)
    heading = title or f"Motion of {', '.join(shown[0].names[:6])}"
    return _fill_page(heading, _summary(shown), content_of(shown, heading, command), pictures)


def _figure(result: Any) -> str:
    """The figure of a study or of measurements by name, light and dark, with their words; none of a study that has none."""
    images = []
    for theme in (LIGHT, DARK):
        content = io.BytesIO()
        try:
            canvas = Canvas(theme)
            figure = plot_study(result, None, canvas) if isinstance(result, Study) else plot_measurements(result, canvas)
        except ValueError:  # a study over three axes
            return ""
        figure.savefig(content, format="svg")
        images.append(f"data:image/svg+xml;base64,{base64.b64encode(content.getvalue()).decode('ascii')}")
    words = str(result) if isinstance(result, Study) else "\n\n".join(_words(name, one) for name, one in result.items())
    return FIGURE.format(light=images[0], dark=images[1], alt=html.escape(words[:300]), words=html.escape(words))


def _words(name: str, result: Any) -> str:
    if isinstance(result, Mapping):
        return "\n".join(_words(f"{name}, {inner}", one) for inner, one in result.items())
    return "\n".join(line for line in (name, words_of(result)) if line)


def drawing_text(scenes: list[Scene], title: str, speed: float) -> str:
    """A page of the drawing alone, for a notebook. speed: units of time per second."""
    empty: dict[str, Any] = {key: [] for key in ("runs", "panels", "phase", "parameters", "reproduce")}
    return _fill_page(title, "", {**empty, "title": title, "drawing": draw_scene(scenes), "speed": speed})


def _fill_page(title: str, summary: str, data: dict[str, Any] | None, figures: str = "") -> str:
    """data: what moves; None for a page of figures alone, which needs no script."""
    style, script = _asset("page.css"), _asset("page.js")
    moves = data is not None
    return PAGE.format(
        title=html.escape(title), summary=html.escape(summary), style=style,
        style_hash=_hash(style), script_hash=_hash(script),
        moving=MOVING if moves else "", keys=KEYS if moves else "", figures=figures,
        script=SCRIPT.format(data=as_json(share_arrays(data)), script=script) if moves else "",
    )  # fmt: skip


def _summary(shown: list[Shown]) -> str:
    if shown[0].among > len(shown):
        return f"the first {len(shown)} of {shown[0].among} runs in one picture"
    if len(shown) > 1:
        return f"{len(shown)} results in one picture"
    result = shown[0].result
    kind = "steps of" if isinstance(result, Path) else "steps between given ends of"
    return f"{len(shown[0].t) - 1} {kind} {', '.join(shown[0].names[:6])}, t = {shown[0].t[0]:g} to {shown[0].t[-1]:g}"


@cache
def _asset(name: str) -> str:
    return files("dalembert.show.html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
