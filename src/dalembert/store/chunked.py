"""Arrays of a Zarr store (version 3), written chunk by chunk: each chunk a file with its CRC-32C behind it.

The folder and its metadata are made by the library zarr. A chunk is the bytes of its numbers, little-endian and without
compression: trajectories do not compress, and a chunk is written in the time of a copy, flushed when it has to be, and read
with nothing but its length and its sum, so that no codec that a file names is ever called.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Container
from pathlib import Path as File
from typing import Any, NamedTuple

import numpy as np

from dalembert.interrupts import unbroken
from dalembert.store.atomic import FileError, open_regular, write
from dalembert.store.paths import FORMAT

LITTLE, SUM = {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}
CODECS = ([LITTLE, SUM], [{"name": "bytes"}, SUM])  # the second of single bytes, which have no order
BYTES = 2**21  # of the rows of a chunk, about
WORDS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
KINDS = {word: np.dtype(word).newbyteorder("<") for word in WORDS}
SUMS = "sha256"  # an attribute of a store: the sums of its arrays' metadata, and of all that it says itself
FILLS = {"f": np.nan, "i": -1, "u": 0, "b": False}


class Spec(NamedTuple):
    """An array that is to be made. chunk: shape of one; names: of the axes; fill: what stands where nothing is written;
    flat: all chunks in one folder, which is flushed with them."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    kind: str
    names: tuple[str, ...]
    attributes: dict[str, Any]
    fill: Any = None
    flat: bool = False

    @property
    def empty(self) -> Any:
        """The value where nothing is written."""
        return FILLS[KINDS[self.kind].kind] if self.fill is None else self.fill


def rows_of_chunk(width: int, rows: int) -> int:
    """The number of rows of a chunk, of so many numbers each."""
    return max(1, min(rows, 2 ** round(math.log2(BYTES / (8 * max(1, width))))))


class ChunkedArray:
    """One array of a store, by its metadata; FileError where they are none of ours. place: its folder; rows: of a chunk
    along the first axis."""

    def __init__(self, place: File):
        found = metadata(place)
        try:
            self.shape = tuple(map(int, found["shape"]))
            self.chunk = tuple(map(int, found["chunk_grid"]["configuration"]["chunk_shape"]))
            self.kind, keys = KINDS[found["data_type"]], found["chunk_key_encoding"]
            self._separator = keys["configuration"]["separator"]
            whole = keys["name"] == "default" and self._separator in ("/", ".")
            self.attributes = dict(found.get("attributes", {}))
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(place, f"is not an array of a run ({type(error).__name__}: {error})") from error
        whole = whole and found.get("node_type") == "array" and found.get("codecs") == CODECS[self.kind.itemsize == 1]
        if not whole or min([*self.shape, 0]) < 0 or min([*self.chunk, 1]) < 1 or len(self.chunk) != len(self.shape):
            raise FileError(place, "is not an array that dalembert writes: shape, chunks or codecs differ")
        self.place, self.fill, self.rows = place, found.get("fill_value"), self.chunk[0] if self.chunk else 1
        self._unflushed: list[File] = []

    def file(self, *at: int) -> File:
        """Of a chunk, by its first numbers; the others are 0."""
        numbers = (*at, *([0] * len(self.shape)))[: len(self.shape)]
        return self.place / self._separator.join(["c", *map(str, numbers)])

    def write(self, i: int | tuple[int, ...], values: np.ndarray, flushed: bool) -> None:
        """A whole chunk. What is there already is kept until the new one is on the disk."""
        if values.size == 0:
            return
        file, content = self.file(*(i if isinstance(i, tuple) else (i,))), np.ascontiguousarray(values, self.kind).tobytes()
        there = file.exists()
        if not there:
            file.parent.mkdir(parents=True, exist_ok=True)
        write(file, content, _sum(content), flushed=flushed or there)
        if not (flushed or there):
            self._unflushed.append(file)

    def pending_files(self) -> list[File]:
        """Chunks that were written before, for whoever flushes them now."""
        files, self._unflushed = self._unflushed, []
        return files

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows first … last-1 (of no rows: the number); FileError where a chunk is missing or damaged."""
        width = self.shape[1:]
        if self.shape and not 0 <= first <= last <= self.shape[0]:
            raise FileError(self.place, f"has {self.shape[0]} rows; {last} are said to be written")
        if not self.shape:
            return self._chunk(0, ())
        if 0 in self.shape or first == last:
            return np.empty((last - first, *width), self.kind)
        begin, end = first // self.rows, -(-last // self.rows)
        chunks = [self._chunk(i, (self.rows, *width)) for i in range(begin, end)]
        rows = np.concatenate(chunks) if len(chunks) != 1 else chunks[0]
        return rows[first - begin * self.rows : last - begin * self.rows]

    def _chunk(self, i: int, shape: tuple[int, ...]) -> np.ndarray:
        file = self.file(i)
        size = math.prod(shape) * self.kind.itemsize + 4
        try:
            with open_regular(file) as stream:
                content = stream.read(size + 1)
        except FileNotFoundError:
            raise FileError(file, "is missing, though the run says that it was written") from None
        if len(content) != size or _sum(content[:-4]) != content[-4:]:
            raise FileError(file, "is damaged: length or CRC-32C are not those of what was written")
        return np.frombuffer(content, self.kind, count=math.prod(shape)).reshape(shape)


def create(folder: File, specs: dict[str, Spec], attributes: dict[str, Any]) -> None:
    """The store without any chunk."""
    with unbroken():
        import zarr
        from zarr.codecs import BytesCodec, Crc32cCodec
        from zarr.storage import LocalStore

    group: Any = zarr.create_group(LocalStore(folder), zarr_format=3, attributes=attributes)
    for name, spec in specs.items():
        encoding = {"name": "default", "configuration": {"separator": "." if spec.flat else "/"}}
        group.create_array(
            name, shape=spec.shape, chunks=tuple(max(1, x) for x in spec.chunk), dtype=spec.kind, serializer=BytesCodec(),
            compressors=[Crc32cCodec()], fill_value=spec.empty, dimension_names=spec.names, attributes=spec.attributes,
            chunk_key_encoding=encoding,
        )  # fmt: skip
    with warnings.catch_warnings():  # of a convention that the text of Zarr 3 does not have yet, and xarray asks for
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(LocalStore(folder))
    sign(folder, list(specs))


def sign(folder: File, names: list[str]) -> None:
    """Write into the attributes of a store the sums of all metadata."""
    found = metadata(folder)
    found["attributes"][SUMS] = _sums(folder, found["attributes"], names)
    (folder / "zarr.json").write_text(json.dumps(found, indent=2), encoding="utf-8")


def check_sums(folder: File, attributes: dict[str, Any]) -> None:
    """FileError where the metadata of a store are not those that were written; stores of older versions have no sums."""
    sums = attributes.get(SUMS, {})
    if sums and (not isinstance(sums, dict) or sums != _sums(folder, attributes, list(sums))):
        raise FileError(folder, "is damaged: the SHA-256 of what a zarr.json says is not the one that was written")


def _sums(folder: File, attributes: dict[str, Any], names: list[str]) -> dict[str, str]:
    """Of each array's metadata, and, under no name, of these and the store's own attributes."""
    code = lambda x: hashlib.sha256(json.dumps(x, sort_keys=True).encode()).hexdigest()  # noqa: E731
    found = {name: code(metadata(folder / name)) for name in names if name}
    return found | {"": code([{key: x for key, x in attributes.items() if key != SUMS}, found])}


def attributes_of_store(place: File) -> dict[str, Any]:
    found = metadata(place).get("attributes")
    return found if isinstance(found, dict) else {}


def check_content(place: File, contents: Container[Any], what: str, is_sound: Callable[[Any], bool]) -> dict[str, Any]:
    """The attributes of a store; FileError where they are not those of one of these contents, of a format that this version
    reads. what: such a store is, in words; is_sound: of the attributes, or an error where one is missing."""
    found = attributes_of_store(place)
    version = found.get("dalembert_format")
    if not isinstance(version, int) or found.get("content") not in contents:
        raise FileError(place, f"is not a {what} of dalembert: its attributes differ")
    if version > FORMAT:
        raise FileError(place, f"is written in format {version}, this dalembert reads up to {FORMAT}; update it")
    with contextlib.suppress(KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
        if is_sound(found):
            return found
    raise FileError(place, f"is damaged: an attribute of the {what} is missing or invalid")


def metadata(place: File) -> dict[str, Any]:
    """The content of zarr.json; FileError where there is none, or it is no object of Zarr's version 3."""
    try:
        with open_regular(place / "zarr.json") as stream:
            found = json.loads(stream.read())
    except (FileNotFoundError, NotADirectoryError):
        raise FileError(place, "is not the store of a run: it has no zarr.json") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(place, "is damaged: its zarr.json cannot be read") from error
    if not isinstance(found, dict) or found.get("zarr_format") != 3:
        raise FileError(place, "is not a Zarr store of version 3")
    return found


def _sum(content: bytes) -> bytes:
    """CRC-32C, little-endian, as the codec of Zarr writes it."""
    import google_crc32c

    return google_crc32c.value(content).to_bytes(4, "little")
