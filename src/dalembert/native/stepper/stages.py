"""The stages of a step: their tables as constants of a module, and how many of them have been done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dalembert.native.graph.dependence import eager
from dalembert.native.graph.nodes import operands
from dalembert.native.llvm.builder import Code, real
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.stepper.arrays import HISTORY
from dalembert.native.stepper.step import Translated


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
        self.number, self.code, self.step = len(step.weights), code, step
        self.now, self.slot, self.back = "0", "", ""
        self.table, self.prepared = "", []

    def changes(self, i: int) -> int:
        """How often a node is evaluated: what depends on h once per stage, where stages differ."""
        level = self.step.level(i)
        return max(level, 1) if self.number > 1 and self.step.depend.on(i, "h") else level

    def prepare(self, emitter: Emitter, outputs: Sequence[int], values: Values, h: str) -> None:
        """Compute, once per run and for every stage, what depends on h and on nothing that changes."""
        if self.number == 1:
            return
        g, c = self.step.graph, self.code
        users = [g.nodes[i] for i in eager(g, outputs) if self.step.level(i) > 0 and g.nodes[i][0] not in ("branch", "var")]
        needed = {j for node in users for j in operands(node)} | set(outputs)
        self.prepared = sorted(
            j for j in needed if g.kind[j] == "f" and self.step.level(j) == 0 and self.step.depend.on(j, "h")
        )
        self.table = c.slot("stages", "double", self.number * len(self.prepared))
        with c.loop(0, self.number) as i:
            inside = dict(values)
            emitter.bind(inside, "h", [c.let(f"fmul double {self.part('gammas', i)}, {h}")])
            row = c.at(self.table, c.let(f"mul i64 {i}, {len(self.prepared)}"))
            for j, value in enumerate(emitter.emit(self.prepared, inside)):
                c.store(value, c.at(row, j))

    def load(self, values: Values) -> None:
        """What has been prepared for the stage that is under way."""
        c = self.code
        if self.prepared:
            row = c.at(self.table, c.let(f"mul i64 {self.now}, {len(self.prepared)}"))
            values |= {i: c.load(c.at(row, j)) for j, i in enumerate(self.prepared)}

    def of(self, k: str) -> str:
        """The stage that begins at count k."""
        return "0" if self.number == 1 else self.code.let(f"srem i64 {k}, {self.number}")

    def enter(self, k: str) -> None:
        """Before the first step, at count k."""
        if self.number > 1:
            self.slot = self.code.slot("stage", "i64")
            self.code.store(self.of(k), self.slot, "i64")

    def begin(self) -> None:
        """The stage that is under way is the one that the slot counts; `of(k)` is the same, by a remainder that takes 3 %
        of the time of a stage."""
        if self.number > 1:
            self.now, self.back = self.code.load(self.slot, "i64"), ""

    def advance(self, whole: bool) -> None:
        """The next stage is the first of the next step, or the one after this."""
        if self.number > 1:
            following = "0" if whole else self.code.let(f"add i64 {self.now}, 1")
            self.code.store(following, self.slot, "i64")

    def last(self) -> str | None:
        """Whether the step ends with this stage; None where it always does."""
        return None if self.number == 1 else self.code.let(f"icmp eq i64 {self.now}, {self.number - 1}")

    def backwards(self) -> str | None:
        """Whether the stage that is under way goes back in time; None where none does."""
        if min(self.step.weights) > 0:
            return None
        if not self.back:
            self.back = self.code.let(f"fcmp olt double {self.part('gammas', self.now)}, 0.0")
        return self.back

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
        known = c.call("i64", "llvm.smin.i64", ("i64", known), ("i64", str(HISTORY)))
        if self.number > 1:
            known = c.let(f"add i64 {known}, {c.let(f'mul i64 {self.now}, {HISTORY + 1}')}")
        return c.at("@weights", c.let(f"mul i64 {known}, {HISTORY}"))
