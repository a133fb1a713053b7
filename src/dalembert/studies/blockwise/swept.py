"""What is swept: values by name, checked, on their axes; and the data of any of the runs."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dalembert.numbers import as_numbers, described
from dalembert.path.study import SweptName
from dalembert.store.studies.names import label_of
from dalembert.systems.system import is_flag

DATA = {"q0": 1, "v0": 1, "nodes": 2, "jets": 2, "multipliers": 2}  # axes of each in one run
ALIKE = ("h", "steps", "t0", "times", "scheme", "guess", "scales", "inequalities", "tolerance", "max_iterations")
SAME = "is the same for all runs; call sweep once for each of its values"


class Swept(NamedTuple):
    """given: name → (K, …); fixed: initial data of all runs; names: how each is labelled; shape: of the axes."""

    given: dict[str, np.ndarray]
    fixed: dict[str, Any]
    names: dict[str, SweptName]
    shape: dict[str, int]

    @classmethod
    def of(cls, system, values: Any, fixed: Mapping[str, Any], combine: str) -> Swept:
        """With all checks."""
        own = _check_fixed(fixed)
        given = {name: _numbers(system, name, x, own) for name, x in by_name(values).items()}
        named = {name: _named_parts(system, name, x[0]) for name, x in given.items()}
        return cls(given, own, *axes_of(given, named, combine))

    def data(self, places: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Initial data and parameters of the runs at these places along each axis."""
        each = {name: x[places[self.names[name].axis]] for name, x in self.given.items()}
        parameters = {name: x for name, x in each.items() if name not in DATA}
        return self.fixed | {name: x for name, x in each.items() if name in DATA}, parameters

    def labels(self, places: Mapping[str, range] | None = None) -> dict[str, Any]:
        """Coordinates of the swept names; places: the part of each axis that is wanted."""
        part = {axis: range(length) for axis, length in self.shape.items()} if places is None else places
        return _labels(self.names, self.given, part)


def by_name(values: Any) -> Mapping[str, Any]:
    """The values of each name, if that is what they are."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(
            f"values: found {described(values)}; give a mapping from names to values, such as {{'m': [1.0, 2.0]}}"
        )
    if not values:
        raise ValueError("values: nothing is swept; give a mapping from names to values, or use simulate")
    return values


def _check_fixed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Initial data that are the same for all runs: an axis of runs would be taken for one of the combinations."""
    found = {name: None if x is None else as_numbers(x, name) for name, x in data.items()}
    for name, x in found.items():
        if x is not None and x.ndim != DATA[name]:
            right = (
                f"{DATA[name]} axes are needed, the same for all runs" if DATA[name] > 1 else "(n,) is needed, for all runs"
            )
            raise ValueError(f"{name}: found shape {x.shape}; {right}. What differs from run to run belongs in values")
    return found


def _numbers(system, name: str, values: Any, fixed: Mapping[str, Any]) -> np.ndarray:
    """(K, …) of one name."""
    here, known = f"values[{name!r}]", system.parameters if isinstance(system.parameters, Mapping) else {}
    if name in DATA and name in known:
        raise ValueError(
            f"{here}: is a parameter of this system and the name of initial data; give the parameter another name"
        )
    if name not in DATA and name not in known:
        raise ValueError(f"{here}: {unknown(name, [*known, *DATA], 'initial datum')}")
    if name in DATA and fixed[name] is not None:
        raise ValueError(f"{here}, {name}: found both; initial data are swept or the same for all runs")
    if name in known:
        return parameter_values(known[name], values, here)
    array, n = several(as_numbers(values, here), here), len(system.coordinates or ())
    array = array[:, None] if DATA[name] == 1 and array.ndim == 1 and n <= 1 else array
    own = n or (array.shape[-1] if array.ndim > 1 else "n")
    return _shaped(array, (own,) if DATA[name] == 1 else (array.shape[1] if array.ndim == 3 else "r", own), here)


def parameter_values(known: Any, values: Any, here: str) -> np.ndarray:
    """(K, …) of a parameter. known: what it is in the system."""
    array = np.array(values) if is_flag(known) and is_flag(values) else as_numbers(values, here)
    return _shaped(several(array, here), np.shape(known), here)


def several(array: np.ndarray, here: str) -> np.ndarray:
    """The same, if there is an axis of values and something on it."""
    if array.ndim == 0:
        raise ValueError(f"{here}: found one value; give several, (K, …), or sweep without it")
    if len(array) == 0:
        raise ValueError(f"{here}: found none; give at least one value")
    return array


def _shaped(array: np.ndarray, wanted: tuple, here: str) -> np.ndarray:
    if array.shape[1:] != wanted:
        right = f"(K, {', '.join(map(str, wanted))})" if wanted else "(K,)"
        raise ValueError(
            f"{here}: found shape {array.shape}; {right} is needed, with the value of each run after the first axis"
        )
    return array


def unknown(name: str, known: list[str], kind: str) -> str:
    """What is wrong with a name. kind: what there is besides parameters."""
    if name in ALIKE:
        return SAME
    close = difflib.get_close_matches(name, known, 1)
    return f"is no parameter and no {kind}; there are {', '.join(known)}" + (f". Did you mean {close[0]}?" if close else "")


class Labelled(NamedTuple):
    """How a swept name is to be labelled. parts: of its numbers, where it has several."""

    label: str
    parts: tuple[str, ...]
    parameter: bool


def _named_parts(system, name: str, each: np.ndarray) -> Labelled:
    label = label_of(name)
    inner = system.coordinates if name in DATA and each.ndim == 1 and system.coordinates else None
    return Labelled(label, parts_of(label, each.shape, inner), name not in DATA)


def parts_of(label: str, shape: tuple[int, ...], inner: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Of the numbers of a value of this shape; inner: their names."""
    places = inner or ["_".join(map(str, place)) for place in np.ndindex(shape)]
    return tuple(f"{label}_{place}".replace("/", "_") for place in places) if math.prod(shape) > 1 else ()


def axes_of(
    given: Mapping[str, np.ndarray], labelled: Mapping[str, Labelled], combine: str
) -> tuple[dict[str, SweptName], dict[str, int]]:
    """How the names are labelled, and the axes with their lengths."""
    lengths = {name: len(x) for name, x in given.items()}
    if combine == "zip" and len(set(lengths.values())) > 1:
        raise ValueError(f"values: found {lengths}; with combine='zip' all have as many values as there are runs")
    names = {}
    for name, (label, parts, parameter) in labelled.items():
        axis = label if combine == "product" else "run"
        names[name] = SweptName(name, label, axis, parts, tuple(given[name].shape[1:]), parameter)
    taken = [label for one in names.values() for label in (one.label, *one.parts)]
    if len(set(taken)) < len(taken):
        raise ValueError(f"values: found names whose labels are the same, {', '.join(taken)}; rename one of the parameters")
    if combine == "zip":
        return names, {"run": next(iter(lengths.values()))}
    return names, {names[name].axis: length for name, length in lengths.items()}


def _labels(names: Mapping[str, SweptName], given: Mapping[str, np.ndarray], places: Mapping[str, range]) -> dict[str, Any]:
    """Coordinates of the swept names: their values, or their places where a value has several numbers."""
    found: dict[str, Any] = {}
    for name, one in names.items():
        here = np.arange(places[one.axis].start, places[one.axis].stop)
        rows = given[name][here].reshape(len(here), -1).astype(float)
        if one.axis == "run":
            found["run"] = ("run", here)
        labels = {"long_name": f"{'parameter' if one.parameter else 'initial value'} {name}"}
        found[one.label] = (one.axis, here if one.parts else rows[:, 0], labels)
        found |= {part: (one.axis, rows[:, i], labels) for i, part in enumerate(one.parts)}
    return found
