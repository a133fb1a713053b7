"""page: a result as one page of HTML that needs nothing else, no network and no server."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from functools import cache
from importlib.resources import files
from typing import Any

from dalembert.drawing import Scene
from dalembert.numbers import as_text
from dalembert.path import Path
from dalembert.show.html.content import as_json, content_of, draw_scene, share_arrays
from dalembert.show.results import Shown, results_of
from dalembert.show.style import check_new, write_whole

ENDINGS = (".html", ".htm")

# No request leaves the page, and nothing runs in it but the script of this hash, whatever the data hold.
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'sha256-{script_hash}'; style-src 'sha256-{style_hash}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><p id="summary">{summary}</p></header>
<main id="main"><noscript><p>The drawing and the diagrams of this page need JavaScript.</p></noscript></main>
<footer><p>Made by dalembert. Space plays and stops; the arrows go on and back, with Shift ten times as far;
Home and End go to the ends.</p></footer>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(path: Any, file: str | os.PathLike, *, title: str | None = None, system: Any = None) -> None:
    """Write a path, a solution or several of them as one HTML page, which opens in any browser, without a network.

    The drawing moves with a slider; beside it are positions, velocities, phase portraits, energy and its change,
    residuals of the constraints, multipliers (for a servo-constraint: the control law), controls with their bounds,
    iterations and residuals of the solver, the outcome with cause and remedy, parameters, and how to run it again. Long
    paths are thinned; the smallest and the largest value of each section are kept. A page has some hundred kilobytes. A
    file of that name is replaced once the new one is complete.

    Args:
        path: a Path, a Solution, an ensemble or a Study (its first twelve runs), a list of these, or a mapping from
            names to these. Read stored results with `load` first.
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
    text = page_text(results_of(path, system), title)
    write_whole(target, lambda place: place.write_text(text, encoding="utf-8"))


def page_text(shown: list[Shown], title: str | None, command: str = "") -> str:
    """The page. command: of the command line, that makes it again."""
    heading = title or f"Motion of {', '.join(shown[0].names[:6])}"
    return _fill_page(heading, _summary(shown), content_of(shown, heading, command))


def drawing_text(scenes: list[Scene], title: str, speed: float) -> str:
    """A page of the drawing alone, for a notebook. speed: units of time per second."""
    empty: dict[str, Any] = {key: [] for key in ("runs", "panels", "phase", "parameters", "reproduce")}
    return _fill_page(title, "", {**empty, "title": title, "drawing": draw_scene(scenes), "speed": speed})


def _fill_page(title: str, summary: str, data: dict[str, Any]) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    return PAGE.format(
        title=html.escape(title), summary=html.escape(summary), style=style, script=script,
        style_hash=_hash(style), script_hash=_hash(script), data=as_json(share_arrays(data)),
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
