"""A study of solutions as a labelled data set: the variables of a solution, each with the axes of the study in front.

Where all have the same times these stand once, `node`, `window`; where the final time is swept or free they are variables
over the axes, `t_node`, `t_window`. Of a problem that is not solved only what was given, its outcome and the statistics of
the solver are there: the path it had come to is no solution, and is NaN.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path.study import SweptName, swept_text
from dalembert.solution import CriticalPoint
from dalembert.store.checks import REAL, attribute, check_outcomes, check_variables, variable
from dalembert.store.chunked import FILLS
from dalembert.store.paths import coordinate_names
from dalembert.store.reduced import flatten, reduced_from_xarray
from dalembert.store.solutions import (
    CONTENTS,
    COUNTED,
    STATISTICS,
    solution_attributes,
    solution_from_xarray,
    solution_layout,
    solution_variables,
)
from dalembert.store.studies.names import check_names

if TYPE_CHECKING:
    import xarray

CONTENT = "study of solutions"
RUN = "run"  # the axis of solutions before they are placed on those of the study
NOTHING = json.dumps(flatten(None)[0])  # of which nothing is reduced
FOUND = "t_"  # beginning of the names of times that differ


class SolutionRow(NamedTuple):
    """What a study has of one solution. variables: as a Dataset takes them; times: those that are the same for all; reduced:
    tree of what is kept besides."""

    variables: dict[str, tuple]
    times: dict[str, tuple]
    reduced: str


def row_of(solution: CriticalPoint, reduced: Any, moving: bool) -> SolutionRow:
    """Of one solution. reduced: what is kept besides; moving: whether times differ from one to the other."""
    variables, times = solution_variables(solution)
    variables |= {f"{FOUND}{name}": x for name, x in times.items()} if moving else {}
    tree, leaves = flatten(reduced)
    for i, leaf in enumerate(leaves):
        axes = tuple(f"reduced_{i}_{j}" for j in range(leaf.ndim))
        variables[f"reduced_{i}"] = (axes, leaf.astype(float), {"long_name": "value of reduce of a solution"})
    if solution.outcome is not Outcome.SUCCESS:
        free = solution.final_time is not None
        variables = {name: x for name, x in variables.items() if _is_known_unsolved(name, free)}
    return SolutionRow(variables, {} if moving else times, json.dumps(tree))


def _is_known_unsolved(name: str, free: bool) -> bool:
    """Whether it is known of a problem that is not solved."""
    given = name.endswith(("_lower", "_upper")) or name == "T_guess"
    return given or name in (*STATISTICS, "code") or (name.startswith(FOUND) and not free)


def unbegun_row(outcome: Outcome) -> SolutionRow:
    """Of a problem that could not even be begun."""
    counted = {name: ((), np.asarray(0), {}) for name in COUNTED if name in STATISTICS}
    return SolutionRow(counted | {"code": ((), np.asarray(int(outcome)), {})}, {}, NOTHING)


def template_of(solution: CriticalPoint, reduced: Any, moving: bool) -> xarray.Dataset:
    """One solution over the axis `run`, whatever it came to: of all others of its study the variables are the same."""
    import xarray as xr

    solved = dataclasses.replace(solution, code=np.asarray(int(Outcome.SUCCESS)))  # type: ignore[call-arg]
    row = row_of(solved, reduced, moving)
    codes = {"flag_values": np.array([int(o) for o in Outcome]), "flag_meanings": " ".join(o.name.lower() for o in Outcome)}
    row.variables["code"][2].update(codes)
    names = ("coordinate", coordinate_names(solution), {"long_name": "name of the generalised coordinate"})
    variables = {name: ((RUN, *axes), x[None], labels) for name, (axes, x, labels) in row.variables.items()}
    own = solution_attributes(solution)
    attributes = own | {"content": CONTENT, "of": own["content"], "reduced": row.reduced}
    return xr.Dataset(variables, {**row.times, "coordinate": names}, attributes)


def stacked(rows: Sequence[SolutionRow], template: xarray.Dataset) -> xarray.Dataset:
    """Solutions over the axis `run`: what one has not is NaN, -1 of what is counted, and no active bound."""
    variables = {}
    for name, x in ((str(key), x) for key, x in template.data_vars.items()):
        fill = 0 if name.endswith("_active") else FILLS[x.dtype.kind]  # -1 is the lower bound
        values = np.full((len(rows), *x.shape[1:]), fill, x.dtype)
        for i, row in enumerate(rows):
            if name in row.variables:
                values[i] = row.variables[name][1]
        variables[name] = (x.dims, values, x.attrs)
    return template.drop_vars(list(template.data_vars)).assign(variables)


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
        raise ValueError("data: coordinate does not have one name for each coordinate")
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
