"""A solution of a boundary problem, or of an optimal control problem, as a labelled data set.

Dimensions: `node` and `window` with their times, `coordinate`, `derivative` of the jets, `momentum` (k of them at an end),
`multiplier` and `holonomic` for the two kinds of constraints. Of a ControlSolution also `control`, `step` and `costate`, the
two gradients at an end. Bounds on q and u are variables such as `u_lower` and `u_active`; those on velocities and path
inequalities have dimensions and times of their own, `v_place` and `inequalities_place`. A free final time has variables
such as `T_slope`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.groups import space_of_columns
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
from dalembert.store.paths import (
    FORCE,
    FORMAT,
    LENGTH,
    REAL,
    TIME,
    WHOLE,
    Table,
    attribute,
    axes_of,
    check_variables,
    coordinate_variables,
    drawing_to_variables,
    stored_names,
    stored_text,
    subject_from_xarray,
    times_label,
)
from dalembert.systems import is_traced

if TYPE_CHECKING:
    import xarray

# The others are real.
SOLVER_COUNTED = (
    "negative_directions", "flat_directions", "code", "iterations", "factorizations", "restorations", "q_active", "u_active",
    "T_active", "v_active", "inequalities_active", "refinement_steps",
)  # fmt: skip
# Each is there where the end is given by derivatives, where it is on a set, or where the file is not older than it.
OPTIONAL = (
    "momenta_initial", "momenta_final", "end_multipliers_initial", "end_multipliers_final", "alternation", "violated_at",
    "refinement_order", "refinement_limit_order",
)  # fmt: skip
SOLVER_STATISTICS: Table = {f.name: ((), f"{f.name} of the solver", "") for f in dataclasses.fields(BoundaryStatistics)}
COMMON: Table = {
    "q": (("time", "coordinate"), "position", LENGTH),
    "v": (("time", "coordinate"), "velocity", f"{LENGTH} / {TIME}"),
    "negative_directions": ((), "independent variations that lower what is minimal, -1: not counted", "1"),
    "flat_directions": ((), "independent variations that change it to third order only", "1"),
    "code": ((), "how the iteration ended", "1"),
    **{
        f"end_multipliers_{end}": (
            (f"equation_{end}",),
            f"multiplier ν of ψ at the {at} node",
            "unit of what is minimal / unit of ψ",
        )
        for end, at in (("initial", "first"), ("final", "last"))
    },
}
VARIABLES: Table = {
    **COMMON,
    "jets": (("time_mid", "derivative", "coordinate"), "derivatives q⁽ʲ⁾ as the windows see them", f"{LENGTH} / {TIME}ʲ"),
    "multipliers": (("time_mid", "multiplier"), "multiplier λ of the differential constraints", "unit of L / unit of φ"),
    "holonomic_multipliers": (("time", "holonomic"), "multiplier of the holonomic constraints", "unit of L / unit of φ"),
    "momenta_initial": (("momentum", "coordinate"), "Ostrogradsky momentum p⁽ʲ⁾ at the first node", f"{FORCE} · {TIME}ʲ⁺¹"),
    "momenta_final": (("momentum", "coordinate"), "Ostrogradsky momentum p⁽ʲ⁾ at the last node", f"{FORCE} · {TIME}ʲ⁺¹"),
    "action": ((), "discrete action", f"unit of the Lagrangian · {TIME}"),
}
CONTROLLED: Table = {
    **COMMON,
    "u": (("time", "control"), "control", "unit of the control"),
    "multipliers": (("time", "multiplier"), "multiplier ν of the plant's constraints", "unit of L / unit of φ"),
    "constraint_forces": (("time", "coordinate"), "force Rᵀν", FORCE),
    "adjoints": (("time", "coordinate"), "adjoint λ of the equations of motion", f"unit of the cost / {FORCE}"),
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
# of what has bounds, where there are some: dimensions of the bounds
BOUNDED = {
    "q": ("time", "coordinate"), "u": ("time", "control"), "v": ("time_v", "coordinate"),
    "inequalities": ("time_inequalities", "inequality"),
}  # fmt: skip
# of a final time that was free
FREE_TIME: Table = {
    "guess": ((), "final time from which it was sought", TIME),
    "lower": ((), "least final time", TIME),
    "upper": ((), "largest final time, infinite where there is no bound", TIME),
    "slope": ((), "derivative of the optimal value by the final time", f"unit of what is minimal / {TIME}"),
    "active": ((), "-1 where the final time is at its lower bound, 1 where at its upper one", "1"),
}
# of a solution on refined meshes
REFINED: Table = {
    "tolerance": ((), "asked for, relative to the size", "1"),
    "size": ((), "∫|C|dt", f"unit of the cost · {TIME}"),
    "steps": (("mesh",), "steps of the meshes", "1"),
    "costs": (("mesh",), "costs on the meshes", f"unit of the cost · {TIME}"),
    "cost": ((), "extrapolated cost", f"unit of the cost · {TIME}"),
    "error": ((), "estimated error of the extrapolated cost", f"unit of the cost · {TIME}"),
    "order": ((), "measured order of the costs", "1"),
    "limit_order": ((), "measured order of the extrapolated costs", "1"),
}


def bounds_of(x: str) -> Table:
    """The variables of the bounds on x. Of q and u the values are those of the solution."""
    axes = BOUNDED[x]
    table: Table = {
        "lower": (axes, f"lower bound of {x}, infinite where there is none", f"unit of {x}"),
        "upper": (axes, f"upper bound of {x}, infinite where there is none", f"unit of {x}"),
        "multipliers": (axes, f"multiplier of the bounds on {x}, per time", f"unit of what is minimal / unit of {x}"),
        "active": (axes, f"-1 where {x} is at its lower bound, 1 where at its upper one", "1"),
        "margin": ((), f"smallest max(slack, multiplier) of the bounds on {x}, in units of the solver", "1"),
    }
    return table if x in ("q", "u") else table | {"values": (axes, f"values of {x}", f"unit of {x}")}


class Stored(NamedTuple):
    """The layout of solutions of one class. times: dimension: the field with its times."""

    kind: type[CriticalPoint]
    title: str
    variables: Table
    times: dict[str, str]

    def parts(self, there: Container[Any]) -> dict[str, tuple[str, Table]]:
        """Prefix and table of each part of a solution. there: the parts that are there besides its own variables, or the
        first of their variables."""
        found = {"": ("", self.variables), "statistics": ("", SOLVER_STATISTICS)}
        found |= {x: (f"{x}_", bounds_of(x)) for x in BOUNDED if x in there}
        return found | {x: table for x, table in PARTS.items() if x in there}


PARTS = {"final_time": ("T_", FREE_TIME), "refinement": ("refinement_", REFINED)}
CONTENTS = {
    "solution": Stored(
        Solution, "extremal of a boundary problem computed by dalembert", VARIABLES,
        {"time": "t", "time_mid": "t_multipliers"},
    ),
    "control solution": Stored(
        ControlSolution, "optimal control computed by dalembert", CONTROLLED, {"time": "t"}
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
    about = {
        "title": CONTENTS[content_of(solution)].title, "kind": solution.kind, "description": solution.describe(),
        "outcome": Outcome(int(solution.code)).name.lower(),
    }  # fmt: skip
    drawing, described = drawing_to_variables(solution.subject, solution.t, solution.q)
    attributes = solution_attributes(solution) | about | described
    return xr.Dataset(found | drawing, times | coordinate_variables(solution), attributes)


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
    stored, found = CONTENTS[content_of(solution)], {}
    on_group = space_of_columns(solution.coordinates) is not None
    owners = {name: getattr(solution, name, None) for name in PARTS}
    owners = {"": solution, "statistics": solution.statistics, **solution.bounds, **owners}
    owners = {name: owner for name, owner in owners.items() if owner is not None}
    for part, (prefix, table) in stored.parts(owners).items():
        for name, (axes, long_name, units) in table.items():
            value = getattr(owners[part], name)
            if value is not None:
                labels = {"long_name": long_name, "units": units} if units else {"long_name": long_name}
                found[f"{prefix}{name}"] = (axes_of(name, axes, on_group), np.asarray(value), labels)
    times = {name: (getattr(solution, t), times_label(name)) for name, t in stored.times.items()}
    times |= {BOUNDED[x][0]: (b.t, f"time of {x}") for x, b in solution.bounds.items() if BOUNDED[x][0] not in times}
    labelled: dict[str, Any] = {
        name: ((name,), np.asarray(t), {"long_name": about, "units": TIME, "axis": "T"})
        for name, (t, about) in times.items()
    }
    return found, labelled


def solution_from_xarray(data: xarray.Dataset) -> CriticalPoint:
    """The solution that `solution_to_xarray` was given, bit for bit; ValueError naming what is missing or malformed."""
    layout = check_solution(data)
    stored = CONTENTS[data.attrs["content"]]
    parts: dict[str, Any] = {
        part: {name: np.array(data[f"{prefix}{name}"].values) for name in table if f"{prefix}{name}" in layout}
        for part, (prefix, table) in stored.parts(_parts_in(data)).items()
    }
    none, unknown = dict.fromkeys(stored.variables), {name: np.array(np.nan) for name in SOLVER_STATISTICS}
    bounds = {
        x: ActiveBounds(**{"values": np.array(data[x].values) if x in data else None} | parts[x], t=np.array(data[axes[0]]))
        for x, axes in BOUNDED.items()
        if x in parts
    }
    if "refinement" in parts:
        none["refinement"] = Refinement(**parts["refinement"])
    kind: Any = stored.kind  # every class of CONTENTS has a subject
    return kind(
        **none | parts[""], **{field: np.array(data[name].values) for name, field in stored.times.items()},
        statistics=BoundaryStatistics(**unknown | parts["statistics"]), scheme=attribute(data, "windows"), bounds=bounds,
        final_time=FinalTime(**parts["final_time"]) if "final_time" in parts else None,
        # older files do not say the method, nor the names of q
        method=attribute(data, "method") if "method" in data.attrs else "dalembert",
        coordinates=_names_in(data),
        subject=subject_from_xarray(data),
    )  # fmt: skip


def _names_in(data: xarray.Dataset) -> tuple[str, ...]:
    return stored_names(attribute(data, "coordinate_names")) if "coordinate_names" in data.attrs else ()


def _parts_in(data: xarray.Dataset) -> list[str]:
    """The parts of a solution, by the first of their variables."""
    first = {x: f"{x}_lower" for x in BOUNDED} | {"final_time": "T_guess", "refinement": "refinement_cost"}
    return [part for part, name in first.items() if name in data]


def check_solution(data: xarray.Dataset) -> dict[str, tuple[tuple[str, ...], str]]:
    """The dimensions and kind of the variables of a solution; ValueError naming what is wrong."""
    layout = solution_layout(data, data.attrs["content"])
    check_variables(data, layout)
    return layout


def solution_layout(data: xarray.Dataset, content: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Dimensions and kind that the variables of a solution have, of those that are there or have to be."""
    stored, there = CONTENTS[content], _parts_in(data)
    levels = {*stored.times, *(BOUNDED[x][0] for x in there if x in BOUNDED)}
    on_group = space_of_columns(_names_in(data)) is not None
    found = {
        f"{prefix}{x}": axes_of(x, axes, on_group)
        for prefix, table in stored.parts(there).values()
        for x, (axes, *_) in table.items()
    }
    found = {name: axes for name, axes in found.items() if name in data or name not in OPTIONAL}
    found |= {level: (level,) for level in levels}
    return {name: (axes, WHOLE if name in SOLVER_COUNTED else REAL) for name, axes in found.items()}
