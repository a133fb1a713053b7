"""Frames of a step: its algorithm leaves open where the numbers of a run stand, and what becomes of a condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dalembert.native.graph.dependence import eager
from dalembert.native.graph.graph import operands
from dalembert.native.llvm.builder import Code, real
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.stepper.arrays import (
    COUNTED,
    CUBIC,
    HISTORY,
    REFINEMENT,
    SETTINGS,
    SINCE,
    SMOOTH,
    Layout,
    history_length,
)
from dalembert.native.stepper.linear_systems import GraphOutputs, Plan
from dalembert.native.stepper.step import Translated
from dalembert.outcome import Outcome

COUNTS_IN_REGISTERS = ("k", "known", "target", "saved")
IN_REGISTERS = ("q", "q_compensation", "s", "s_compensation")


class Frame:
    """One run: @run(ptr carry, ptr count, ptr inputs, ptr rows, ptr scratch, ptr solver). See Layout for the arrays.

    solver: the address of the pivoted solver of dense.py, compiled once for all steps. `LaneFrame` is that of runs in lanes,
    where a number is one of each lane; nodes and what is told in counts are shared by all lanes, and the run of one is left
    what needs the pivoted solver, and what ends with an outcome. The last update of an iteration, which ends it without
    another Jacobian, is a `Chord`.

    part: addresses in the carry and in the scratch; registers: slots of those that live there while it runs.
    t0, h, tolerance, close (its root), run_values: what does not change in a run. Slots: z: the iterate, w: the solution,
    compensation: what rounding has cut off it, increments: w - s of unknowns that start at s; of the system that was solved
    last: size of its scaled residual, sign and size of its determinant; iterations: of this step.
    """

    def __init__(self, step: Translated, layout: Layout, outputs: GraphOutputs, plan: Plan | None, width: int = 1):
        self.step, self.layout, self.outputs, self.plan = step, layout, outputs, plan
        self.code = Code(width)
        self.emitter = Emitter(step.graph, self.code)
        self.stages = Stages(step, self.code)
        self.open()

    def open(self) -> None:
        """Read what is kept between calls."""
        c, layout = self.code, self.layout
        carry, scratch = layout.packed_carry.fields, layout.packed_scratch.fields
        self.counts = {name: c.at("%count", COUNTED.offset(name), "i64") for name in COUNTED.fields}
        self.counts_in_memory = {name: self.counts[name] for name in COUNTS_IN_REGISTERS}
        for name, address in self.counts_in_memory.items():
            self.counts[name] = c.slot(name, "i64")
            c.store(c.load(address, "i64"), self.counts[name], "i64")
        inputs = {name: [c.load(c.at("%inputs", f.offset + i)) for i in range(f.length)]
                  for name, f in layout.packed_inputs.fields.items()}  # fmt: skip
        self.part = {name: c.at("%carry", field.offset) for name, field in carry.items()}
        self.part |= {name: c.at("%scratch", field.offset) for name, field in scratch.items()}
        self.length = {name: field.length for name, field in (carry | scratch).items()}
        self.registers = {name: [c.slot(name) for _ in range(self.length[name])] for name in IN_REGISTERS}
        for name, slots in self.registers.items():
            self.store(slots, self._in_memory(name))
        self.enter(inputs)
        self.store(self.w, self._in_memory("history")[: layout.z])
        self.diverging = c.slot("diverging", "i1")
        self.stages.enter(self.count("k"))
        self.stages.prepare(self.emitter, self.outputs.nodes_of_step, self.run_values, self.h)
        self.failures: set[Outcome] = set()

    @property
    def once(self) -> bool:
        """True if one linear solution is enough, from wherever it starts."""
        return self.plan is not None and self.plan.once

    def enter(self, inputs: Mapping[str, Sequence[str]]) -> None:
        """Name what does not change, make the slots of a step, and compute what depends on nothing else."""
        c, g, out = self.code, self.step.graph, self.outputs
        self.t0, self.h, self.tolerance = (inputs[name][0] for name in SETTINGS)
        self.close = c.intrinsic("sqrt", c.times(self.tolerance, c.constant(10.0)))
        self.run_values = Values()
        for name in ("h", "p", "captured") if self.stages.number == 1 else ("p", "captured"):
            self.emitter.bind(self.run_values, name, inputs[name])
        self.z, self.w = ([c.slot(name) for _ in range(self.layout.z)] for name in "zw")
        self.compensation = {j: c.slot("compensation") for j in out.compensated_unknowns(g)}
        self.origin = out.increments(g)
        self.increments = {j: c.slot("increment") for j in self.origin}
        self.size, self.sign, self.determinant = (c.slot(name) for name in ("size", "sign", "determinant"))
        self.iterations = c.slot("iterations", c.whole)
        self.emitter.hoist(out.nodes_of_step, self.run_values, self.stages.changes, 0)

    def store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.code.store(value, slot)

    def place(self, slot: str, value: str, where: str | None) -> None:
        """Store a value, in lanes where a condition holds; None: everywhere."""
        c = self.code
        self.code.store(value if where is None or c.width == 1 else c.select(where, value, c.load(slot)), slot)

    def load_all(self, slots: Sequence[str]) -> list[str]:
        return [self.code.load(slot) for slot in slots]

    def add(self, name: str, amount: str) -> None:
        """To a count."""
        kind = self.kind(name)
        self.set_count(name, self.code.let(f"add {kind} {self.count(name)}, {amount}"))

    @property
    def signature(self) -> str:
        """The first line of the function."""
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows", "scratch"))
        return f"define void @run({arrays}, ptr %solver) nounwind"

    def kind(self, name: str) -> str:
        """The type of a count: one number for all lanes, or one of each."""
        return "i64"

    def count(self, name: str) -> str:
        """A count, by its name in COUNTS."""
        return self.code.load(self.counts[name], "i64")

    def set_count(self, name: str, value: str) -> None:
        """Give a count a value."""
        self.code.store(value, self.counts[name], "i64")

    def read(self, name: str) -> list[str]:
        """A part of the carry."""
        return self.load_all(self.registers[name]) if name in self.registers else self._in_memory(name)

    def _in_memory(self, name: str) -> list[str]:
        return [self.code.load(self.code.at(self.part[name], i)) for i in range(self.length[name])]

    def write(self, name: str, values: Sequence[str]) -> None:
        """Give a part of the carry its values."""
        if name in self.registers:
            self.store(self.registers[name], values)
        else:
            self._to_memory(name, values)

    def _to_memory(self, name: str, values: Sequence[str]) -> None:
        for i, value in enumerate(values):
            self.code.store(value, self.code.at(self.part[name], i))

    def read_sign(self) -> str:
        """The sign kept by the last stage that went in the direction of this one."""
        return self.code.load(self._sign())

    def write_sign(self, value: str) -> None:
        """Keep it for the next that does."""
        self.code.store(value, self._sign())

    def _sign(self) -> str:
        back = self.stages.backwards()
        return self.code.at(self.part["sign"], self.code.let(f"zext i1 {back} to i64") if back else 0)

    def latest(self) -> list[str]:
        """The solution of the last step or stage."""
        return self.load_all(self.w)

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
            kind, w = "double" if width == 1 else f"<{width} x double>", self.load_all(self.w[start : start + width])
            past = [c.load(c.at(self.part["history"], j * n + start), kind) for j in range(1, history_length(1))]
            whole = w[0] if width == 1 else "poison"
            for i, x in enumerate(w if width > 1 else []):
                whole = c.let(f"insertelement {kind} {whole}, double {x}, i64 {i}")
            found = refine(c, width, [whole, *past])
            for i in range(width):
                z = found if width == 1 else c.let(f"extractelement {kind} {found}, i64 {i}")
                c.store(z, self.z[start + i])

    def remember(self) -> None:
        """The older ones move on, if they are read again."""
        c, n, past = self.code, self.layout.z, self.part["history"]
        for j in reversed(range(1, 1 if self.once else history_length(self.stages.number))):
            for start, width in c.chunks(n):
                kind = f"<{width} x double>"
                c.store(c.load(c.at(past, (j - 1) * n + start), kind), c.at(past, j * n + start), kind)
        for i, x in enumerate(self.w):
            c.store(c.load(x), c.at(past, i))

    def write_row(self, values: Sequence[str]) -> None:
        """The next row of output."""
        c = self.code
        start = c.at("%rows", c.let(f"mul i64 {self.count('rows')}, {self.layout.packed_row.size}"))
        for i, value in enumerate(values):
            c.store(value, c.at(start, i))

    def begin_iteration(self) -> None:
        """Before the first evaluation."""
        self.code.store("0", self.iterations, "i64")
        self.code.store("false", self.diverging, "i1")

    def count_iteration(self) -> None:
        """One more evaluation, in `iterations`."""
        self.code.store(self.code.let(f"add i64 {self.code.load(self.iterations, 'i64')}, 1"), self.iterations, "i64")

    def trust(self, check: str) -> str:
        """The check of the pivots, or infinity where the iteration diverges: rows far from a root may have any size."""
        return self.code.select(self.code.load(self.diverging, "i1"), real(float("inf")), check)

    def require_solution(self, good: str) -> None:
        """Leave the system to the pivoted solver where this condition fails."""
        self._go_on(good, "pivot", likely=True)

    def note_divergence(self, near: str) -> None:
        """Note that the iteration diverges where `near` fails: where the update is not a small one."""
        self.code.store(self.code.negate(near), self.diverging, "i1")  # as in algebra/roots.py

    def require_convergence(self, small: str) -> None:
        """Go on with the iteration where this condition fails."""
        self._go_on(small, "again")

    def finish(self, small: str, tiny: str, close: str, last: Any) -> None:
        """The iteration ends where an update is tiny, or small and the last that is allowed; where it is close to that
        `last` is tried once, and ends it where it can."""
        c, here = self.code, [self.code.name(x) for x in ("small", "large", "chord", "taken", "ended")]
        more = c.let(f"icmp slt i64 {c.load(self.iterations, 'i64')}, {self.count('limit')}")
        c.fork(c.either(tiny, c.both(small, c.negate(more))), here[0], here[1])
        c.label(here[0])
        last.keep()
        c.store(last.report(), self.size)
        c.go(here[4])
        c.label(here[1])
        c.fork(c.both(close, more), here[2], "again")
        c.label(here[2])
        c.fork(last.try_next(), here[3], "again", True)
        c.label(here[3])
        self.count_iteration()
        last.take(None)
        c.label(here[4])

    def conclude(self, last: Any) -> None:
        """Both ways of `finish` have stored all."""

    def repeat(self, z: Sequence[str], w: Sequence[str]) -> None:
        """The block "again", where pivoted.py writes it, has been gone to."""

    def require(self, condition: str, outcome: Outcome) -> None:
        """End the run with this outcome, before this step, where the condition fails."""
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
        """End the run after this step where the condition holds."""
        code = self.code.let(f"select i1 {condition}, i64 {int(Outcome.STOPPED)}, i64 0")
        self.set_count("code", code)

    def stop_flag(self) -> str | None:
        """Condition that the run ends after this step; None if it never does."""
        return self.has_outcome() if self.outputs.stop else None

    def has_outcome(self) -> str:
        """Condition that the run has an outcome."""
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
        c.fork(c.let(f"and i1 {self.has_outcome()}, {inside}"), "back", "leaving", False)
        c.label("back")
        for name in SINCE:
            self.write(name, self.read(f"begin_{name}"))
        for i, value in enumerate(self.read("begin_w")):
            c.store(value, c.at(self.part["history"], i))
        self.set_count("k", c.let(f"sub i64 {k}, {stage}"))
        c.label("leaving")

    def leave(self) -> None:
        """Write back what is kept between calls, and return."""
        c = self.code
        for name, slots in self.registers.items():
            self._to_memory(name, self.load_all(slots))
        for name, address in self.counts_in_memory.items():
            c.store(self.count(name), address, "i64")
        c.line("ret void")
        for outcome in sorted(self.failures):
            self._fail(outcome)

    def _fail(self, outcome: Outcome) -> None:
        """End the run with an outcome: NOT_CONVERGED if divergence is why a system is singular or a number not finite."""
        c, code = self.code, str(int(outcome))
        c.label(self.failure(outcome))
        if outcome in (Outcome.SINGULAR, Outcome.NOT_FINITE):
            diverging = c.load(self.diverging, "i1")
            code = c.let(f"select i1 {diverging}, i64 {int(Outcome.NOT_CONVERGED)}, i64 {code}")
        self.set_count("code", code)
        self.write("failed_residual", [c.load(self.size)])
        c.go("leave")


def refine(c: Code, width: int, past: Sequence[str]) -> str:
    """The prediction from all solutions that are kept, newest first: vectors of any width.

    What the newest enters last is the shortest way from it to the next step.
    """
    kind, suffix = ("double", "f64") if width == 1 else (f"<{width} x double>", f"v{width}f64")

    def real_constant(x: float) -> str:
        return real(x) if width == 1 else f"splat (double {real(x)})"

    def total(weights: Sequence[float]) -> str:
        value = real_constant(0.0)
        for weight, x in reversed([pair for pair in zip(weights, past, strict=False) if pair[0] != 0.0]):
            term = c.let(f"fmul contract {kind} {real_constant(weight)}, {x}")
            value = term if value == real_constant(0.0) else c.let(f"fadd contract {kind} {value}, {term}")
        return value

    low, (excess, *others) = total(CUBIC), (total(row) for row in REFINEMENT.tolist())
    highest, *fourth = (c.call(kind, f"llvm.fabs.{suffix}", (kind, x)) for x in others)
    reach = c.call(kind, f"llvm.maxnum.{suffix}", *((kind, x) for x in fourth))
    limit = c.let(f"fmul {kind} {real_constant(SMOOTH)}, {reach}")
    smooth = c.let(f"fcmp ole {kind} {highest}, {limit}")
    truth = "i1" if width == 1 else f"<{width} x i1>"
    return c.let(f"select {truth} {smooth}, {kind} {c.let(f'fadd {kind} {low}, {excess}')}, {kind} {low}")


def tables(step: Translated) -> str:
    """@weights: of the prediction; @gammas, @begins: step and beginning of every stage, in units of h."""
    gammas = np.array(step.weights)
    lists = {"weights": np.ravel(step.extrapolation), "gammas": gammas, "begins": np.cumsum(gammas) - gammas}
    return "\n".join(_constant(name, values) for name, values in lists.items())


def _constant(name: str, values: Iterable[float]) -> str:
    numbers = [f"double {real(x)}" for x in values]
    return f"@{name} = private constant [{len(numbers)} x double] [{', '.join(numbers)}]"


class Stages:
    """Stages of a step, and where a run is among them: k counts stages, and `now` is the one under way, 0 … number - 1."""

    def __init__(self, step: Translated, code: Code):
        self.number, self.code, self.step = len(step.weights), code, step
        self.now, self.slot, self.back = "0", "", ""
        self.table, self.prepared = "", []

    def changes(self, i: int) -> int:
        """Level of a node, which says how often it is evaluated: what depends on h once per stage, where stages differ."""
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
        """Load the values that have been prepared for the stage that is under way."""
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
        """Condition that the step ends with this stage; None where it always does."""
        return None if self.number == 1 else self.code.let(f"icmp eq i64 {self.now}, {self.number - 1}")

    def backwards(self) -> str | None:
        """Condition that the stage that is under way goes back in time; None where none does."""
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
