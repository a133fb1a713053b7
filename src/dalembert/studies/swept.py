"""Swept values by name, checked, on their axes.

`Swept` gives the data of any run, `SweptProblem` any boundary problem: its names are parameters, and numbers inside the
arguments of `solve`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.boundary import Free, Nodes, On
from dalembert.groups import Columns
from dalembert.numbers import as_numbers, described
from dalembert.path.study import SweptName
from dalembert.store.studies import RUN_NAMES, SOLUTION_NAMES, label_of
from dalembert.systems import is_flag

DATA = {"q0": 1, "v0": 1, "nodes": 2, "jets": 2, "multipliers": 2}  # axes of each in one run
ALIKE = ("h", "steps", "t0", "times", "scheme", "guess", "scales", "inequalities", "tolerance", "max_iterations")
ENDS = ("initial", "final")
ARGUMENTS = (*ENDS, "through", "T", "bounds")
LEVELS = ("q", "v", "a", "jerk", "snap")  # the derivatives at an end
SIDES = {"lower": 0, "upper": 1}
SAME = "is the same for all runs; call sweep once for each of its values"


# Of a name, its values, and what it is called in a message: the numbers (K, …), and the names of each of several numbers.
Read = Callable[[str, Any, str], tuple[np.ndarray, Sequence[str] | None]]


class Swept(NamedTuple):
    """given: name → (K, …); names: how each is labelled; shape: of the axes; fixed: initial data of all runs."""

    given: dict[str, np.ndarray]
    names: dict[str, SweptName]
    shape: dict[str, int]
    fixed: dict[str, Any]

    @classmethod
    def of_runs(cls, system: Any, values: Any, fixed: Mapping[str, Any], combine: str) -> Swept:
        """Parameters and initial data, with all checks."""
        own = _check_fixed(fixed)

        def read_numbers(name: str, x: Any, here: str) -> tuple[np.ndarray, Sequence[str] | None]:
            array = _initial_values(system, name, x, own.get(name), here)
            return array, (system.velocities if name == "v0" else system.coordinates) if array.ndim == 2 else None

        return cls.of(system, values, combine, "initial datum", (DATA, RUN_NAMES), read_numbers)._replace(fixed=own)

    @classmethod
    def of(
        cls, problem: Any, values: Any, combine: str, kind: str, names: tuple[Collection[str], frozenset[str]], read: Read
    ) -> Swept:
        """Parameters, and what `read` reads. kind: of the names besides parameters; names: these, the part before a point
        being the name of what is swept, and the labels that are taken."""
        known = problem.parameters if isinstance(problem.parameters, Mapping) else {}
        (own, taken), given, found = names, {}, {}
        for name, x in by_name(values).items():
            here, inner = f"values[{name!r}]", None
            if name in known and name in own:
                raise ValueError(f"{here}: is a parameter, and the name of an {kind}; give the parameter another name")
            if name in known:
                given[name] = parameter_values(known[name], x, here)
            elif name.split(".")[0] in own:
                given[name], inner = read(name, x, here)
            else:
                raise ValueError(f"{here}: {_explain_unknown(name, [*known, *own], kind)}")
            label, shape = label_of(name if name in known else name.replace(".", "_"), taken), given[name].shape[1:]
            places = inner or ["_".join(map(str, place)) for place in np.ndindex(shape)]
            parts = tuple(f"{label}_{place}".replace("/", "_") for place in places) if math.prod(shape) > 1 else ()
            axis = label if combine == "product" else "run"
            found[name] = SweptName(name, label, axis, parts, tuple(shape), name in known)
        lengths = {name: len(x) for name, x in given.items()}
        if combine == "zip" and len(set(lengths.values())) > 1:
            raise ValueError(f"values: found {lengths}; with combine='zip' all have as many values as there are runs")
        labels = [label for one in found.values() for label in (one.label, *one.parts)]
        if len(set(labels)) < len(labels):
            raise ValueError(f"values: found names whose labels are the same, {', '.join(labels)}; rename a parameter")
        return cls(given, found, {one.axis: lengths[name] for name, one in found.items()}, {})

    def data(self, places: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Initial data and parameters of the runs at these places along each axis."""
        each = {name: x[places[self.names[name].axis]] for name, x in self.given.items()}
        parameters = {name: x for name, x in each.items() if name not in DATA}
        return self.fixed | {name: x for name, x in each.items() if name in DATA}, parameters

    def labels(self, places: Mapping[str, range] | None = None) -> dict[str, Any]:
        """Coordinates of the swept names: their values, or their places where a value has several numbers. places: the part
        of each axis that is wanted."""
        found: dict[str, Any] = {}
        for name, one in self.names.items():
            part = range(self.shape[one.axis]) if places is None else places[one.axis]
            here = np.arange(part.start, part.stop)
            rows = self.given[name][here].reshape(len(here), -1).astype(float)
            if one.axis == "run":
                found["run"] = ("run", here)
            labels = {"long_name": f"{'parameter' if one.parameter else 'initial value'} {name}"}
            found[one.label] = (one.axis, here if one.parts else rows[:, 0], labels)
            found |= {part: (one.axis, rows[:, i], labels) for i, part in enumerate(one.parts)}
        return found


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


def _initial_values(system: Any, name: str, values: Any, fixed: Any, here: str) -> np.ndarray:
    """(K, …) of initial data. fixed: those that all runs have."""
    if name not in DATA:
        raise ValueError(f"{here}: initial data are swept as a whole; there are {', '.join(DATA)}")
    if fixed is not None:
        raise ValueError(f"{here}, {name}: found both; initial data are swept or the same for all runs")
    names = system.velocities if name == "v0" else system.coordinates
    array, n = several(as_numbers(values, here), here), len(names or ())
    array = array[:, None] if DATA[name] == 1 and array.ndim == 1 and n <= 1 else array
    own = n or (array.shape[-1] if array.ndim > 1 else "n")
    return _check_each(array, (own,) if DATA[name] == 1 else (array.shape[1] if array.ndim == 3 else "r", own), here)


def parameter_values(known: Any, values: Any, here: str) -> np.ndarray:
    """(K, …) of a parameter. known: what it is in the system."""
    array = np.array(values) if is_flag(known) and is_flag(values) else as_numbers(values, here)
    return _check_each(several(array, here), np.shape(known), here)


def several(array: np.ndarray, here: str) -> np.ndarray:
    """The same, if there is an axis of values and something on it."""
    if array.ndim == 0:
        raise ValueError(f"{here}: found one value; give several, (K, …), or sweep without it")
    if len(array) == 0:
        raise ValueError(f"{here}: found none; give at least one value")
    return array


def _check_each(array: np.ndarray, wanted: tuple, here: str) -> np.ndarray:
    """The same, if the value of each run has the shape that is wanted."""
    if array.shape[1:] != wanted:
        right = f"(K, {', '.join(map(str, wanted))})" if wanted else "(K,)"
        raise ValueError(
            f"{here}: found shape {array.shape}; {right} is needed, with the value of each run after the first axis"
        )
    return array


def _explain_unknown(name: str, known: list[str], kind: str) -> str:
    """The fault of a name. kind: of the names besides parameters."""
    if name in ALIKE:
        return SAME
    close = difflib.get_close_matches(name, known, 1)
    return f"is no parameter and no {kind}; there are {', '.join(known)}" + (f". Did you mean {close[0]}?" if close else "")


class SweptPlace(NamedTuple):
    """The place of the numbers of a swept name: in an argument, under these keys. rows: its values, where the name is that
    of a whole argument, otherwise None."""

    argument: str
    keys: tuple[Any, ...] = ()
    rows: Sequence[Any] | None = None

    def put(self, argument: Any, numbers: np.ndarray, i: int) -> Any:
        """The argument with the i-th of these values."""
        if self.rows is not None:
            return self.rows[i]
        if self.argument == "bounds" and self.keys[-1] not in SIDES:
            pair = numbers[i].ravel().tolist()
            return _replace_at(argument, self.keys, tuple(pair) if len(pair) > 1 else (-pair[0], pair[0]))
        return _replace_at(argument, self.keys, float(numbers[i]))


class SweptProblem(NamedTuple):
    """A problem with the arguments of `solve` that are no options, and what is swept of both."""

    problem: Any
    arguments: dict[str, Any]
    swept: Swept
    places: dict[str, SweptPlace]

    @classmethod
    def of(cls, problem: Any, values: Any, arguments: Mapping[str, Any], combine: str) -> SweptProblem:
        """With all checks that need no solution."""
        places: dict[str, SweptPlace] = {}

        def read_numbers(name: str, x: Any, here: str) -> tuple[np.ndarray, Sequence[str]]:
            array, places[name], inner = _read_values(name, x, arguments, problem.coordinates)
            return array, inner

        swept = Swept.of(problem, values, combine, "argument that can be swept", (ARGUMENTS, SOLUTION_NAMES), read_numbers)
        _check_apart(places)
        numbers = {p.argument for p in places.values() if p.argument in ENDS and p.rows is None}
        rows = {x: _stored_rows(x, arguments[x], problem.coordinates) for x in numbers}
        return cls(problem, {**arguments, **rows}, swept, places)

    @property
    def moving(self) -> bool:
        """True where times differ from one to the other."""
        return "T" in self.places or isinstance(self.arguments["T"], Free)

    def one(self, places: Mapping[str, int]) -> tuple[Any, dict[str, Any]]:
        """Problem and arguments at these places along the axes."""
        at = {name: places[one.axis] for name, one in self.swept.names.items()}
        own = {name: x[at[name]] for name, x in self.swept.given.items() if name not in self.places}
        arguments = dict(self.arguments)
        for name, place in self.places.items():
            arguments[place.argument] = place.put(arguments[place.argument], self.swept.given[name], at[name])
        return (self.problem.replace(**own) if own else self.problem), arguments

    def describe(self, places: Mapping[str, int]) -> str:
        """For a message: the numbers of one of them."""
        rows = ((name, x[places[self.swept.names[name].axis]]) for name, x in self.swept.given.items())
        return ", ".join(f"{name} = {np.array2string(x, threshold=8)}" for name, x in rows)


def _read_values(
    name: str, values: Any, arguments: Mapping[str, Any], names: Any
) -> tuple[np.ndarray, SweptPlace, tuple[str, ...]]:
    """The numbers (K, …) of a name, where they belong, and what each of several is called."""
    here, (argument, *words), base = f"values[{name!r}]", name.split("."), arguments[name.split(".")[0]]
    if argument == "T":
        if words:
            raise ValueError(f"{here}: T is one number; its name is 'T'")
        if base is not None:
            raise ValueError(f"{here}, T: found both; give it once, swept or the same for all")
        times = several(as_numbers(values, here), here)
        if times.ndim > 1 or not np.all(times > 0):
            raise ValueError(f"{here}: found {described(values)}; give times (K,) between the ends, positive and finite")
        return times, SweptPlace("T"), ()
    if not words:
        if base is not None:
            raise ValueError(f"{here}, {argument}: found both; give it once, swept or the same for all")
        return _wholes(argument, values, here, names)
    if argument == "through":
        raise ValueError(f"{here}: points are swept as a whole, {{'through': [{{t: q}}, …]}}")
    array = several(as_numbers(values, here), here)
    if argument in ENDS:
        keys = _keys_of_end(words, _stored_rows(argument, base, names), here, argument, names)
    else:
        keys = tuple(int(word) if word.isdecimal() else word for word in words)
    pair = argument == "bounds" and keys[-1] not in SIDES
    if array.shape[1:] not in (((), (2,)) if pair else ((),)):
        right = "(K,) for |x| ≤ value, or (K, 2) for pairs (lower, upper)" if pair else "(K,)"
        raise ValueError(f"{here}: found shape {array.shape}; {right} is needed")
    if pair and array.ndim == 1 and not np.all(array > 0):
        raise ValueError(
            f"{here}: found {described(values)}; |x| ≤ value needs values above 0, or give pairs (lower, upper)"
        )
    return array, SweptPlace(argument, keys), tuple(SIDES) if array.ndim > 1 else ()


def _keys_of_end(words: list[str], end: Any, here: str, argument: str, names: Any) -> tuple[Any, ...]:
    """Level and component of 'x' or 'v.x'."""
    level, component = (words[0], ".".join(words[1:])) if len(words) > 1 and words[0] in LEVELS else ("q", ".".join(words))
    names = _names_at(LEVELS.index(level), names)
    if "." in component and component not in (names or ()):
        raise ValueError(f"{here}: give {argument}.x for a position, {argument}.v.x for a velocity, x being a coordinate"
                         + (f" of {', '.join(names)}" if names else ""))  # fmt: skip
    if not isinstance(end, list | tuple) or LEVELS.index(level) >= len(end):
        raise ValueError(f"{here}: needs {argument}=, a tuple (q, v, …) that has {level}, in which this number is put")
    row = end[LEVELS.index(level)]
    if component in (names or ()):
        i = names.index(component)
    elif component.isdecimal():
        i = int(component)
    else:
        known = ", ".join(names) if names else "given by their index, 0, 1, …"
        raise ValueError(f"{here}: found {component!r}; the coordinates are {known}")
    if row is None or isinstance(row, Mapping):
        return LEVELS.index(level), names[i] if names and i < len(names) else i
    numbers = as_numbers(row, f"{argument}[{LEVELS.index(level)}]")
    if numbers.ndim != 1:
        raise ValueError(f"{argument}: found shape {numbers.shape} in it; give a tuple of arrays (n,)")
    if not 0 <= i < len(numbers):
        raise ValueError(f"{here}: found {component!r}; {argument} has {len(numbers)} coordinates")
    return LEVELS.index(level), i


def _names_at(level: int, names: Any) -> Any:
    """Of the numbers at a level of an end: on groups those of velocities differ from those of positions."""
    return names.space.axes if level and isinstance(names, Columns) else names


def _stored_rows(argument: str, value: Any, names: Any) -> Any:
    """On groups the numbers that are stored of an end, or of points; elsewhere, and where it is none, what is given."""
    if not isinstance(names, Columns):
        return value
    read = names.space.read_position, names.space.read_velocity
    if argument in ENDS and isinstance(value, list | tuple) and len(value) <= len(read):
        return tuple(None if x is None else read[i](x, f"{argument}[{i}]") for i, x in enumerate(value))
    if argument == "through" and isinstance(value, Mapping):
        return {t: read[0](x, f"through[{t}]") for t, x in value.items()}
    return value


def _wholes(argument: str, values: Any, here: str, names: Any) -> tuple[np.ndarray, SweptPlace, tuple[str, ...]]:
    """Of a whole argument, a value of which has the same form in all runs: its numbers."""
    if not isinstance(values, Sequence | np.ndarray | jax.Array) or isinstance(values, str):
        raise TypeError(f"{here}: found {described(values)}; give a list of what solve takes as {argument}=")
    rows = [tuple(x) if isinstance(x, np.ndarray | jax.Array) else x for x in values]
    several(np.empty(len(rows)), here)
    if any(isinstance(x, On) or not isinstance(x, Mapping | list | tuple | Nodes) for x in rows):
        raise TypeError(f"{here}: found {described(rows[0])}; give a list of what solve takes as {argument}=")
    stored = [_stored_rows(argument, x, names) for x in rows]
    forms = [jax.tree.structure(x, is_leaf=_is_numbers) for x in stored]
    found = [jax.tree_util.tree_leaves_with_path(x, is_leaf=_is_numbers) for x in stored]
    arrays = [[as_numbers(leaf, f"{here}[{i}]") for _, leaf in one] for i, one in enumerate(found)]
    shapes = [[x.shape for x in one] for one in arrays]
    for i in range(len(rows)):
        if forms[i] != forms[0] or shapes[i] != shapes[0]:
            raise ValueError(f"{here}[{i}]: has another form than [0]; the same components have to be given in all of them")
    if not arrays[0]:
        raise ValueError(f"{here}: holds no numbers")
    numbers = np.array([np.concatenate([x.ravel() for x in one]) for one in arrays])
    parts = [
        _number_name(argument, keys, place, names)
        for (keys, _), shape in zip(found[0], shapes[0], strict=True)
        for place in np.ndindex(*shape)
    ]
    if len(parts) == 1:
        return numbers[:, 0], SweptPlace(argument, rows=rows), ()
    return numbers, SweptPlace(argument, rows=rows), tuple(parts)


def _is_numbers(x: Any) -> bool:
    """One array, as far as names are concerned: (lower, upper) is one, (q, v) none."""
    return isinstance(x, list | tuple) and len(x) > 0 and all(isinstance(one, int | float | np.number) for one in x)


def _number_name(argument: str, keys: tuple, place: tuple[int, ...], names: Any) -> str:
    """Of one number, such as v_x at an end, u_upper of bounds."""
    if argument == "bounds":
        words, sides = [], list(SIDES)
        for one in (*keys, *place):
            i = getattr(one, "idx", one)
            words.append(str(getattr(one, "key", i)) if hasattr(one, "key") or not sides else sides[i])
            sides = sides if hasattr(one, "key") else []
        return "_".join(words)
    words = [getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))) for key in keys]
    words += place
    if argument in ENDS and keys and hasattr(keys[0], "idx"):
        names = _names_at(words[0], names)
        words[0] = LEVELS[words[0]] if 0 < words[0] < len(LEVELS) else "" if words[0] == 0 else words[0]
    if names and place and place[-1] < len(names):
        words[-1] = names[place[-1]]
    return "_".join(str(word) for word in words if word != "")


def _replace_at(value: Any, keys: tuple[Any, ...], x: Any) -> Any:
    """The nested value with x in the place of what is there, or is not yet there."""
    if not keys:
        return x
    key, rest = keys[0], keys[1:]
    if key in SIDES:
        pair = [None, None] if value is None else list(value)
        pair[SIDES[key]] = x
        return tuple(pair)
    if value is None or isinstance(value, Mapping):
        known = dict(value or {})
        return known | {key: _replace_at(known.get(key), rest, x)}
    if not rest:
        array = np.array(value, float)
        array[key] = x
        return array
    return tuple(_replace_at(one, rest, x) if i == key else one for i, one in enumerate(value))


def _check_apart(places: Mapping[str, SweptPlace]) -> None:
    """ValueError where two names are about the same number."""
    found = list(places.items())
    for i, (name, one) in enumerate(found):
        for other, two in found[:i]:
            shared = min(len(one.keys), len(two.keys))
            if one.argument == two.argument and one.keys[:shared] == two.keys[:shared]:
                raise ValueError(f"values: found {other!r} and {name!r}, which are about the same numbers; give one of them")
