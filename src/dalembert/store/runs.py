"""A run in a Zarr store: every variable of a path in rows, which are there up to `committed`, and NaN from there on.

The arrays have their full length from the beginning, so that `xarray.open_zarr` reads the store at every moment. Times are
variables and no index: those that are not yet known are NaN. The state of the run stands in `checkpoint`; what it says is
on the disk before it is, and `committed` is written last.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path as File
from typing import Any

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance, Statistics
from dalembert.store.atomic import FileError
from dalembert.store.chunked import ChunkedArray, Spec, check_content, check_sums, rows_of_chunk
from dalembert.store.paths import (
    COUNTED,
    FORMAT,
    SCALARS,
    STATISTICS,
    TIME,
    VARIABLES,
    apart,
    coordinate_names,
    flatten,
    levels_of,
    reduced_value,
    times_label,
)

CONTENT = "run"
TIMES = ("t", "t_velocity", "t_multipliers", "t_feedback")
COMMITTED = "committed"
TEXTS = tuple(field.name for field in dataclasses.fields(Provenance) if field.name != "coordinates")


def fields_of(path: Path) -> dict[str, np.ndarray]:
    """The variables of a path that have rows."""
    names = (*TIMES, *VARIABLES)
    return {name: np.asarray(getattr(path, name)) for name in names if getattr(path, name) is not None}


def scalars_of(path: Path) -> dict[str, np.ndarray]:
    """The scalars of a run as a whole: its step, outcome, statistics, and the value of its reducer."""
    found = {name: np.asarray(getattr(path, name)) for name in SCALARS}
    found |= {name: np.asarray(getattr(path.statistics, name)) for name in STATISTICS}
    found |= {} if path.h_last is None else {"h_last": np.asarray(path.h_last)}
    found = {name: x.astype(np.int64 if name in COUNTED else np.float64) for name, x in found.items()}
    return found | {f"reduced_{i}": np.asarray(x) for i, x in enumerate(flatten(path.reduced)[1])}


def specs_of(path: Path, rows: int, state: dict[str, np.ndarray]) -> dict[str, Spec]:
    """The arrays of a run that has so many rows after those of the path. state: of the checkpoint, with the scalars."""
    fields = fields_of(path)
    level = levels_of(path.levels)
    sizes: dict[str, int] = {}
    for times in TIMES:  # levels that have another number of times than their namesake are apart
        if times in fields:
            size = len(fields[times]) + rows
            if sizes.get(level[times], size) != size:
                level[times] = apart(level[times], times)
            sizes[level[times]] = size
    chunk = rows_of_chunk(max(x.shape[1] for x in fields.values() if x.ndim > 1), max(sizes.values()))
    found = {}
    for name, values in fields.items():
        times, axis, about, units = VARIABLES.get(name, (name, "", times_label(level.get(name, "time")), TIME))
        size, labels = sizes[level[times]], {"long_name": about, "units": units}
        own = {} if name == times else {"coordinates": times}
        names = (level[times], *([axis] if axis else []))
        found[name] = Spec((size, *values.shape[1:]), (chunk, *values.shape[1:]), "float64", names, labels | own)
    for name, (_, about, units) in (SCALARS | STATISTICS).items():
        kind = "int64" if name in COUNTED else "float64"
        found[name] = Spec((), (), kind, (), {"long_name": f"{about}, when the run has ended", "units": units})
    about = "number of times of q that are written; what comes after them is not yet there"
    found[COMMITTED] = Spec((), (), "int64", (), {"long_name": about, "units": "1"})
    return found | {CHECKPOINT: _checkpoint_spec(state)}


def attributes_of(path: Path, rows: int, fingerprint: dict[str, str]) -> dict[str, Any]:
    """The attributes of the store: format, levels, the whole record of the call."""
    record = path.provenance
    lead = {name: len(values) for name, values in fields_of(path).items()}
    found = {
        "dalembert_format": FORMAT, "content": CONTENT, "title": "discrete trajectory, as dalembert computes it",
        "levels": list(path.levels), "coordinate_names": coordinate_names(path), "rows": rows, "lead": lead,
        "reduced": json.dumps(flatten(path.reduced)[0]), "fingerprint": fingerprint,
    }  # fmt: skip
    return found | {name: getattr(record, name) for name in TEXTS} | {"named": bool(record and record.coordinates)}


class StoredRun:
    """The store of a run: its attributes, its checkpoint, its arrays. place: the folder."""

    def __init__(self, place: File):
        self.place = place
        self.attributes = check_content(place, (CONTENT,), "run", _is_sound)
        self.state = read_checkpoint(place)
        self.lead: dict[str, int] = self.attributes["lead"]
        self.arrays = {name: ChunkedArray(place / name) for name in self.lead}
        check_sums(place, self.attributes)
        missing = {"rows", "taken", *SCALARS, *STATISTICS} - self.state.keys()
        if missing or not 0 <= self.number("rows") <= self.number("taken") <= self.attributes["rows"]:
            raise FileError(
                place / CHECKPOINT, f"is not a checkpoint of this run: missing are {', '.join(missing) or 'none'}"
            )

    def number(self, name: str) -> int:
        """A number of the checkpoint: rows that the state comes after, or those that are taken."""
        return int(self.state[name])

    @property
    def record(self) -> Provenance:
        """Of the call that began the run."""
        names = self.attributes["coordinate_names"] if self.attributes["named"] else ()
        return Provenance(**{name: self.attributes[name] for name in TEXTS}, coordinates=tuple(names))

    def path(self, ends: bool = False) -> Path:
        """All rows that are written; ends: the first ones and the last one only."""
        fields = {name: self._rows(name, ends) for name in self.lead}
        scalars = {name: self.state[name] for name in (*SCALARS, *STATISTICS)}
        if int(scalars["code"]) not in {int(outcome) for outcome in Outcome}:
            raise FileError(self.place, f"holds the outcome {int(scalars['code'])}, which does not exist")
        return Path(
            **fields, **{name: scalars[name] for name in SCALARS}, levels=tuple(self.attributes["levels"]),
            statistics=Statistics(**{name: scalars[name] for name in STATISTICS}),
            reduced=reduced_value(self.attributes["reduced"], self.state), provenance=self.record,
            h_last=self.state.get("h_last"),
        )  # fmt: skip

    def _rows(self, name: str, ends: bool) -> np.ndarray:
        array, lead = self.arrays[name], self.lead[name]
        last = lead + self.number("taken")
        if not ends or last <= lead + 1:
            return array.read(0, last)
        return np.concatenate([array.read(0, lead), array.read(last - 1, last)])


def _is_sound(found: Any) -> bool:
    """True for the attributes of a run."""
    kinds: dict[str, type] = dict.fromkeys((*TEXTS, "reduced"), str)
    kinds |= {"levels": list, "coordinate_names": list, "lead": dict, "rows": int, "fingerprint": dict, "named": bool}
    lead, fields = found["lead"], {*TIMES, *VARIABLES}
    return (
        all(type(found[name]) is kind for name, kind in kinds.items())
        and fields - {"t_feedback", "feedback"} <= lead.keys() <= fields
        and all(type(x) is int and x >= 0 for x in lead.values())
        and all(isinstance(x, str) for x in [*found["levels"], *found["coordinate_names"]])
        and len(found["levels"]) == 2
    )


CHECKPOINT = "checkpoint"


def _checkpoint_spec(arrays: dict[str, np.ndarray]) -> Spec:
    """The array that holds them; their names, types and shapes are its attributes."""
    layout = [[name, x.dtype.str, list(x.shape)] for name, x in arrays.items()]
    size = sum(x.nbytes for x in arrays.values())
    about = "state of the run after the last commit, with which dalembert.resume goes on, and its statistics"
    return Spec((size,), (size,), "uint8", ("byte",), {"layout": layout, "long_name": about})


def write_checkpoint(array: ChunkedArray, arrays: dict[str, np.ndarray]) -> None:
    """In one step."""
    content = b"".join(np.ascontiguousarray(x).tobytes() for x in arrays.values())
    array.write(0, np.frombuffer(content, np.uint8), flushed=True)


def read_checkpoint(place: File) -> dict[str, np.ndarray]:
    """The arrays again; FileError where they are not whole."""
    array = ChunkedArray(place / CHECKPOINT)
    content = array.read(0, math.prod(array.shape)).tobytes()
    found, at = {}, 0
    try:
        for name, kind, shape in array.attributes["layout"]:
            dtype, size = np.dtype(str(kind)), math.prod(int(x) for x in shape)
            if dtype.kind not in "biuf":
                raise ValueError(f"found the type {kind}; numbers and truth values are right")
            found[str(name)] = np.frombuffer(content, dtype, size, at).reshape(shape).copy()
            at += size * dtype.itemsize
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(array.place, f"is not a checkpoint ({type(error).__name__}: {error})") from error
    if at != len(content):
        raise FileError(array.place, f"is not a checkpoint: {len(content)} bytes, of which {at} have a name")
    return found
