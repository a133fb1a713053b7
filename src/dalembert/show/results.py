"""Results that are shown, each with its name and its problem, and their drawings over time."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.drawing import Depicted, Outline, Scene, curve_scene, scene_of
from dalembert.numbers import check_class, described
from dalembert.path import Path, Study
from dalembert.show.panels import names_of
from dalembert.solution import CriticalPoint
from dalembert.systems import Problem, is_traced

FRAMES = 600  # nodes that are drawn; between them a drawing is interpolated
SEEN = 0.12  # part of the picture that a point may move between two frames, in the median, to be followed by the eye
COMPARABLE = 5.0  # ratio of two ranges up to which one unit has the same length along both axes
MOST_RUNS = 12  # of an ensemble or a study: more would hide each other

Result = Path | CriticalPoint


class Shown(NamedTuple):
    """A path or a solution. problem: None where it is not known, as of one that was loaded; subject: as it carries it;
    among: of how many runs of an ensemble or a study it is one."""

    name: str
    result: Result
    problem: Any
    subject: Depicted
    among: int = 1

    @property
    def t(self) -> np.ndarray:
        return np.asarray(self.result.t, dtype=float)

    @property
    def q(self) -> np.ndarray:
        return np.asarray(self.result.q, dtype=float)

    @property
    def names(self) -> list[str]:
        """Of the coordinates."""
        return names_of(self.result)


def named_results(given: Any) -> dict[str, Any]:
    """Results by name: those of a mapping, those of a list by number, or one without a name."""
    if isinstance(given, Mapping) and given:
        return {str(name): one for name, one in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str) and given:
        return {str(i + 1): one for i, one in enumerate(given)}
    return {"": given}


def results_of(given: Any, system: Any = None) -> list[Shown]:
    """One path or solution, an ensemble or a study (its first MOST_RUNS runs), a sequence or a mapping of names to them.

    system: takes the place of the problem that a result carries, such as for a path that was loaded.
    """
    check_class(system, Problem | None, "system", "a System, a DiscreteSystem or a VariationalProblem")
    if isinstance(given, Study):
        return _of_study(given, system)
    if isinstance(given, Mapping | list | tuple) and not given:
        raise ValueError("path: found nothing in it; give at least one Path or Solution")
    for name, result in (named := named_results(given)).items():
        if not isinstance(result, Path | CriticalPoint):
            found = f"item {name} is {described(result)}" if name else f"found {described(result)}"
            raise TypeError(
                f"path: {found}; give a Path, a Solution, a Study, a list of these results or a mapping of names to them"
                + ("; dalembert.load reads what was stored" if isinstance(result, str | os.PathLike) else "")
            )
    return [shown for name, result in named.items() for shown in _show_result(name, result, system)]


def check_values(result: Result, remedy: str) -> None:
    """ValueError for a result that is traced, or a batch, for which there is a remedy."""
    if is_traced(result):
        raise ValueError("path: is traced and has no values yet; return it from the jitted function, then show it")
    if np.ndim(result.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(result.code)}; {remedy}")


def _show_result(name: str, result: Result, system: Any) -> list[Shown]:
    record = getattr(result, "provenance", None)
    subject = getattr(result, "subject", None) or (record.subject if record is not None else None) or Depicted()
    if isinstance(result, Path) and not is_traced(result) and np.ndim(result.code) == 1:
        lanes = range(min(len(result.code), MOST_RUNS))
        prefix = f"{name}, " if name else ""
        count = len(result.code)
        return [Shown(f"{prefix}run {i}", result.lane(i), system or subject.lane(i), subject, count) for i in lanes]
    check_values(result, "show its members one by one, in a list")
    # One lane of an ensemble with parameters of its own does not say which they were.
    return [Shown(name, result, system or (None if subject.parameters else subject.problem), subject)]


def _of_study(study: Study, system: Any) -> list[Shown]:
    """Its first runs, each named by the values that were swept."""
    places = itertools.product(*(range(study.data.sizes[axis]) for axis in study.axes))
    swept = [one for one in study.swept.values() if one.axis in study.axes]
    found = []
    for place, path in itertools.islice(zip(places, study, strict=True), MOST_RUNS):
        at = study.data.isel(dict(zip(study.axes, place, strict=True)))
        name = ", ".join(f"{one.name} = {' '.join(f'{x:.6g}' for x in np.ravel(one.value(at)))}" for one in swept)
        found += [one._replace(among=len(study)) for one in _show_result(name, path, system)]
    return found


def scene_for(shown: Shown, frames: int = FRAMES) -> Scene:
    """The drawing of the system, or that which a file kept, or else the curve of its coordinates.

    A long path of a fast motion is drawn in its first part only, as far as `frames` nodes resolve it.
    """
    t, q = shown.t, shown.q
    if shown.problem is None and shown.subject.scene is not None:
        return shown.subject.scene
    if len(t) <= frames:
        return _scene(shown, t, q)
    first = _scene(shown, t[:frames], q[:frames])
    last = min(len(t) - 1, _nodes_per_frame(first) * (frames - 1))
    nodes = np.unique(np.linspace(0, last, frames).round().astype(int))
    return _scene(shown, t[nodes], q[nodes])


def _scene(shown: Shown, t: np.ndarray, q: np.ndarray) -> Scene:
    found = scene_of(shown.problem, t, q)
    return _curve(shown.names, t, q) if found is None else found


def _curve(names: list[str], t: np.ndarray, q: np.ndarray) -> Scene:
    """Positions named x, y, z in space, two coordinates in the plane, one over time."""
    if q.shape[1] == 1:
        return curve_scene(t, np.stack([t, q[:, 0]], axis=1), ("t", names[0]), False)
    places = [names.index(name) for name in "xyz" if name in names]
    places = places if len(places) > 1 else [0, 1]
    at = q[:, places]
    extent = np.ptp(at[np.all(np.isfinite(at), axis=1)], axis=0) if len(at) else np.ones(len(places))
    positions = "x" in names and "y" in names
    return curve_scene(t, at, [names[i] for i in places], positions or comparable(extent))


def comparable(extent: np.ndarray) -> bool:
    """True if the ranges fit one scale."""
    return bool(np.max(extent) < COMPARABLE * np.min(extent))


def _nodes_per_frame(scene: Scene) -> float:
    """Nodes from one frame to the next in which the median step of what moves stays SEEN."""
    size = float(np.linalg.norm(np.ptp(scene.box, axis=0))) or 1.0
    moving = [np.diff(outline.at, axis=0) for outline in scene.outlines if not outline.fixed]
    if not moving:
        return np.inf
    steps = np.max([np.max(np.linalg.norm(d, axis=2), axis=1) for d in moving], axis=0)
    typical = float(np.median(steps[np.isfinite(steps)])) if np.any(np.isfinite(steps)) else 0.0
    return np.inf if typical == 0.0 else max(1.0, SEEN * size / typical)


def at_times(scene: Scene, times: Float[np.ndarray, "frames"]) -> Scene:
    """The drawing at other times, straight between its own; before and after them it stands still."""
    t = scene.t
    if len(t) < 2:
        return dataclasses.replace(scene, t=times)
    clock = 1.0 if t[-1] >= t[0] else -1.0
    k = np.clip(np.searchsorted(clock * t, clock * times, side="right") - 1, 0, len(t) - 2)
    s = np.clip((times - t[k]) / (t[k + 1] - t[k]), 0.0, 1.0)[:, None, None]
    moved: list[Outline] = []
    for outline in scene.outlines:
        at = outline.at
        moved.append(outline if outline.fixed else outline._replace(at=at[k] + s * (at[k + 1] - at[k])))
    return dataclasses.replace(scene, t=times, outlines=tuple(moved))
