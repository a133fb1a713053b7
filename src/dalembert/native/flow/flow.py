"""ẏ = g(z, y, t) with F(z, y, t) = 0, compiled from JAX functions and integrated at the times asked for."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.native.assembly.function import CompiledFunction, compile_function, translated
from dalembert.native.chunks import FIRST, paced
from dalembert.native.flow.field_code import FIELD, field
from dalembert.native.flow.loop_code import COUNTED, NUMBERS, REACHED, TOO_MANY, WATCHED, loop, work_size
from dalembert.native.flow.written import written_field
from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.cache import CACHE, Cache
from dalembert.native.llvm.dense import pivoted_solver
from dalembert.native.llvm.jit import Loaded
from dalembert.native.root.iteration_code import iteration
from dalembert.native.root.root import REPORT
from dalembert.native.trace.place import refusing
from dalembert.native.trace.proof import Equations

ROWS = 10_000  # at which a function is evaluated in one call


@dataclasses.dataclass(frozen=True)
class ImplicitPart:
    """F(z, y, t, *given) = 0 by Newton's iteration from `start`: |update_i| ≤ tolerance (1 + |z_i|), the last applied.

    units: F' → (k,), by which its columns are scaled; computed by jax.numpy.
    """

    equations: Callable
    start: Float[np.ndarray, "k"]
    units: Callable
    tolerance: float
    most: int


@dataclasses.dataclass(frozen=True)
class FlowFunctions:
    """What is integrated: functions of (z, y, t, *given), without z where there are no unknowns.

    field: g. outputs: numbers to be known at the times, too. watch: a number; the integration ends where it is below 0.
    """

    field: Callable
    outputs: Callable
    unknowns: ImplicitPart | None = None
    watch: Callable | None = None


class Travelled(NamedTuple):
    """rows and outputs at the first `saved` times. t: what was reached, end: the outputs there; reached: whether it is the
    last time, watched: whether the watch has ended it; steps: all that were tried."""

    rows: Float[np.ndarray, "T N"]
    outputs: Float[np.ndarray, "T r"]
    saved: int
    t: float
    end: Float[np.ndarray, "r"]
    reached: bool
    watched: bool
    steps: int


@dataclasses.dataclass(frozen=True)
class _Equations:
    """The compiled equations for z. affine: whether one update solves them. written: the field with z eliminated."""

    code: CompiledFunction
    unknowns: ImplicitPart
    affine: bool
    written: CompiledFunction | None
    root: Loaded
    solver: Loaded

    def words(self, held: _Held, values: np.ndarray, start: np.ndarray | None) -> dict[str, Any]:
        """What a field is told of them; values: (y, t, *given) flat."""
        k, u = self.unknowns.start.size, self.unknowns
        start = np.zeros(k) if self.affine else u.start if start is None else start
        given = held.array(np.concatenate([np.zeros(k), values, self.code.captured]))
        tolerance = np.inf if self.affine else u.tolerance
        return {
            "unknowns": k, "most": 1 if self.affine else u.most, "tolerance": _bits(tolerance),
            "root": self.root.address("root"), "equations": self.code.address, "pivoted": self.solver.address("pivoted"),
            "start": held.array(start), "equations_given": given, "result": held.array(np.empty(self.code.result_size)),
            "work": held.array(np.empty(k * (k + 1) + REPORT)),
        }  # fmt: skip


class _Held:
    """Arrays that machine code is given by address, as long as this object."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def array(self, value: np.ndarray) -> int:
        kept = np.ascontiguousarray(value)
        self._arrays.append(kept)
        return kept.ctypes.data


class Accuracy(NamedTuple):
    """tolerance: relative and absolute, local. steps: at most. clipped: whether steps end at the times, for which rows are
    then as accurate as the steps."""

    tolerance: float
    steps: int
    clipped: bool = False


@dataclasses.dataclass(frozen=True)
class CompiledFlow:
    """An equation of N components as machine code. Every run has arrays of its own, so that it is safe under threads."""

    size: int
    field: CompiledFunction
    outputs: CompiledFunction
    watch: CompiledFunction | None
    equations: _Equations | None
    codes: _Codes

    def run(
        self, y: np.ndarray, times: np.ndarray, given: Sequence[Any], accuracy: Accuracy, start: np.ndarray | None = None
    ) -> Travelled:
        """From y at times[0] to the last of the times, which increase or decrease; start: of z, if it is another one."""
        clock, n = 1.0 if times[-1] > times[0] else -1.0, self.size
        held, told = self._told(given, start, clock)
        rows, times = np.empty((len(times), n)), np.ascontiguousarray(clock * np.asarray(times, float))
        rows[0] = y
        h = self.codes.first_step(told["field"], rows[0], times, accuracy.tolerance)
        numbers = NUMBERS.pack(t=times[0], h=h, tolerance=accuracy.tolerance)
        counts = COUNTED.pack(
            size=n, times=len(times), most=0, clipped=int(accuracy.clipped), steps=0, saved=1, refused=0
        )  # fmt: skip
        state, work, field = rows[0].copy(), np.empty(work_size(n)), self.codes.address
        watch = (field, told["watch"]) if "watch" in told else (0, 0)
        arrays = tuple(x.ctypes.data for x in (numbers, counts, times, state, rows, work))
        code = self._go_on(lambda: self.codes.integrate(field, told["field"], *watch, *arrays), counts, accuracy.steps)
        saved, steps = (int(counts[COUNTED.offset(name)]) for name in ("saved", "steps"))
        outputs = np.full((len(times), self.outputs.result_size), np.nan)
        outputs[:saved] = self._outputs(told, times[:saved], rows[:saved])
        end = self._outputs(told, numbers[:1], state[None])[0]  # t is the first of the numbers
        del held
        return Travelled(rows, outputs, saved, clock * float(numbers[0]), end, code == REACHED, code == WATCHED, steps)

    @staticmethod
    def _go_on(run: Callable[[], int], counts: np.ndarray, most: int) -> int:
        """Chunk by chunk to the end, or for so many steps: between two of them Python answers Ctrl-C."""
        chunk, steps, limit = FIRST, COUNTED.offset("steps"), COUNTED.offset("most")
        while True:
            counts[limit] = min(most, counts[steps] + chunk)
            began = time.perf_counter()
            code = run()
            if code != TOO_MANY or counts[steps] >= most:
                return code
            chunk = paced(chunk, time.perf_counter() - began)

    def along(
        self, rows: np.ndarray, times: np.ndarray, given: Sequence[Any], start: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """ẏ and the outputs at states and times that are given, NaN where they have no value."""
        held, told = self._told(given, start, 1.0)
        at = np.ascontiguousarray(times, float), np.ascontiguousarray(rows, float)
        found = self._along(told["field"], *at, self.size), self._outputs(told, *at)
        del held
        return found

    def _outputs(self, told: dict[str, int], times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self._along(told["outputs"], times, rows, self.outputs.result_size)

    def _along(self, told: int, times: np.ndarray, rows: np.ndarray, width: int) -> np.ndarray:
        found = np.empty((len(times), width))
        for i in range(0, len(times), ROWS):  # Ctrl-C is answered between two calls
            part = slice(i, i + ROWS)
            addresses = (x[part].ctypes.data for x in (times, rows, found))
            self.codes.along(told, *addresses, len(times[part]), self.size, width)
        return found

    def _told(self, given: Sequence[Any], start: np.ndarray | None, clock: float) -> tuple[_Held, dict[str, int]]:
        """Where it stands what each function is told, as long as what is returned with it is kept."""
        held = _Held()
        values = np.concatenate([np.zeros(self.size + 1), *(np.ravel(np.asarray(x, float)) for x in given)])
        shared = dict.fromkeys(FIELD.fields, 0)
        if self.equations is not None:
            shared |= self.equations.words(held, values, start)
        functions = {"field": self.field, "outputs": self.outputs, "watch": self.watch}
        shared = {**shared, "size": self.size, "clock": _bits(clock), "factor": _bits(1.0)}
        turned = {**shared, "factor": _bits(clock)}
        own = {name: turned if name == "field" else shared for name in functions}
        if self.equations is not None and (written := self.equations.written) is not None:
            arrays = np.concatenate([values, written.captured]), np.empty(written.result_size)
            told = dict(zip(("written_given", "written_result"), map(held.array, arrays), strict=True))
            own["field"] = {**turned, **told, "written": written.address}
        return held, {name: _told(held, code, own[name], values) for name, code in functions.items() if code}


def _bits(x: float) -> int:
    """A double among integers."""
    return int(np.float64(x).view(np.int64))


def _told(held: _Held, code: CompiledFunction, shared: dict[str, Any], values: np.ndarray) -> int:
    """Where it stands what a field is told. values: (y, t, *given) flat."""
    given = np.concatenate([np.zeros(shared["unknowns"]), values, code.captured])
    return held.array(FIELD.pack(**{**shared, "function": code.address, "function_given": held.array(given)}))


@dataclasses.dataclass(frozen=True)
class _Codes:
    """The code that is the same for all equations."""

    field: Loaded
    loop: Loaded

    @functools.cached_property
    def address(self) -> int:
        return self.field.address("field")

    @functools.cached_property
    def value(self) -> Callable[..., int]:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)
        return kind(self.address)

    @functools.cached_property
    def along(self) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)(self.field.address("along"))

    @functools.cached_property
    def integrate(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 10)(self.loop.address("integrate"))

    def slope(self, told: int, t: float, y: np.ndarray) -> np.ndarray:
        """ẏ, NaN where it has no value."""
        found = np.full_like(y, np.nan)
        return found if not self.value(told, t, y.ctypes.data, found.ctypes.data) else np.full_like(y, np.nan)

    def first_step(self, told: int, y: np.ndarray, times: np.ndarray, tolerance: float) -> float:
        """A step whose error is about the tolerance: from the sizes of y, ẏ and ÿ; Hairer, Norsett, Wanner, II.4."""
        size = lambda x: float(np.sqrt(np.mean((x / (tolerance * (1.0 + np.abs(y)))) ** 2)))  # noqa: E731
        t, whole, slope = float(times[0]), float(times[-1] - times[0]), self.slope(told, float(times[0]), y)
        state, speed = size(y), size(slope)
        short = min(1e-6 if not min(state, speed) >= 1e-5 else 0.01 * state / speed, whole)
        bend = max(speed, size(self.slope(told, t + short, y + short * slope) - slope) / short)
        step = (0.01 / bend) ** 0.125 if bend > 1e-15 else max(1e-6, 1e-3 * short)
        return min(100.0 * short, step, whole) if np.isfinite(step) else short


@refusing
def compile_flow(functions: FlowFunctions, y: np.ndarray, given: Sequence[Any] = (), cache: Cache = CACHE) -> CompiledFlow:
    """The equation for states like y, and arrays like `given`; Unsupported where a function cannot be translated, or where
    the equations for z may jump, so that a small update is no proof of a root."""
    unknowns, examples = functions.unknowns, (np.zeros(np.shape(y)), np.zeros(()), *(np.zeros(np.shape(x)) for x in given))
    k = 0 if unknowns is None else unknowns.start.size

    def compiled(function: Callable) -> CompiledFunction:
        whole = function if unknowns is None else lambda z, *x: function(z, *x)
        return compile_function(whole, *((np.zeros(k),) if unknowns else ()), *examples, cache=cache)

    found = {name: compiled(getattr(functions, name)) for name in ("field", "outputs")}
    watch = None if functions.watch is None else compiled(functions.watch)
    known = (*examples[:2], *(np.asarray(x, float) for x in given))
    equations = None if unknowns is None else _equations(functions.field, unknowns, known, cache)
    codes = _Codes(*(cache.load(text, plain=True) for text in (field(), loop())))
    return CompiledFlow(np.size(y), found["field"], found["outputs"], watch, equations, codes)


def _equations(field: Callable, unknowns: ImplicitPart, examples: Sequence[Any], cache: Cache) -> _Equations:
    def function(z, *given):
        value, matrix = value_and_jacobian(lambda x: unknowns.equations(x, *given), z)
        units = unknowns.units(matrix)
        return value, matrix * units, units

    made = translated(function, np.zeros_like(unknowns.start), *examples)
    value, matrix, _ = made.results
    proven = Equations(made.graph, value.tolist(), matrix, made.tracer.declared, "x0")
    everything = range(len(value))
    if proven.judged(everything, everything):
        raise Unsupported("equations", "they may jump with the unknowns")
    loop_, solver = (cache.load(text, plain=True) for text in (iteration(), pivoted_solver(None)))
    affine = proven.affine(everything, everything)
    written = written_field(field, unknowns.equations, len(value), examples, cache) if affine else None
    return _Equations(made.compiled(cache), unknowns, affine, written, loop_, solver)
