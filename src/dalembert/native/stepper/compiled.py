"""From the description of a step to functions that run it, once or many times side by side."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert.native.llvm.cache import CACHE, Cache, Loaded, lanes_of_processor
from dalembert.native.llvm.dense import pivoted_solver
from dalembert.native.llvm.packing import Packing
from dalembert.native.llvm.subset import (
    Address,
    Outside,
    Reals,
    Record,
    Truth,
    Whole,
    Wholes,
    atomic,
    fetch_add,
    local,
    machine,
    program,
)
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
TABLE = Packing.words("carry", "scratch", "width", Address=("run", "lanes", "solver"), Wholes=["stop"])
# What its threads are told: the arguments of @ensemble, and the next run that none has taken.
NUMBERS = ("number", "inputs_stride", "rows_stride")
JOB = Packing.words(*NUMBERS, "next", Address=["table"], Reals=("carry", "inputs", "rows"), Wholes=["count"])
NEXT = JOB.offset("next")
begin_thread: Any = Outside("pthread_create", "i32")
await_thread: Any = Outside("pthread_join", "i32")


@dataclasses.dataclass
class CompiledStep:
    """A compiled run. layout: of its arrays; captured: the numbers the functions close over; key: hash of its code; settled:
    whether another sample would not make an elimination of it that is written out."""

    layout: Layout
    captured: np.ndarray
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
        self._driver_code = self.cache.load(ensemble_text(), plain=False)  # held as long as its address
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
        n=step.n, d=step.d, k=step.k, z=len(translated.f), m=len(translated.multipliers), r=sum(step.reduced),
        p=len(sample.p), captured=len(translated.captured), stages=len(step.weights),
        by_stage=step.costly and len(step.weights) > 1, held=0 if step.costly and not step.law else step.d,
        sides=2 if min(step.weights) < 0 else 1, clock=len(translated.clock),
    )  # fmt: skip
    at = sample.near(translated.graph, np.array(translated.guess), translated.captured)
    found = choose_plan(translated, at(translated.matrix), step.costly)
    plan = found if found is not None and found.operations <= LARGEST_WRITTEN else None
    outputs = graph_outputs(translated, plan)
    text = StepCode(Frame(translated, layout, outputs, plan)).text()
    # Beside a plan it takes over where a pivot fails: the same as that of the checks while n is small.
    solver = cache.load(pivoted_solver(), plain=plan is not None and layout.z <= SHORT)
    code = cache.load(text, plain=True)
    parts = (translated, outputs, plan)
    return CompiledStep(
        layout,
        translated.captured,
        translated.linear,
        plan is not None,
        found is not None,
        Cache.key(text, True),
        cache,
        parts,
        code,
        solver,
    )


def ensemble_text() -> str:
    """The module of `ensemble`."""
    return program([work, ensemble])


@machine()
def ensemble(
    table: Address, carry: Reals, count: Wholes, inputs: Reals, rows: Reals, *, number: Whole, inputs_stride: Whole,
    rows_stride: Whole, threads: Whole,
) -> None:  # fmt: skip
    """Advance runs to their last node, in so many threads; arrays as in Layout, one after the other for each run.

    A stride of 0 shares the inputs. Groups of lanes are advanced chunk by chunk, and after each chunk one by one the runs
    that left their lanes.
    """
    job, width = Record(JOB, local(JOB.size, "Whole")), Record(TABLE, table).width
    job.table, job.carry, job.count, job.inputs, job.rows = table, carry, count, inputs, rows
    job.number, job.inputs_stride, job.rows_stride, job.next = number, inputs_stride, rows_stride, 0
    useful = min(min((number + (width - 1)) // width, threads), MOST_THREADS)
    others = useful - 1 if Record(COUNTED, count).last * number > WORTH_THREADS else 0
    handles, started = local(MOST_THREADS, "Whole"), 0
    for _ in range(others):
        if begin_thread(handles[started:], None, work, job) == 0:
            started += 1
    work(job)
    for i in range(started):
        await_thread(handles[i], None)


@machine(job=JOB)
def work(job: Any) -> Address:
    """Take groups until none is left."""
    code = Record(TABLE, job.table)
    scratch = local(code.scratch)
    while True:
        first = fetch_add(job[NEXT:], code.width)
        if first >= job.number:
            return None
        size = min(code.width, job.number - first)
        run = Record(COUNTED, job.count[first * COUNTED.size :])
        last, k, chunk, going = run.last, run.k, FIRST_CHUNK, True
        while going and k < last:
            if atomic(code.stop) != 0:
                return None
            until = min(k + chunk, last)
            if code.lanes is not None:
                code.lanes(*arrays_of(job, code, first), size, job.inputs_stride, job.rows_stride, k, until)
            going = advance_one_by_one(job, code, scratch, first, size, until)
            k, chunk = until, min(2 * chunk, CHUNK)


def arrays_of(job: Any, code: Any, i: Whole) -> Sequence[Any]:
    """Addresses of the arrays of run i."""
    carry, count = job.carry[i * code.carry :], job.count[i * COUNTED.size :]
    return carry, count, job.inputs[i * job.inputs_stride :], job.rows[i * job.rows_stride :]


def advance_one_by_one(job: Any, code: Any, scratch: Reals, first: Whole, size: Whole, until: Whole) -> Truth:
    """Bring those of a group that have not got there to node `until`. True if any of them goes on from there: runs that end
    at a time are told of more steps than there ever will be."""
    going = False
    for i in range(first, first + size):
        arrays = arrays_of(job, code, i)
        run = Record(COUNTED, arrays[1])
        run.until = until
        if run.k < until and run.code == 0:
            code.run(*arrays, scratch, code.solver)
        going = going or run.code == 0
    return going
