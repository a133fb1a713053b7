"""The data of a page: drawing, diagrams, phase portraits and tables, thinned so that extremes stay."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Outline, Scene, common_box
from dalembert.groups import space_of_columns
from dalembert.measure import constraint_residual
from dalembert.measure import energy as measured_energy
from dalembert.notebook import NAMED
from dalembert.outcome import Outcome
from dalembert.path import ClosedLoop, Path
from dalembert.show.panels import (
    Panel,
    envelope,
    force_panels,
    panels_of_loop,
    panels_of_solution,
    position_panels,
    velocity_names,
    velocity_panel,
)
from dalembert.show.results import Shown, scene_for
from dalembert.solution import ControlSolution, CriticalPoint
from dalembert.systems import energy as energy_at
from dalembert.systems import holonomic_constraints
from dalembert.tracing import over_rows

ARRAYS = ("t", "x", "y", "at")  # names under which `pack` stands
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def pack(values: Any) -> str:
    """Floats of 32 bits, little endian: seven digits, more than a screen shows."""
    with np.errstate(over="ignore"):
        return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def share_arrays(data: Any) -> Any:
    """The same with every array only once, its number in `arrays` in its place: lines of a diagram share their times."""
    known: dict[str, int] = {}

    def visit(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: visit(x, key) for key, x in value.items()}
        if isinstance(value, list | tuple):
            return [visit(x) for x in value]
        return known.setdefault(value, len(known)) if name in ARRAYS else value

    found = visit(data)
    return {**found, "arrays": list(known)}


def as_json(data: Any) -> str:
    """JSON inside <script>: no text of a user's can end the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, code in _UNSAFE.items():
        text = text.replace(character, code)
    return text


MOST_LINES = 4  # in one diagram
MOST_COORDINATES = 12  # that are drawn


def groups_of(shown: Shown) -> list[Panel]:
    """Positions and velocities, energy, constraints, multipliers, forces, controls: what the result has."""
    result, n = shown.result, len(shown.names)
    places = range(min(n, MOST_COORDINATES))
    size = 1 if len(places) <= 6 else 3
    found = position_panels(result, [places[i : i + size] for i in range(0, len(places), size)])
    if len(places) < n:
        found[0] = found[0]._replace(note=f"the first {len(places)} of {n} coordinates")
    if isinstance(result, Path):
        found += [velocity_panel(result, places), *force_panels(result, range(n), _law(shown))]
        found += [*panels_of_loop(result, places), *_sampled_control(result)]
    else:
        found += panels_of_solution(result, places)[1:]
    found += [panel for panel in (_energy(shown), _residuals(shown)) if panel is not None]
    return [part for group in found if group.t.size and group.lines for part in _split_group(group)]


def _split_group(group: Panel) -> list[Panel]:
    """Several groups in the place of one with too many lines."""
    if len(group.lines) <= MOST_LINES or group.bounds is not None:
        return [group]
    return [group._replace(lines=group.lines[i : i + MOST_LINES]) for i in range(0, len(group.lines), MOST_LINES)]


def _sampled_control(path: Path) -> list[Panel]:
    if path.feedback is None or path.t_feedback is None or isinstance(path, ClosedLoop):
        return []
    names, shown = velocity_names(path, range(path.feedback.shape[1]))
    lines = [(f"on {names[i]}", np.asarray(path.feedback)[:, i]) for i in shown]
    return [Panel("sampled control", np.asarray(path.t_feedback), lines)]


def _law(shown: Shown) -> str:
    """Multipliers of a servo- or Lyapunov constraint are its control law."""
    constraints = getattr(shown.problem, "constraints", ())
    servo = any(getattr(c, "actuated", None) is not None or getattr(c, "reactions", None) is not None for c in constraints)
    return "control law" if servo else ""


def _energy(shown: Shown) -> Panel | None:
    """E - E₀, None where the problem is not known or has no energy."""
    result, problem, t, values = shown.result, shown.problem, shown.t, None
    if isinstance(result, Path) and problem is not None:
        found = _attempt(lambda: measured_energy(problem, result, scheme=shown.subject.scheme))
        t, values = (t, None) if found is None else (np.asarray(found.t), np.asarray(found.values))
    elif isinstance(result, ControlSolution) and problem is not None:
        values = np.asarray(over_rows(energy_at, (shown.q, np.asarray(result.v), t), problem))
    if values is None or not values.size:
        return None
    first = float(values[0])
    drift = float(np.nanmax(np.abs(values - first), initial=0.0))
    return Panel("energy E − E₀", t, [("E − E₀", values - first)], note=f"E₀ = {first:.6g}, largest change {drift:.2g}")


def _residuals(shown: Shown) -> Panel | None:
    """|φ| where the scheme promises φ = 0; None without constraints, or where it cannot be formed."""
    result, problem = shown.result, shown.problem
    if isinstance(result, Path) and getattr(problem, "constraints", ()):
        found = _attempt(lambda: constraint_residual(problem, result, scheme=shown.subject.scheme)) or ()
        kept = [r for r in found if np.asarray(r.values).size]
        if not kept or len({len(r.t) for r in kept}) > 1:
            kept = kept[:1]
        lines = [(r.name.replace("constraints", "φ", 1), np.max(np.abs(np.asarray(r.values)), axis=1)) for r in kept]
        return Panel("constraint residuals |φ|", np.asarray(kept[0].t), lines, log=True) if kept else None
    if not isinstance(result, CriticalPoint) or problem is None:
        return None
    values = np.asarray(over_rows(_position_constraints, (shown.q, shown.t), problem))
    lines = [("φ(q)", np.max(np.abs(values), axis=1))] if values.size else []
    return Panel("constraint residuals |φ|", shown.t, lines, log=True)


def _position_constraints(problem: Any, q, t):
    """φ(q, t)."""
    if hasattr(problem, "holonomic"):
        return holonomic_constraints(problem, q, t)
    found = [c.residual(problem, q, q, q, t) for c in getattr(problem, "constraints", ()) if c.order == 0]
    return jnp.concatenate([jnp.zeros(0), *found])


def _attempt(make: Callable[[], Any]) -> Any:
    """None where this path is not one that can be measured: thinned, or of another form."""
    try:
        return make()
    except (ValueError, TypeError):
        return None


def ended_at(shown: Shown) -> float | None:
    """The time of the step that could not be solved; None also where Ctrl-C ended the run."""
    result = shown.result
    if not isinstance(result, Path) or int(result.statistics.failed_step) < 0:
        return None
    return float(result.statistics.failed_time)


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
        "reproduce": _record_lines(shown[0], command),
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
    return draw_scene(scenes) | {"part": part}


def draw_scene(scenes: Sequence[Scene]) -> dict[str, Any]:
    """Drawings side by side."""
    first, (low, high, equal) = scenes[0], common_box(scenes)
    return {
        "dimension": first.dimension, "equal": equal,
        "axes": list(first.axes[: first.dimension]),
        "box": [low.tolist(), high.tolist()],
        "part": [],
        "scenes": [{"t": pack(scene.t), "shapes": [_shape(o) for o in scene.outlines]} for scene in scenes],
    }  # fmt: skip


def _shape(outline: Outline) -> dict[str, Any]:
    return {
        "kind": outline.kind, "points": outline.at.shape[1], "face": outline.face, "trail": outline.trail,
        "fixed": outline.fixed, "at": pack(outline.at),
    }  # fmt: skip


def _panels(shown: Sequence[Shown], groups: Sequence[Sequence[Panel]]) -> list[dict[str, Any]]:
    """Of one run a diagram for each group; of several one for each line, so that runs can be compared."""
    count = sum(len(group.lines) for run in groups for group in run) or 1
    columns = int(np.clip(SERIES / (8 * count), 40, 250))
    if len(shown) == 1:
        return [
            _panel(group, [(name, 0, group.t, y) for name, y in group.lines], columns, [ended_at(shown[0])])
            for group in groups[0]
        ]
    found: dict[str, tuple[Panel, list]] = {}
    for run, own in enumerate(groups):
        for group in own:
            for name, y in group.lines:
                title = name if name in group.label or group.label == "velocities" else f"{group.label}, {name}"
                key = group.label if len(group.lines) == 1 else title
                found.setdefault(key, (group._replace(label=key), []))[1].append((shown[run].name, run, group.t, y))
    ends = [ended_at(one) for one in shown]
    return [_panel(group._replace(bounds=None, note=""), lines, columns, ends) for group, lines in found.values()]


def _panel(group: Panel, lines: list, columns: int, ends: list[float | None]) -> dict[str, Any]:
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
    return {"title": group.label, "note": group.note, "log": group.log, "series": series, "bounds": bounds, "ends": marks}


def _series(name: str, run: int, t: np.ndarray, y: np.ndarray, columns: int) -> dict[str, Any]:
    kept = envelope(t, y, columns)
    turns = np.count_nonzero(np.diff(np.sign(np.diff(y[kept]))))
    return {"name": name, "run": run, "t": pack(t[kept]), "y": pack(y[kept]), "dense": bool(turns > DENSE)}


def _phases(shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """(q, q̇) of each coordinate; none on a group, where q̇ is no velocity."""
    names = shown[0].names if space_of_columns(shown[0].names) is None else []
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
    return {"t": pack(t[kept]), "x": pack(q[kept]), "y": pack(v[kept]), "dots": bool(t.size > 4 * limit)}


def _ending(shown: Shown) -> dict[str, Any]:
    """The outcome, and the other lines in which the result describes itself."""
    result = shown.result
    outcome = Outcome(int(result.code))
    messages = result.messages if isinstance(result, CriticalPoint) else {}
    lines = [line for line in result.describe().splitlines() if not line.startswith("outcome: ")]
    named = [NAMED.fullmatch(line) for line in lines]
    facts = [(x["name"], x["value"]) if x else ("", line) for line, x in zip(lines, named, strict=True)]
    return {
        "outcome": outcome.name.lower().replace("_", " "), "good": not outcome.failed,
        "message": messages.get(outcome, outcome.message), "facts": facts,
    }  # fmt: skip


def _parameters_of(shown: Sequence[Shown]) -> list[tuple[str, str]]:
    """Of several results each value once, with the names of those that have it."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in shown:
        for name, text in _parameters(one):
            found.setdefault(name, {}).setdefault(text, []).append(one.name)
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
    return [(str(name), _value_text(x)) for name, x in values.items()]


def _value_text(x: Any) -> str:
    try:
        numbers = np.ravel(np.asarray(x))
        shown = " ".join(f"{y:.8g}" if numbers.dtype.kind == "f" else str(y) for y in numbers[:12])
    except (ValueError, TypeError):
        return str(x)[:200]
    return shown + (f" … ({numbers.size} numbers)" if numbers.size > 12 else "")


def _record_lines(shown: Shown, command: str) -> list[tuple[str, str]]:
    """The record with which it can be run again."""
    words = {
        "functions": "system", "source": "source", "SHA-256 of the source": "source_hash", "scheme": "scheme",
        "starter": "starter", "branch": "branch", "arguments": "run", "versions": "versions",
    }  # fmt: skip
    record = getattr(shown.result, "provenance", None)
    if record is not None:
        own = {name: getattr(record, name) for name in words.values()}
    else:
        own = dict(shown.problem.texts()) if shown.problem is not None else {}
        own["scheme"] = getattr(shown.result, "scheme", "")
    found = [(word, own[name]) for word, name in words.items() if own.get(name)]
    return [("command", command), *found] if command else found
