"""ẏ = g(z, y, t) with F(z, y, t) = 0, compiled from JAX functions or a graph, and integrated at the times asked for."""

from __future__ import annotations

import ctypes
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.algebra import value_and_jacobian
from dalembert.interrupts import leave_if_wanted
from dalembert.native.assembly.function import CompiledFunction, GraphFunction, compile_function, translate_function
from dalembert.native.flow.choices import Choices
from dalembert.native.flow.field_code import FIELD, PROJECTION, field_text
from dalembert.native.flow.loop_code import COUNTED, NUMBERS, REACHED, TOO_MANY, WATCHED, loop_text, work_size
from dalembert.native.flow.written import write_elimination
from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.cache import CACHE, Loaded
from dalembert.native.llvm.dense import iteration, pivoted_solver
from dalembert.native.llvm.packing import Held, bits
from dalembert.native.root import REPORT
from dalembert.native.threads import FIRST_STEPS, next_chunk, share
from dalembert.native.trace.place import refusing
from dalembert.native.trace.proof import Equations

STILL = dict.fromkeys(("h", "next", "behind", "way"), 0.0)
BEGINNING = {"most": 0, "clipped": 0, "steps": 0, "saved": 1, "refused": 0, "mode": 0}
PART = 0.03  # of the tolerance, that the error of a step may be: what many steps add up to is then of its size
ROUNDING = 5e-15  # a tolerance of which no part is taken


def allowed_errors(tolerance: Any) -> np.ndarray:
    """The tolerances of steps."""
    return np.maximum(PART * np.asarray(tolerance), np.minimum(tolerance, ROUNDING))


class Accuracy(NamedTuple):
    """tolerance: relative and absolute, local. steps: at most. clipped: whether steps end at the times, for which rows are
    then as accurate as the steps."""

    tolerance: float
    steps: int
    clipped: bool = False


class Solved(NamedTuple):
    """rows: at the first `saved` times, infinite after them. Of many integrations all have a leading axis."""

    rows: Any
    saved: Any
    reached: Any
    steps: Any


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


class Integration(NamedTuple):
    """The state of an integration. y: with the typical sizes of its components behind it. most: steps."""

    numbers: np.ndarray
    counts: np.ndarray
    times: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    most: int

    @classmethod
    def from_start(cls, y: np.ndarray, times: np.ndarray, accuracy: Accuracy) -> Integration:
        """The beginning: y at times[0]."""
        return cls.many(y[None], times[None], np.array([accuracy.tolerance]), accuracy.steps).one(0)

    @classmethod
    def many(cls, y: np.ndarray, times: np.ndarray, tolerance: np.ndarray, steps: int) -> Integration:
        """The beginnings of many, in arrays with a leading axis: y (B, N); times and tolerance may have length 1."""
        (number, size), length = y.shape, times.shape[1]
        rows = np.empty((number, length, size))
        rows[:, 0] = y
        numbers = np.tile(NUMBERS.pack(t=0.0, tolerance=0.0, **STILL), (number, 1))
        numbers[:, NUMBERS.offset("t")] = times[:, 0]
        numbers[:, NUMBERS.offset("tolerance")] = allowed_errors(tolerance)
        counts = np.tile(COUNTED.pack(size=size, times=length, **BEGINNING), (number, 1))
        return cls(numbers, counts, times, np.concatenate([y, np.ones(y.shape)], axis=1), rows, steps)

    def one(self, i: int) -> Integration:
        """Of many: views."""
        times = self.times[i if len(self.times) > 1 else 0]
        return Integration(self.numbers[i], self.counts[i], times, self.y[i], self.rows[i], self.most)

    def measure(self, rates: np.ndarray, positions: int) -> None:
        """Note the typical sizes of a motion: |y| + T|ẏ| over the whole time T, and 1 where that is more or nothing moves.

        Errors are relative to those of a small motion, and absolute otherwise. rates: ẏ at the beginning.
        """
        size, time = len(rates), float(self.times[-1] - self.t[0])
        reach = [abs(x) + time * abs(rate) for x, rate in zip(self.y[:size].tolist(), rates.tolist(), strict=True)]
        rest = max(reach[positions:], default=0.0)
        first = max(reach[:positions], default=0.0) or time * rest
        self.y[size : size + positions] = first if 0.0 < first < 1.0 else 1.0
        self.y[size + positions :] = rest if 0.0 < rest < 1.0 else 1.0

    @property
    def t(self) -> np.ndarray:
        """(1,) the time reached, a view."""
        return self.numbers[NUMBERS.offset("t") :][:1]

    def count(self, name: str) -> int:
        return int(self.counts[COUNTED.offset(name)])

    def solution(self, code: int) -> Solved:
        """The solution that the integration has come to. code: of its end."""
        saved = self.count("saved")
        self.rows[saved:] = np.inf
        return Solved(self.rows, saved, code == REACHED, self.count("steps"))

    def go_on(self, run: Callable[..., int], clipped: bool) -> int:
        """Chunk by chunk to the end: between two of them Ctrl-C is answered, in any thread."""
        chunk, limit = FIRST_STEPS, COUNTED.offset("most")
        self.counts[COUNTED.offset("clipped")] = int(clipped)
        addresses = [x.__array_interface__["data"][0] for x in self[:5]]
        while True:
            self.counts[limit] = min(self.most, self.count("steps") + chunk)
            began = time.perf_counter()
            code = run(*addresses)
            if code != TOO_MANY or self.count("steps") >= self.most:
                return code
            leave_if_wanted()
            chunk = next_chunk(chunk, time.perf_counter() - began)


class FlowCodes:
    """The code that is the same for all equations: addresses and functions."""

    def __init__(self) -> None:
        self._loaded = field, loop = [CACHE.load(text, plain=True) for text in (field_text(), loop_text())]
        self.field, self.project = (field.address(name) for name in ("field", "project"))
        self.along = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)(field.address("along"))
        self.integrate = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 12)(loop.address("integrate"))


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
    """Functions that define an integration, of (z, y, t, *given), without z where there are no unknowns.

    field: g. outputs: numbers wanted at the times. watch: below 0 it ends the integration. positions: whose rates follow.
    """

    field: Callable
    outputs: Callable
    unknowns: ImplicitPart | None = None
    watch: Callable | None = None
    positions: int = 0


@dataclasses.dataclass(frozen=True)
class _Equations:
    """The compiled equations for z. affine: whether one update solves them. written: field and outputs with z eliminated."""

    code: CompiledFunction
    unknowns: ImplicitPart
    affine: bool
    written: dict[str, CompiledFunction]
    root: Loaded
    solver: Loaded

    def words(self, held: Held, given: np.ndarray, start: np.ndarray | None) -> dict[str, Any]:
        """Run parameters of a field for the equations; given: (z, y, t, *given) and what they close over, flat."""
        k, u = self.unknowns.start.size, self.unknowns
        start = np.zeros(k) if self.affine else u.start if start is None else start
        tolerance = np.inf if self.affine else u.tolerance
        return {
            "unknowns": k, "most": 1 if self.affine else u.most, "tolerance": bits(tolerance),
            "root": self.root.address("root"), "equations": self.code.address, "pivoted": self.solver.address("pivoted"),
            "start": held.array(start), "equations_given": held.array(given),
            "result": held.array(np.empty(self.code.result_size)), "work": held.array(np.empty(k * (k + 1) + REPORT)),
        }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class CompiledFlow:
    """An equation of N components as machine code."""

    size: int
    field: CompiledFunction
    outputs: CompiledFunction
    watch: CompiledFunction | None
    equations: _Equations | None
    choices: Choices | None = None
    positions: int = 0
    projection: CompiledFunction | None = None
    codes: FlowCodes = dataclasses.field(default_factory=FlowCodes)

    @property
    def without_pivots(self) -> bool:
        """True if unknowns that enter linearly are not eliminated: at the numbers given no pivots served."""
        return self.equations is not None and self.equations.affine and not self.equations.written

    def project_onto(self, projection: CompiledFunction) -> CompiledFlow:
        """The same flow, kept on constraints. projection: (y, t, *given) → as of `compile_projection`."""
        return dataclasses.replace(self, projection=projection)

    def over(self, given: Sequence[Any], clock: float = 1.0, start: np.ndarray | None = None) -> FlowArrays:
        """The arrays of one run at a time. clock: -1.0 where time decreases; start: of z, if it is another one."""
        return FlowArrays(self, given, clock, start)

    def run(self, y: np.ndarray, times: np.ndarray, arrays: FlowArrays, accuracy: Accuracy) -> Travelled:
        """From y at times[0] to the last of the times, which increase or decrease."""
        clock = arrays.clock
        at = Integration.from_start(np.asarray(y, float), np.ascontiguousarray(clock * np.asarray(times, float)), accuracy)
        code = self.advance(at, arrays, accuracy.clipped)
        saved, steps = (at.count(name) for name in ("saved", "steps"))
        outputs = self.outputs_at(arrays, at.times[:saved], at.rows[:saved])
        if saved < len(times):
            rest = np.full((len(times) - saved, self.outputs.result_size), np.nan)
            end, outputs = self.outputs_at(arrays, at.t, at.y[None])[0], np.concatenate([outputs, rest])
        else:
            end = outputs[-1]
        t = clock * float(at.t[0])
        return Travelled(at.rows, outputs, saved, t, end, code == REACHED, code == WATCHED, steps)

    def advance(self, at: Integration, arrays: FlowArrays, clipped: bool = False) -> int:
        """Integrate from where it stands to the end; returns how it ended."""
        told = arrays.parameters
        at.measure(self._rates(arrays, at.t, at.y[None])[0], self.positions)
        watch = (self.codes.field, told["watch"]) if self.watch is not None else (0, 0)
        project = (self.codes.project, told["project"]) if self.projection is not None else (0, 0)
        many = self.choices.signs + self.choices.flat if self.choices else 0
        work, integrate = np.empty(work_size(self.size, many)), self.codes.integrate
        run = lambda *x: integrate(self.codes.field, told["field"], *watch, *project, *x, work.ctypes.data)  # noqa: E731
        return at.go_on(run, clipped)

    def along(self, rows: np.ndarray, times: np.ndarray, arrays: FlowArrays) -> tuple[np.ndarray, np.ndarray]:
        """ẏ and the outputs at states and times that are given, NaN where they have no value."""
        at = np.ascontiguousarray(times, float), np.ascontiguousarray(rows, float)
        return self._rates(arrays, *at), self.outputs_at(arrays, *at)

    def _rates(self, arrays: FlowArrays, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """ẏ, with choices as the states say, whatever the last step has kept."""
        arrays.sides[:1] = 1.0
        return self._along(arrays.parameters["field"], times, rows, self.size)

    def outputs_at(self, arrays: FlowArrays, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """At rows and times in the direction of these arrays' clock."""
        return self._along(arrays.parameters["outputs"], times, rows, self.outputs.result_size)

    def _along(self, told: int, times: np.ndarray, rows: np.ndarray, width: int) -> np.ndarray:
        found = np.empty((len(times), width))
        for i in range(0, len(times), ROWS):  # Ctrl-C is answered between two calls
            part = slice(i, i + ROWS)
            addresses = (x[part].__array_interface__["data"][0] for x in (times, rows, found))
            self.codes.along(told, *addresses, len(times[part]), self.size, width)
        return found


class FlowArrays:
    """Run parameters of the functions of a flow, for one run at a time, so that runs are safe under threads.

    clock: the direction of time. parameters: their addresses, by the names of the functions. sides: of the field's choices,
    where it has any.
    """

    def __init__(self, flow: CompiledFlow, given: Sequence[Any], clock: float, start: np.ndarray | None):
        self.clock, self._size, self._held, self.sides = clock, flow.size, Held(), np.empty(0)
        self._given = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(x, float)) for x in given)])
        self._places: list[np.ndarray] = []  # where the arrays of the functions stand, flat
        shared = dict.fromkeys(FIELD.fields, 0) | {"size": flow.size, "clock": bits(clock), "factor": bits(1.0)}
        if flow.equations is not None:
            code, unknowns = flow.equations.code, flow.equations.unknowns.start.size
            shared |= flow.equations.words(self._held, self._flat(unknowns, code), start)
        parts = {"field": flow.field, "outputs": flow.outputs, "watch": flow.watch}
        words = {name: self._words(flow, name, code, shared) for name, code in parts.items() if code is not None}
        if flow.projection is not None:
            arrays = map(self._held.array, (self._flat(0, flow.projection), np.empty(flow.projection.result_size)))
            own = dict(zip(("given", "result"), arrays, strict=True)) | {"clock": bits(clock), "size": flow.size}
            words["project"] = PROJECTION.pack(**own, function=flow.projection.address)
        self.parameters = {name: self._held.array(x) for name, x in words.items()}

    def refill(self, given: np.ndarray) -> None:
        """Other numbers in all arrays of the functions, flat, or in the last of them."""
        for place in self._places:
            place[len(place) - len(given) :] = given

    def _flat(self, unknowns: int, code: CompiledFunction, sides: int = 0) -> np.ndarray:
        """(z, y, t, *given, sides) and what this code closes over, flat, with room for z, y and t."""
        first = unknowns + self._size + 1
        whole = np.concatenate([np.zeros(first), self._given, np.ones(sides), code.captured])
        self._places.append(whole[first : first + len(self._given)])
        return whole

    def _words(self, flow: CompiledFlow, name: str, code: CompiledFunction, shared: dict[str, Any]) -> np.ndarray:
        own, choices = dict(shared), flow.choices if name == "field" else None
        written = choices.code if choices else flow.equations and flow.equations.written.get(name)
        if name == "field":
            own["factor"] = bits(self.clock)
        if choices:
            own |= {"signs": choices.signs, "flat": choices.flat, "sides": choices.sides}
        if written is not None:
            arrays = self._flat(0, written, own["sides"]), np.empty(written.result_size)
            own |= dict(zip(("written_given", "written_result"), map(self._held.array, arrays), strict=True))
            before = self._size + 1 + len(self._given)
            own |= {"written": written.address, "sides_given": own["written_given"] + 8 * before}
            if choices:
                self.sides = arrays[0][before:][: choices.sides]
        given = self._held.array(self._flat(own["unknowns"], code))
        return FIELD.pack(**own | {"width": code.result_size, "function": code.address, "function_given": given})


@refusing
def compile_flow(functions: FlowFunctions, y: np.ndarray, given: Sequence[Any] = ()) -> CompiledFlow:
    """The equation for states like y, and arrays like `given`; Unsupported where a function cannot be translated, or where
    the equations for z may jump, so that a small update is no proof of a root."""
    unknowns, examples = functions.unknowns, (np.zeros(np.shape(y)), np.zeros(()), *(np.zeros(np.shape(x)) for x in given))
    first = () if unknowns is None else (np.zeros_like(unknowns.start),)

    def compile_part(function: Callable) -> CompiledFunction:
        return compile_function(function, *first, *examples)

    code = compile_part(functions.field), compile_part(functions.outputs)
    watch = None if functions.watch is None else compile_part(functions.watch)
    known = (*examples[:2], *(np.asarray(x, float) for x in given))
    equations, plain = (None, None) if unknowns is None else _compile_equations(functions, unknowns, known)
    plain = translate_function(functions.field, *examples) if unknowns is None else plain
    choices = None if plain is None else Choices.of(plain)
    return CompiledFlow(np.size(y), *code, watch, equations, choices, functions.positions)


def _compile_equations(
    functions: FlowFunctions, unknowns: ImplicitPart, examples: Sequence[Any]
) -> tuple[_Equations, GraphFunction | None]:
    """And the field with z eliminated, where z enters linearly."""

    def function(z, *given):
        value, matrix = value_and_jacobian(lambda x: unknowns.equations(x, *given), z)
        units = unknowns.units(matrix)
        return value, matrix * units, units

    made = translate_function(function, np.zeros_like(unknowns.start), *examples)
    value, matrix, _ = made.results
    proven = Equations(made.graph, value.tolist(), matrix, made.tracer.declared, "x0")
    everything = range(len(value))
    if proven.may_jump(everything, everything):
        raise Unsupported("equations", "they may jump with the unknowns")
    loop_, solver = (CACHE.load(text, plain=True) for text in (iteration(), pivoted_solver()))
    affine = proven.affine(everything, everything)
    wanted = (functions.field, functions.outputs)
    plain = write_elimination(wanted, unknowns.equations, len(value), examples) if affine else []
    found = {name: x.compile() for name, x in zip(("field", "outputs"), plain, strict=False)}
    return _Equations(made.compile(), unknowns, affine, found, loop_, solver), plain[0] if plain else None


class FlowRuns(NamedTuple):
    """Initial data of B integrations. times, tolerance, given: of length B, or 1 where they are the same for all; given: the
    arrays of the functions, flat."""

    y: Float[np.ndarray, "B N"]
    times: Float[np.ndarray, "some T"]
    tolerance: Float[np.ndarray, "some"]
    given: Float[np.ndarray, "some G"]

    @property
    def clocks(self) -> Float[np.ndarray, "some"]:
        """-1.0 where time decreases."""
        return np.where(self.times[:, -1] > self.times[:, 0], 1.0, -1.0)

    def increasing_times(self) -> Float[np.ndarray, "some T"]:
        """The times multiplied by the clocks."""
        return np.ascontiguousarray(self.times * self.clocks[:, None])


def _each_run(flow: CompiledFlow, runs: FlowRuns, threads: int, one: Callable[[int, FlowArrays], None]) -> None:
    """one(i, arrays) of every run, in so many threads; arrays: those of its thread, filled with its numbers."""
    clocks = runs.clocks

    def begin_thread() -> Callable[[int], None]:
        known: dict[float, FlowArrays] = {}  # for either direction of time

        def take(i: int) -> None:
            clock, given = float(_of(clocks, i)), _of(runs.given, i)
            if clock not in known:
                known[clock] = flow.over([given], clock)
            elif len(runs.given) > 1:
                known[clock].refill(given)
            one(i, known[clock])

        return take

    share(begin_thread, len(runs.y), threads)


def travel(flow: CompiledFlow, runs: FlowRuns, steps: int, threads: int) -> Solved:
    """All of them, one after the other in each thread; no run depends on another. steps: of each, at most."""
    together = Integration.many(runs.y, runs.increasing_times(), runs.tolerance, steps)
    reached = np.zeros(len(runs.y), bool)

    def one(i: int, arrays: FlowArrays) -> None:
        reached[i] = flow.advance(together.one(i), arrays) == REACHED

    _each_run(flow, runs, threads, one)
    saved, taken = (together.counts[:, COUNTED.offset(name)] for name in ("saved", "steps"))
    for i in np.flatnonzero(saved < together.rows.shape[1]):
        together.rows[i, saved[i] :] = np.inf
    return Solved(together.rows, saved, reached, taken)


def outputs_along(flow: CompiledFlow, runs: FlowRuns, solved: Solved, threads: int) -> Float[np.ndarray, "B T r"]:
    """The outputs at the rows that are there, NaN at the others."""
    found, times = np.full((*solved.rows.shape[:2], flow.outputs.result_size), np.nan), runs.increasing_times()

    def one(i: int, arrays: FlowArrays) -> None:
        end = solved.saved[i]
        found[i, :end] = flow.outputs_at(arrays, _of(times, i)[:end], solved.rows[i, :end])

    _each_run(flow, runs, threads, one)
    return found


def _of(values: np.ndarray, i: int) -> np.ndarray:
    """Those of run i."""
    return values[i if len(values) > 1 else 0]


def graph_flow(equation: GraphFunction, outputs: GraphFunction, positions: int) -> CompiledFlow:
    """equation: results (ẏ, whether it holds); where it does not, the integration ends. outputs: of the same graph;
    positions: as of `FlowFunctions`."""
    g, (slope, holds) = equation.graph, equation.results
    nothing = g.constant(float("nan"))
    only = np.array([g.apply("select", int(holds.item()), i, nothing) for i in slope.tolist()])
    whole = dataclasses.replace(equation, results=(only,))
    choices = Choices.of(equation)
    code = whole.compile(), outputs.compile()
    return CompiledFlow(len(only), *code, None, None, choices, positions=positions)
