"""A study as a labelled data set: runs or solutions over named axes.

Dimensions: one for each swept name, or `run` where they were taken together, then those of a path or of a solution. Of runs
the times stand once; what a run did not reach is NaN, and `nodes_kept` says how many of the common times it has. Where a run
ended between two saved times the variables `last_…` are each run's last state; and where steps vary in length the
multipliers, at times that differ from run to run, are there alone.

Of solutions the times stand once where they are the same; where the final time is swept or free they are variables over the
axes, `t`, `t_mid`. Of a problem that is not solved only what was given, its outcome and the statistics of the solver
are there: the path it had come to is no solution, and is NaN.

In a Zarr store a study is written block by block, in any order and by any process: a region of every array each. All arrays
have their full length from the beginning, and say NaN, and `interrupted`, where nothing is written yet, so that
`xarray.open_zarr` reads the store at every moment. The chunks of the arrays are the blocks: no two writers share a file. Its
chunk of `committed` says that a block is there, and is written when all other files of the block are on the disk.
"""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.groups import space_of_columns
from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance, Study
from dalembert.path.study import SweptName, swept_names, swept_text
from dalembert.solution import CriticalPoint
from dalembert.store.atomic import FileError, flush
from dalembert.store.chunked import FILLS, SUMS, ChunkedArray, Spec, check_content, check_sums, create
from dalembert.store.paths import (
    CODES,
    COUNTED,
    FIRST_NAMES,
    REAL,
    SCALARS,
    STATISTICS,
    VARIABLES,
    VARYING,
    WHOLE,
    Table,
    attribute,
    attribute_name,
    axis_of,
    check_variables,
    coordinate_variables,
    flatten,
    in_this_format,
    may_lack,
    numbers_of,
    path_from_xarray,
    path_to_xarray,
    provenance_attributes,
    reduced_from_xarray,
    reduced_to_variables,
    stored_names,
    times_on,
    variable,
)  # fmt: skip
from dalembert.store.solutions import (
    BOUNDED,
    CONTENTS,
    SOLVER_COUNTED,
    SOLVER_STATISTICS,
    solution_attributes,
    solution_from_xarray,
    solution_layout,
    solution_variables,
)

if TYPE_CHECKING:
    import xarray


def _every_variable(content: str) -> set[str]:
    """The names of all variables that such a solution may have, and of their dimensions."""
    stored = CONTENTS[content]
    parts: Collection[tuple[str, Table]] = stored.parts([*BOUNDED, "final_time"]).values()
    levels = {*stored.times, *(axes[0] for axes in BOUNDED.values())}
    axes = {axis for _, table in parts for axes, *_ in table.values() for axis in axes}
    return {*(f"{prefix}{x}" for prefix, table in parts for x in table), *axes, *levels, *(times_on(x) for x in levels)}


_AXES = ("time", "coordinate", "velocity", "multiplier", "run", "committed", "block")
# what a swept name cannot be called in a study of runs, and in one of solutions
_LEVELS = {f"{level}{apart}" for level in FIRST_NAMES.values() for apart in ("", "_velocity", "_multipliers", "_feedback")}
RUN_NAMES = frozenset({*VARIABLES, *SCALARS, *STATISTICS, *_AXES, "nodes_kept", *_LEVELS})
SOLUTION_NAMES = frozenset({*_AXES, *(name for content in CONTENTS for name in _every_variable(content))})
APART = ("reduced", "last_", "drawing")  # beginnings of names that are taken


def label_of(name: str, taken: frozenset[str] = RUN_NAMES) -> str:
    """The coordinate of a swept name: the name, unless the data set needs it; a file has no name with a slash."""
    name = name.replace("/", "_")
    return f"swept_{name}" if name in taken or name.startswith(APART) else name


def check_names(data: xarray.Dataset, axes: tuple[str, ...]) -> None:
    """ValueError where a swept name has not its coordinates."""
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


RUNS, TITLE = "study", "study computed by dalembert"
RUN = "run"  # the axis of runs or solutions before they are placed on those of the study
FIRST = {"code": int(Outcome.INTERRUPTED), "steps_done": 0, "nodes_kept": 1}  # of a run that is not there yet
OF_A_RUN = (*(name for name in SCALARS if name != "h"), *STATISTICS, "nodes_kept")


def study_to_xarray(runs: Path, times: np.ndarray, names: Mapping[str, SweptName], last: bool | None) -> xarray.Dataset:
    """The paths of an ensemble over the axis `run`. times: of the saved nodes of a run that is not ended early; last: with
    the variables last_… and all times, whatever became of the runs; None: what these runs need."""
    import xarray as xr

    base, varies = path_to_xarray(runs), runs.h_last is not None
    last = True if varies else last
    t = numbers_of(runs, "t")
    on = t == times  # in the same arithmetic; a run that has ended repeats its last state and time
    kept = on.sum(axis=1)
    longest, best = int(kept.max()) if last is None else len(times), int(np.argmax(kept))
    variables: dict[str, Any] = {}
    levels: dict[str, Any] = {}
    between = bool(np.any(t[:, -1] != times[kept - 1])) if last is None else last

    def add_variable(name: str, dimensions: tuple, values: np.ndarray, labels: Mapping[str, Any]) -> None:
        variables[name] = ((RUN, *dimensions), values, dict(labels))

    free = not runs.multipliers.shape[-1]  # in every block, so that all blocks have the same variables
    for name in VARIABLES:
        if name not in base or (free and name == "constraint_forces"):
            continue
        (_, level, axis), values, labels = base[name].dims, base[name].values, base[name].attrs
        lead = t.shape[1] - values.shape[1]
        end = 0 if varies and level != "time" else max(longest - lead, 0)
        seen = on[:, lead : lead + end]
        cut = values[:, :end]
        add_variable(name, (level, axis), cut if seen.all() else np.where(seen[..., None], cut, np.nan), labels)
        moments = base[times_on(str(level))]
        levels[str(level)] = (level, times[:end] if varies else moments.values[best, :end], moments.attrs)
        if between:
            add_variable(f"last_{name}", (axis,), _last(values), labels)
            add_variable(f"last_{level}", (), _last(moments.values), moments.attrs)
    for name in (*OF_A_RUN[:-1], *(VARYING if varies else ())):
        add_variable(name, (), base[name].values, base[name].attrs)
    variables["h"] = ((), base["h"].values[0], base["h"].attrs)
    add_variable("nodes_kept", (), kept, {"long_name": "number of the common times that a run has", "units": "1"})
    tree, leaves = reduced_to_variables(runs.reduced, "value of the reducer over all steps of a run", (RUN,))
    kept_names = {name: base[name].variable for name in ("coordinate", "velocity", "multiplier") if name in base}
    more = {"title": TITLE, "content": RUNS, "swept": swept_text(dict(names))}
    attributes = base.attrs | more | {"reduced": tree}
    return xr.Dataset(variables | leaves, levels | kept_names, attributes)


def _last(rows: np.ndarray) -> np.ndarray:
    """Of each run; NaN where it had no step to make."""
    return rows[:, -1] if rows.shape[1] else np.full((len(rows), *rows.shape[2:]), np.nan)


def check_runs(data: xarray.Dataset) -> None:
    """ValueError naming what is wrong with a study of runs."""
    axes = tuple(map(str, variable(data, "code").dims))
    layout: dict[str, tuple[tuple[str, ...], str]] = {
        name: (axes, WHOLE if name in (*COUNTED, "nodes_kept") else REAL)
        for name in (*OF_A_RUN, *(VARYING.keys() & data.keys()))
    }
    layout["h"], layout["time"] = ((), REAL), (("time",), REAL)
    for name, (_, plain, *_) in VARIABLES.items():
        axis = axis_of(name, plain, "velocity" in data.sizes)
        if name in data or not may_lack(data, name):
            dimensions = variable(data, name).dims
            level = "time" if name == "q" or len(dimensions) < 2 else str(dimensions[-2])
            layout[name], layout[level] = ((*axes, level, axis), REAL), ((level,), REAL)
            if f"last_{name}" in data or f"last_{level}" in data:
                layout[f"last_{name}"], layout[f"last_{level}"] = ((*axes, axis), REAL), (axes, REAL)
    check_variables(data, layout)
    check_names(data, axes)
    variable(data, "coordinate")
    kept, nodes = data["nodes_kept"].values, data.sizes["time"]
    if kept.size and not (kept.min() >= 1 and kept.max() <= nodes):
        raise ValueError(f"data: nodes_kept is from {kept.min()} to {kept.max()}; a run has from 1 to {nodes} of the times")
    for name in VARIABLES:
        if name in layout and data[name].shape[-2] > nodes:
            raise ValueError(f"data: {name} has {data[name].shape[-2]} times and q has {nodes}; they belong together")
    reduced_from_xarray(data)


def path_of_one(data: xarray.Dataset) -> Path:
    """The one run that is left, as `lane` of an ensemble gives it."""
    import xarray as xr

    kept, nodes = int(data["nodes_kept"]), data.sizes["time"]
    moved = int(data["steps_done"]) > 0  # the rows of a run without any step repeat its beginning
    between = moved and "last_time" in data and float(data["last_time"]) != float(data["time"][kept - 1])

    def rows_of(values: np.ndarray, last: str) -> np.ndarray:
        own = values[: max(kept - (nodes - len(values)), 0)]
        alone = moved and not len(values)  # at a time of its own in every run
        return np.concatenate([own, data[last].values[None]]) if between or alone else own

    scalars = (*SCALARS, *STATISTICS, *(VARYING.keys() & data.keys()))
    variables: dict[str, Any] = {name: ((), data[name].values) for name in scalars}
    times: dict[str, Any] = {}
    for name in VARIABLES:
        if name in data:
            level = str(data[name].dims[0])
            variables[name] = (data[name].dims, rows_of(data[name].values, f"last_{name}"))
            times[level] = (level, rows_of(data[level].values, f"last_{level}"))
    variables |= {str(name): x.variable for name, x in data.data_vars.items() if str(name).startswith("reduced_")}
    return path_from_xarray(xr.Dataset(variables, times, data.attrs | record_of_one(data)))


SOLUTIONS = "study of solutions"
NOTHING = json.dumps(flatten(None)[0])  # of which nothing is reduced


class SolutionRow(NamedTuple):
    """One solution of a study. variables: as a Dataset takes them; times: those that are the same for all; reduced:
    tree of what is kept besides."""

    variables: dict[str, tuple]
    times: dict[str, tuple]
    reduced: str


def row_of(solution: CriticalPoint, reduced: Any, moving: bool) -> SolutionRow:
    """Of one solution. reduced: what is kept besides; moving: whether times differ from one to the other."""
    variables, times = solution_variables(solution)
    variables |= {times_on(name): x for name, x in times.items()} if moving else {}
    tree, leaves = reduced_to_variables(reduced, "value of reduce of a solution")
    variables |= {name: (axes, x.astype(float), labels) for name, (axes, x, labels) in leaves.items()}
    if solution.outcome is not Outcome.SUCCESS:
        free = solution.final_time is not None
        variables = {name: x for name, x in variables.items() if _is_known_unsolved(name, free)}
    return SolutionRow(variables, {} if moving else times, tree)


def _is_known_unsolved(name: str, free: bool) -> bool:
    """True for a variable that is known of a problem that is not solved."""
    given = name.endswith(("_lower", "_upper")) or name == "T_guess"
    return given or name in (*SOLVER_STATISTICS, "code") or (not free and re.fullmatch("t(_.*)?", name) is not None)


def unbegun_row(outcome: Outcome) -> SolutionRow:
    """Of a problem that could not even be begun."""
    counted = {name: ((), np.asarray(0), {}) for name in SOLVER_COUNTED if name in SOLVER_STATISTICS}
    return SolutionRow(counted | {"code": ((), np.asarray(int(outcome)), {})}, {}, NOTHING)


def template_of(
    solution: CriticalPoint, reduced: Any, moving: bool, names: Mapping[str, SweptName], record: Provenance
) -> xarray.Dataset:
    """One solution over the axis `run`, whatever it came to: of all others of its study the variables are the same. names,
    record: of the sweep."""
    import xarray as xr

    solved = dataclasses.replace(solution, code=np.asarray(int(Outcome.SUCCESS)))  # type: ignore[call-arg]
    row = row_of(solved, reduced, moving)
    row.variables["code"][2].update(CODES)
    variables = {name: ((RUN, *axes), x[None], labels) for name, (axes, x, labels) in row.variables.items()}
    own = solution_attributes(solution)
    about = {"content": SOLUTIONS, "of": own["content"], "reduced": row.reduced, "title": TITLE}
    attributes = own | about | {"swept": swept_text(dict(names))} | provenance_attributes(record)
    return xr.Dataset(variables, row.times | coordinate_variables(solution), attributes)


def first_value(name: str, kind: np.dtype) -> Any:
    """The value of a run that is not there yet, or of what a solution has not: NaN, -1 of what is counted, and no active
    bound."""
    return 0 if name.endswith("_active") else FIRST.get(name, FILLS[kind.kind])  # -1 is the lower bound


def empty_rows(template: xarray.Dataset, count: int) -> xarray.Dataset:
    """So many runs, none of which is there yet. template: of one run."""
    variables = {
        str(name): (x.dims, np.full((count, *x.shape[1:]), first_value(str(name), x.dtype), x.dtype), x.attrs)
        for name, x in template.data_vars.items()
        if x.dims[:1] == (RUN,)
    }
    return template.assign(variables)


def stack_rows(rows: Sequence[SolutionRow], template: xarray.Dataset) -> xarray.Dataset:
    """Solutions over the axis `run`."""
    data = empty_rows(template, len(rows))
    for i, row in enumerate(rows):
        for name, (_, values, _) in row.variables.items():
            data[name].values[i] = values
    return data


def place_on_axes(data: xarray.Dataset, labels: Mapping[str, Any], shape: Mapping[str, int]) -> xarray.Dataset:
    """The data over the axis `run` laid over named axes, the last running fastest. labels: coordinates of these."""
    import xarray as xr

    sizes = tuple(shape.values())
    variables = {
        str(name): ((*shape, *x.dims[1:]), x.values.reshape(*sizes, *x.shape[1:]), x.attrs) if x.dims[:1] == (RUN,) else x
        for name, x in data.data_vars.items()
    }
    return xr.Dataset(variables, {**labels, **data.coords}, data.attrs)


def check_solutions(data: xarray.Dataset) -> None:
    """ValueError naming what is wrong with a study of solutions."""
    content = attribute(data, "of")
    if content not in CONTENTS:
        raise ValueError(f"data: the attribute of is {content!r}; there are {', '.join(CONTENTS)}")
    axes = tuple(map(str, variable(data, "code").dims))
    layout: dict[str, tuple[tuple[str, ...], str]] = {}
    for name, (dims, kind) in solution_layout(data, content).items():
        level = dims == (name,)
        own, front = (times_on(name), axes) if level and times_on(name) in data else (name, () if level else axes)
        layout[own] = ((*front, *dims), kind)
    check_variables(data, layout)
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
        name: (name, variables.pop(times_on(name)).values) if times_on(name) in variables else data[name].variable
        for name in levels
    }
    return solution_from_xarray(xr.Dataset(variables, times, data.attrs | {"content": content}))


STUDIES = (RUNS, SOLUTIONS)


def study_from_xarray(data: xarray.Dataset) -> Study | Path | CriticalPoint:
    """The study, or where one is left its Path or Solution, bit for bit; ValueError naming what is missing or malformed."""
    check_study(data)
    if data["code"].dims:
        return Study(data)
    return path_of_one(data) if data.attrs["content"] == RUNS else solution_of_one(data)


def check_study(data: xarray.Dataset) -> None:
    """ValueError naming what is wrong with a study."""
    check_runs(data) if data.attrs["content"] == RUNS else check_solutions(data)


COMMITTED = "committed"
VALUES = "values of blocks"  # content of a store that has no runs
OWN = ("fingerprint", "names_of_coordinates", "written", SUMS)  # attributes of the store, none of a study


class StudyStore:
    """place: its folder, where `begin` has made it."""

    def __init__(self, place: File):
        self.place, self.attributes = place, check_content(place, (*STUDIES, VALUES), "study", _is_sound)
        self._arrays = {name: ChunkedArray(place / name) for name in self.attributes["written"]}
        check_sums(place, self.attributes)

    @staticmethod
    def begin(
        folder: File,
        template: xarray.Dataset,
        labels: Mapping[str, Any],
        blocks: tuple[dict[str, int], tuple[int, ...]],
        told: dict[str, str],
    ) -> None:
        """All arrays, without any run. template: of one run, over the axis `run`; labels: coordinates of the axes; blocks:
        lengths of the axes by name, and of a block along each; told: a fingerprint that JSON can write."""
        import xarray as xr

        shape, block = blocks
        written = [str(name) for name, x in template.data_vars.items() if x.dims[:1] == (RUN,)]
        fixed = {str(name): x for name, x in template.variables.items() if name not in (*written, "coordinate", "velocity")}
        fixed |= {name: xr.Variable(*label) for name, label in labels.items()}
        specs = {name: _spec(x, name, {}, ()) for name, x in fixed.items()}
        specs |= {name: _spec(template[name], name, shape, block) for name in written}
        number = int(np.prod([-(-n // b) for n, b in zip(shape.values(), block, strict=True)]))
        about = "1 where a block of runs is written, in the order of the runs; what is not yet there is NaN, code 11"
        specs[COMMITTED] = Spec((number,), (1,), "uint8", ("block",), {"long_name": about, "units": "1"}, flat=True)
        names = [str(x) for x in template["coordinate"].values] if "coordinate" in template.coords else []
        own = {
            "fingerprint": json.dumps(told),
            "names_of_coordinates": json.dumps(names), "written": written,
            "coordinates": " ".join(label for label in labels if label not in shape),
        }  # fmt: skip
        create(folder, specs, {str(name): _as_python(x) for name, x in template.attrs.items()} | own)
        for name, x in fixed.items():
            array = ChunkedArray(folder / name)
            array.write((0,) * x.ndim, x.values, flushed=False)
            flush(*array.pending_files())

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint that it was begun with."""
        return json.loads(self.attributes["fingerprint"])

    def committed_blocks(self) -> set[int]:
        """The blocks that are there."""
        array = ChunkedArray(self.place / COMMITTED)
        names = (file.name.removeprefix("c.") for file in array.place.glob("c.*"))
        return {int(name) for name in names if name.isdecimal() and int(name) < array.shape[0]}

    def write(self, i: int, at: tuple[int, ...], data: xarray.Dataset, extent: tuple[int, ...]) -> None:
        """The i-th block, which stands at this place of the grid: its runs over the axis `run`; extent: its lengths."""
        for name, array in self._arrays.items():
            if 0 in array.shape:  # no multipliers
                continue
            values = np.full(array.chunk, array.kind.type(array.fill), array.kind)
            values[tuple(map(slice, extent))] = data[name].values.reshape(*extent, *array.shape[len(extent) :])
            array.write(at, values, flushed=False)
        flush(*(file for array in self._arrays.values() for file in array.pending_files()))
        ChunkedArray(self.place / COMMITTED).write(i, np.ones(1, np.uint8), flushed=True)

    def values(self, i: int) -> list[np.ndarray]:
        """The values of the i-th block, of a store with one axis, each of whose places is a block."""
        return [x.read(i, i + 1)[0] for x in self._arrays.values()]

    def open(self) -> xarray.Dataset:
        """The data set, read when it is asked for. All metadata have been looked at: no codec is called but ours."""
        import xarray as xr

        for file in self.place.glob("*/zarr.json"):
            ChunkedArray(file.parent)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data = xr.open_zarr(self.place, chunks=None, consolidated=False, mask_and_scale=False, decode_times=False)
            order = [*self.attributes["written"], *(name for name in data.data_vars if name not in self._arrays)]
            data = data.drop_vars(COMMITTED)[[name for name in order if name != COMMITTED]].assign_coords(data.coords)
            names = json.loads(self.attributes["names_of_coordinates"])
            data, space = data.assign_coords(coordinate=names), space_of_columns(names)
            if space is not None:
                data = data.assign_coords(velocity=list(space.axes))
        except Exception as error:
            raise FileError(self.place, f"is damaged ({type(error).__name__}: {error})") from error
        data.attrs = {name: x for name, x in data.attrs.items() if name not in OWN}
        return in_this_format(data)


def record_of(store: StudyStore) -> Provenance:
    """Of the call that began it."""
    texts = {field.name: store.attributes.get(attribute_name(field.name)) for field in dataclasses.fields(Provenance)}
    if not all(isinstance(x, str) for x in texts.values()):
        raise FileError(store.place, "is damaged: the record of its call cannot be read")
    return Provenance(**texts | {"coordinates": stored_names(texts["coordinates"])})  # type: ignore[arg-type]


def load_study(place: File) -> Study | Path | CriticalPoint:
    """The study as far as it is there; FileError where it is none or is damaged."""
    store = StudyStore(place)
    if store.attributes["content"] == VALUES:
        raise FileError(place, "holds values of over_runs= and not the runs; the same sweep with over_runs= reads it")
    return study_from_xarray(store.open())


def _spec(x: Any, name: str, shape: dict[str, int], block: tuple[int, ...]) -> Spec:
    """Of a variable over the axes of this shape, in the place of `run`; without any it has one chunk."""
    attributes = {str(key): _as_python(value) for key, value in x.attrs.items()}
    within, names = x.shape[bool(shape) :], (*shape, *map(str, x.dims[bool(shape) :]))
    fill = first_value(name, x.dtype) if shape else None
    return Spec((*shape.values(), *within), (*block, *within), x.dtype.name, names, attributes, fill, flat=True)


def _as_python(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _is_sound(found: Any) -> bool:
    """True for the attributes of a study. A name is a folder in this one: nothing else is written to."""
    told, names = (json.loads(found[name]) for name in ("fingerprint", "names_of_coordinates"))
    texts = all(isinstance(x, str) for x in [*names, *found["written"]])
    return isinstance(told, dict) and texts and all(File(name).name == name for name in found["written"])
