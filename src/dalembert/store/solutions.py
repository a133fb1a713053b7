"""A solution of a boundary problem, or of an optimal control problem, as a labelled data set.

Dimensions: `node` and `window` with their times, `coordinate`, `derivative` of the jets, `momentum` (k of them at an end),
`multiplier` and `holonomic` for the two kinds of constraints. Of a ControlSolution also `control`, `step` and `costate`, the
two gradients at an end. Bounds on q and u are variables such as `u_lower` and `u_active`; those on velocities and path
inequalities have dimensions and times of their own, `v_place` and `inequalities_place`. A free final time has variables
such as `T_slope`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.outcome import Outcome
from dalembert.solution import (
    ActiveBounds,
    BoundaryStatistics,
    ControlSolution,
    CriticalPoint,
    FinalTime,
    Refinement,
    Solution,
)
from dalembert.store.paths import FORCE, LENGTH, TIME, coordinate_names, stored_names, stored_text
from dalembert.store.variables import (
    FORMAT,
    REAL,
    WHOLE,
    attribute,
    check_outcomes,
    check_variables,
    drawing_to_variables,
    subject_from_xarray,
)
from dalembert.systems import is_traced

if TYPE_CHECKING:
    import xarray

SOLVER_COUNTED = (
    "negative_directions",
    "flat_directions",
    "code",
    "iterations",
    "factorizations",
    "restorations",
    "q_active",
    "u_active",
    "T_active",
    "v_active",
    "inequalities_active",
    "refinement_steps",
)
MOMENTA = ("momenta_initial", "momenta_final")  # each is there where the end is given by derivatives
SOLVER_STATISTICS = tuple(field.name for field in dataclasses.fields(BoundaryStatistics))
# variable: (dimensions, long_name, units)
COMMON = {
    "q": (("node", "coordinate"), "position", LENGTH),
    "v": (("node", "coordinate"), "velocity", f"{LENGTH} / {TIME}"),
    "negative_directions": ((), "independent variations that lower what is minimal, -1: not counted", "1"),
    "flat_directions": ((), "independent variations that change it to third order only", "1"),
    "code": ((), "how the iteration ended", "1"),
}
ENDS_ON_SETS = {  # each is there where the end is on a set
    "end_multipliers_initial": (
        ("equation_initial",),
        "multiplier ν of ψ at the first node",
        "unit of what is minimal / unit of ψ",
    ),
    "end_multipliers_final": (
        ("equation_final",),
        "multiplier ν of ψ at the last node",
        "unit of what is minimal / unit of ψ",
    ),
}
VARIABLES = (
    COMMON
    | ENDS_ON_SETS
    | {
        "jets": (("window", "derivative", "coordinate"), "derivatives q⁽ʲ⁾ as the windows see them", f"{LENGTH} / {TIME}ʲ"),
        "multipliers": (("window", "multiplier"), "multiplier λ of the differential constraints", "unit of L / unit of φ"),
        "holonomic_multipliers": (("node", "holonomic"), "multiplier of the holonomic constraints", "unit of L / unit of φ"),
        "momenta_initial": (
            ("momentum", "coordinate"),
            "Ostrogradsky momentum p⁽ʲ⁾ at the first node",
            f"{FORCE} · {TIME}ʲ⁺¹",
        ),
        "momenta_final": (("momentum", "coordinate"), "Ostrogradsky momentum p⁽ʲ⁾ at the last node", f"{FORCE} · {TIME}ʲ⁺¹"),
        "action": ((), "discrete action", f"unit of the Lagrangian · {TIME}"),
    }
)
CONTROLLED = (
    COMMON
    | ENDS_ON_SETS
    | {
        "u": (("node", "control"), "control", "unit of the control"),
        "multipliers": (("node", "multiplier"), "multiplier ν of the plant's constraints", "unit of L / unit of φ"),
        "constraint_forces": (("node", "coordinate"), "force Rᵀν", FORCE),
        "adjoints": (("node", "coordinate"), "adjoint λ of the equations of motion", f"unit of the cost / {FORCE}"),
        "step_multipliers": (("step", "multiplier"), "adjoint η of the plant's constraints", "unit of the cost / unit of φ"),
        "costates_initial": (
            ("costate", "coordinate"),
            "gradient of the cost by q and v at the first node",
            "unit of the cost / …",
        ),
        "costates_final": (
            ("costate", "coordinate"),
            "gradient of the cost by q and v at the last node",
            "unit of the cost / …",
        ),
        "cost": ((), "discrete cost", f"unit of the cost · {TIME}"),
    }
)
# of what has bounds, where there are some; {x}: which of them
BOUNDED = {
    "q": ("node", "coordinate"), "u": ("node", "control"), "v": ("v_place", "coordinate"),
    "inequalities": ("inequalities_place", "inequality"),
}  # fmt: skip
BOUNDS = {
    "lower": (("node",), "lower bound of {x}, infinite where there is none", "unit of {x}"),
    "upper": (("node",), "upper bound of {x}, infinite where there is none", "unit of {x}"),
    "multipliers": (("node",), "multiplier of the bounds on {x}, per time", "unit of what is minimal / unit of {x}"),
    "active": (("node",), "-1 where {x} is at its lower bound, 1 where at its upper one", "1"),
    "values": (("node",), "values of {x}", "unit of {x}"),
    "margin": ((), "smallest max(slack, multiplier) of the bounds on {x}, in units of the solver", "1"),
}

# of a final time that was free
FREE_TIME = {
    "guess": ("final time from which it was sought", TIME),
    "lower": ("least final time", TIME),
    "upper": ("largest final time, infinite where there is no bound", TIME),
    "slope": ("derivative of the optimal value by the final time", f"unit of what is minimal / {TIME}"),
    "active": ("-1 where the final time is at its lower bound, 1 where at its upper one", "1"),
}

# of a solution on refined meshes
ORDERS = ("order", "limit_order")  # older files have none
REFINED = {
    "tolerance": ((), "asked for, relative to the size", "1"),
    "size": ((), "∫|C|dt", f"unit of the cost · {TIME}"),
    "steps": (("mesh",), "steps of the meshes", "1"),
    "costs": (("mesh",), "costs on the meshes", f"unit of the cost · {TIME}"),
    "cost": ((), "extrapolated cost", f"unit of the cost · {TIME}"),
    "error": ((), "estimated error of the extrapolated cost", f"unit of the cost · {TIME}"),
    "order": ((), "measured order of the costs", "1"),
    "limit_order": ((), "measured order of the extrapolated costs", "1"),
}


class Stored(NamedTuple):
    """The layout of solutions of one class. times: dimension: the field with its times."""

    kind: type[CriticalPoint]
    title: str
    variables: dict[str, tuple[tuple[str, ...], str, str]]
    times: dict[str, str]


CONTENTS = {
    "solution": Stored(
        Solution, "extremal of a boundary problem computed by dalembert", VARIABLES, {"node": "t", "window": "t_multipliers"}
    ),
    "control solution": Stored(
        ControlSolution, "optimal control computed by dalembert", CONTROLLED, {"node": "t"}
    ),
}  # fmt: skip


def solution_to_xarray(solution: CriticalPoint) -> xarray.Dataset:
    """The solution as a Dataset; ValueError for a traced one and for a batch."""
    import xarray as xr

    if is_traced(solution):
        raise ValueError("path: is traced and has no values yet; return it from the jitted function, then store it")
    if np.ndim(solution.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(solution.code)}; store its solutions one by one")
    found, times = solution_variables(solution)
    names = ("coordinate", coordinate_names(solution), {"long_name": "name of the generalised coordinate"})
    about = {
        "title": CONTENTS[content_of(solution)].title, "kind": solution.kind, "description": solution.describe(),
        "outcome": Outcome(int(solution.code)).name.lower(),
    }  # fmt: skip
    drawing, described = drawing_to_variables(getattr(solution, "subject", None), solution.t, solution.q)
    attributes = solution_attributes(solution) | about | described
    return xr.Dataset(found | drawing, {**times, "coordinate": names}, attributes)


def content_of(solution: CriticalPoint) -> str:
    """Which of CONTENTS it is."""
    return next(name for name, stored in CONTENTS.items() if isinstance(solution, stored.kind))


def solution_attributes(solution: CriticalPoint) -> dict[str, Any]:
    """The attributes of a solution, whatever its outcome."""
    return {
        "dalembert_format": FORMAT, "content": content_of(solution), "windows": solution.scheme, "method": solution.method,
        "coordinate_names": stored_text(solution.coordinates),
    }  # fmt: skip


def solution_variables(solution: CriticalPoint) -> tuple[dict[str, tuple], dict[str, tuple]]:
    """The arrays of a solution and its times, each with dimensions and labels, as a Dataset takes them."""
    s, stored, found = solution, CONTENTS[content_of(solution)], {}
    for name, (axes, long_name, units) in stored.variables.items():
        if getattr(s, name) is not None:
            found[name] = (axes, np.asarray(getattr(s, name)), {"long_name": long_name, "units": units})
    for x, bounds in s.bounds.items():
        for name, axes, long_name, units in _bound_variables(x):
            found[f"{x}_{name}"] = (axes, np.asarray(getattr(bounds, name)), {"long_name": long_name, "units": units})
    for name, (long_name, units) in FREE_TIME.items() if s.final_time else ():
        found[f"T_{name}"] = ((), np.asarray(getattr(s.final_time, name)), {"long_name": long_name, "units": units})
    refinement = s.refinement if isinstance(s, ControlSolution) else None
    for name, (axes, long_name, units) in REFINED.items() if refinement else ():
        found[f"refinement_{name}"] = (axes, np.asarray(getattr(refinement, name)), {"long_name": long_name, "units": units})
    for name in SOLVER_STATISTICS:
        found[name] = ((), np.asarray(getattr(s.statistics, name)), {"long_name": f"{name} of the solver"})
    times: dict[str, Any] = {
        name: ((name,), np.asarray(getattr(s, t)), {"long_name": f"time of level {name}", "units": TIME, "axis": "T"})
        for name, t in stored.times.items()
    }
    for x, bounds in s.bounds.items():
        place = BOUNDED[x][0]
        if place not in times:
            times[place] = ((place,), np.asarray(bounds.t), {"long_name": f"time of {x}", "units": TIME, "axis": "T"})
    return found, times


def solution_from_xarray(data: xarray.Dataset) -> CriticalPoint:
    """The solution that `solution_to_xarray` was given, bit for bit; ValueError naming what is missing or malformed."""
    layout = check_solution(data)
    stored = CONTENTS[data.attrs["content"]]
    values: dict[str, Any] = {name: np.array(data[name].values) if name in layout else None for name in stored.variables}
    numbers = {name: np.array(data[name].values if name in data else np.nan) for name in SOLVER_STATISTICS}
    statistics = BoundaryStatistics(**numbers)
    times = {field: np.array(data[name].values) for name, field in stored.times.items()}
    bounds = {
        x: ActiveBounds(
            **{name: np.array(data[f"{x}_{name}" if f"{x}_{name}" in data else x].values) for name in BOUNDS},
            t=np.array(data[axes[0]].values),
        )
        for x, axes in BOUNDED.items()
        if f"{x}_lower" in data
    }  # of q and u the values are those of the solution
    free = {name: np.array(data[f"T_{name}"].values) for name in FREE_TIME} if "T_guess" in data else None
    if "refinement_cost" in data:
        known = {name: f"refinement_{name}" for name in REFINED if f"refinement_{name}" in data}
        values["refinement"] = Refinement(**{name: np.array(data[stored_as].values) for name, stored_as in known.items()})
    kind: Any = stored.kind  # every class of CONTENTS has a subject
    return kind(
        **values, **times, statistics=statistics, scheme=attribute(data, "windows"), bounds=bounds,
        final_time=None if free is None else FinalTime(**free), method=_method(data), coordinates=_names(data),
        subject=subject_from_xarray(data),
    )  # fmt: skip


def _method(data: xarray.Dataset) -> str:
    """The method that found it; files that do not say it are older than a choice."""
    return attribute(data, "method") if "method" in data.attrs else "dalembert"


def _names(data: xarray.Dataset) -> tuple[str, ...]:
    """The names of q; earlier files have none."""
    return stored_names(attribute(data, "coordinate_names")) if "coordinate_names" in data.attrs else ()


def _bound_variables(x: str) -> list[tuple[str, tuple[str, ...], str, str]]:
    """(field, dimensions, long_name, units) of the bounds on x."""
    own = {("node",): BOUNDED[x], (): ()}
    return [
        (name, own[axes], long.format(x=x), units.format(x=x))
        for name, (axes, long, units) in BOUNDS.items()
        if name != "values" or x not in ("q", "u")
    ]


def _present(data: xarray.Dataset) -> tuple[str, ...]:
    """The statistics that a file has to hold; older files know nothing of `alternation` and `violated_at`."""
    return tuple(name for name in SOLVER_STATISTICS if name in data or name not in ("alternation", "violated_at"))


def check_solution(data: xarray.Dataset) -> dict[str, tuple[tuple[str, ...], str]]:
    """The dimensions and kind of the variables of a solution; ValueError naming what is wrong."""
    layout = solution_layout(data, data.attrs["content"])
    check_variables(data, layout)
    check_outcomes(data)
    return layout


def solution_layout(data: xarray.Dataset, content: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Dimensions and kind that the variables of a solution have, of those that are there or have to be."""
    stored = CONTENTS[content]
    found = {
        name: axes for name, (axes, *_) in stored.variables.items() if name in data or name not in (*MOMENTA, *ENDS_ON_SETS)
    }
    found |= {name: (name,) for name in stored.times} | dict.fromkeys(_present(data), ())
    for x in BOUNDED:
        if f"{x}_lower" in data:
            found |= {f"{x}_{name}": axes for name, axes, *_ in _bound_variables(x)} | {BOUNDED[x][0]: BOUNDED[x][:1]}
    if "T_guess" in data:
        found |= {f"T_{name}": () for name in FREE_TIME}
    if "refinement_cost" in data:
        known = (name for name in REFINED if f"refinement_{name}" in data or name not in ORDERS)
        found |= {f"refinement_{name}": REFINED[name][0] for name in known}
    return {name: (axes, WHOLE if name in SOLVER_COUNTED else REAL) for name, axes in found.items()}
