"""Arrays between Python and machine code, by name: where a number stands is written once and read by both sides."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Field(NamedTuple):
    """Place and shape of the numbers of one name."""

    offset: int
    shape: tuple[int, ...]

    @property
    def length(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Packing:
    """x = (x_a, x_b, …), one array made of named ones, one after the other.

    shapes: (name, shape) in the order of the array; kind: float64 or int64; kinds: what integers stand for in machine code,
    as the types of `subset`. All arrays may have leading axes, the same for all names: so many packed arrays.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    kind: type = np.float64
    kinds: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, shapes: Mapping[str, int | tuple[int, ...]], kind: type = np.float64) -> Packing:
        """From a length or a shape for every name."""
        return cls(tuple((name, (s,) if isinstance(s, int) else tuple(s)) for name, s in shapes.items()), kind)

    @classmethod
    def words(cls, *names: str, **kinds: Sequence[str]) -> Packing:
        """One integer for every name, and then for those that are named by kind alone: a count, or by kind the bits of a
        Real, an Address, or that of Reals or Wholes."""
        known = {name: kind for kind, own in kinds.items() for name in own}
        every = (*names, *(name for name in known if name not in names))
        return cls(tuple((name, ()) for name in every), np.int64, tuple((x, known.get(x, "Whole")) for x in every))

    @classmethod
    def scalars(cls, *names: str) -> Packing:
        """One number for every name."""
        return cls(tuple((name, ()) for name in names))

    @functools.cached_property
    def fields(self) -> dict[str, Field]:
        found, at = {}, 0
        for name, shape in self.shapes:
            if name in found:
                raise ValueError(f"shapes: {name!r} stands there twice")
            found[name] = Field(at, shape)
            at += found[name].length
        return found

    @functools.cached_property
    def size(self) -> int:
        """Length of the whole array."""
        return sum(field.length for field in self.fields.values())

    @functools.cached_property
    def _plain(self) -> bool:
        """One number for every name: an array is made of them at once, which takes a tenth of the time."""
        return bool(self.shapes) and not any(shape for _, shape in self.shapes)

    @functools.cached_property
    def _parts(self) -> list[tuple[str, int | slice, tuple[int, ...]]]:
        """(name, where it stands, shape)."""
        return [(x, slice(f.offset, f.offset + f.length) if f.shape else f.offset, f.shape) for x, f in self.fields.items()]

    @functools.cached_property
    def kind_of(self) -> dict[str, str]:
        """What the number of a name is."""
        return dict(self.kinds) or dict.fromkeys(self.fields, "Real")

    def offset(self, name: str) -> int:
        return self.fields[name].offset

    def in_order(self, named: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the array; TypeError where a name is missing or unknown."""
        if named.keys() != self.fields.keys():
            missing = ", ".join(name for name in self.fields if name not in named) or "none"
            unknown = ", ".join(name for name in named if name not in self.fields) or "none"
            raise TypeError(f"named arrays: missing are {missing}; unknown are {unknown}")
        return [named[name] for name in self.fields]

    def pack(self, **named: Any) -> np.ndarray:
        """The array (…, size); ValueError where a value does not have its shape, with the leading axes of the others."""
        values = self.in_order(named)
        if self._plain and (found := np.array(values)).ndim == 1 and np.can_cast(found.dtype, self.kind, "same_kind"):
            return found.astype(self.kind, copy=False)
        parts, lead = [], None
        for (name, field), value in zip(self.fields.items(), values, strict=True):
            part = np.asarray(value)
            axes = part.ndim - len(field.shape)
            lead = part.shape[: max(axes, 0)] if lead is None else lead
            if part.shape != (*lead, *field.shape):
                raise ValueError(f"{name}: found shape {part.shape}, expected {(*lead, *field.shape)}")
            if not np.can_cast(part.dtype, self.kind, "same_kind"):
                raise TypeError(f"{name}: found {part.dtype}, expected {np.dtype(self.kind)}")
            parts.append(part.reshape(*lead, field.length))
        return np.concatenate(parts, axis=-1, dtype=self.kind) if parts else np.empty(0, self.kind)

    def unpack(self, array: Any) -> dict[str, Any]:
        """The named parts of an array (…, size), NumPy's or JAX's: views where it can be."""
        if array.shape[-1:] != (self.size,):
            raise ValueError(f"array: found shape {array.shape}, expected (…, {self.size})")
        lead = array.shape[:-1]
        found = {name: array[..., part] for name, part, _ in self._parts}
        for name, _, shape in self._parts:
            if len(shape) > 1:
                found[name] = found[name].reshape((*lead, *shape))
        return found


class Held:
    """Arrays that machine code is given by address, as long as this object."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def array(self, value: np.ndarray) -> int:
        kept = np.ascontiguousarray(value)
        self._arrays.append(kept)
        return kept.__array_interface__["data"][0]  # a third of the time of kept.ctypes.data


def bits(x: float) -> int:
    """A double among integers."""
    return struct.unpack("<q", struct.pack("<d", x))[0]
