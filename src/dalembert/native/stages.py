"""The stages of a step: their tables as constants of a module, and how many of them have been done."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dalembert.native.code import Code, real
from dalembert.native.description import Translated
from dalembert.native.layout import HISTORY


def tables(step: Translated) -> str:
    """@weights: of the prediction; @gammas, @begins: step and beginning of every stage, in units of h."""
    gammas = np.array(step.weights)
    lists = {"weights": np.ravel(step.extrapolation), "gammas": gammas, "begins": np.cumsum(gammas) - gammas}
    return "\n".join(_constant(name, values) for name, values in lists.items())


def _constant(name: str, values: Iterable[float]) -> str:
    numbers = [f"double {real(x)}" for x in values]
    return f"@{name} = private constant [{len(numbers)} x double] [{', '.join(numbers)}]"


class Stages:
    """Where a run is within its step: k counts stages, and `now` is the one that is under way, 0 … number - 1."""

    def __init__(self, step: Translated, code: Code):
        self.number, self.code = len(step.weights), code
        self.now = "0"

    def of(self, k: str) -> str:
        """The stage that begins at count k."""
        return "0" if self.number == 1 else self.code.let(f"srem i64 {k}, {self.number}")

    def last(self) -> str | None:
        """Whether the step ends with this stage; None where it always does."""
        return None if self.number == 1 else self.code.let(f"icmp eq i64 {self.now}, {self.number - 1}")

    def node(self, k: str) -> str:
        """The number of whole steps in k, as a double."""
        c = self.code
        whole = k if self.number == 1 else c.let(f"sdiv i64 {k}, {self.number}")
        return c.let(f"sitofp i64 {whole} to double")

    def part(self, table: str, stage: str) -> str:
        """A number of a stage."""
        return self.code.load(self.code.at(f"@{table}", stage), "double")

    def row(self, known: str) -> str:
        """Address of the weights of the prediction with so many known solutions."""
        c = self.code
        if self.number > 1:
            known = c.let(f"add i64 {known}, {c.let(f'mul i64 {self.now}, {HISTORY + 1}')}")
        return c.at("@weights", c.let(f"mul i64 {known}, {HISTORY}"))
