"""The machine code of a run without what `simulate` does around it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import dalembert as da
from dalembert.native import COUNTED, COUNTS, CompiledStep


@contextlib.contextmanager
def as_unknown() -> Iterator[None]:
    """No run is known from before, which would go to the machine code by a way of its own."""
    module = importlib.import_module("dalembert.step.run.driver")
    known, module.find_run = module.find_run, lambda *_: None
    try:
        yield
    finally:
        module.find_run = known


class Caught(NamedTuple):
    """What `simulate` gives to the machine code, caught on its way, and what it returns."""

    path: da.Path
    code: CompiledStep
    arguments: tuple[np.ndarray, ...]

    def call(self) -> int:
        carry, count, inputs, rows = self.arguments
        numbers = count.copy()
        self.code.run(carry.copy(), numbers, inputs, rows)
        return int(numbers[COUNTS.index("iterations")])


def caught(simulate: Callable[[], da.Path]) -> Caught:
    """The run that a call makes."""
    found = []
    original = CompiledStep.chunk

    def catch(self, carry, count, inputs):
        whole = count.copy()
        whole[COUNTED.offset("until")] = last = whole[COUNTED.offset("last")]
        rows = np.empty((last // whole[COUNTED.offset("every")] + 2, self.row_size))
        found.append((self, (carry.copy(), whole, inputs, rows)))
        return original(self, carry, count, inputs)

    CompiledStep.chunk = catch
    try:
        with as_unknown():
            path = simulate()
    finally:
        CompiledStep.chunk = original
    if path.outcome.failed:
        raise RuntimeError(f"the run ended after {path.steps} steps: {path.outcome.name}")
    return Caught(path, *found[-1])
