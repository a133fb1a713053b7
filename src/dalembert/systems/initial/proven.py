"""Initial data that are proven to pass every check, in one call of machine code."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Float

from dalembert.numbers import as_numbers, as_state, holds_tracer, outside
from dalembert.systems.initial.root import REMEMBERED, InitialMotion, InitialRoot, root_of
from dalembert.systems.system import System, check_shapes
from dalembert.tracing import Remembered, Walk, Watched, split, unchanged, watch

T = TypeVar("T")

Vector = Float[np.ndarray, "n"]


class ProvenStart(NamedTuple):
    """Data that pass every check. m: equations of all constraints. read: the system."""

    q: Vector
    v: Vector
    m: int
    read: SystemRead


class SystemRead:
    """What a system holds, and what was made for it.

    key: for systems that differ in numbers alone. watched: by what it is seen that all this is still so; None where the
    system must be read again.
    """

    def __init__(self, system: System, key: Any, leaves: list, watched: tuple[Watched, ...] | None):
        self.system, self.key, self.leaves, self.watched = system, key, leaves, watched
        self._made: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[System], T]) -> T:
        """make(system), made when it is first asked for by this name."""
        if name not in self._made:
            self._made[name] = make(self.system)
        return self._made[name]

    def root(self, n: int) -> _Root | None:
        """For n coordinates; None where there is no machine code."""
        return self.once(("root", n), lambda system: self._root(system, n))

    def _root(self, system: System, n: int) -> _Root | None:
        m = sum(check_shapes(system, np.zeros(n), np.zeros(n), 0.0))
        root = root_of(self.key, system, n, m)
        return None if root is None else _Root(root, m, [])


class _Root(NamedTuple):
    """free: arrays to solve in that no thread uses."""

    code: InitialRoot
    m: int
    free: list[InitialMotion]


_READ: Remembered[SystemRead] = Remembered(REMEMBERED)  # by the system, which it holds: no other has its place


def proven_start(system: System, q0: Any, v0: Any, t0: Any) -> ProvenStart | None:
    """The data as numbers of NumPy; None where the checks must look on their own.

    That is so under tracing, where the system cannot be compared with what it was, and where the data are not exact to
    rounding or not regular beyond doubt.
    """
    if not outside() or any(x is None or holds_tracer(x) for x in (q0, v0, t0)):
        return None
    read = read_system(system)
    if read is None:
        return None
    q, v = as_state(q0, v0, system.coordinates, as_numbers)
    root = read.root(len(q))
    if root is None:
        return None
    try:
        motion = root.free.pop()
    except IndexError:  # other threads have them, or there are none yet
        motion = root.code.over(read.leaves)
    proven = np.isfinite(motion.solve(q, v, float(t0)))
    root.free.append(motion)
    return ProvenStart(q, v, root.m, read) if proven else None


def proven_runs(read: SystemRead, states: np.ndarray, t0: float, given: np.ndarray | None) -> Bool[np.ndarray, "B"]:
    """Which of many data pass every check beyond doubt. states: (B, 2, n) of (q, v); given: (B, G) the arrays of each run's
    system, flat, if they differ."""
    root = read.root(states.shape[2])
    if root is None:
        return np.zeros(len(states), bool)
    motion, found = root.code.over(read.leaves), np.empty(len(states))
    for i, (q, v) in enumerate(states):
        if given is not None:
            motion.refill(given[i])
        found[i] = motion.solve(q, v, t0)
    return np.isfinite(found)


def read_system(system: System) -> SystemRead | None:
    """What it holds; None where that cannot be compared, or is traced. It is not read again as long as its functions name
    the same."""
    found = _READ.get(id(system))
    if found is not None and unchanged(found.watched):
        return found
    walk, leaves = Walk(), []
    key = split(walk, system, leaves)
    if not walk.lasting or any(isinstance(x, Tracer) for x in leaves):
        return None
    found = SystemRead(system, key, leaves, watch(walk))
    if found.watched is not None and all(isinstance(x, jax.Array) for x in leaves):  # NumPy's may change in place
        _READ.put(id(system), found)
    return found
