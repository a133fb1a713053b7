"""What is swept: values by name, checked, on their axes; and the data of any of the runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dalembert.numbers import as_numbers, described
from dalembert.path.study import SweptName
from dalembert.store.studies import label_of
from dalembert.systems.problem import is_flag

DATA = {"q0": 1, "v0": 1, "nodes": 2, "jets": 2, "multipliers": 2}  # axes of each in one run
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
        own = _fixed(fixed)
        given = {name: _numbers(system, name, x, own) for name, x in _named(values).items()}
        return cls(given, own, *_axes(system, given, combine))

    def data(self, places: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Initial data and parameters of the runs at these places along each axis."""
        each = {name: x[places[self.names[name].axis]] for name, x in self.given.items()}
        parameters = {name: x for name, x in each.items() if name not in DATA}
        return self.fixed | {name: x for name, x in each.items() if name in DATA}, parameters

    def labels(self, places: Mapping[str, range] | None = None) -> dict[str, Any]:
        """Coordinates of the swept names; places: the part of each axis that is wanted."""
        part = {axis: range(length) for axis, length in self.shape.items()} if places is None else places
        return _labels(self.names, self.given, part)


def _named(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(
            f"values: found {described(values)}; give a mapping from names to values, such as {{'m': [1.0, 2.0]}}"
        )
    if not values:
        raise ValueError("values: nothing is swept; give a mapping from names to values, or use simulate")
    return values


def _fixed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Initial data that are the same for all runs: an axis of runs would be taken for one of the combinations."""
    found = {name: None if x is None else as_numbers(x, name) for name, x in data.items()}
    for name, x in found.items():
        if x is not None and x.ndim != DATA[name]:
            right = (
                f"{DATA[name]} axes are needed, the same for all runs" if DATA[name] > 1 else "(n,) is needed, for all runs"
            )
            raise ValueError(f"{name}: found shape {x.shape}; {right}. What differs from run to run belongs into values")
    return found


def _numbers(system, name: str, values: Any, fixed: Mapping[str, Any]) -> np.ndarray:
    """(K, …) of one name."""
    here, known = f"values[{name!r}]", system.parameters if isinstance(system.parameters, Mapping) else {}
    if name in DATA and name in known:
        raise ValueError(
            f"{here}: is a parameter of this system and the name of initial data; give the parameter another name"
        )
    if name not in DATA and name not in known:
        raise ValueError(f"{here}: {_unknown(name, [*known, *DATA])}")
    if name in DATA and fixed[name] is not None:
        raise ValueError(f"{here}, {name}: found both; initial data are swept or the same for all runs")
    flags = name in known and is_flag(known[name]) and is_flag(values)
    array = np.array(values) if flags else as_numbers(values, here)
    if array.ndim == 0:
        raise ValueError(f"{here}: found one value; give several, (K, …), or sweep without it")
    if len(array) == 0:
        raise ValueError(f"{here}: found none; give at least one value")
    n = len(system.coordinates or ())
    if name in known:
        wanted = np.shape(known[name])
    else:
        array = array[:, None] if DATA[name] == 1 and array.ndim == 1 and n <= 1 else array
        own = n or (array.shape[-1] if array.ndim > 1 else "n")
        wanted = (own,) if DATA[name] == 1 else (array.shape[1] if array.ndim == 3 else "r", own)
    if array.shape[1:] != wanted:
        right = f"(K, {', '.join(map(str, wanted))})" if wanted else "(K,)"
        raise ValueError(
            f"{here}: found shape {array.shape}; {right} is needed, the value of each run behind the first axis"
        )
    return array


def _unknown(name: str, known: list[str]) -> str:
    if name in ("h", "steps", "t0", "scheme", "tolerance"):
        return SAME
    close = difflib.get_close_matches(name, known, 1)
    return f"is no parameter and no initial datum; there are {', '.join(known)}" + (
        f". Did you mean {close[0]}?" if close else ""
    )


def _axes(system, given: Mapping[str, np.ndarray], combine: str) -> tuple[dict[str, SweptName], dict[str, int]]:
    """How the names are labelled, and the axes with their lengths."""
    lengths = {name: len(x) for name, x in given.items()}
    if combine == "zip" and len(set(lengths.values())) > 1:
        raise ValueError(f"values: found {lengths}; with combine='zip' all have as many values as there are runs")
    names = {}
    for name, x in given.items():
        label, each = label_of(name), x[0]
        inner = system.coordinates if name in DATA and each.ndim == 1 and system.coordinates else None
        places = inner or ["_".join(map(str, place)) for place in np.ndindex(each.shape)]
        parts = tuple(f"{label}_{place}".replace("/", "_") for place in places) if each.size > 1 else ()
        axis = label if combine == "product" else "run"
        names[name] = SweptName(name, label, axis, parts, tuple(each.shape), name not in DATA)
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
