"""A study of solutions as a labelled data set: the variables of a solution, each with the axes of the study in front.

Where all have the same times these stand once, `node`, `window`; where the final time is swept or free they are variables
over the axes, `t_node`, `t_window`. Of a problem that is not solved only what was given, its outcome and the statistics of
the solver are there: the path it had come to is no solution, and is NaN.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path.study import SweptName, swept_text
from dalembert.solution import CriticalPoint
from dalembert.store.checks import REAL, attribute, check_outcomes, check_variables, variable
from dalembert.store.reduced import flatten, reduced_from_xarray
from dalembert.store.solutions import (
    CONTENTS,
    COUNTED,
    STATISTICS,
    solution_from_xarray,
    solution_layout,
    solution_to_xarray,
)
from dalembert.store.studies.names import check_names

if TYPE_CHECKING:
    import xarray

CONTENT = "study of solutions"
RUN = "run"  # the axis of solutions before they are placed on those of the study
OF_ONE = ("kind", "outcome", "description")  # attributes of a solution that differ within a study
NOTHING = json.dumps(flatten(None)[0])  # of which nothing is reduced
FOUND = "t_"  # beginning of the names of times that differ


def row_of(solution: CriticalPoint, reduced: Any, moving: bool) -> xarray.Dataset:
    """One solution. reduced: what is kept besides; moving: whether times differ from one to the other."""
    import xarray as xr

    plain = solution_to_xarray(dataclasses.replace(solution, subject=None))  # type: ignore[call-arg]
    variables = {str(name): x.variable for name, x in plain.data_vars.items()}
    levels = {str(name): x.variable for name, x in plain.coords.items() if name != "coordinate"}
    variables |= {f"{FOUND}{name}": x.to_base_variable() for name, x in levels.items() if moving}
    tree, leaves = flatten(reduced)
    for i, leaf in enumerate(leaves):
        axes = tuple(f"reduced_{i}_{j}" for j in range(leaf.ndim))
        variables[f"reduced_{i}"] = xr.Variable(axes, leaf.astype(float), {"long_name": "value of reduce of a solution"})
    if solution.outcome is not Outcome.SUCCESS:
        free = solution.final_time is not None
        variables = {name: x if _told(name, free) else xr.full_like(x, _nothing(x.dtype)) for name, x in variables.items()}
    attributes = {name: x for name, x in plain.attrs.items() if name not in OF_ONE}
    of = {"content": CONTENT, "of": plain.attrs["content"], "reduced": json.dumps(tree)}
    kept = {"coordinate": plain["coordinate"].variable} | ({} if moving else levels)
    return xr.Dataset(variables, kept, attributes | of)


def _told(name: str, free: bool) -> bool:
    """Whether it is known of a problem that is not solved."""
    given = name.endswith(("_lower", "_upper")) or name == "T_guess"
    return given or name in (*STATISTICS, "code") or (name.startswith(FOUND) and not free)


def _nothing(kind: np.dtype) -> Any:
    return np.nan if kind.kind == "f" else -1 if kind.kind == "i" else 0


def unsolved_row(template: xarray.Dataset, outcome: Outcome) -> xarray.Dataset:
    """Of a problem that could not even be begun. template: of `stacked`."""
    import xarray as xr

    one = template.isel({RUN: 0})
    blank = {str(name): xr.full_like(x.variable, _nothing(x.dtype)) for name, x in one.data_vars.items()}
    counted = {name: xr.zeros_like(blank[name]) for name in COUNTED if name in STATISTICS}
    return xr.Dataset(blank | counted | {"code": xr.full_like(blank["code"], int(outcome))}, one.coords, one.attrs)


def stacked(rows: Sequence[xarray.Dataset]) -> xarray.Dataset:
    """Solutions over the axis `run`."""
    import xarray as xr

    first = rows[0]
    variables = {
        str(name): ((RUN, *x.dims), np.stack([row[name].values for row in rows]), x.attrs)
        for name, x in first.data_vars.items()
    }
    variables["code"][2].update(
        flag_values=np.array([int(o) for o in Outcome]), flag_meanings=" ".join(o.name.lower() for o in Outcome)
    )
    return xr.Dataset(variables, first.coords, first.attrs)


def placed(data: xarray.Dataset, labels: Mapping[str, Any], shape: Mapping[str, int]) -> xarray.Dataset:
    """What lies over the axis `run` over named axes, the last running fastest. labels: coordinates of these."""
    import xarray as xr

    sizes = tuple(shape.values())
    variables = {
        str(name): ((*shape, *x.dims[1:]), x.values.reshape(*sizes, *x.shape[1:]), x.attrs)
        for name, x in data.data_vars.items()
    }
    return xr.Dataset(variables, {**labels, **data.coords}, data.attrs)


def named(data: xarray.Dataset, names: Mapping[str, SweptName], record: Mapping[str, Any]) -> xarray.Dataset:
    """With what was swept, and the record of the call."""
    more = {"title": "study computed by dalembert", "swept": swept_text(dict(names))}
    return data.assign_attrs({**more, **record})


def check_solutions(data: xarray.Dataset) -> None:
    """Whether the data set holds a study of solutions; ValueError naming what is wrong."""
    content = attribute(data, "of")
    if content not in CONTENTS:
        raise ValueError(f"data: the attribute of is {content!r}; there are {', '.join(CONTENTS)}")
    axes = tuple(map(str, variable(data, "code").dims))
    layout: dict[str, tuple[tuple[str, ...], str]] = {}
    for name, (dims, kind) in solution_layout(data, content).items():
        level = dims == (name,)
        own, front = (f"{FOUND}{name}", axes) if level and f"{FOUND}{name}" in data else (name, () if level else axes)
        layout[own] = ((*front, *dims), kind)
    check_variables(data, layout)
    check_outcomes(data)
    check_names(data, axes)
    if variable(data, "coordinate").shape != (data.sizes["coordinate"],):
        raise ValueError("data: coordinate holds no name for each coordinate")
    reduced_from_xarray(data)


def solution_of_one(data: xarray.Dataset) -> CriticalPoint:
    """The one solution that is left."""
    import xarray as xr

    content = attribute(data, "of")
    variables = {str(name): x.variable for name, x in data.data_vars.items()}
    levels = [name for name, (dims, kind) in solution_layout(data, content).items() if dims == (name,) and kind is REAL]
    times = {
        name: (name, variables.pop(f"{FOUND}{name}").values) if f"{FOUND}{name}" in variables else data[name].variable
        for name in levels
    }
    return solution_from_xarray(xr.Dataset(variables, times, data.attrs | {"content": content}))
