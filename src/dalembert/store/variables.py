"""Variables that data sets of several kinds have: the value of a reducer, a drawing; and the checks of all. Every fault is a
ValueError: the variable, what was found, what would be right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.drawing import KINDS, Depicted, Outline, Scene, scene_of
from dalembert.outcome import Outcome
from dalembert.path import tree_of_values

if TYPE_CHECKING:
    import xarray

FORMAT = 1
CODES = {"flag_values": np.array([int(o) for o in Outcome]), "flag_meanings": " ".join(o.name.lower() for o in Outcome)}
REAL, WHOLE = "real numbers of 64 bits", "whole numbers"


def check_format(data: xarray.Dataset) -> None:
    """ValueError where it is no data set of ours, of a format that this version reads."""
    version = data.attrs.get("dalembert_format")
    if version is None:
        raise ValueError("data: is not a dalembert path: the attribute dalembert_format is missing")
    if not isinstance(version, int | np.integer) or version < 1:
        raise ValueError(f"data: the attribute dalembert_format is {version!r}; formats are numbered from 1")
    if version > FORMAT:
        raise ValueError(f"data: written in format {int(version)}, this dalembert reads up to {FORMAT}; update it")


def attribute(data: xarray.Dataset, name: str) -> str:
    """A text that the data set carries."""
    found = data.attrs.get(name)
    if not isinstance(found, str):
        raise ValueError(f"data: the attribute {name} is {'missing' if found is None else found}; text is right")
    return found


def variable(data: xarray.Dataset, name: str) -> Any:
    """A variable or a coordinate; ValueError where there is none of that name."""
    if name not in data.variables:
        raise ValueError(f"data: {name} is missing")
    return data.variables[name]


def check_variables(data: xarray.Dataset, layout: Mapping[str, tuple[tuple[str, ...], str]]) -> None:
    """ValueError where a variable is missing, or has other dimensions or another kind, REAL or WHOLE."""
    for name, (dimensions, kind) in layout.items():
        found = variable(data, name)
        if found.dims != dimensions:
            raise ValueError(
                f"data: {name} has the dimensions {_dimension_text(found.dims)}; {_dimension_text(dimensions)} is right"
            )
        if not (found.dtype == np.float64 if kind is REAL else found.dtype.kind in "iu"):
            raise ValueError(f"data: {name} holds {found.dtype}; {kind} are right")


def check_outcomes(data: xarray.Dataset) -> None:
    """ValueError where a code is none of the outcomes."""
    unknown = sorted(set(np.ravel(data["code"].values).tolist()) - {int(outcome) for outcome in Outcome})
    if unknown:
        raise ValueError(f"data: code holds {unknown[0]}; outcomes are numbered from 0 to {int(max(Outcome))}")


def _dimension_text(dimensions: tuple) -> str:
    return f"({', '.join(map(str, dimensions))})"


def reduced_to_variables(value: Any, about: str, front: tuple[str, ...] = ()) -> tuple[str, dict[str, tuple]]:
    """The tree as JSON, with numbers for its leaves, and the leaves as variables reduced_0, reduced_1, …; front: their first
    axes."""
    tree, leaves = flatten(value)
    axes = [(*front, *(f"reduced_{i}_{j}" for j in range(leaf.ndim - len(front)))) for i, leaf in enumerate(leaves)]
    return json.dumps(tree), {f"reduced_{i}": (axes[i], leaf, {"long_name": about}) for i, leaf in enumerate(leaves)}


def reduced_from_xarray(data: xarray.Dataset) -> Any:
    """The value again; ValueError where tree and variables do not fit."""
    return reduced_value(attribute(data, "reduced"), {str(name): x for name, x in data.variables.items()})


def reduced_value(text: str, leaves: Mapping[str, Any]) -> Any:
    """The value from its tree as JSON and its leaves, reduced_0, reduced_1, …; ValueError where they do not fit."""
    try:
        return tree_of_values(json.loads(text), lambda i: jnp.asarray(np.asarray(leaves[f"reduced_{i}"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"data: the attribute reduced, {text!r:.80}, does not describe the variables reduced_…") from error


def flatten(value: Any) -> tuple[Any, list[np.ndarray]]:
    """The reducer's value as a JSON tree of leaf numbers, and its leaves; other containers than dict, list and tuple
    become dicts of their leaves."""
    leaves: list[np.ndarray] = []

    def visit(node: Any) -> Any:
        if node is None:
            return {"none": None}
        if type(node) is dict and all(isinstance(key, str) for key in node):
            return {"dict": {key: visit(child) for key, child in node.items()}}
        if type(node) in (list, tuple):
            return {type(node).__name__: [visit(child) for child in node]}
        below = jax.tree_util.tree_leaves_with_path(node)
        if len(below) != 1 or below[0][0]:
            return {"dict": {jax.tree_util.keystr(key): visit(leaf) for key, leaf in below}}
        leaves.append(_numeric_array(node))
        return {"leaf": len(leaves) - 1}

    return visit(value), leaves


def _numeric_array(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"path: reduced holds values of type {array.dtype}; real numbers can be stored")
    return array


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
