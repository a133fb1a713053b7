"""The Taylor series of an equation, compiled when a run first wants it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Sequence

import numpy as np

from dalembert.native.assembly.function import GraphFunction
from dalembert.native.flow.integration import Integration
from dalembert.native.flow.series import Series, series
from dalembert.native.flow.series_code import ORDERS, SeriesCode
from dalembert.native.flow.taylor_code import TAYLOR, order_for, taylor
from dalembert.native.graph.choices import selected
from dalembert.native.graph.dependence import Dependence
from dalembert.native.graph.graph import Unsupported
from dalembert.native.graph.simplify import gather_factors
from dalembert.native.llvm.cache import Cache
from dalembert.native.llvm.jit import Loaded
from dalembert.native.llvm.packing import Held, Packing, bits

_ONE_AT_A_TIME = threading.Lock()
FINEST = 1e-16  # of tolerances
MOVING = ("x0", "x1")  # the state and the time
WHOLE = range(20, 100)  # convolutions for which LLVM's whole program pays: it finds vectors, and takes three times as long


@dataclasses.dataclass(frozen=True)
class TaylorMethod:
    """ẏ = f(y, t, *given) with x0 = y, x1 = t, and whether f holds there; slope: nodes of f, holds: of that truth value."""

    made: GraphFunction
    known: Series
    slope: tuple[int, ...]
    holds: int
    cache: Cache

    def pays(self, tolerance: float) -> bool:
        """Whether it takes less time than the method of order 8: with at most d² convolutions for d digits of the tolerance,
        as measured on the gallery and on chains of 3 to 7 rods."""
        return self._work <= math.log10(tolerance) ** 2

    @functools.cached_property
    def _work(self) -> int:
        return len(self.known.convolutions)

    @functools.cached_property
    def _code(self) -> SeriesCode:
        with _ONE_AT_A_TIME:  # it adds to the graph
            return SeriesCode(self.known, self.made.sizes, len(self.made.tracer.captured), self.slope, self.holds)

    @functools.cached_property
    def _functions(self) -> Loaded:
        return self.cache.load(self._code.text(), plain=self._work not in WHOLE)

    @functools.cached_property
    def _loop(self) -> Loaded:
        return self.cache.load(taylor(), plain=True)

    def go_on(self, at: Integration, beside: Sequence[int], told: int, clipped: bool) -> int:
        """From where the integration stands, as far as the series goes. beside: a watch and a projection, with what they are
        told, by address. told: of `over`."""
        return at.go_on(lambda *x: self._run(told, *beside, *x), clipped)

    def over(self, values: np.ndarray, clock: float) -> SeriesArrays:
        """The arrays of one run at a time. values: (y, t, *given) flat."""
        whole, captured = np.zeros(self._layout.size), self.made.tracer.captured
        whole[: len(values)] = values  # given comes first
        whole[len(values) : len(values) + len(captured)] = captured
        numbers = {"clock": bits(clock), "order": 0, "signs": self.known.signs, "many": len(self.known.borders)}
        functions = {name: self._functions.address(name) for name in ("begin", "expand", "polynomial")}
        return SeriesArrays(self._layout, whole, functions | numbers)

    @functools.cached_property
    def _run(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 10)(self._loop.address("taylor"))

    @functools.cached_property
    def _layout(self) -> Packing:
        """Of all arrays of a run, in one piece."""
        code, n = self._code, len(self.slope)
        given = sum(self.made.sizes) + len(self.made.tracer.captured)
        many = len(self.known.borders)
        return Packing.of({"given": given, "kept": len(code.kept), "slope": n + 2 + many, "rows": ORDERS * n,
                           "borders": ORDERS * many, "work": code.work_size, "rate": n})  # fmt: skip


class SeriesArrays:
    """What the loop is told. whole: all its arrays in one piece; parts: each of them; words: all else."""

    def __init__(self, layout: Packing, whole: np.ndarray, words: dict[str, int]):
        self._held, self.parts = Held(), layout.unpack(whole)
        first = self._held.array(whole)
        arrays = {name: first + 8 * field.offset for name, field in layout.fields.items()}
        self._words = TAYLOR.pack(**arrays, **words)
        self._address, self._order = self._held.array(self._words), TAYLOR.offset("order")

    def told(self, tolerance: float) -> int:
        """Where it stands."""
        self._words[self._order] = order_for(tolerance)
        return self._address


def taylor_method(made: GraphFunction, cache: Cache) -> TaylorMethod | None:
    """made: results (f, whether it holds), or f alone; None where f has no power series, or one that never pays."""
    g, slope = made.graph.copy(), made.results[0].ravel().tolist()
    holds = int(made.results[1].item()) if len(made.results) > 1 else g.true
    slope, depend = selected(g, slope), Dependence(g)
    slope = gather_factors(g, slope, lambda i: int(depend.on(i, *MOVING)))
    try:
        known = series(g, slope, MOVING)
    except Unsupported:
        return None
    method = TaylorMethod(made, known, tuple(slope), holds, cache)
    return method if method.pays(FINEST) else None
