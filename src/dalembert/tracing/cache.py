"""The cache of what was made for a key, and whether what a function reads by its names is still the same."""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from dalembert.tracing.fingerprint import Walk
from dalembert.tracing.reads import MISSING, content_of, is_library, reads

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values by key; beyond `most` the one used least recently goes. Safe under threads."""

    def __init__(self, most: int):
        self.most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, default: Any = None) -> T | Any:
        """The value, which counts as used; the default if there is none."""
        with self._lock:
            if key not in self._values:
                return default
            self._values.move_to_end(key)
            return self._values[key]

    def of(self, key: Hashable | None, make: Callable[[], T]) -> T:
        """The value, which may be None: make() at first, and each time where the key is None."""
        if key is None:
            return make()
        found: Any = self.get(key, MISSING)
        return self.put(key, make()) if found is MISSING else found

    def put(self, key: Hashable, value: T) -> T:
        """Keep a value in place of an older one, and return it."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self.most:
                self._values.popitem(last=False)
            return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)


def remember(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A decorator: function(*arguments) is computed once for each fingerprint of the arguments, and for the same objects in
    them, because what is returned may call or read these later."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        known: Remembered[T] = Remembered(most)

        @functools.wraps(function)
        def call(*arguments: Any) -> T:
            walk = Walk()
            key = tuple(walk.of(x) for x in arguments), tuple(walk.objects)
            return known.of(key if walk.lasting else None, lambda: function(*arguments))

        return call

    return decorate


class Watched(NamedTuple):
    """A function with all that it read by its names, each the same object as then."""

    function: Any
    own: tuple[Any, Any]
    cells: tuple[tuple[types.CellType, Any], ...]
    names: tuple[tuple[str, Any], ...]


def is_unchanged(watched: tuple[Watched, ...] | None) -> bool:
    """True if all of them still read the same objects by their names. In loops: a generator would take as long again."""
    for f, (code, defaults), cells, names in watched or ():
        if f.__code__ is not code or f.__defaults__ is not defaults:
            return False
        known = f.__globals__
        for name, x in names:
            if known.get(name, MISSING) is not x:
                return False
        for cell, x in cells:
            if content_of(cell) is not x:
                return False
    return True


def watch(walk: Walk) -> tuple[Watched, ...] | None:
    """The objects that tell whether a new walk would give the same key; None where only a new walk can tell.

    It can be known where everything read is a number, a text, a function or an array of JAX, or belongs to a library: what
    these names stand for does not change in place.
    """
    functions = [same.object for same in walk.objects]
    if not (walk.lasting and walk.fixed and all(type(f) is types.FunctionType for f in functions)):
        return None
    found = [_watch_function(f) for f in functions]
    return None if any(x is None for x in found) else tuple(x for x in found if x is not None)


def _watch_function(f: Any) -> Watched | None:
    known = reads(f.__code__)
    own = not is_library(f.__globals__.get("__name__"))
    if f.__dict__ or f.__kwdefaults__ or (own and known.imports):
        return None
    cells = tuple((cell, content_of(cell)) for cell in f.__closure__ or ())
    names = tuple((name, f.__globals__.get(name, MISSING)) for name in known.globals) if own else ()
    return Watched(f, (f.__code__, f.__defaults__), cells, names)


class Pool(Generic[T]):
    """Objects that one thread at a time may use: one that is free, or a new one. keep: False makes a new one each time."""

    def __init__(self, make: Callable[[], T], keep: bool = True):
        self._make, self._free, self._keep = make, list[T](), keep

    def take(self) -> T:
        """One of them, to be given back."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()

    def give(self, used: T) -> None:
        """Takes it back, free again."""
        if self._keep:
            self._free.append(used)

    @contextlib.contextmanager
    def one(self) -> Iterator[T]:
        """One of them, for a with block."""
        found = self.take()
        yield found
        self.give(found)
