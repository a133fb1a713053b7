"""One run: addresses in memory, variables that live in registers, and a branch for every condition."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.llvm.builder import real
from dalembert.native.stepper.arrays import COUNTED, HISTORY, SINCE, Layout, kept
from dalembert.native.stepper.frame import Frame, LastUpdate, refined
from dalembert.native.stepper.linear_systems import GraphOutputs, Plan
from dalembert.native.stepper.step import Translated
from dalembert.outcome import Outcome

COUNTS_IN_REGISTERS = ("k", "known", "target", "saved")
IN_REGISTERS = ("q", "q_compensation", "s", "s_compensation")


class ScalarFrame(Frame):
    """@run(ptr carry, ptr count, ptr inputs, ptr rows, ptr scratch, ptr solver). See Layout for the arrays.

    solver: the address of the pivoted solver of dense.py, compiled once for all steps. part: addresses in the carry and in
    the scratch; registers: slots of those that live there while it runs.
    """

    def __init__(self, step: Translated, layout: Layout, outputs: GraphOutputs, plan: Plan | None):
        super().__init__(step, layout, outputs, plan, width=1)
        c, places = self.code, {**layout.carry, **layout.scratch}
        self.counts = {name: c.at("%count", COUNTED.offset(name), "i64") for name in COUNTED.fields}
        self.counts_in_memory = {name: self.counts[name] for name in COUNTS_IN_REGISTERS}
        for name, address in self.counts_in_memory.items():
            self.counts[name] = c.slot(name, "i64")
            c.store(c.load(address, "i64"), self.counts[name], "i64")
        inputs = {name: [c.load(c.at("%inputs", start + i)) for i in range(length)]
                  for name, (start, length) in layout.inputs.items()}  # fmt: skip
        self.part = {name: c.at("%scratch" if name in layout.scratch else "%carry", at) for name, (at, _) in places.items()}
        self.length = {name: length for name, (_, length) in places.items()}
        self.registers = {name: [c.slot(name) for _ in range(self.length[name])] for name in IN_REGISTERS}
        for name, slots in self.registers.items():
            self.store(slots, self._in_memory(name))
        self.enter(inputs)
        self.store(self.w, self._in_memory("history")[: layout.z])
        self.diverging = c.slot("diverging", "i1")
        self.stages.enter(self.count("k"))
        self.stages.prepare(self.emitter, outputs.stepped, self.run_values, self.h)
        self.failures: set[Outcome] = set()

    @property
    def signature(self) -> str:
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows", "scratch"))
        return f"define void @run({arrays}, ptr %solver) nounwind"

    def kind(self, name: str) -> str:
        return "i64"

    def count(self, name: str) -> str:
        return self.code.load(self.counts[name], "i64")

    def set_count(self, name: str, value: str) -> None:
        self.code.store(value, self.counts[name], "i64")

    def read(self, name: str) -> list[str]:
        return self.loaded(self.registers[name]) if name in self.registers else self._in_memory(name)

    def _in_memory(self, name: str) -> list[str]:
        return [self.code.load(self.code.at(self.part[name], i)) for i in range(self.length[name])]

    def write(self, name: str, values: Sequence[str]) -> None:
        if name in self.registers:
            self.store(self.registers[name], values)
        else:
            self._to_memory(name, values)

    def _to_memory(self, name: str, values: Sequence[str]) -> None:
        for i, value in enumerate(values):
            self.code.store(value, self.code.at(self.part[name], i))

    def read_sign(self) -> str:
        return self.code.load(self._sign())

    def write_sign(self, value: str) -> None:
        self.code.store(value, self._sign())

    def _sign(self) -> str:
        back = self.stages.backwards()
        return self.code.at(self.part["sign"], self.code.let(f"zext i1 {back} to i64") if back else 0)

    def latest(self) -> list[str]:
        return self.loaded(self.w)

    def extrapolate(self, weights: Sequence[str]) -> None:
        """The older terms are summed over whole vectors; the latest solution is still in registers."""
        c, n = self.code, self.layout.z
        for start, width in c.chunks(n):
            kind, terms = f"<{width} x double>", []
            for j in range(1, HISTORY):
                old = c.load(c.at(self.part["history"], j * n + start), kind)
                terms.append(c.let(f"fmul contract {kind} {c.broadcast(weights[j], 'double', width)}, {old}"))
            total = c.let(f"fadd contract {kind} {terms[0]}, {terms[1]}")
            total = c.let(f"fadd contract {kind} {total}, {terms[2]}")
            c.store(total, c.at(self.part["partial"], start), kind)
        for i, (z, w) in enumerate(zip(self.z, self.w, strict=True)):
            latest = c.let(f"fmul contract double {weights[0]}, {c.load(w)}")
            c.store(c.let(f"fadd contract double {latest}, {c.load(c.at(self.part['partial'], i))}"), z)

    def extrapolate_refined(self) -> None:
        """In vectors, too: of each the latest is put together from registers."""
        c, n = self.code, self.layout.z
        for start, width in c.chunks(n):
            kind, w = "double" if width == 1 else f"<{width} x double>", self.loaded(self.w[start : start + width])
            past = [c.load(c.at(self.part["history"], j * n + start), kind) for j in range(1, kept(1))]
            whole = w[0] if width == 1 else "poison"
            for i, x in enumerate(w if width > 1 else []):
                whole = c.let(f"insertelement {kind} {whole}, double {x}, i64 {i}")
            found = refined(c, width, [whole, *past])
            for i in range(width):
                z = found if width == 1 else c.let(f"extractelement {kind} {found}, i64 {i}")
                c.store(z, self.z[start + i])

    def remember(self) -> None:
        """The older ones move on, if they are read again."""
        c, n, past = self.code, self.layout.z, self.part["history"]
        for j in reversed(range(1, 1 if self.once else kept(self.stages.number))):
            for start, width in c.chunks(n):
                kind = f"<{width} x double>"
                c.store(c.load(c.at(past, (j - 1) * n + start), kind), c.at(past, j * n + start), kind)
        for i, x in enumerate(self.w):
            c.store(c.load(x), c.at(past, i))

    def write_row(self, values: Sequence[str]) -> None:
        c = self.code
        start = c.at("%rows", c.let(f"mul i64 {self.count('rows')}, {self.layout.packed_row.size}"))
        for i, value in enumerate(values):
            c.store(value, c.at(start, i))

    def begin_iteration(self) -> None:
        self.code.store("0", self.iterations, "i64")
        self.code.store("false", self.diverging, "i1")

    def count_iteration(self) -> None:
        self.code.store(self.code.let(f"add i64 {self.code.load(self.iterations, 'i64')}, 1"), self.iterations, "i64")

    def trusted(self, check: str) -> str:
        return self.code.select(self.code.load(self.diverging, "i1"), real(float("inf")), check)

    def require_solution(self, good: str) -> None:
        self._go_on(good, "pivot", likely=True)

    def note_divergence(self, near: str) -> None:
        self.code.store(self.code.negated(near), self.diverging, "i1")  # as in algebra/newton.py

    def require_convergence(self, small: str) -> None:
        self._go_on(small, "again")

    def finish(self, small: str, tiny: str, close: str, last: LastUpdate) -> None:
        c, here = self.code, [self.code.name(x) for x in ("small", "large", "chord", "taken", "ended")]
        more = c.let(f"icmp slt i64 {c.load(self.iterations, 'i64')}, {self.count('limit')}")
        c.fork(c.either(tiny, c.both(small, c.negated(more))), here[0], here[1])
        c.label(here[0])
        last.keep()
        c.store(last.report(), self.size)
        c.go(here[4])
        c.label(here[1])
        c.fork(c.both(close, more), here[2], "again")
        c.label(here[2])
        c.fork(last.tried(), here[3], "again", True)
        c.label(here[3])
        self.count_iteration()
        last.take(None)
        c.label(here[4])

    def conclude(self, last: LastUpdate) -> None:
        """Both ways of `finish` have stored all."""

    def repeat(self, z: Sequence[str], w: Sequence[str]) -> None:
        """The block "again", where pivoted.py writes it, has been gone to."""

    def require(self, condition: str, outcome: Outcome) -> None:
        self._go_on(condition, self.failure(outcome), likely=True)

    def _go_on(self, condition: str, otherwise: str, likely: bool | None = None) -> None:
        """Here if a condition holds, at another block if not."""
        here = self.code.name("on")
        self.code.fork(condition, here, otherwise, likely)
        self.code.label(here)

    def failure(self, outcome: Outcome) -> str:
        """The block that ends the run with an outcome; `leave` writes it."""
        self.failures.add(outcome)
        return f"failure.{outcome.name}"

    def stop(self, condition: str) -> None:
        code = self.code.let(f"select i1 {condition}, i64 {int(Outcome.STOPPED)}, i64 0")
        self.set_count("code", code)

    def stopped(self) -> str | None:
        return self.ended() if self.outputs.stop else None

    def ended(self) -> str:
        """Whether the run has an outcome."""
        return self.code.let(f"icmp ne i64 {self.count('code')}, 0")

    def commit(self) -> None:
        """Whatever fails has gone elsewhere."""

    def all_finite(self, values: Sequence[str]) -> str:
        return self.code.compare("oeq", self.code.vanishing(values), "0.0")

    def go_back(self) -> None:
        """To where the step began, if one of its stages has ended the run."""
        c, stages = self.code, self.stages
        if stages.number == 1:
            return
        k = self.count("k")
        stage = stages.of(k)
        inside = c.let(f"icmp ne i64 {stage}, 0")
        c.fork(c.let(f"and i1 {self.ended()}, {inside}"), "back", "leaving", False)
        c.label("back")
        for name in SINCE:
            self.write(name, self.read(f"begin_{name}"))
        for i, value in enumerate(self.read("begin_w")):
            c.store(value, c.at(self.part["history"], i))
        self.set_count("k", c.let(f"sub i64 {k}, {stage}"))
        c.label("leaving")

    def leave(self) -> None:
        c = self.code
        for name, slots in self.registers.items():
            self._to_memory(name, self.loaded(slots))
        for name, address in self.counts_in_memory.items():
            c.store(self.count(name), address, "i64")
        c.line("ret void")
        for outcome in sorted(self.failures):
            self._fail(outcome)

    def _fail(self, outcome: Outcome) -> None:
        """Where the iteration diverges that is why a system is singular or a number not finite."""
        c, code = self.code, str(int(outcome))
        c.label(self.failure(outcome))
        if outcome in (Outcome.SINGULAR, Outcome.NOT_FINITE):
            diverging = c.load(self.diverging, "i1")
            code = c.let(f"select i1 {diverging}, i64 {int(Outcome.NOT_CONVERGED)}, i64 {code}")
        self.set_count("code", code)
        self.write("failed_residual", [c.load(self.size)])
        c.go("leave")
