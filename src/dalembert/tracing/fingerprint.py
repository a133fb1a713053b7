"""What a function reads when it runs: its code, and by value everything that the code names, followed through the user's own
functions and objects.

Two functions of equal fingerprints do the same, unless they read what no fingerprint shows: files, clocks, random numbers,
the environment, the state of a library. The rules for each kind of object are in `functions` and `contents`.
"""

from __future__ import annotations

import functools
import types
from typing import Any

DEEPEST = 60  # containers in containers; what lies deeper is not looked into
MOST = 20_000  # objects looked into by one call
_ATOMS = frozenset([int, str, bytes, bool, type(None), type(...), range])
_CODE = (types.FunctionType, types.MethodType, types.ModuleType, type)


class Same:
    """An object as a key: equal to itself alone, whatever its own == says."""

    __slots__ = ("_hash", "object")

    def __init__(self, value: Any):
        self.object, self._hash = value, id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.object is other.object

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Same({self.object!r})"


class Walk:
    """One pass over functions, systems, schemes, and whatever contains them; `of` gives the key of an object.

    objects: what was met that can change, and functions. reads_data: whether functions read anything that is no function.
    hands_on: whether they may hand functions to a part of JAX that keeps what it has traced of them.
    fixed: whether no class or module of the user's was read, whose attributes may be set anew.
    lasting: False where something was read that cannot be compared, which counts as new at every call, or a traced value,
    which must not be kept.
    """

    def __init__(self) -> None:
        self.objects: list[Same] = []
        self.reads_data, self.hands_on, self.lasting, self.fixed = False, False, True, True
        self._open: dict[int, int] = {}
        self._count = 0

    def of(self, x: Any) -> Any:
        """The key of one object."""
        kind = type(x)
        if kind in _ATOMS:
            return (kind, x)
        at = id(x)
        if at in self._open:
            return ("again", len(self._open) - self._open[at])
        self._count += 1
        if len(self._open) > DEEPEST or self._count > MOST:
            return self.unknown()
        self._open[at] = len(self._open)
        try:
            return key_of(x, self)
        finally:
            del self._open[at]

    def unknown(self) -> object:
        """A key that is equal to no other."""
        self.lasting = False
        return object()

    def value(self, x: Any) -> Any:
        """The key of something that a function reads."""
        key = self.of(x)
        self.reads_data = self.reads_data or not (type(key) is Same or isinstance(x, _CODE))
        return key


@functools.singledispatch
def key_of(x: Any, walk: Walk) -> Any:
    """The key of an object, by its class."""
    raise TypeError(f"no rule for {type(x).__name__}")
