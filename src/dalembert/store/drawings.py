"""The drawing of a path or a solution in its data set, so that what is loaded can be drawn without its system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.drawing import KINDS, Depicted, Outline, Scene, scene_of
from dalembert.store.checks import attribute

if TYPE_CHECKING:
    import xarray

FRAMES = 1000  # that are kept: more than a picture shows


def drawing_to_variables(subject: Depicted | None, t: Any, q: Any) -> tuple[dict[str, tuple], dict[str, Any]]:
    """Variables drawing_0, drawing_1, … (frame, point, axis), or (point, axis) of what does not move, with the times of the
    frames; and the attribute that says what they are. Nothing of a system without `draw=`, and of several runs."""
    if subject is None or np.ndim(t) != 1 or not np.size(t):
        return {}, {}
    scene = subject.scene
    if subject.problem is not None and not subject.parameters:
        nodes = np.unique(np.linspace(0, len(t) - 1, min(FRAMES, len(t))).round().astype(int))
        scene = scene_of(subject.problem, np.asarray(t)[nodes], np.asarray(q)[nodes])
    if scene is None:
        return {}, {}
    variables: dict[str, tuple] = {"drawing_time": (("frame",), scene.t, {"long_name": "time of a frame of the drawing"})}
    for i, outline in enumerate(scene.outlines):
        axes = (f"drawing_{i}_point", f"drawing_{i}_axis")
        values = outline.at[0] if outline.fixed else outline.at
        long_name = f"points of a {outline.kind}"
        variables[f"drawing_{i}"] = (axes if outline.fixed else ("frame", *axes), values, {"long_name": long_name})
    words = [{"kind": o.kind, "face": o.face, "trail": o.trail} for o in scene.outlines]
    return variables, {"drawing": json.dumps(words)}


def subject_from_xarray(data: xarray.Dataset) -> Depicted | None:
    """The drawing that was stored; ValueError where attribute and variables do not fit."""
    if "drawing" not in data.attrs:
        return None
    text = attribute(data, "drawing")
    try:
        words = json.loads(text)
        outlines = tuple(_outline(word, np.array(data[f"drawing_{i}"].values, dtype=float)) for i, word in enumerate(words))
        t = np.array(data["drawing_time"].values, dtype=float)
        if not outlines or any(len(o.at) not in (1, len(t)) for o in outlines):
            raise ValueError("frames")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"data: the attribute drawing, {text!r:.80}, does not describe the variables drawing_…") from error
    return Depicted(scene=Scene(t, outlines))


def _outline(word: dict[str, Any], at: np.ndarray) -> Outline:
    if word["kind"] not in KINDS or at.ndim not in (2, 3) or at.shape[-1] not in (2, 3):
        raise ValueError("kind or shape")
    return Outline(word["kind"], at[None] if at.ndim == 2 else at, int(word["face"]), bool(word["trail"]))
