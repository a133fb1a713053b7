"""A study in a Zarr store that is written block by block, in any order and by any process: a region of every array each.

All arrays have their full length from the beginning, and say NaN, and `interrupted`, where nothing is written yet, so that
`xarray.open_zarr` reads the store at every moment. The chunks of the arrays are the blocks: no two writers share a file. Its
chunk of `committed` says that a block is there, and is written when all other files of the block are on the disk.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.path import Path, Provenance, Study
from dalembert.solution import CriticalPoint
from dalembert.store.atomic import flush
from dalembert.store.checksum import FileError
from dalembert.store.chunked import SUMS, ChunkedArray, Spec, check_content, check_sums, create
from dalembert.store.paths import attribute_name, stored_names
from dalembert.store.studies import RUN, STUDIES, first_value, study_from_xarray

if TYPE_CHECKING:
    import xarray

COMMITTED = "committed"
VALUES = "values of blocks"  # content of a store that has no runs
OWN = ("fingerprint", "names_of_coordinates", "written", SUMS)  # attributes of the store, none of a study


class StudyStore:
    """place: its folder, where `begin` has made it."""

    def __init__(self, place: File):
        self.place, self.attributes = place, _check_attributes(place)
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
        fixed = {str(name): x for name, x in template.variables.items() if name not in (*written, "coordinate")}
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
            data = data.assign_coords(coordinate=json.loads(self.attributes["names_of_coordinates"]))
        except Exception as error:
            raise FileError(self.place, f"is damaged ({type(error).__name__}: {error})") from error
        data.attrs = {name: x for name, x in data.attrs.items() if name not in OWN}
        return data


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
    data = store.open()
    try:
        return study_from_xarray(data)
    except FileError:
        raise
    except (ValueError, KeyError) as error:
        raise FileError(place, f"is damaged ({error})") from error


def _spec(x: Any, name: str, shape: dict[str, int], block: tuple[int, ...]) -> Spec:
    """Of a variable over the axes of this shape, in the place of `run`; without any it has one chunk."""
    attributes = {str(key): _as_python(value) for key, value in x.attrs.items()}
    within, names = x.shape[bool(shape) :], (*shape, *map(str, x.dims[bool(shape) :]))
    fill = first_value(name, x.dtype) if shape else None
    return Spec((*shape.values(), *within), (*block, *within), x.dtype.name, names, attributes, fill, flat=True)


def _as_python(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _check_attributes(place: File) -> dict[str, Any]:
    """The attributes, if they are those of a study, of a format that this version reads."""
    found = check_content(place, (*STUDIES, VALUES), "study")
    try:
        texts = [json.loads(found[name]) for name in ("fingerprint", "names_of_coordinates")]
        written = found["written"]
        sound = isinstance(texts[0], dict) and all(isinstance(x, str) for x in [*texts[1], *written])
    except (KeyError, TypeError, ValueError, IndexError, RecursionError):
        sound = False
    # A name is a folder in this one: nothing else is written to.
    if not sound or any(File(name).name != name for name in found["written"]):
        raise FileError(place, "is damaged: an attribute of the study is missing or invalid")
    return found
