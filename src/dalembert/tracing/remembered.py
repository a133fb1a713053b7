"""Values that are kept until too many newer ones have come."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from dalembert.tracing.fingerprint import Walk

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values by key; beyond `most` the one used least recently goes. Safe under threads."""

    def __init__(self, most: int):
        self.most, self._lock = most, threading.Lock()
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """The value, which counts as used; None if there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

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


def remembered(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A decorator: function(*arguments) is computed once for each fingerprint of the arguments, and for the same objects in
    them, because what is returned may call or read these later."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        known: Remembered[tuple[T]] = Remembered(most)

        @functools.wraps(function)
        def call(*arguments: Any) -> T:
            walk = Walk()
            key = tuple(walk.of(x) for x in arguments), tuple(walk.objects)
            if not walk.lasting:
                return function(*arguments)
            found = known.get(key)
            return (found or known.put(key, (function(*arguments),)))[0]

        return call

    return decorate
