"""From the description of a step to a function that runs it."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert.native.cache import CACHE, Cache
from dalembert.native.dense import pivoted_solver
from dalembert.native.depend import reached
from dalembert.native.description import StepFunctions, Translated, translate
from dalembert.native.eliminate import Order, choose_order
from dalembert.native.evaluate import evaluate
from dalembert.native.layout import COUNTS, Layout, total
from dalembert.native.loop import Run
from dalembert.native.machine import Loaded


@dataclasses.dataclass
class Sample:
    """A state at which the pivots are chosen: q, s, t, h, and p (the program's arrays, flat)."""

    q: np.ndarray
    s: np.ndarray
    t: float
    h: float
    p: np.ndarray


@dataclasses.dataclass
class CompiledStep:
    """A compiled run. layout: of its arrays; captured: the numbers the functions close over."""

    layout: Layout
    captured: np.ndarray
    operations: int
    linear: bool
    written_out: bool
    _code: Loaded
    _solver: Loaded

    def __post_init__(self) -> None:
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(self._code.address("run"))
        self._pivoted = self._solver.address("pivoted")

    @property
    def carry_size(self) -> int:
        """Length of the carry, room to work in among it."""
        return total(self.layout.carry)

    def run(self, carry: np.ndarray, count: np.ndarray, inputs: np.ndarray, rows: np.ndarray) -> None:
        """Advance the run in place. carry, inputs, rows: float64 and count: int64, as in Layout; contiguous."""
        needed = (
            (carry, total(self.layout.carry)), (count, len(COUNTS)), (inputs, total(self.layout.inputs)), (rows, 0)
        )  # fmt: skip
        for array, size in needed:
            if not array.flags.c_contiguous or array.size < size:
                raise ValueError(f"found an array of {array.size} numbers; {size} in one piece are needed")
        self._run(*(a.ctypes.data for a in (carry, count, inputs, rows)), self._pivoted)

    def inputs(self, t0: float, h: float, tolerance: float, p: np.ndarray) -> np.ndarray:
        """The array of settings, the program's arrays and the captured numbers."""
        return np.concatenate([[t0, h, tolerance], np.ravel(p), self.captured]).astype(float)


def compile_step(step: StepFunctions, sample: Sample, cache: Cache = CACHE) -> CompiledStep:
    """Translate and compile a step; Unsupported tells what cannot be translated."""
    translated = translate(step)
    order = _order(translated, sample)
    layout = Layout(
        n=step.n, k=step.k, z=len(translated.f), m=len(translated.multipliers), r=step.reduced,
        p=len(sample.p), captured=len(translated.captured),
    )  # fmt: skip
    run = Run(translated, layout, order)
    text = run.text()
    solver = cache.load(pivoted_solver(None if run.order is not None else layout.z), plain=False)
    code = cache.load(text, plain=True)
    size = len(reached(translated.graph, [*run.roots.f, *run.roots.jacobian, *run.roots.update]))
    return CompiledStep(layout, translated.captured, size, translated.linear, run.order is not None, code, solver)


def _order(step: Translated, sample: Sample) -> Order | None:
    """Pivots from the structure and from the Jacobian at the guess, as it is and slightly moved."""
    inputs = {
        "q": sample.q, "s": sample.s, "t": np.array([sample.t]), "h": np.array([sample.h]), "p": sample.p,
        "captured": step.captured, "held": np.zeros(len(sample.q)),
    }  # fmt: skip
    guess = evaluate(step.graph, step.guess, inputs).astype(float)
    entries = [int(i) for i in step.jacobian.ravel()]
    shape = step.jacobian.shape
    samples = [evaluate(step.graph, entries, {**inputs, "z": z}).astype(float).reshape(shape) for z in _around(guess)]
    levels = np.array([step.level(i) for i in entries]).reshape(shape)
    return choose_order(step.jacobian != step.graph.zero, levels, np.stack(samples))


def _around(z: np.ndarray) -> Sequence[np.ndarray]:
    """Points near z, the same at every call, so that the same program gives the same code."""
    noise: Any = np.random.default_rng(0)
    size = 1e-2 * (np.max(np.abs(z), initial=0.0) or 1.0)
    return [z + size * noise.standard_normal(z.shape) for _ in range(2)]
