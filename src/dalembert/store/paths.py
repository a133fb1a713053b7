"""A path as a labelled data set, with everything needed to run it again.

Dimensions: `time`, that of the nodes, and `time_mid`, `time_interior`, `time_held` of the other levels; `coordinate` with
the names of q; `multiplier`; `lane` in front for the paths of a vmapped run. The times are the coordinate of the dimension
for one path; for several, whose times differ where runs ended early, they are `t`, `t_mid`, … over (lane, dimension).

Before it stand the variables that data sets of several kinds have, the value of a reducer and a drawing, and the checks of
all. Every fault is a ValueError: the variable, what was found, what would be right.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dalembert.drawing import KINDS, Depicted, Outline, Scene, scene_of
from dalembert.groups import space_of_columns
from dalembert.outcome import Outcome
from dalembert.path import ClosedLoop, Path, Provenance, Statistics, tree_of_values
from dalembert.solution import CriticalPoint
from dalembert.systems import is_traced

if TYPE_CHECKING:
    import xarray


FORMAT = 2  # the first one called the dimensions of times by their levels
FIRST_NAMES = {"node": "time", "mid": "time_mid", "interior": "time_interior", "held": "time_held"}
FIRST_NAMES_OF_SOLUTIONS = {
    "node": "time", "window": "time_mid", "v_place": "time_v", "inequalities_place": "time_inequalities",
}  # fmt: skip
CODES = {"flag_values": np.array([int(o) for o in Outcome]), "flag_meanings": " ".join(o.name.lower() for o in Outcome)}
REAL, WHOLE = "real numbers of 64 bits", "whole numbers"


def dimension_of(level: str) -> str:
    """The dimension of the times of a level."""
    return "time" if level == "node" else f"time_{level}"


def times_on(dimension: str) -> str:
    """The variable with the times, where they differ from run to run."""
    return "t" + dimension.removeprefix("time")


def times_label(dimension: str) -> str:
    """What a figure writes at the axis of these times."""
    return dimension.replace("_", ", ")


def names_now(names: Iterable[str], content: str | None) -> dict[str, str]:
    """What has another name now among the names of a data set of format 1."""
    first = FIRST_NAMES_OF_SOLUTIONS if content and "solution" in content else FIRST_NAMES
    first = first | ({"sample": "time_sample"} if content == LOOP_CONTENT else {})
    whole = re.compile(rf"(last_|t_|)({'|'.join(first)})(_velocity|_multipliers|_feedback|)")
    found = {name: match.groups() for name in names if (match := whole.fullmatch(name))}
    now = {name: (front, first[level] + apart) for name, (front, level, apart) in found.items()}
    return {name: times_on(x) if front == "t_" else front + x for name, (front, x) in now.items()}


def in_this_format(data: xarray.Dataset) -> xarray.Dataset:
    """The data set with the names of today; ValueError where it is none of ours, of a format that this version reads."""
    version = data.attrs.get("dalembert_format")
    if version is None:
        raise ValueError("data: is not a dalembert path: the attribute dalembert_format is missing")
    if not isinstance(version, int | np.integer) or version < 1:
        raise ValueError(f"data: the attribute dalembert_format is {version!r}; formats are numbered from 1")
    if version > FORMAT:
        raise ValueError(f"data: written in format {int(version)}, this dalembert reads up to {FORMAT}; update it")
    if version == FORMAT:
        return data
    names = names_now(map(str, {*data.variables, *data.dims}), data.attrs.get("content"))
    return data.rename(names).assign_attrs(dalembert_format=FORMAT)


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
    """ValueError where a variable is missing, or has other dimensions or another kind, REAL or WHOLE; or where a code is
    none of the outcomes."""
    for name, (dimensions, kind) in layout.items():
        found = variable(data, name)
        if found.dims != dimensions:
            raise ValueError(
                f"data: {name} has the dimensions {_dimension_text(found.dims)}; {_dimension_text(dimensions)} is right"
            )
        if not (found.dtype == np.float64 if kind is REAL else found.dtype.kind in "iu"):
            raise ValueError(f"data: {name} holds {found.dtype}; {kind} are right")
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
        return tree_of_values(json.loads(text), lambda i: np.asarray(leaves[f"reduced_{i}"]))
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


LENGTH, TIME = "coordinate unit", "time unit"
FORCE = "unit of the Lagrangian / coordinate unit"
# The other scalars are real.
COUNTED = (
    "steps_done", "code", "iterations", "max_iterations", "crossings", "turns", "leaps", "failed_step", "plan_codes",
)  # fmt: skip
LATER = ("turns", "leaps")  # statistics that files of earlier versions have no number of
# variable: (field of its times, last axis, long_name, units)
VARIABLES = {
    "q": ("t", "coordinate", "position", LENGTH),
    "v": ("t_velocity", "coordinate", "velocity", f"{LENGTH} / {TIME}"),
    "multipliers": ("t_multipliers", "multiplier", "multiplier λ of d/dt L_v - L_q = f + Rᵀλ", f"{FORCE} / unit of R"),
    "constraint_forces": ("t_multipliers", "coordinate", "constraint force Rᵀλ", FORCE),
    "feedback": ("t_feedback", "coordinate", "held force of the sampled feedback law", FORCE),
}
Table = dict[str, tuple[tuple[str, ...], str, str]]  # variable: (dimensions, long_name, units)
SCALARS: Table = {
    "h": ((), "step", TIME),
    "steps_done": ((), "number of steps that were solved", "1"),
    "code": ((), "how the run ended", "1"),
}
LOOP_CONTENT = "closed loop"
LOOP: Table = {  # of a ClosedLoop, the last four where they are there
    "u": (("time_sample", "control"), "control, held until the next", "unit of the control"),
    "planned": (("time", "coordinate"), "position in the controller's plan", LENGTH),
    "plan_codes": (("time_sample",), "how the plan of a control ended", "1"),
    "disturbance": (("step", "coordinate"), "generalised force of the disturbance over a step", FORCE),
    "noise": (("time_sample", "state"), "error of the measured (q, v)", "unit of q or v"),
}
VARYING: Table = {"h_last": ((), "last step, to all its digits", TIME)}  # only where steps vary in length
STATISTICS: Table = {
    "iterations": ((), "Newton iterations, total", "1"),
    "max_iterations": ((), "Newton iterations, largest number in one step", "1"),
    "residual": ((), "largest row-scaled residual at the end of a step", "1"),
    "crossings": ((), "number of times two roots of a step crossed", "1"),
    "turns": ((), "number of steps in which the velocity turned by more than a right angle, -1 if not counted", "1"),
    "leaps": (
        (),
        "number of steps near which the equations may be singular, or too long for the motion, -1 if not counted",
        "1",
    ),
    "failed_step": ((), "step that could not be solved, -1 if there is none", "1"),
    "failed_time": ((), "time of the step that could not be solved", TIME),
    "failed_residual": ((), "row-scaled residual of the step that could not be solved", "1"),
}
OPTIONAL = (*LATER, *VARYING, *list(LOOP)[1:])


def path_to_xarray(path: Path) -> xarray.Dataset:
    """The path as a Dataset: q(time, coordinate), v, multipliers and forces on their own levels, with labels and units. A
    path without multipliers has no forces: none are stored.

    `data.q.sel(coordinate="x")` is a labelled series over its times. Statistics, step and outcome are scalar variables;
    outcome, levels and the whole Provenance are attributes. Raises TypeError for what is no Path, ValueError for a
    traced path.
    """
    import xarray as xr

    _check_path(path)
    lanes = _lanes(np.ndim(path.code))
    dimension = _dimensions(path)
    variables: dict[str, Any] = {}
    on_group = space_of_columns(path.coordinates) is not None
    free = not np.shape(path.multipliers)[-1] and not np.any(path.constraint_forces)
    for name, (times, axis, long_name, units) in VARIABLES.items():
        if getattr(path, name) is not None and not (free and name == "constraint_forces"):
            labels = {"long_name": long_name, "units": units}
            variables[name] = ((*lanes, dimension[times], axis_of(name, axis, on_group)), numbers_of(path, name), labels)
    for owner, table in ((path, SCALARS | VARYING | LOOP), (path.statistics, STATISTICS)):
        for name, (axes, long_name, units) in table.items():
            if getattr(owner, name, None) is not None:
                labels = {"long_name": long_name, "units": units}
                variables[name] = ((*lanes, *axes_of(name, axes, on_group)), numbers_of(owner, name), labels)
    variables["code"][2].update(CODES)
    tree, leaves = reduced_to_variables(path.reduced, "value of the reducer over all steps")
    subject = path.provenance.subject if path.provenance is not None else None
    drawing, described = drawing_to_variables(subject, numbers_of(path, "t"), numbers_of(path, "q"))
    attributes = _attributes(path) | {"reduced": tree} | described
    coordinates = _coordinate_arrays(path, lanes, dimension)
    taken = variables.keys() | leaves.keys() | coordinates.keys() | set(dimension.values())
    return xr.Dataset(variables | leaves | drawing, coordinates | _of_runs(path, lanes, taken), attributes)


def axis_of(name: str, axis: str, on_group: bool) -> str:
    """The last axis of a variable: on a group velocities and forces have another one than the stored numbers of q."""
    return "velocity" if on_group and axis == "coordinate" and name not in ("q", "planned") else axis


def axes_of(name: str, axes: tuple[str, ...], on_group: bool) -> tuple[str, ...]:
    """The axes of a variable, see `axis_of`."""
    return tuple(axis_of(name, axis, on_group) for axis in axes)


def _of_runs(path: Path, lanes: tuple[str, ...], taken: Set[str]) -> dict[str, Any]:
    """Labels of the runs of an ensemble: their own parameters, where these are known, and the states at which they began."""
    subject = path.provenance.subject if path.provenance is not None else None
    if len(lanes) != 1 or subject is None:
        return {}
    found: dict[str, Any] = {"q0": ((*lanes, "coordinate"), numbers_of(path, "q")[:, 0], {"long_name": "first position"})}
    if path.levels[0] == "node":
        axis = axis_of("v", "coordinate", space_of_columns(path.coordinates) is not None)
        found["v0"] = ((*lanes, axis), numbers_of(path, "v")[:, 0], {"long_name": "first velocity"})
    for name, values in (subject.parameters or {}).items():
        label = name if name not in taken | found.keys() else f"parameter_{name}"
        axes = tuple(f"{label}_{i}" for i in range(np.ndim(values) - 1))
        found[label] = ((*lanes, *axes), np.asarray(values), {"long_name": f"parameter {name} of the run"})
    return found


def numbers_of(owner: Path | Statistics, name: str) -> np.ndarray:
    """A field as an array of NumPy that nobody can write to, without a copy."""
    found = np.asarray(getattr(owner, name)).view()
    found.flags.writeable = False
    return found


def path_from_xarray(data: xarray.Dataset) -> Path:
    """The Path that `path_to_xarray` was given, bit for bit; ValueError naming what is missing or malformed."""
    layout = check_path(data)
    fields: dict[str, Any] = {
        name: np.array(data[name].values) for name in (*VARIABLES, *SCALARS, *VARYING, *LOOP) if name in layout
    }
    lanes = np.ndim(fields["code"])
    for name, (times, *_) in VARIABLES.items():
        if name in layout:
            dimension = str(data[name].dims[-2])
            fields[times] = np.array(data[times_on(dimension) if lanes else dimension].values)
    if "constraint_forces" not in layout:
        fields["constraint_forces"] = np.zeros((*fields["multipliers"].shape[:-1], fields["v"].shape[-1]))
    uncounted = np.full(np.shape(fields["code"]), -1)
    statistics = {name: np.array(data[name].values) if name in data else uncounted for name in STATISTICS}
    kind, own = (ClosedLoop, {"t_u": data["time_sample"].values}) if "u" in layout else (Path, {})
    return kind(
        **fields,
        **own,
        statistics=Statistics(**statistics),
        reduced=reduced_from_xarray(data),
        levels=(attribute(data, "level_of_velocities"), attribute(data, "level_of_multipliers")),
        provenance=_provenance(data),
    )


def check_path(data: xarray.Dataset) -> dict[str, tuple[tuple[str, ...], str]]:
    """The dimensions and kind of the variables of a path; ValueError naming what is wrong."""
    layout = _layout(data)
    check_variables(data, layout)
    _check_lengths(data, layout)
    return layout


def _layout(data: xarray.Dataset) -> dict[str, tuple[tuple[str, ...], str]]:
    """Dimensions and kind that every variable of a path has, the times of the levels among them."""
    lanes = _lanes(len(variable(data, "code").dims))
    wanted = levels_of((attribute(data, "level_of_velocities"), attribute(data, "level_of_multipliers")))
    found = {}
    for name, (times, axis, *_) in VARIABLES.items():
        axis = axis_of(name, axis, "velocity" in data.sizes)
        if name in data or not may_lack(data, name):
            dimensions = variable(data, name).dims
            other = apart(wanted[times], times)  # the name of a level whose times are not those of its namesake
            level = other if other in dimensions else wanted[times]
            found[name] = ((*lanes, level, axis), REAL)
            found[times_on(level) if lanes else level] = ((*lanes, level), REAL)
    own = SCALARS | VARYING | STATISTICS
    if data.attrs.get("content") == LOOP_CONTENT:
        own, found["time_sample"] = own | LOOP, (("time_sample",), REAL)
    return found | {
        name: ((*lanes, *axes_of(name, axes, "velocity" in data.sizes)), WHOLE if name in COUNTED else REAL)
        for name, (axes, *_) in own.items()
        if name in data or name not in OPTIONAL
    }


def may_lack(data: xarray.Dataset, name: str) -> bool:
    """True for a variable that is stored only where there is something: held forces, and those of constraints."""
    return name == "feedback" or (name == "constraint_forces" and data.sizes.get("multiplier") == 0)


def _check_lengths(data: xarray.Dataset, layout: dict[str, tuple[tuple[str, ...], str]]) -> None:
    """Velocities are at the nodes or between them, and no level has more times than the nodes."""
    nodes = data["q"].shape[-2]
    for name in VARIABLES:
        count = data[name].shape[-2] if name in layout else 0
        if count > nodes or (name == "v" and count < nodes - 1):
            raise ValueError(f"data: {name} has {count} times and q has {nodes}; the rows of a path belong together")


def _check_path(path: object) -> None:
    if not isinstance(path, Path):
        raise TypeError(f"path: found {type(path).__name__}; give the Path that simulate returned")
    if is_traced(path):
        raise ValueError("path: is traced and has no values yet; return it from the jitted function, then store it")


def _lanes(count: int) -> tuple[str, ...]:
    return tuple("lane" if i == 0 else f"lane_{i}" for i in range(count))


def levels_of(levels: tuple[str, str]) -> dict[str, str]:
    """The dimension that each field of times lies on, where those of no two levels differ."""
    fields = {"t": "node", "t_velocity": levels[0], "t_multipliers": levels[1], "t_feedback": "held"}
    return {field: dimension_of(level) for field, level in fields.items()}


def apart(level: str, field: str) -> str:
    """Its name where the times of a field are not those of their level."""
    return f"{level}_{field.removeprefix('t_')}"


def _dimensions(path: Path) -> dict[str, str]:
    """Which dimension each field of times lies on; equal names need equal times, so that levels are never mixed."""
    wanted = levels_of(path.levels)
    taken: dict[str, np.ndarray] = {}
    for field, level in wanted.items():
        times = np.zeros(0) if getattr(path, field) is None else numbers_of(path, field)
        if level in taken and not np.array_equal(taken[level], times):
            level = wanted[field] = apart(level, field)
        taken[level] = times
    return wanted


def _coordinate_arrays(path: Path, lanes: tuple[str, ...], dimension: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, level in dimension.items():
        if getattr(path, field) is not None:
            labels = {"long_name": times_label(level), "units": TIME, "axis": "T"}
            found[times_on(level) if lanes else level] = ((*lanes, level), numbers_of(path, field), labels)
    found |= coordinate_variables(path)
    if isinstance(path, ClosedLoop):
        labels = {"long_name": "time from which a control acts", "units": TIME, "axis": "T"}
        found["time_sample"] = ("time_sample", path.t_u, labels)
    count = np.shape(path.multipliers)[-1]
    found["multiplier"] = ("multiplier", np.arange(count), {"long_name": "index of the multiplier"})
    return found


def coordinate_variables(result: Path | CriticalPoint) -> dict[str, tuple[str, list[str], dict[str, str]]]:
    """The names as coordinates of a data set; on groups those of the velocities too."""
    labels = {"long_name": "name of the generalised coordinate"}
    found: dict[str, Any] = {"coordinate": ("coordinate", coordinate_names(result), labels)}
    if (space := space_of_columns(result.coordinates)) is not None:
        labels = {"long_name": "name of the velocity, in the body's axes"}
        found["velocity"] = "velocity", list(space.axes), labels
    return found


def coordinate_names(path: Path | CriticalPoint) -> list[str]:
    """The names of q given with the system, or q0, q1, …"""
    return list(path.coordinates) or [f"q{i}" for i in range(np.shape(path.q)[-1])]


def _attributes(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"dalembert_format": FORMAT, "title": "discrete trajectory computed by dalembert"}
    found |= {"level_of_velocities": path.levels[0], "level_of_multipliers": path.levels[1]}
    if isinstance(path, ClosedLoop):
        found |= {"title": "closed loop computed by dalembert", "content": LOOP_CONTENT}
    if np.ndim(path.code) == 0:
        outcome = Outcome(int(path.code))
        found |= {"outcome": outcome.name.lower(), "outcome_code": int(outcome), "outcome_message": outcome.message}
    if path.provenance is not None:
        found |= provenance_attributes(path.provenance)
    return found


def provenance_attributes(record: Provenance) -> dict[str, str]:
    """The record of a call as attributes."""
    return {attribute_name(field.name): stored_text(getattr(record, field.name)) for field in dataclasses.fields(record)}


def attribute_name(field: str) -> str:
    """A file-wide attribute named `coordinates` has a meaning of its own in NetCDF."""
    return "coordinate_names" if field == "coordinates" else field


def stored_text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _provenance(data: xarray.Dataset) -> Provenance | None:
    if "source_hash" not in data.attrs:
        return None
    texts = {f.name: attribute(data, attribute_name(f.name)) for f in dataclasses.fields(Provenance)}
    record = Provenance(**{**texts, "coordinates": stored_names(texts["coordinates"])})
    subject = subject_from_xarray(data)
    return record if subject is None else record.of(subject)


def stored_names(text: str) -> tuple[str, ...]:
    """The names of coordinates from the attribute that holds them."""
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"data: the attribute coordinate_names is {text!r}; a list of names is right")
    return tuple(names)
