"""The data of a page: drawing, diagrams, phase portraits and tables, thinned so that extremes stay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert.drawing.scene import Outline, Scene
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.show.frames import scene_for
from dalembert.show.html.encode import packed
from dalembert.show.html.groups import LineGroup, ended_at, groups_of
from dalembert.show.panels import envelope
from dalembert.show.results import Shown
from dalembert.solution import CriticalPoint

NUMBERS = 40_000  # of all drawings together: a fifth of a megabyte
SERIES = 24_000  # of all diagrams together
DENSE = 60  # turning points of a line: dashes could not be told from its waves
PHASES, PHASE_POINTS = 6, 1500  # coordinates with a phase portrait, points of one


def content_of(shown: Sequence[Shown], title: str, command: str) -> dict[str, Any]:
    """Everything that page.js draws."""
    groups = [groups_of(one) for one in shown]
    return {
        "title": title,
        "runs": [{"name": one.name, **_ending(one)} for one in shown],
        "drawing": _drawing(shown),
        "panels": _panels(shown, groups),
        "phase": _phases(shown),
        "parameters": _parameters_of(shown),
        "reproduce": _record(shown[0], command),
    }


def _drawing(shown: Sequence[Shown]) -> dict[str, Any]:
    """The scenes of all runs, in the plane or in space as the first one is."""
    frames = 600
    scenes = [scene_for(one, frames) for one in shown]
    size = sum(outline.at.size for scene in scenes for outline in scene.outlines if not outline.fixed)
    if size > NUMBERS:
        frames = max(40, int(frames * NUMBERS / size))
        scenes = [scene_for(one, frames) for one in shown]
    scenes = [scene for scene in scenes if scene.dimension == scenes[0].dimension]
    part = [len(s.t) > 1 and float(s.t[-1]) != float(one.t[-1]) for s, one in zip(scenes, shown, strict=False)]
    return drawn(scenes) | {"part": part}


def drawn(scenes: Sequence[Scene]) -> dict[str, Any]:
    """Drawings side by side."""
    boxes = [scene.box for scene in scenes]
    first = scenes[0]
    low, high = np.min([b[0] for b in boxes], axis=0), np.max([b[1] for b in boxes], axis=0)
    return {
        "dimension": first.dimension, "equal": all(scene.equal for scene in scenes),
        "axes": list(first.axes[: first.dimension]),
        "box": [low.tolist(), high.tolist()],
        "part": [],
        "scenes": [{"t": packed(scene.t), "shapes": [_shape(o) for o in scene.outlines]} for scene in scenes],
    }  # fmt: skip


def _shape(outline: Outline) -> dict[str, Any]:
    return {
        "kind": outline.kind, "points": outline.at.shape[1], "face": outline.face, "trail": outline.trail,
        "fixed": outline.fixed, "at": packed(outline.at),
    }  # fmt: skip


def _panels(shown: Sequence[Shown], groups: Sequence[Sequence[LineGroup]]) -> list[dict[str, Any]]:
    """Of one run a diagram for each group; of several one for each line, so that runs can be compared."""
    count = sum(len(group.lines) for run in groups for group in run) or 1
    columns = int(np.clip(SERIES / (8 * count), 40, 250))
    if len(shown) == 1:
        return [
            _panel(group, [(name, 0, group.t, y) for name, y in group.lines], columns, [ended_at(shown[0])])
            for group in groups[0]
        ]
    found: dict[str, tuple[LineGroup, list]] = {}
    for run, own in enumerate(groups):
        for group in own:
            for name, y in group.lines:
                title = name if name in group.title or group.title == "velocities" else f"{group.title}, {name}"
                key = group.title if len(group.lines) == 1 else title
                found.setdefault(key, (group._replace(title=key), []))[1].append((shown[run].name, run, group.t, y))
    ends = [ended_at(one) for one in shown]
    return [_panel(group._replace(bounds=None, note=""), lines, columns, ends) for group, lines in found.values()]


def _panel(group: LineGroup, lines: list, columns: int, ends: list[float | None]) -> dict[str, Any]:
    series = [_series(name, run, t, np.abs(y) if group.log else y, columns) for name, run, t, y in lines]
    bounds = []
    if group.bounds is not None:
        b = group.bounds
        for i in range(b.lower.shape[1]):
            bounds += [
                _series("", i, np.asarray(b.t), side[:, i], columns)
                for side in (b.lower, b.upper)
                if np.isfinite(side[:, i]).any()
            ]
    marks = sorted({end for end in ends if end is not None})
    return {"title": group.title, "note": group.note, "log": group.log, "series": series, "bounds": bounds, "ends": marks}


def _series(name: str, run: int, t: np.ndarray, y: np.ndarray, columns: int) -> dict[str, Any]:
    kept = envelope(t, y, columns)
    turns = np.count_nonzero(np.diff(np.sign(np.diff(y[kept]))))
    return {"name": name, "run": run, "t": packed(t[kept]), "y": packed(y[kept]), "dense": bool(turns > DENSE)}


def _phases(shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """(q, q̇) of each coordinate."""
    names = shown[0].names
    limit = max(150, PHASE_POINTS // len(shown))
    return [
        {"name": names[i], "curves": [_phase(one, i, limit) for one in shown if i < len(one.names)]}
        for i in range(min(len(names), PHASES))
    ]


def _phase(shown: Shown, i: int, limit: int) -> dict[str, Any]:
    result: Any = shown.result
    t = np.asarray(result.t_velocity if isinstance(result, Path) else result.t)
    v = np.asarray(result.v)[:, i]
    clock = np.sign(shown.t[-1] - shown.t[0]) or 1.0
    q = np.interp(clock * t, clock * shown.t, shown.q[:, i])
    kept = np.arange(t.size)
    if t.size > limit:
        extremes = [f(x) for x in (q, v) for f in (np.nanargmin, np.nanargmax) if np.any(np.isfinite(x))]
        kept = np.unique([*np.linspace(0, t.size - 1, limit).round().astype(int), *extremes])
    return {"t": packed(t[kept]), "x": packed(q[kept]), "y": packed(v[kept]), "dots": bool(t.size > 4 * limit)}


def _ending(shown: Shown) -> dict[str, Any]:
    """How it ended, in words, and what the solver did, in numbers."""
    result = shown.result
    outcome = Outcome(int(result.code))
    messages = result.messages if isinstance(result, CriticalPoint) else {}
    s: Any = result.statistics
    facts = [("steps", f"{len(shown.t) - 1}" if isinstance(result, CriticalPoint) else f"{result.steps}"),
             ("time", f"{shown.t[0]:g} … {shown.t[-1]:g}")]  # fmt: skip
    if isinstance(result, Path):
        each = int(s.iterations) / max(result.steps, 1)
        facts += [
            ("step h", result.lengths),
            ("Newton iterations", f"{int(s.iterations)} in all, {each:.1f} per step, at most {int(s.max_iterations)}"),
            ("largest scaled residual", f"{float(s.residual):.1e}"),
            ("root crossings (branch switches)", f"{int(s.crossings)}"),
        ]
        if outcome.failed:
            facts.append(
                (
                    "ended at",
                    f"step {int(s.failed_step)}, t = {float(s.failed_time):g}, residual {float(s.failed_residual):.1e}",
                )
            )
    else:
        name, value = result.value
        facts += [
            (name, f"{value:.10g}"), ("kind", result.kind),
            ("iterations", f"{int(s.iterations)}"), ("factorizations", f"{int(s.factorizations)}"),
            ("restorations", f"{int(s.restorations)}"),
            ("last update", f"{float(s.update):.1e}"), ("scaled residual", f"{float(s.residual):.1e}"),
            ("violation of the constraints", f"{float(s.violation):.1e}"), ("condition", f"{float(s.condition):.1e}"),
        ]  # fmt: skip
        for x, bounds in result.bounds.items():
            facts.append((f"bounds on {x}", f"{np.count_nonzero(bounds.active)} active"))
    return {
        "outcome": outcome.name.lower().replace("_", " "), "good": not outcome.failed,
        "message": messages.get(outcome, outcome.message), "facts": facts,
    }  # fmt: skip


def _parameters_of(shown: Sequence[Shown]) -> list[tuple[str, str]]:
    """Of several results each value once, with the names of those that have it."""
    if len(shown) == 1:
        return _parameters(shown[0])
    found: dict[str, dict[str, list[str]]] = {}
    for one in shown:
        for name, value in _parameters(one):
            found.setdefault(name, {}).setdefault(value, []).append(one.name)
    return [(name, _by_runs(values, len(shown))) for name, values in found.items()]


def _by_runs(values: dict[str, list[str]], count: int) -> str:
    """A value that all have, or each with the names of its runs."""
    if len(values) == 1 and len(next(iter(values.values()))) == count:
        return next(iter(values))
    return "\n".join(f"{', '.join(runs)}: {value}" for value, runs in values.items())


def _parameters(shown: Shown) -> list[tuple[str, str]]:
    """Names and values: those of the problem, or of the record."""
    record = getattr(shown.result, "provenance", None)
    values = getattr(shown.problem, "parameters", None)
    if values is None and record is not None:
        values = json.loads(record.parameters)
    if values is None:
        return []
    if not isinstance(values, dict):
        values = {"parameters": values}
    return [(str(name), _value(x)) for name, x in values.items()]


def _value(x: Any) -> str:
    try:
        numbers = np.ravel(np.asarray(x))
        shown = " ".join(f"{y:.8g}" if numbers.dtype.kind == "f" else str(y) for y in numbers[:12])
    except (ValueError, TypeError):
        return str(x)[:200]
    return shown + (f" … ({numbers.size} numbers)" if numbers.size > 12 else "")


def _record(shown: Shown, command: str) -> list[tuple[str, str]]:
    """How to run it again."""
    record = getattr(shown.result, "provenance", None)
    found = [("command", command)] if command else []
    if record is None:
        own = shown.problem.texts() if shown.problem is not None else {}
        words = {"functions": "system", "source": "source", "SHA-256 of the source": "source_hash"}
        found += [(word, own[name]) for word, name in words.items() if name in own]
        return [*found, ("scheme", shown.result.scheme)] if isinstance(shown.result, CriticalPoint) else found
    words = {
        "functions": record.system, "source": record.source, "SHA-256 of the source": record.source_hash,
        "scheme": record.scheme, "starter": record.starter, "branch": record.branch, "arguments": record.run,
        "versions": record.versions,
    }  # fmt: skip
    return [*found, *((name, text) for name, text in words.items() if text)]
