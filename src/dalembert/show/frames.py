"""A drawing of a result over time: which nodes are drawn, and what stands there."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from dalembert.drawing.scene import Outline, Scene, curve_scene, scene_of
from dalembert.show.results import Shown

FRAMES = 600  # nodes that are drawn; between them a drawing is interpolated
SEEN = 0.12  # part of the picture that a point may move between two frames, in the median, to be followed by the eye
COMPARABLE = 5.0  # ratio of two ranges up to which one unit has the same length along both axes


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
    """Whether ranges fit one scale."""
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
