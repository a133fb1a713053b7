"""A path as a labelled data set and as a NetCDF file, with everything needed to run it again.

Dimensions: `node`, `mid`, `interior`, one per time level, and `held` for a sampled feedback; `coordinate` with the names
of q; `multiplier`; `lane` in front for the paths of a vmapped run. A level's own times are its coordinate: the dimension
itself for one path, `t_node`, `t_mid`, … over (lane, level) for several, whose times differ where runs ended early.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.discretize import DiscreteSystem
from dalembert.path import Outcome, Path, Provenance, Statistics
from dalembert.step.provenance import provenance
from dalembert.systems import System, is_traced

if TYPE_CHECKING:
    import xarray

FORMAT = 1
SUFFIXES = (".nc", ".nc4", ".h5")
LENGTH, TIME = "coordinate unit", "time unit"
FORCE = "unit of the Lagrangian / coordinate unit"
# variable: (field of its times, last axis, long_name, units)
VARIABLES = {
    "q": ("t", "coordinate", "position", LENGTH),
    "v": ("t_velocity", "coordinate", "velocity", f"{LENGTH} / {TIME}"),
    "multipliers": ("t_multipliers", "multiplier", "multiplier λ of d/dt L_v - L_q = f + Rᵀλ", f"{FORCE} / unit of R"),
    "constraint_forces": ("t_multipliers", "coordinate", "constraint force Rᵀλ", FORCE),
    "feedback": ("t_feedback", "coordinate", "held force of the sampled feedback law", FORCE),
}
SCALARS = {
    "h": ("step", TIME),
    "steps_done": ("number of steps that were solved", "1"),
    "code": ("how the run ended", "1"),
}
STATISTICS = {
    "iterations": ("Newton iterations, total", "1"),
    "max_iterations": ("Newton iterations, largest number in one step", "1"),
    "residual": ("largest row-scaled residual at the end of a step", "1"),
    "crossings": ("number of times two roots of a step crossed", "1"),
    "failed_step": ("step that could not be solved, -1 if there is none", "1"),
    "failed_time": ("time of the step that could not be solved", TIME),
    "failed_residual": ("row-scaled residual of the step that could not be solved", "1"),
}


def to_xarray(path: Path) -> xarray.Dataset:
    """The path as a Dataset: q(node, coordinate), v, multipliers and forces on their own levels, with labels and units.

    `data.q.sel(coordinate="x")` is a labelled series over its times. Statistics, step and outcome are scalar variables;
    outcome, levels and the whole Provenance are attributes. Raises TypeError for what is no Path, ValueError for a
    traced path.
    """
    import xarray as xr

    _check_path(path)
    lanes = tuple("lane" if i == 0 else f"lane_{i}" for i in range(np.ndim(path.code)))
    dimension = _dimensions(path)
    variables: dict[str, Any] = {}
    for name, (times, axis, long_name, units) in VARIABLES.items():
        if getattr(path, name) is not None:
            labels = {"long_name": long_name, "units": units}
            variables[name] = ((*lanes, dimension[times], axis), np.asarray(getattr(path, name)), labels)
    for owner, table in ((path, SCALARS), (path.statistics, STATISTICS)):
        for name, (long_name, units) in table.items():
            variables[name] = (lanes, np.asarray(getattr(owner, name)), {"long_name": long_name, "units": units})
    variables["code"][2].update(
        flag_values=np.array([int(o) for o in Outcome]), flag_meanings=" ".join(o.name.lower() for o in Outcome)
    )
    tree, leaves = _flatten_reduced(path.reduced)
    for i, leaf in enumerate(leaves):
        axes = tuple(f"reduced_{i}_{j}" for j in range(leaf.ndim))
        variables[f"reduced_{i}"] = (axes, leaf, {"long_name": "value of the reducer over all steps"})
    attributes = _attributes(path) | {"reduced": json.dumps(tree)}
    return xr.Dataset(variables, _coordinates(path, lanes, dimension), attributes)


def from_xarray(data: xarray.Dataset) -> Path:
    """The Path that `to_xarray` was given, bit for bit. ValueError where the data set was not made by dalembert."""
    version = data.attrs.get("dalembert_format")
    if version is None:
        raise ValueError("data: no dalembert path: the attribute dalembert_format is missing")
    if int(version) > FORMAT:
        raise ValueError(f"data: written in format {int(version)}, this dalembert reads up to {FORMAT}; update it")
    fields: dict[str, Any] = {name: jnp.asarray(data[name].values) for name in (*VARIABLES, *SCALARS) if name in data}
    lanes = np.ndim(fields["code"])
    for name, (times, *_) in VARIABLES.items():
        if name in data:
            fields[times] = jnp.asarray(data[_time_name(str(data[name].dims[-2]), lanes)].values)
    return Path(
        **fields,
        statistics=Statistics(**{name: jnp.asarray(data[name].values) for name in STATISTICS}),
        reduced=_rebuild_reduced(json.loads(data.attrs["reduced"]), data),
        levels=(data.attrs["level_of_velocities"], data.attrs["level_of_multipliers"]),
        provenance=_provenance(data.attrs),
    )


def save(path: Path, file: str | os.PathLike) -> None:
    """Write the path to a NetCDF-4 file (.nc), which every NetCDF or HDF5 library can read.

    A file of that name is replaced once the new one is complete. Raises TypeError and ValueError as `to_xarray`,
    ValueError for another ending, FileNotFoundError where the folder does not exist.
    """
    target = _named(file)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"file: the folder {target.parent} does not exist; make it first")
    data = to_xarray(path)
    plain = {str(name): {"_FillValue": None} for name, x in data.variables.items() if x.dtype.kind == "f"}
    partial = target.with_name(target.name + ".part")
    try:
        data.to_netcdf(partial, engine="h5netcdf", encoding=plain)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load(file: str | os.PathLike) -> Path:
    """The path stored by `save`, equal bit for bit, with outcome, statistics and provenance.

    Raises FileNotFoundError, and ValueError for a file that is no NetCDF file or was not written by dalembert.
    """
    import xarray as xr

    source = File(file)
    if not source.is_file():
        raise FileNotFoundError(f"file: {source} does not exist")
    try:
        data = xr.load_dataset(source, engine="h5netcdf", mask_and_scale=False, decode_times=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"file: {source} cannot be read as a NetCDF file ({error})") from error
    try:
        return from_xarray(data)
    except (ValueError, KeyError) as error:
        detail = error.args[0] if isinstance(error, ValueError) else f"{error} is missing"
        raise ValueError(f"file: {source} was not written by dalembert.save ({detail})") from error


def matches(path: Path | str | os.PathLike, system: System | DiscreteSystem) -> bool:
    """Whether the source hash stored with a path (or in a file) is that of this system's functions.

    Compares the source text of Lagrangian, constraints and forces; parameters and captured values are not part of it.
    ValueError where the path carries no provenance, because it was computed under jit, vmap or grad.
    """
    run = path if isinstance(path, Path) else load(path)
    if run.provenance is None:
        raise ValueError("path: carries no provenance (it was computed under jit, vmap or grad), so nothing to compare")
    return run.provenance.source_hash == provenance(system, None, "", None).source_hash


def _check_path(path: object) -> None:
    if not isinstance(path, Path):
        raise TypeError(f"path: found {type(path).__name__}; give the Path that simulate returned")
    if is_traced(path):
        raise ValueError("path: is traced, it has no values yet; return it from the jitted function, then store it")


def _named(file: str | os.PathLike) -> File:
    target = File(file)
    if target.suffix not in SUFFIXES:
        raise ValueError(f"file: found '{target}'; a path is stored as NetCDF, give a name that ends in {SUFFIXES[0]}")
    return target


def _dimensions(path: Path) -> dict[str, str]:
    """Which dimension each field of times lies on; equal names need equal times, so that levels are never mixed."""
    wanted = {"t": "node", "t_velocity": path.levels[0], "t_multipliers": path.levels[1], "t_feedback": "held"}
    taken: dict[str, np.ndarray] = {}
    for field, level in wanted.items():
        times = np.asarray(getattr(path, field)) if getattr(path, field) is not None else np.zeros(0)
        if level in taken and not np.array_equal(taken[level], times):
            level = wanted[field] = f"{level}_{field.removeprefix('t_')}"
        taken[level] = times
    return wanted


def _time_name(dimension: str, lanes: int) -> str:
    return f"t_{dimension}" if lanes else dimension


def _coordinates(path: Path, lanes: tuple[str, ...], dimension: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, level in dimension.items():
        if getattr(path, field) is not None:
            labels = {"long_name": f"time of level {level}", "units": TIME, "axis": "T"}
            found[_time_name(level, len(lanes))] = ((*lanes, level), np.asarray(getattr(path, field)), labels)
    names = coordinate_names(path)
    found["coordinate"] = ("coordinate", names, {"long_name": "name of the generalised coordinate"})
    count = np.shape(path.multipliers)[-1]
    found["multiplier"] = ("multiplier", np.arange(count), {"long_name": "index of the multiplier"})
    return found


def coordinate_names(path: Path) -> list[str]:
    """The names of q given with the system, or q0, q1, …"""
    given = path.provenance.coordinates if path.provenance is not None else ()
    return list(given) or [f"q{i}" for i in range(np.shape(path.q)[-1])]


def _attributes(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"dalembert_format": FORMAT, "title": "discrete trajectory computed by dalembert"}
    found |= {"level_of_velocities": path.levels[0], "level_of_multipliers": path.levels[1]}
    if np.ndim(path.code) == 0:
        outcome = Outcome(int(path.code))
        found |= {"outcome": outcome.name.lower(), "outcome_code": int(outcome), "outcome_message": outcome.message}
    if path.provenance is not None:
        found |= {_attribute(name): _text(value) for name, value in vars(path.provenance).items()}
    return found


def _attribute(field: str) -> str:
    """A file-wide attribute named `coordinates` has a meaning of its own in NetCDF."""
    return "coordinate_names" if field == "coordinates" else field


def _text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _provenance(attributes: dict[Any, Any]) -> Provenance | None:
    if "source_hash" not in attributes:
        return None
    texts = {f.name: str(attributes[_attribute(f.name)]) for f in dataclasses.fields(Provenance)}
    return Provenance(**{**texts, "coordinates": tuple(json.loads(texts["coordinates"]))})


def _flatten_reduced(value: Any) -> tuple[Any, list[np.ndarray]]:
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
        leaves.append(_numbers(node))
        return {"leaf": len(leaves) - 1}

    return visit(value), leaves


def _numbers(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"path: reduced holds values of type {array.dtype}; real numbers can be stored")
    return array


def _rebuild_reduced(tree: dict[str, Any], data: xarray.Dataset) -> Any:
    (kind, content), *_ = tree.items()
    if kind == "leaf":
        return jnp.asarray(data[f"reduced_{content}"].values)
    if kind == "dict":
        return {key: _rebuild_reduced(child, data) for key, child in content.items()}
    children: Iterator[Any] = (_rebuild_reduced(child, data) for child in content or ())
    return {"none": lambda: None, "list": lambda: list(children), "tuple": lambda: tuple(children)}[kind]()
