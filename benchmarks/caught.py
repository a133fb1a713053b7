"""The machine code of a run without what `simulate` does around it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import dalembert as da
from dalembert.native import COUNTS, CompiledStep


@contextlib.contextmanager
def as_unknown() -> Iterator[None]:
    """No run is known from before, which would go to the machine code by a way of its own."""
    module = importlib.import_module("dalembert.step.simulate")  # da.step.simulate is the function
    known, module.known_path = module.known_path, lambda *_: None
    try:
        yield
    finally:
        module.known_path = known


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
    original = CompiledStep.run

    def catch(self, carry, count, inputs, rows, between=None):
        found.append((self, (carry.copy(), count.copy(), inputs, rows)))
        original(self, carry, count, inputs, rows, between)

    CompiledStep.run = catch
    try:
        with as_unknown():
            path = simulate()
    finally:
        CompiledStep.run = original
    if path.outcome.failed:
        raise RuntimeError(f"the run ended after {path.steps} steps: {path.outcome.name}")
    return Caught(path, *found[-1])
