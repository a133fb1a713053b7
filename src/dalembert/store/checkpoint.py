"""A few arrays as one chunk of bytes, written in one step: the state of a run, and what is told of it."""

from __future__ import annotations

import math
from pathlib import Path as File
from typing import Any

import numpy as np

from dalembert.store.checksum import FileError
from dalembert.store.chunked import ChunkedArray, Spec

NAME = "checkpoint"


def spec(arrays: dict[str, np.ndarray]) -> Spec:
    """The array that holds them; their names, types and shapes are its attributes."""
    layout = [[name, x.dtype.str, list(x.shape)] for name, x in arrays.items()]
    size = sum(x.nbytes for x in arrays.values())
    about = "state of the run after the last commit, with which dalembert.resume goes on, and its statistics"
    return Spec((size,), (size,), "uint8", ("byte",), {"layout": layout, "long_name": about})


def write(array: ChunkedArray, arrays: dict[str, np.ndarray]) -> None:
    """In one step."""
    content = b"".join(np.ascontiguousarray(x).tobytes() for x in arrays.values())
    array.write(0, np.frombuffer(content, np.uint8), flushed=True)


def read(place: File) -> dict[str, np.ndarray]:
    """The arrays again; FileError where they are not whole."""
    array = ChunkedArray.of(place / NAME)
    content = array.read(0, math.prod(array.shape)).tobytes()
    found, at = {}, 0
    try:
        for name, kind, shape in array.attributes["layout"]:
            dtype, size = _kind(kind), math.prod(int(x) for x in shape)
            found[str(name)] = np.frombuffer(content, dtype, size, at).reshape(shape).copy()
            at += size * dtype.itemsize
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(array.place, f"is not a checkpoint ({type(error).__name__}: {error})") from error
    if at != len(content):
        raise FileError(array.place, f"is not a checkpoint: {len(content)} bytes, of which {at} have a name")
    return found


def _kind(text: Any) -> np.dtype:
    """Numbers and truth values only."""
    kind = np.dtype(str(text))
    if kind.kind not in "biuf":
        raise ValueError(f"found the type {text}; numbers are right")
    return kind
