"""From the description of a step to functions that run it, once or many times side by side."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dalembert.native.chunks import CODE, LAST, K, watched
from dalembert.native.graph.dependence import reached
from dalembert.native.llvm.cache import CACHE, Cache
from dalembert.native.llvm.dense import pivoted_solver
from dalembert.native.llvm.jit import Loaded, lanes_of_processor
from dalembert.native.stepper.arrays import COUNTED, Layout
from dalembert.native.stepper.batch import TABLE, WORTH_THREADS, ensemble
from dalembert.native.stepper.lane_frame import LaneFrame
from dalembert.native.stepper.linear_systems import LARGEST_WRITTEN, GraphOutputs, Plan, choose_plan, graph_outputs
from dalembert.native.stepper.sample import Sample
from dalembert.native.stepper.scalar_frame import ScalarFrame
from dalembert.native.stepper.step import StepFunctions, Translated, translate
from dalembert.native.stepper.step_code import StepCode
from dalembert.native.trace.place import refusing
from dalembert.outcome import Outcome

Between = Callable[[], None] | None
SAVED = COUNTED.offset("saved")
SHORT = 8  # unknowns up to which loops gain nothing from LLVM's whole program
NEVER = np.zeros(1, np.int64)  # of runs that nobody can end


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
        _check(rows, 1)
        self.chunk(carry, count, inputs)(rows.ctypes.data)

    def chunk(self, carry: np.ndarray, count: np.ndarray, inputs: np.ndarray) -> Callable[[int], None]:
        """One call of machine code, up to the node `until`, as a function of the address of the rows."""
        scratch = np.empty(self.layout.packed_scratch.size)
        arrays = (carry, count, inputs, scratch)
        sizes = (self.carry_size, COUNTED.size, self.layout.packed_inputs.size, 0)
        for array, size in zip(arrays, sizes, strict=True):
            _check(array, size)
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
            _check(array, number * size)
        if number:
            _check(rows[0], 0)  # those of one run in one piece, of the next one wherever they are
        _check(inputs, len(inputs) * self.layout.packed_inputs.size)
        if len(inputs) not in (1, number):
            raise ValueError(f"inputs: found {len(inputs)} rows; 1 or {number} are needed")
        strides = (0 if len(inputs) == 1 else inputs.shape[1], rows.strides[0] // rows.itemsize)
        stop = np.zeros(1, np.int64)
        arrays = (self.table(True, stop), carry, count, inputs, rows)
        driver, given = self._driver, (*(a.ctypes.data for a in arrays), number, *strides, threads or processors())
        short = number == 0 or number * int(count[0, LAST]) <= WORTH_THREADS
        if short or threading.current_thread() is not threading.main_thread():
            driver(*given)
        elif not watched(lambda: driver(*given), stop, between):
            self._give_up(carry, count, inputs, rows)

    def _give_up(self, carry: np.ndarray, count: np.ndarray, inputs: np.ndarray, rows: np.ndarray) -> None:
        """The outcome of the runs that have not ended, and the rows of their last steps."""
        going = (count[:, K] < count[:, LAST]) & (count[:, CODE] == 0)
        count[going, CODE] = int(Outcome.INTERRUPTED)
        for i in np.flatnonzero(going & (count[:, K] > count[:, SAVED])):
            self.run(carry[i], count[i], inputs[i % len(inputs)], rows[i])

    def table(self, lanes: bool, stop: np.ndarray = NEVER) -> np.ndarray:
        """What @ensemble needs to know of this code, packed as TABLE; its addresses hold as long as this and stop."""
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


def _check(array: np.ndarray, size: int) -> None:
    if not array.flags.c_contiguous or array.size < size:
        raise ValueError(f"found an array of {array.size} numbers; {size} in one piece are needed")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    found = choose_plan(translated, at(translated.jacobian))
    plan = found if found is not None and found.operations <= LARGEST_WRITTEN else None
    outputs = graph_outputs(translated, plan)
    text = StepCode(ScalarFrame(translated, layout, outputs, plan)).text()
    # Beside a plan it takes over where a pivot fails: one for all systems, the same as that of the checks while n is small.
    own = plan is None
    solver = cache.load(pivoted_solver(layout.z if own else None), plain=not own and layout.z <= SHORT)
    code = cache.load(text, plain=True)
    size = len(reached(translated.graph, [*outputs.f, *outputs.jacobian, *outputs.update, *outputs.affine_update]))
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
