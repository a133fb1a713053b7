"""What is swept, as a data set names it: labels that clash with nothing in it, and the record of the one that is left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from dalembert.path.study import swept_names
from dalembert.store.checks import attribute, variable
from dalembert.store.paths import SCALARS, STATISTICS, VARIABLES
from dalembert.store.solutions import BOUNDED, BOUNDS, CONTENTS, FREE_TIME
from dalembert.store.solutions import STATISTICS as SOLVED

if TYPE_CHECKING:
    import xarray


def _every_variable(content: str) -> set[str]:
    """The names of all variables that such a solution may have, and of their dimensions."""
    stored = CONTENTS[content]
    bounds = {f"{x}_{name}" for x in BOUNDED for name in BOUNDS} | {f"T_{name}" for name in FREE_TIME}
    levels = {*stored.times, *(axes[0] for axes in BOUNDED.values())}
    axes = {axis for axes, *_ in stored.variables.values() for axis in axes} | {axes[1] for axes in BOUNDED.values()}
    return {*stored.variables, *SOLVED, *bounds, *axes, *levels, *(f"t_{level}" for level in levels)}


_AXES = ("node", "coordinate", "multiplier", "run", "committed", "block")
# what a swept name cannot be called in a study of runs, and in one of solutions
RUNS = frozenset({*VARIABLES, *SCALARS, *STATISTICS, *_AXES, "nodes_kept", "mid", "interior", "held"})
SOLUTIONS = frozenset({*_AXES, *(name for content in CONTENTS for name in _every_variable(content))})
APART = ("reduced", "last_", "drawing", "node_", "mid_", "interior_", "held_")  # beginnings of names that are taken


def label_of(name: str, taken: frozenset[str] = RUNS) -> str:
    """The coordinate of a swept name: the name, unless the data set needs it; a file has no name with a slash."""
    name = name.replace("/", "_")
    return f"swept_{name}" if name in taken or name.startswith(APART) else name


def check_names(data: xarray.Dataset, axes: tuple[str, ...]) -> None:
    """Whether every swept name has its coordinates."""
    names = swept_names(attribute(data, "swept"))
    for swept in names.values():
        for label in (swept.label, *swept.parts):
            found = variable(data, label)
            if found.dims not in ((), (swept.axis,)) or found.dtype.kind not in "iuf":
                raise ValueError(f"data: {label} has the dimensions {found.dims}; numbers over {swept.axis} are right")
        if int(np.prod(swept.shape)) != len(swept.parts or (1,)):
            raise ValueError(
                f"data: the attribute swept gives {swept.name} the shape {swept.shape}, which does not fit its names"
            )
    if set(axes) - {swept.axis for swept in names.values()}:
        raise ValueError(f"data: code has the dimensions {axes}; those of swept names are right")


def record_of_one(data: xarray.Dataset) -> dict[str, str]:
    """Parameters and arguments of the one run that is left, as its own call would have recorded them."""
    names = swept_names(attribute(data, "swept"))
    own = {name: swept.value(data).tolist() for name, swept in names.items()}
    try:
        run, parameters = (json.loads(attribute(data, name)) for name in ("run", "parameters"))
        run.pop("parameters", None)
        run |= {name: own[name] for name, swept in names.items() if not swept.parameter}
        if isinstance(parameters, dict):
            parameters |= {name: own[name] for name, swept in names.items() if swept.parameter}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("data: the attributes run and parameters are not the record of a call") from error
    return {"run": json.dumps(run), "parameters": json.dumps(parameters)}
