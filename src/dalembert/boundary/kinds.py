"""What a kind of boundary problem answers for itself: one extremal, those of many requests, and a smooth first path.

A VariationalProblem and an OptimalControl register theirs. What they prepare is kept for calls with the same arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

import jax
import numpy as np

from dalembert.boundary.data.ends import Nodes, Request, TimeGrid
from dalembert.boundary.kkt.assembly import CompiledAssembly
from dalembert.boundary.kkt.linear import chooses_own_pivots
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton import Settings
from dalembert.groups import FLAT, Space
from dalembert.numbers import described
from dalembert.solution import CriticalPoint
from dalembert.systems import check_x64
from dalembert.tracing import Remembered, Walk, content

MOST_KEPT = 10_000  # steps of a problem that is kept as it was prepared
DATA = (list, dict, np.ndarray)

S = TypeVar("S", bound=CriticalPoint, covariant=True)


class Solvable(Protocol[S]):
    """A problem that `solve` takes: a VariationalProblem, or of a class for which `extremal` is registered."""

    @property
    def solution_class(self) -> type[S]:
        """Class of its solutions."""
        ...

    def replace(self, **values: Any) -> Solvable[S]:
        """The same with other parameters."""
        ...


class HasSystem(Protocol):
    @property
    def kkt(self) -> KKTSystem: ...


T = TypeVar("T", bound=HasSystem)


class Asked(NamedTuple):
    """Arguments of `solve` besides the problem, its settings checked."""

    request: Request
    grid: TimeGrid
    scheme: Any
    scales: Any
    settings: Settings
    certify: bool
    bounds: Any = None
    inequalities: Any = None


class SmoothStart(NamedTuple):
    """First path where there is no guess. t: (N+1,); path: (N+1, n), as it is stored; sizes: (n,), of the coordinates; onto:
    moves paths near the constraints, or None where there are none."""

    t: np.ndarray
    path: np.ndarray
    sizes: np.ndarray
    onto: Callable[[np.ndarray], np.ndarray] | None = None
    space: Space = FLAT

    def beside(self, ways: np.ndarray) -> np.ndarray:
        """Paths these ways (starts, N+1, n) from it, moved onto the constraints."""
        if not len(ways):
            return ways
        paths = np.stack([self.space.nearest(self.space.along(self.path, d)) for d in ways])
        return paths if self.onto is None else self.onto(paths)


@functools.singledispatch
def extremal(problem: Any, asked: Asked) -> Any:
    """The end of the iteration."""
    _refuse(problem)


@functools.singledispatch
def extremals_of(
    problem: Any, asked: Asked, requests: Sequence[Request], threads: int, continued: bool = False
) -> list[Any]:
    """The ends of the iterations for many requests in the place of that which is asked, prepared once; continued: each from
    the solution of its neighbour."""
    _refuse(problem)


@functools.singledispatch
def smooth_start(problem: Any, asked: Asked) -> SmoothStart:
    """The smooth path through what is given."""
    _refuse(problem)


def _refuse(problem: object) -> NoReturn:
    raise TypeError(f"problem: found {described(problem)}; give a VariationalProblem or an OptimalControl")


def prepare_once(prepare: Callable[[Any, Asked], T], problem: Any, asked: Asked) -> T:
    """prepare(problem, asked), or what it gave to an earlier call with the same numbers and the same functions, which still
    read the same."""
    check_x64()
    key = _key_of(prepare, problem, asked)
    if key is None:
        return prepare(problem, asked)
    found = _READY.get(key)
    if found is None:
        try:
            own = asked._replace(request=Request(*map(_copy, asked.request)), bounds=_copy(asked.bounds))
            own = own._replace(grid=TimeGrid(*map(_copy, asked.grid)), scales=_copy(asked.scales))
        except RecursionError:  # a list that holds itself
            return prepare(problem, asked)
        found = prepare(problem, own)
        if isinstance(found.kkt.assembly, CompiledAssembly):  # what runs on JAX gives a warning at every call
            _READY.put(key, found)
    return found


def _key_of(prepare: Callable, problem: Any, asked: Asked) -> Any:
    """Equal for equal calls; None where calls cannot be compared, or are too large to keep, or where data are wrong, which
    `prepare` explains."""
    numbers = Walk()
    try:
        steps = asked.grid.steps if asked.grid.times is None else len(asked.grid.times)
        read = content(problem, asked.scheme, rules=(asked.inequalities,))
        if read is None or not isinstance(steps, int) or steps > MOST_KEPT:
            return None
        given = numbers.of((asked.request, asked.grid, asked.scales, asked.settings, asked.bounds, tuple(read.arrays)))
        others = [same for same in numbers.objects if not isinstance(same.object, DATA)]
    except (TypeError, ValueError):  # of arrays that hold no numbers
        return None
    return (prepare, read.key, given, (*read.objects, *others), chooses_own_pivots()) if numbers.lasting else None


_READY: Remembered[Any] = Remembered(8)


def _copy(x: Any) -> Any:
    """Numbers that nobody else can change."""
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, Mapping):
        return {key: _copy(value) for key, value in x.items()}
    if type(x) in (list, tuple):
        return type(x)(map(_copy, x))
    return jax.tree.map(_copy, x) if isinstance(x, Nodes | CriticalPoint) else x
