"""A study as a labelled data set: arrays over named axes, on times that stand once.

Dimensions: one for each swept name, or `run` where they were taken together; the levels of a path with their times, `node`,
`mid`, `interior`, `held`; `coordinate`, `multiplier`. What a run did not reach is NaN, and `nodes_kept` says how many of the
common times it has. Where a run ended between two saved times the variables `last_…` are each run's last state; and where
steps vary in length the multipliers, at times that differ from run to run, are there alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.path import Path
from dalembert.path.study import SweptName, swept_text
from dalembert.store.checks import REAL, WHOLE, check_outcomes, check_variables, variable
from dalembert.store.paths import (
    COUNTED,
    SCALARS,
    STATISTICS,
    VARIABLES,
    VARYING,
    numbers_of,
    path_from_xarray,
    path_to_xarray,
)  # fmt: skip
from dalembert.store.reduced import flatten, reduced_from_xarray
from dalembert.store.studies.names import check_names, record_of_one

if TYPE_CHECKING:
    import xarray

CONTENT = "study"
OF_A_RUN = (*(name for name in SCALARS if name != "h"), *STATISTICS, "nodes_kept")


def study_to_xarray(
    runs: Path,
    times: np.ndarray,
    names: Mapping[str, SweptName],
    coordinates: Mapping[str, Any],
    shape: Mapping[str, int],
    *,
    last: bool | None = None,
) -> xarray.Dataset:
    """The paths of an ensemble over named axes. times: of the saved nodes of a run that is not ended early; coordinates: by
    label, (axis, values); shape: of the axes, whose product is the number of runs, the last running fastest. last: with the
    variables last_… and all times, whatever became of the runs; None: what these runs need."""
    import xarray as xr

    base, axes, sizes = path_to_xarray(runs), tuple(shape), tuple(shape.values())
    varies = runs.h_last is not None
    last = True if varies else last
    t = numbers_of(runs, "t")
    on = t == times  # in the same arithmetic; a run that has ended repeats its last state and time
    kept = on.sum(axis=1)
    longest, best = int(kept.max()) if last is None else len(times), int(np.argmax(kept))
    variables: dict[str, Any] = {}
    levels: dict[str, Any] = {}
    between = bool(np.any(t[:, -1] != times[kept - 1])) if last is None else last

    def placed(name: str, dimensions: tuple, values: np.ndarray, labels: Mapping[str, Any]) -> None:
        variables[name] = ((*axes, *dimensions), values.reshape(*sizes, *values.shape[1:]), dict(labels))

    for name in VARIABLES:
        if name not in base:
            continue
        (_, level, axis), values, labels = base[name].dims, base[name].values, base[name].attrs
        lead = t.shape[1] - values.shape[1]
        end = 0 if varies and level != "node" else max(longest - lead, 0)
        seen = on[:, lead : lead + end]
        cut = values[:, :end]
        placed(name, (level, axis), cut if seen.all() else np.where(seen[..., None], cut, np.nan), labels)
        moments = base[f"t_{level}"]
        levels[str(level)] = (level, times[:end] if varies else moments.values[best, :end], moments.attrs)
        if between:
            placed(f"last_{name}", (axis,), _last(values), labels)
            placed(f"last_{level}", (), _last(moments.values), moments.attrs)
    for name in (*OF_A_RUN[:-1], *(VARYING if varies else ())):
        placed(name, (), base[name].values, base[name].attrs)
    variables["h"] = ((), base["h"].values[0], base["h"].attrs)
    placed("nodes_kept", (), kept, {"long_name": "number of the common times that a run has", "units": "1"})
    tree, leaves = flatten(runs.reduced)
    for i, leaf in enumerate(leaves):
        own = tuple(f"reduced_{i}_{j}" for j in range(leaf.ndim - 1))
        placed(f"reduced_{i}", own, leaf, {"long_name": "value of the reducer over all steps of a run"})
    kept_names = {name: base[name].variable for name in ("coordinate", "multiplier")}
    more = {"title": "study computed by dalembert", "content": CONTENT, "swept": swept_text(dict(names))}
    attributes = base.attrs | more | {"reduced": json.dumps(tree)}
    return xr.Dataset(variables, {**coordinates, **levels, **kept_names}, attributes)


def _last(rows: np.ndarray) -> np.ndarray:
    """Of each run; NaN where it had no step to make."""
    return rows[:, -1] if rows.shape[1] else np.full((len(rows), *rows.shape[2:]), np.nan)


def check_runs(data: xarray.Dataset) -> None:
    """Whether the data set holds a study of runs; ValueError naming what is wrong."""
    axes = tuple(map(str, variable(data, "code").dims))
    layout: dict[str, tuple[tuple[str, ...], str]] = {
        name: (axes, WHOLE if name in (*COUNTED, "nodes_kept") else REAL)
        for name in (*OF_A_RUN, *(VARYING.keys() & data.keys()))
    }
    layout["h"], layout["node"] = ((), REAL), (("node",), REAL)
    for name, (_, axis, *_) in VARIABLES.items():
        if name in data or name != "feedback":
            dimensions = variable(data, name).dims
            level = "node" if name == "q" or len(dimensions) < 2 else str(dimensions[-2])
            layout[name], layout[level] = ((*axes, level, axis), REAL), ((level,), REAL)
            if f"last_{name}" in data or f"last_{level}" in data:
                layout[f"last_{name}"], layout[f"last_{level}"] = ((*axes, axis), REAL), (axes, REAL)
    check_variables(data, layout)
    check_outcomes(data)
    check_names(data, axes)
    variable(data, "coordinate")
    kept, nodes = data["nodes_kept"].values, data.sizes["node"]
    if kept.size and not (kept.min() >= 1 and kept.max() <= nodes):
        raise ValueError(f"data: nodes_kept is from {kept.min()} to {kept.max()}; a run has from 1 to {nodes} of the times")
    for name in VARIABLES:
        if name in layout and data[name].shape[-2] > nodes:
            raise ValueError(f"data: {name} has {data[name].shape[-2]} times and q has {nodes}; they belong together")
    reduced_from_xarray(data)


def path_of_one(data: xarray.Dataset) -> Path:
    """The one run that is left, as `lane` of an ensemble gives it."""
    import xarray as xr

    kept, nodes = int(data["nodes_kept"]), data.sizes["node"]
    moved = int(data["steps_done"]) > 0  # the rows of a run without any step repeat its beginning
    between = moved and "last_node" in data and float(data["last_node"]) != float(data["node"][kept - 1])

    def ended(values: np.ndarray, last: str) -> np.ndarray:
        own = values[: max(kept - (nodes - len(values)), 0)]
        alone = moved and not len(values)  # at a time of its own in every run
        return np.concatenate([own, data[last].values[None]]) if between or alone else own

    scalars = (*SCALARS, *STATISTICS, *(VARYING.keys() & data.keys()))
    variables: dict[str, Any] = {name: ((), data[name].values) for name in scalars}
    times: dict[str, Any] = {}
    for name in VARIABLES:
        if name in data:
            level = str(data[name].dims[0])
            variables[name] = (data[name].dims, ended(data[name].values, f"last_{name}"))
            times[level] = (level, ended(data[level].values, f"last_{level}"))
    variables |= {str(name): x.variable for name, x in data.data_vars.items() if str(name).startswith("reduced_")}
    return path_from_xarray(xr.Dataset(variables, times, data.attrs | record_of_one(data)))
