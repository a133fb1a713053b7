"""From the description of a step to functions that run it, once or many times side by side."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dalembert.native.graph.dependence import needed_nodes
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.cache import CACHE, Cache, Loaded, lanes_of_processor
from dalembert.native.llvm.dense import pivoted_solver
from dalembert.native.llvm.packing import Packing
from dalembert.native.stepper.arrays import COUNTED, Layout
from dalembert.native.stepper.frame import Frame
from dalembert.native.stepper.lane_frame import LaneFrame
from dalembert.native.stepper.linear_systems import LARGEST_WRITTEN, GraphOutputs, Plan, choose_plan, graph_outputs
from dalembert.native.stepper.step import Sample, StepFunctions, Translated, translate
from dalembert.native.stepper.step_code import StepCode
from dalembert.native.threads import processors, run_watched
from dalembert.native.trace.place import refusing
from dalembert.outcome import Outcome

Between = Callable[[], None] | None
K, CODE, LAST, SAVED = (COUNTED.offset(name) for name in ("k", "code", "last", "saved"))
SHORT = 8  # unknowns up to which loops gain nothing from LLVM's whole program
NEVER = np.zeros(1, np.int64)  # of runs that nobody can end
# Steps after which lanes that the scalar run has taken join their group again: few at the start, where a first step often
# needs the pivoted solver, then twice as many each time. They depend on nothing else: a lane's bits are its own.
FIRST_CHUNK, CHUNK = 4, 64
WORTH_THREADS = 4096  # steps of all runs together under which no thread is started
MOST_THREADS = 256
# What @ensemble is told of the code it runs: addresses of @run, @lanes (0: none) and @pivoted; lengths; lanes; the address
# of a number that is set to end it between two chunks.
TABLE = Packing.words("run", "lanes", "solver", "carry", "scratch", "width", "stop")
# What its threads are told: the arguments of @ensemble, and the next run that none has taken.
ARRAYS = ("carry", "count", "inputs", "rows")
NUMBERS = ("number", "inputs_stride", "rows_stride")
JOB = Packing.words("table", *ARRAYS, *NUMBERS, "next")


@dataclasses.dataclass
class CompiledStep:
    """A compiled run. layout: of its arrays; captured: the numbers the functions close over; key: hash of its code; settled:
    whether another sample would not make an elimination of it that is written out."""

    layout: Layout
    captured: np.ndarray
    operations: int
    linear: bool
    written_out: bool
    settled: bool
    key: str
    cache: Cache
    _parts: tuple[Translated, GraphOutputs, Plan | None]
    _code: Loaded
    _solver: Loaded

    def __post_init__(self) -> None:
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)(self._code.address("run"))
        self._pivoted = self._solver.address("pivoted")

    @property
    def carry_size(self) -> int:
        """Length of the carry."""
        return self.layout.packed_carry.size

    @property
    def row_size(self) -> int:
        """Length of a row."""
        return self.layout.packed_row.size

    def run(self, carry: np.ndarray, count: np.ndarray, inputs: np.ndarray, rows: np.ndarray) -> None:
        """Advance one run in place, to the node `until`. carry, inputs, rows: float64 and count: int64, as in Layout;
        contiguous."""
        _check_array(rows, 1)
        self.chunk(carry, count, inputs)(rows.ctypes.data)

    def chunk(self, carry: np.ndarray, count: np.ndarray, inputs: np.ndarray) -> Callable[[int], None]:
        """One call of machine code, up to the node `until`, as a function of the address of the rows."""
        scratch = np.empty(self.layout.packed_scratch.size)
        arrays = (carry, count, inputs, scratch)
        sizes = (self.carry_size, COUNTED.size, self.layout.packed_inputs.size, 0)
        for array, size in zip(arrays, sizes, strict=True):
            _check_array(array, size)
        first, second, third, work = (x.ctypes.data for x in arrays)
        run, pivoted = self._run, self._pivoted

        def call(rows: int, held: tuple = arrays) -> None:  # it holds the arrays as long as their addresses
            run(first, second, third, rows, work, pivoted)

        return call

    def run_many(
        self,
        carry: np.ndarray,
        count: np.ndarray,
        inputs: np.ndarray,
        rows: np.ndarray,
        threads: int | None = None,
        between: Between = None,
    ) -> None:
        """Advance many runs in place, in lanes: arrays with one leading axis (B,); inputs (1, i) are shared by all.

        Ctrl-C ends those that have not ended with Outcome.INTERRUPTED, and is then answered. threads: all processors if
        None; between: called now and then.
        """
        number = len(carry)
        for array, size in ((carry, self.carry_size), (count, COUNTED.size)):
            _check_array(array, number * size)
        if number:
            _check_array(rows[0], 0)  # those of one run in one piece, of the next one wherever they are
        _check_array(inputs, len(inputs) * self.layout.packed_inputs.size)
        if len(inputs) not in (1, number):
            raise ValueError(f"inputs: found {len(inputs)} rows; 1 or {number} are needed")
        strides = (0 if len(inputs) == 1 else inputs.shape[1], rows.strides[0] // rows.itemsize)
        stop = np.zeros(1, np.int64)
        arrays = (self.table(True, stop), carry, count, inputs, rows)
        driver, given = self._driver, (*(a.ctypes.data for a in arrays), number, *strides, threads or processors())
        short = number == 0 or number * int(count[0, LAST]) <= WORTH_THREADS
        if short or threading.current_thread() is not threading.main_thread():
            driver(*given)
        elif not run_watched(lambda: driver(*given), stop, between):
            self._give_up(carry, count, inputs, rows)

    def _give_up(self, carry: np.ndarray, count: np.ndarray, inputs: np.ndarray, rows: np.ndarray) -> None:
        """The outcome of the runs that have not ended, and the rows of their last steps."""
        going = (count[:, K] < count[:, LAST]) & (count[:, CODE] == 0)
        count[going, CODE] = int(Outcome.INTERRUPTED)
        for i in np.flatnonzero(going & (count[:, K] > count[:, SAVED])):
            self.run(carry[i], count[i], inputs[i % len(inputs)], rows[i])

    def table(self, lanes: bool, stop: np.ndarray = NEVER) -> np.ndarray:
        """Parameters of @ensemble for this code, packed as TABLE; the addresses hold as long as this and stop."""
        kernel = self._lanes if lanes else None
        return TABLE.pack(
            run=self._code.address("run"),
            lanes=kernel.address("lanes") if kernel else 0,
            solver=self._pivoted,
            carry=self.carry_size,
            scratch=self.layout.packed_scratch.size,
            width=lanes_of_processor() if kernel else 1,
            stop=stop.ctypes.data,
        )

    @functools.cached_property
    @refusing
    def _lanes(self) -> Loaded | None:
        """The run in lanes, compiled when it is first needed; None where the elimination is not written out."""
        step, outputs, plan = self._parts
        if plan is None:
            return None
        frame = LaneFrame(step, self.layout, outputs, plan, lanes_of_processor())
        return self.cache.load(StepCode(frame).text(), plain=True)

    @functools.cached_property
    def _driver(self) -> Any:
        self._driver_code = self.cache.load(ensemble(), plain=False)  # held as long as its address
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 4)(self._driver_code.address("ensemble"))

    def inputs(self, t0: float, h: float, tolerance: float, p: np.ndarray) -> np.ndarray:
        """The array of settings, the program's arrays and the captured numbers."""
        settings = {"t0": t0, "h": h, "tolerance": tolerance}
        return self.layout.packed_inputs.pack(**settings, p=np.ravel(p), captured=self.captured)


def _check_array(array: np.ndarray, size: int) -> None:
    if not array.flags.c_contiguous or array.size < size:
        raise ValueError(f"found an array of {array.size} numbers; {size} in one piece are needed")


@refusing
def compile_step(step: StepFunctions, sample: Sample, cache: Cache = CACHE) -> CompiledStep:
    """Translate and compile a step; Unsupported tells what cannot be translated."""
    translated = translate(step, sample)
    layout = Layout(
        n=step.n, k=step.k, z=len(translated.f), m=len(translated.multipliers), r=sum(step.reduced),
        p=len(sample.p), captured=len(translated.captured), stages=len(step.weights),
        sides=2 if min(step.weights) < 0 else 1, clock=len(translated.clock),
    )  # fmt: skip
    at = sample.near(translated.graph, np.array(translated.guess), translated.captured)
    found = choose_plan(translated, at(translated.matrix))
    plan = found if found is not None and found.operations <= LARGEST_WRITTEN else None
    outputs = graph_outputs(translated, plan)
    text = StepCode(Frame(translated, layout, outputs, plan)).text()
    # Beside a plan it takes over where a pivot fails: one for all systems, the same as that of the checks while n is small.
    own = plan is None
    solver = cache.load(pivoted_solver(layout.z if own else None), plain=not own and layout.z <= SHORT)
    code = cache.load(text, plain=True)
    size = len(needed_nodes(translated.graph, [*outputs.f, *outputs.jacobian, *outputs.update, *outputs.affine_update]))
    parts = (translated, outputs, plan)
    return CompiledStep(
        layout,
        translated.captured,
        size,
        translated.linear,
        plan is not None,
        found is not None,
        Cache.key(text, True),
        cache,
        parts,
        code,
        solver,
    )


class LaneGroup(NamedTuple):
    """Runs that are advanced together: addresses of the first one's arrays, their number, the nodes now and then."""

    part: dict[str, str]
    size: str
    now: str
    until: str


def ensemble() -> str:
    """Module with  @ensemble(ptr table, carry, count, inputs, rows, i64 number, inputs_stride, rows_stride, threads).

    Arrays as in Layout, one after the other for each run; a stride of 0 shares the inputs. Runs are advanced to their last
    node; groups are taken by whichever thread is free. A thread that cannot be started costs nothing but its speed.
    """
    work, start = Code(), Code()
    _work_code(work)
    _start(start)
    arguments = ", ".join([f"ptr %{x}" for x in ("table", *ARRAYS)] + [f"i64 %{x}" for x in (*NUMBERS, "threads")])
    return module(
        work.function("define internal ptr @work(ptr %job) nounwind"),
        start.function(f"define void @ensemble({arguments}) nounwind"),
        declared=work.declared | start.declared,
    )


def _job_field(c: Code, name: str) -> str:
    return c.at("%job", JOB.offset(name), "i64")


def _count(c: Code, count: str, name: str) -> str:
    """The address of a count."""
    return c.at(count, COUNTED.offset(name), "i64")


def _start(c: Code) -> None:
    """Fill in the job, start the other threads, work, and wait for them."""
    c.slots.append(f"  %job = alloca [{JOB.size} x i64], align 8")
    for name in ("table", *ARRAYS):
        c.store(f"%{name}", _job_field(c, name), "ptr")
    for name in NUMBERS:
        c.store(f"%{name}", _job_field(c, name), "i64")
    c.store("0", _job_field(c, "next"), "i64")
    width = c.load(c.at("%table", TABLE.offset("width"), "i64"), "i64")
    above = c.let(f"add i64 %number, {c.let(f'sub i64 {width}, 1')}")
    groups = c.let(f"sdiv i64 {above}, {width}")
    useful = c.call("i64", "llvm.smin.i64", ("i64", groups), ("i64", "%threads"))
    useful = c.call("i64", "llvm.smin.i64", ("i64", useful), ("i64", str(MOST_THREADS)))
    last = c.load(_count(c, "%count", "last"), "i64")
    enough = c.let(f"icmp sgt i64 {c.let(f'mul i64 {last}, %number')}, {WORTH_THREADS}")
    others = c.let(f"select i1 {enough}, i64 {c.let(f'sub i64 {useful}, 1')}, i64 0")
    handles = c.slot("handles", "i64", MOST_THREADS)
    started = c.slot("started", "i64")
    c.store("0", started, "i64")
    with c.loop(0, others):
        place = c.at(handles, c.load(started, "i64"), "i64")
        failed = c.call("i32", "pthread_create", ("ptr", place), ("ptr", "null"), ("ptr", "@work"), ("ptr", "%job"))
        more = c.let(f"zext i1 {c.let(f'icmp eq i32 {failed}, 0')} to i64")
        c.store(c.let(f"add i64 {c.load(started, 'i64')}, {more}"), started, "i64")
    c.let("call ptr @work(ptr %job)")
    with c.loop(0, c.load(started, "i64")) as i:
        c.call("i32", "pthread_join", ("i64", c.load(c.at(handles, i, "i64"), "i64")), ("ptr", "null"))
    c.line("ret void")


def _work_code(c: Code) -> None:
    """Take groups until none is left."""
    table = c.load(_job_field(c, "table"), "ptr")
    given = {name: c.load(_job_field(c, name), "ptr") for name in ARRAYS}
    given |= {name: c.load(_job_field(c, name), "i64") for name in NUMBERS}
    known = {name: c.load(c.at(table, TABLE.offset(name), "i64"), "i64") for name in TABLE.fields}
    for name in ("run", "lanes", "solver", "stop"):
        known[name] = c.let(f"inttoptr i64 {known[name]} to ptr")
    c.line(f"%scratch = alloca double, i64 {known['scratch']}, align 64")
    c.label("take")
    first = c.let(f"atomicrmw add ptr {_job_field(c, 'next')}, i64 {known['width']} seq_cst")
    c.fork(c.let(f"icmp slt i64 {first}, {given['number']}"), "group", "done")
    c.label("group")
    left = c.let(f"sub i64 {given['number']}, {first}")
    size = c.call("i64", "llvm.smin.i64", ("i64", known["width"]), ("i64", left))
    part = _run_addresses(c, given, known, first)
    last = c.load(_count(c, part["count"], "last"), "i64")
    k = c.slot("k", "i64")
    c.store(c.load(_count(c, part["count"], "k"), "i64"), k, "i64")
    chunk = c.slot("chunk", "i64")
    c.store(str(FIRST_CHUNK), chunk, "i64")
    c.label("chunk")
    wanted = c.let(f"load atomic i64, ptr {known['stop']} monotonic, align 8")
    c.fork(c.let(f"icmp eq i64 {wanted}, 0"), "on", "done")
    c.label("on")
    now = c.load(k, "i64")
    c.fork(c.let(f"icmp slt i64 {now}, {last}"), "advance", "take")
    c.label("advance")
    none = c.let(f"icmp eq ptr {known['lanes']}, null")
    end = c.let(f"add i64 {now}, {c.load(chunk, 'i64')}")
    until = c.call("i64", "llvm.smin.i64", ("i64", end), ("i64", last))
    going = _advance_group(c, given, known, LaneGroup(part, size, now, until), none)
    c.store(until, k, "i64")
    longer = c.call("i64", "llvm.smin.i64", ("i64", c.let(f"shl i64 {c.load(chunk, 'i64')}, 1")), ("i64", str(CHUNK)))
    c.store(longer, chunk, "i64")
    c.fork(going, "chunk", "take")
    c.label("done")
    c.line("ret ptr null")


def _run_addresses(c: Code, given: dict, known: dict, first: str) -> dict[str, str]:
    """Addresses of the arrays of run `first`."""
    strides = (("carry", known["carry"]), ("inputs", given["inputs_stride"]), ("rows", given["rows_stride"]))
    found = {name: c.at(given[name], c.let(f"mul i64 {first}, {stride}"), "double") for name, stride in strides}
    found["count"] = c.at(given["count"], c.let(f"mul i64 {first}, {COUNTED.size}"), "i64")
    return found


def _advance_group(c: Code, given: dict, known: dict, group: LaneGroup, none: str) -> str:
    """Bring a group to its node `until`: in lanes, then one by one those that have not got there. none: no lanes. Whether
    any of them goes on from there: runs that end at a time are told of more steps than there ever will be."""
    part, size, now, until = group
    going = c.slot("going", "i64")
    c.store("0", going, "i64")
    c.fork(none, "one.by.one", "together")
    c.label("together")
    numbers = (size, given["inputs_stride"], given["rows_stride"], now, until)
    arrays = ", ".join(f"ptr {part[x]}" for x in ARRAYS)
    c.line(f"call void {known['lanes']}({arrays}, {', '.join(f'i64 {x}' for x in numbers)})")
    c.label("one.by.one")
    with c.loop(0, size) as i:
        own = _run_addresses(c, {**given, **part}, known, i)
        c.store(until, _count(c, own["count"], "until"), "i64")
        k, code = (c.load(_count(c, own["count"], x), "i64") for x in ("k", "code"))
        behind = c.let(f"and i1 {c.let(f'icmp slt i64 {k}, {until}')}, {c.let(f'icmp eq i64 {code}, 0')}")
        alone, joined = c.name("alone"), c.name("joined")
        c.fork(behind, alone, joined)
        c.label(alone)
        arrays = ", ".join(f"ptr {own[x]}" for x in ARRAYS)
        c.line(f"call void {known['run']}({arrays}, ptr %scratch, ptr {known['solver']})")
        c.label(joined)
        still = c.let(f"icmp eq i64 {c.load(_count(c, own['count'], 'code'), 'i64')}, 0")
        c.store(c.let(f"or i64 {c.load(going, 'i64')}, {c.let(f'zext i1 {still} to i64')}"), going, "i64")
    return c.let(f"icmp ne i64 {c.load(going, 'i64')}, 0")
