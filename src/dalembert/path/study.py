"""Study: what a sweep returns, runs or solutions over named axes. Arrays and plain text only, as a Path."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dalembert.lazy import front_door
from dalembert.notebook import Described
from dalembert.numbers import check_class, described, place_of
from dalembert.outcome import CONTROLLED, SOLVED, Outcome

if TYPE_CHECKING:
    import xarray

ROUNDING = 1e-6  # of the distance between two values: 0.3 is found among np.linspace(0, 1, 11)


class SweptName(NamedTuple):
    """A parameter or initial datum that differs from run to run. label: its coordinate, of one number or of places;
    axis: the dimension on which it lies; parts: coordinates of its numbers, where it has several, of this shape."""

    name: str
    label: str
    axis: str
    parts: tuple[str, ...]
    shape: tuple[int, ...]
    parameter: bool

    def value(self, data: xarray.Dataset) -> np.ndarray:
        """Its value in the one run that is left in the data set."""
        numbers = [float(data[label]) for label in self.parts or (self.label,)]
        return np.reshape(np.array(numbers), self.shape)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Study(Described):
    """The results of many runs or problems, with an axis for each thing that was varied.

    d/dt L_v - L_q = f + Rᵀλ, solved for many parameters and initial data, or δ(Σ L̃_d) = 0 between many ends: runs
    or solutions over named axes.

    study["x"] is one coordinate of q over all axes and times, an xarray.DataArray. len(study) is the number of runs or
    solutions, and a loop over the study gives them one by one.

    Attributes:
        data: all results as an xarray.Dataset: q, v, multipliers and forces over the axes and their common times;
            outcome, residual and the other statistics over the axes; each swept name is a coordinate. Values after the
            end of a run are NaN. For solutions: the variables of each, q, v, u, cost or action, …; if a problem is not
            solved, its data, outcome and statistics are kept, and all other values are NaN.
        subject: the system or problem, in the process that ran it; not stored in files.

    Example:
        >>> study = da.sweep(pendulum, {"v0": [0.0, 0.5, 1.0]}, {"q0": [1.0], "h": 0.1, "steps": 20})
        >>> study.data.q.dims, len(study)
        (('v0', 'time', 'coordinate'), 3)
    """

    data: xarray.Dataset
    subject: Any = None

    @property
    def swept(self) -> dict[str, SweptName]:
        """For each swept name, its axis and its labels."""
        return swept_names(self.data.attrs["swept"])

    @property
    def axes(self) -> tuple[str, ...]:
        """The dimensions of the runs."""
        return tuple(str(axis) for axis in self.data["code"].dims)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of q; q0, q1, … if the system has none."""
        return tuple(map(str, self.data["coordinate"].values))

    @property
    def outcomes(self) -> xarray.DataArray:
        """The name of each run's Outcome, in lower case, over the axes."""
        names = {int(outcome): outcome.name.lower() for outcome in Outcome}
        codes = self.data["code"]
        return codes.copy(data=np.vectorize(names.__getitem__, otypes=[object])(codes.values).astype(str)).rename("outcome")

    @property
    def reduced(self) -> Any:
        """The final values of the reducer, each of its arrays over the axes; None without one. For a run that failed,
        the value up to then."""
        return tree_of_values(json.loads(self.data.attrs["reduced"]), lambda i: self.data[f"reduced_{i}"])

    def __getitem__(self, name: str) -> xarray.DataArray:
        check_class(name, str, "name", "the name of a coordinate, or take study.sel(…) for a run")
        return self.data["q"].isel(coordinate=place_of(name, self.coordinates, "study"))

    def __len__(self) -> int:
        return int(self.data["code"].size)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        for places in itertools.product(*(range(self.data.sizes[axis]) for axis in self.axes)):
            yield self._with(self.data.isel(dict(zip(self.axes, places, strict=True))))

    def sel(self, *, method: Literal["nearest"] | None = None, **values: Any) -> Any:
        """The runs with these values of the swept names: a number, a list of numbers, or slice(first, last), both
        included.

        study.sel(m=2.0, k=slice(0, 1)). A number is matched up to rounding, with method="nearest" by the nearest value
        that was swept, and its axis is dropped. If one run is
        left, the result is its Path, with its own parameters and initial data in the provenance, or its Solution. A
        swept vector, such as q0 of several coordinates, is selected by its index, q0=3, or by one of its components,
        `q0_x=0.5`. KeyError for a name that was not swept, ValueError for a value that no run has.
        """
        if method not in (None, "nearest"):
            raise ValueError(f"method: found {described(method)}; give 'nearest', or leave it out for values up to rounding")
        data = self.data
        for name, wanted in values.items():
            label = self.swept[name].label if name in self.swept else name
            known = [one for swept in self.swept.values() for one in (swept.label, *swept.parts)] + list(self.axes)
            if label not in known or label not in data.coords:
                raise KeyError(f"{name!r}: is not a swept name; there are {', '.join(dict.fromkeys(known))}")
            data = _chosen(data, name, label, wanted, method)
        return self._with(data)

    def _with(self, data: xarray.Dataset) -> Any:
        if data["code"].dims:
            return dataclasses.replace(self, data=data)
        found = front_door("store.from_xarray")(data)
        record = getattr(found, "provenance", None)
        if self.subject is None or self.subject.problem is None or (self.of_runs and record is None):
            return found
        own = {name: swept.value(data) for name, swept in self.swept.items() if swept.parameter}
        known = self.subject.problem
        own = {name: value.astype(known.parameters[name].dtype) for name, value in own.items()}
        depicted = (known.replace(**own) if own else known).subject.under(self.subject.scheme)
        more = {"subject": depicted} if record is None else {"provenance": record.of(depicted)}
        return dataclasses.replace(found, **more)

    def to_xarray(self) -> xarray.Dataset:
        """The data set, as `dalembert.to_xarray` returns it."""
        return self.data

    def __repr__(self) -> str:
        return f"Study({self._size()})"

    def describe(self) -> str:
        """In words: what was swept, and how the runs or problems ended, with the messages of those that failed."""
        counts = collections.Counter(self.data["code"].values.ravel().tolist())
        ends = {Outcome(code): count for code, count in counts.most_common()}
        listed = ", ".join(f"{one.name.lower().replace('_', ' ')}: {count}" for one, count in ends.items())
        nodes = self.data.sizes["time"]
        if self.of_runs:
            step = "first step" if "h_last" in self.data else "h"
            return f"{self._size()}; {step} = {float(self.data['h']):g}, {nodes} saved times\noutcomes: {listed}"
        value, messages = ("cost", CONTROLLED) if "cost" in self.data else ("action", SOLVED)
        lines = [f"{self._size()}; {nodes - 1} steps each", f"outcomes: {listed}"]
        if Outcome.SUCCESS in ends:
            numbers = self.data[value]
            lines.append(f"{value} from {float(numbers.min()):.10g} to {float(numbers.max()):.10g}")
        failed = (one for one in ends if one.failed)
        return "\n".join([*lines, *(f"{x.name.lower().replace('_', ' ')}: {messages.get(x, x.message)}" for x in failed)])

    @property
    def of_runs(self) -> bool:
        """True if these are runs from initial data, and not solutions between ends."""
        return "h" in self.data

    def _size(self) -> str:
        sizes = " × ".join(f"{self.data.sizes[axis]} {axis}" for axis in self.axes)
        zipped = [name for name, swept in self.swept.items() if swept.axis != swept.label and swept.axis in self.axes]
        kind = "runs" if self.of_runs else "problems"
        return f"{len(self)} {kind}: {sizes}" + (f" ({', '.join(zipped)} together)" if zipped else "")

    def __reduce__(self):
        return type(self), (self.data,)


def _chosen(data: xarray.Dataset, name: str, label: str, wanted: Any, method: str | None) -> xarray.Dataset:
    """The runs whose coordinate has the wanted value; its dimension goes where one number is wanted and one run has it."""
    values = np.asarray(data[label].values, dtype=float)
    if not data[label].dims:
        raise ValueError(f"{name}: was chosen before; it is {float(values):g}")
    axis = data[label].dims[0]
    if isinstance(wanted, slice):
        if wanted.step is not None:
            raise ValueError(f"{name}: found {wanted}; a slice has a first and a last value, and no step")
        low = -np.inf if wanted.start is None else _nearby(values, _wanted_values(name, wanted.start))
        high = np.inf if wanted.stop is None else _nearby(values, _wanted_values(name, wanted.stop))
        places = np.flatnonzero((values >= low) & (values <= high))
    else:
        asked = _wanted_values(name, wanted)
        if method == "nearest":
            asked = np.where(np.isnan(asked), asked, values[np.argmin(np.abs(values - asked[..., None]), axis=-1)])
        hits = [np.flatnonzero(values == _nearby(values, one)) for one in np.ravel(asked)]
        for one, found in zip(np.ravel(asked), hits, strict=True):
            if not len(found):
                raise ValueError(f"{name}: found {one:g}; the runs have {_listed(values)}")
        places = np.concatenate([np.array([], int), *hits])
        if np.ndim(asked) == 0 and len(places) == 1:
            return data.isel({axis: int(places[0])})
    if not len(places):
        raise ValueError(f"{name}: found {wanted}, which no run has; the runs have {_listed(values)}")
    return data.isel({axis: places})


def _wanted_values(name: str, wanted: Any) -> np.ndarray:
    """A number or several."""
    try:
        if wanted is None:  # which NumPy takes for NaN
            raise TypeError
        return np.asarray(wanted, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: found {described(wanted)}; give a number, a list of numbers or a slice") from None


def _nearby(values: np.ndarray, asked: Any) -> Any:
    """The value that differs from it by rounding, otherwise what was asked for. What counts is the distance to the next
    value: values may be of very different sizes."""
    if not np.all(np.isfinite(asked)) or not len(values):
        return asked
    nearest = values[np.argmin(np.abs(values - asked))]
    others = values[values != nearest]
    room = np.min(np.abs(others - nearest)) if len(others) else np.abs(nearest)
    return nearest if np.abs(asked - nearest) <= ROUNDING * room else asked


def _listed(values: np.ndarray) -> str:
    shown = [f"{x:g}" for x in values]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:5], "…", *shown[-5:]])


def swept_names(text: Any) -> dict[str, SweptName]:
    """The swept names as a data set carries them; ValueError where the text is none of them."""
    try:
        found = {}
        for name, (label, axis, parts, shape, parameter) in json.loads(text).items():
            texts = (label, axis, *parts)
            if not all(isinstance(x, str) for x in texts) or not all(type(x) is int and x >= 0 for x in shape):
                raise ValueError("labels")
            found[name] = SweptName(name, label, axis, tuple(parts), tuple(shape), bool(parameter))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"data: the attribute swept is {text!r:.80}; it does not describe swept names") from error
    return found


def swept_text(names: dict[str, SweptName]) -> str:
    """The attribute that `swept_names` reads."""
    return json.dumps({name: [x.label, x.axis, x.parts, x.shape, x.parameter] for name, x in names.items()})


def tree_of_values(tree: dict[str, Any], leaf: Callable[[int], Any]) -> Any:
    """A reducer's value from its tree of leaf numbers."""
    (kind, content), *_ = tree.items()
    if kind == "leaf":
        return leaf(content)
    if kind == "dict":
        return {key: tree_of_values(child, leaf) for key, child in content.items()}
    children: Iterator[Any] = (tree_of_values(child, leaf) for child in content or ())
    return {"none": lambda: None, "list": lambda: list(children), "tuple": lambda: tuple(children)}[kind]()
