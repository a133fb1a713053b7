"""Where the numbers of a run are while it runs: addresses in memory, and variables that live in registers."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.stepper.arrays import COUNTS, Layout
from dalembert.native.stepper.linear_systems import Plan, Roots
from dalembert.native.stepper.stages import Stages
from dalembert.native.stepper.step import Translated
from dalembert.outcome import Outcome

IN_REGISTERS = ("k", "known", "target", "saved")


class State:
    """i: counts; d: q, lost, s, low; z: the iterate, w: the solution, cut: what rounding has cut off it, moved: its
    increment; part: addresses in the carry and in the scratch; run_values: nodes that change once per run.
    """

    def __init__(self, step: Translated, layout: Layout, roots: Roots, plan: Plan | None):
        self.step, self.layout, self.g = step, layout, step.graph
        self.roots, self.plan = roots, plan
        self.code = Code()
        self.emitter = Emitter(self.g, self.code)
        c, r = self.code, roots
        self.i = {name: c.at("%count", i, "i64") for i, name in enumerate(COUNTS)}
        self.in_memory = {name: self.i[name] for name in IN_REGISTERS}
        for name in IN_REGISTERS:
            self.i[name] = self.copied(name, self.i[name], "i64")
        inputs, self.run_values = layout.inputs, Values()
        self.settings = {name: c.load(c.at("%inputs", inputs[name][0])) for name in ("t0", "h", "tolerance")}
        self.stages = Stages(step, self.code)
        if self.stages.number == 1:
            self.emitter.bind(self.run_values, "h", [self.settings["h"]])
        for name in ("p", "captured"):
            start, length = inputs[name]
            self.emitter.bind(self.run_values, name, [c.load(c.at("%inputs", start + i)) for i in range(length)])
        self.part = {name: c.at("%carry", start) for name, (start, _) in layout.carry.items()}
        self.part |= {name: c.at("%scratch", start) for name, (start, _) in layout.scratch.items()}
        self.length = {name: length for name, (_, length) in {**layout.carry, **layout.scratch}.items()}
        self.d = {
            name: [self.copied(name, c.at(self.part[name], i)) for i in range(layout.carry[name][1])]
            for name in ("q", "lost", "s", "low")
        }
        self.z = [c.slot("z") for _ in range(layout.z)]
        self.cut = {j: c.slot("cut") for j in r.compensated(self.g)}
        self.origin = r.moved(self.g)
        self.moved = {j: c.slot("moved") for j in self.origin}
        self.w = [self.copied("w", c.at(self.part["history"], i)) for i in range(layout.z)]
        self.turns, self.astray = c.slot("turns", "i64"), c.slot("astray", "i1")
        self.size, self.sign, self.determinant = c.slot("size"), c.slot("sign"), c.slot("determinant")
        self.emitter.hoist(r.stepped, self.run_values, self.stages.changes, 0)
        self.stage = c.slot("stage", "i64") if self.stages.number > 1 else None
        if self.stage:
            c.store(self.stages.of(self.count("k")), self.stage, "i64")
        self.stages.prepare(self.emitter, r.stepped, self.run_values, self.settings["h"])

    def copied(self, name: str, source: str, kind: str = "double") -> str:
        """A slot that starts with the number at an address."""
        slot = self.code.slot(name, kind)
        self.code.store(self.code.load(source, kind), slot, kind)
        return slot

    def count(self, name: str) -> str:
        return self.code.load(self.i[name], "i64")

    def store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.code.store(value, slot)

    def write(self, part: str, values: Sequence[str]) -> None:
        for i, value in enumerate(values):
            self.code.store(value, self.code.at(self.part[part], i))

    def read(self, part: str) -> list[str]:
        return [self.code.load(self.code.at(self.part[part], i)) for i in range(self.length[part])]

    def all_finite(self, values: Sequence[str]) -> str:
        return self.code.let(f"fcmp oeq double {self.code.vanishing(values)}, 0.0")

    def fail(self, outcome: Outcome, astray: str | None = None) -> None:
        """End the run; where the iteration had lost its way that is why, whatever it met there."""
        c, code = self.code, str(int(outcome))
        if astray is not None:
            lost = c.load(astray, "i1")
            code = c.let(f"select i1 {lost}, i64 {int(Outcome.NOT_CONVERGED)}, i64 {code}")
        c.store(code, self.i["code"], "i64")
        c.store(c.load(self.size), self.part["failed_residual"])
        c.go("leave")

    def add(self, name: str, amount: str) -> str:
        c = self.code
        value = c.let(f"add i64 {self.count(name)}, {amount}")
        c.store(value, self.i[name], "i64")
        return value
