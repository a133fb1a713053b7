"""Frames of a step: its algorithm leaves open where the numbers of a run stand, and what becomes of a condition."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dalembert.native.llvm.builder import Code, Operand, intrinsic, real, vector, where
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.stepper.arrays import (
    COUNTED,
    CUBIC,
    HISTORY,
    LONG_HISTORY,
    OF_STAGE,
    REFINEMENT,
    SETTINGS,
    SINCE,
    SMOOTH,
    STAGE_HISTORY,
    Layout,
    history_length,
)
from dalembert.native.stepper.linear_systems import GraphOutputs, Plan
from dalembert.native.stepper.step import Translated
from dalembert.outcome import Outcome

COUNTS_IN_REGISTERS = ("k", "known", "target", "saved")
IN_REGISTERS = ("q", "q_compensation", "s", "s_compensation", "sign")


class Frame:
    """One run: @run(ptr carry, ptr count, ptr inputs, ptr rows, ptr scratch, ptr solver). See Layout for the arrays.

    solver: the address of the pivoted solver of dense.py, compiled once for all steps. `LaneFrame` is that of runs in lanes,
    where a number is one of each lane; nodes and what is told in counts are shared by all lanes, and the run of one is left
    what needs the pivoted solver, and what ends with an outcome.

    part: addresses in the carry and in the scratch; registers: slots of those that live there while it runs.
    t0, h, tolerance, run_values: what does not change in a run. Slots: z: the iterate, w: the solution,
    compensation: what rounding has cut off it; of the system that was solved last: size of its scaled residual, sign and
    size of its determinant; iterations: of this step.
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
        parts = {"carry": layout.packed_carry.fields, "scratch": layout.packed_scratch.fields}
        kept = c.argument("count", item="i64")
        self.counts = {name: kept.at(COUNTED.offset(name)) for name in COUNTED.fields}
        self.counts_in_memory = {name: self.counts[name] for name in COUNTS_IN_REGISTERS}
        for name, place in self.counts_in_memory.items():
            self.counts[name] = c.slot(name, "i64")
            self.counts[name][0] = place[0]
        inputs = {name: [c.argument("inputs")[f.offset + i] for i in range(f.length)]
                  for name, f in layout.packed_inputs.fields.items()}  # fmt: skip
        self.part = {x: c.argument(name).at(f.offset) for name, fields in parts.items() for x, f in fields.items()}
        self.length = {x: f.length for fields in parts.values() for x, f in fields.items()}
        self.registers = {name: [c.slot(name) for _ in range(self.length[name])] for name in IN_REGISTERS}
        for name, slots in self.registers.items():
            self.store(slots, self._in_memory(name))
        self.enter(inputs)
        self.store(self.w, self._in_memory("history")[: layout.z])
        self.diverging = c.slot("diverging", "i1")
        self.stages.enter(self.count("k"))
        self.failures: set[Outcome] = set()

    @property
    def once(self) -> bool:
        """True if one linear solution is enough, from wherever it starts."""
        return self.plan is not None and self.plan.once

    def enter(self, inputs: Mapping[str, Sequence[Operand]]) -> None:
        """Name what does not change, make the slots of a step, and compute what depends on nothing else."""
        c, g, out = self.code, self.step.graph, self.outputs
        self.t0, self.h, self.tolerance = (inputs[name][0] for name in SETTINGS)
        self.run_values = Values()
        for name in ("h", "p", "captured") if self.stages.number == 1 else ("p", "captured"):
            self.emitter.bind(self.run_values, name, inputs[name])
        self.z, self.w = ([c.slot(name) for _ in range(self.layout.z)] for name in "zw")
        self.compensation = {j: c.slot("compensation") for j in out.compensated_unknowns(g)}
        self.size, self.sign, self.determinant = (c.slot(name) for name in ("size", "sign", "determinant"))
        self.iterations = c.slot("iterations", c.whole)
        self.emitter.hoist(out.nodes_of_step, self.run_values, self.stages.changes, 0)

    def store(self, slots: Sequence[Operand], values: Sequence[Operand]) -> None:
        for slot, value in zip(slots, values, strict=True):
            slot[0] = value

    def load_all(self, slots: Sequence[Operand]) -> list[Operand]:
        return [slot[0] for slot in slots]

    def add(self, name: str, amount: Any) -> None:
        """To a count."""
        self.set_count(name, self.count(name) + amount)

    @property
    def signature(self) -> str:
        """The first line of the function."""
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows", "scratch"))
        return f"define void @run({arrays}, ptr %solver) nounwind"

    def count(self, name: str) -> Operand:
        """A count, by its name in COUNTS."""
        return self.counts[name][0]

    def set_count(self, name: str, value: Any) -> None:
        """Give a count a value."""
        self.counts[name][0] = value

    def read(self, name: str) -> list[Operand]:
        """A part of the carry."""
        return self.load_all(self.registers[name]) if name in self.registers else self._in_memory(name)

    def _in_memory(self, name: str) -> list[Operand]:
        return [self.part[name][i] for i in range(self.length[name])]

    def write(self, name: str, values: Sequence[Any]) -> None:
        """Give a part of the carry its values."""
        if name in self.registers:
            self.store(self.registers[name], values)
        else:
            self._to_memory(name, values)

    def _to_memory(self, name: str, values: Sequence[Any]) -> None:
        for i, value in enumerate(values):
            self.part[name][i] = value

    def read_sign(self) -> Operand:
        """The sign kept by the last stage that went in the direction of this one."""
        back, signs = self.stages.backwards(), self.read("sign")
        return signs[0] if back is None else where(back, signs[1], signs[0])

    def write_sign(self, value: Operand) -> None:
        """Keep it for the next that does."""
        back, signs = self.stages.backwards(), self.read("sign")
        self.write("sign", [value] if back is None else [where(back, signs[0], value), where(back, value, signs[1])])

    def latest(self) -> list[Operand]:
        """The solution of the last step or stage."""
        return self.load_all(self.w)

    def extrapolate(self, weights: Sequence[Operand]) -> None:
        """The older terms are summed over whole vectors; the latest solution is still in registers."""
        c, n, partial = self.code, self.layout.z, self.part["partial"]
        with c.using("contract"):
            for start, width in c.chunks(n):
                past = [self._past(j, start, width)[0] for j in range(1, HISTORY)]
                first, second, third = (c.broadcast(w, width) * x for w, x in zip(weights[1:], past, strict=True))
                partial[start:].at(0, first.kind)[0] = first + second + third
            for i, (z, w) in enumerate(zip(self.z, self.w, strict=True)):
                z[0] = weights[0] * w[0] + partial[i]

    def _past(self, j: int, start: int, width: int) -> Operand:
        """Place of so many numbers of a solution that is kept."""
        return self.part["history"][j * self.layout.z + start :].at(0, vector(width, "double"))

    def extrapolate_refined(self) -> None:
        """In vectors, too: of each the latest is put together from registers."""
        c = self.code
        for start, width in c.chunks(self.layout.z):
            w = self.load_all(self.w[start : start + width])
            past = [self._past(j, start, width)[0] for j in range(1, LONG_HISTORY)]
            found = refine([w[0] if width == 1 else c.put_together(w), *past])
            for i in range(width):
                self.z[start + i][0] = found if width == 1 else c.part(found, i)

    def refine_stage(self) -> None:
        """The solution of the last stage, and what follows from the differences of this one."""
        for start, width in self.code.chunks(self.layout.z):
            change = refine([self._of_stage(j, start, width)[0] for j in range(STAGE_HISTORY)], *OF_STAGE)
            for i in range(width):
                self.z[start + i][0] = self.w[start + i][0] + (change if width == 1 else self.code.part(change, i))

    def _of_stage(self, j: int, start: int, width: int) -> Operand:
        """Place of so many numbers of a difference of this stage."""
        row = self.stages.now * STAGE_HISTORY + (HISTORY + j)
        return self.part["history"][row * self.layout.z + start :].at(0, vector(width, "double"))

    def _remember_stage(self) -> None:
        for start, width in self.code.chunks(self.layout.z):
            w = self.load_all(self.w[start : start + width])
            new = (w[0] if width == 1 else self.code.put_together(w)) - self._past(0, start, width)[0]
            self.renew_differences(new, [self._of_stage(j, start, width) for j in range(STAGE_HISTORY)])

    def renew_differences(self, new: Operand, places: Sequence[Operand]) -> None:
        """The new change of a stage, and by how much each difference of it is another than in the step before."""
        for place in places:
            before = place[0]
            place[0] = new
            new = new - before

    def remember(self) -> None:
        """The older ones move on, if they are read again."""
        if self.layout.by_stage and not self.once:
            self._remember_stage()
        for j in reversed(range(1, 1 if self.once else history_length(self.stages.number))):
            for start, width in self.code.chunks(self.layout.z):
                self._past(j, start, width)[0] = self._past(j - 1, start, width)[0]
        for i, x in enumerate(self.w):
            self.part["history"][i] = x[0]

    def write_row(self, values: Sequence[Operand]) -> None:
        """The next row of output."""
        row = self.code.argument("rows")[self.count("rows") * self.layout.packed_row.size :]
        for i, value in enumerate(values):
            row[i] = value

    def begin_iteration(self) -> None:
        """Before the first evaluation."""
        self.iterations[0], self.diverging[0] = 0, False

    def count_iteration(self) -> None:
        """One more evaluation, in `iterations`."""
        self.iterations[0] = self.iterations[0] + 1

    def trust(self, check: Operand) -> Operand:
        """The check of the pivots, or infinity where the iteration diverges: rows far from a root may have any size."""
        return where(self.diverging[0], float("inf"), check)

    def require_solution(self, good: Operand) -> None:
        """Leave the system to the pivoted solver where this condition fails."""
        self._go_on(good, "pivot", likely=True)

    def note_divergence(self, near: Operand) -> None:
        """Note that the iteration diverges where `near` fails: where the update is not a small one."""
        self.diverging[0] = ~near  # as in algebra/roots.py

    def require_convergence(self, small: Operand) -> None:
        """Go on with the iteration where this condition fails."""
        self._go_on(small, "again")

    def repeat(self, z: Sequence[Operand], w: Sequence[Operand]) -> None:
        """The block "again", where pivoted.py writes it, has been gone to."""

    def require(self, condition: Operand, outcome: Outcome) -> None:
        """End the run with this outcome, before this step, where the condition fails."""
        self._go_on(condition, self.failure(outcome), likely=True)

    def _go_on(self, condition: Operand, otherwise: str, likely: bool | None = None) -> None:
        """Here if a condition holds, at another block if not."""
        here = self.code.name("on")
        self.code.fork(condition, here, otherwise, likely)
        self.code.label(here)

    def failure(self, outcome: Outcome) -> str:
        """The block that ends the run with an outcome; `leave` writes it."""
        self.failures.add(outcome)
        return f"failure.{outcome.name}"

    def stop(self, condition: Operand) -> None:
        """End the run after this step where the condition holds."""
        self.set_count("code", where(condition, int(Outcome.STOPPED), 0))

    def stop_flag(self) -> Operand | None:
        """Condition that the run ends after this step; None if it never does."""
        return self.has_outcome() if self.outputs.stop else None

    def has_outcome(self) -> Operand:
        """Condition that the run has an outcome."""
        return self.count("code") != 0

    def commit(self) -> None:
        """Whatever fails has gone elsewhere."""

    def all_finite(self, values: Sequence[Operand]) -> Operand:
        return self.code.vanishing(values) == 0.0

    def go_back(self) -> None:
        """To where the step began, if one of its stages has ended the run."""
        stages = self.stages
        if stages.number == 1:
            return
        k = self.count("k")
        stage = stages.of(k)
        with self.code.only_if(self.has_outcome() & (stage != 0), likely=False):
            for name in SINCE:
                self.write(name, self.read(f"begin_{name}"))
            for i, value in enumerate(self.read("begin_w")):
                self.part["history"][i] = value
            self.set_count("k", k - stage)

    def leave(self) -> None:
        """Write back what is kept between calls, and return."""
        for name, slots in self.registers.items():
            self._to_memory(name, self.load_all(slots))
        for name, place in self.counts_in_memory.items():
            place[0] = self.count(name)
        self.code.line("ret void")
        for outcome in sorted(self.failures):
            self._fail(outcome)

    def _fail(self, outcome: Outcome) -> None:
        """End the run with an outcome: NOT_CONVERGED if divergence is why a system is singular or a number not finite."""
        c, code = self.code, int(outcome)
        c.label(self.failure(outcome))
        if outcome in (Outcome.SINGULAR, Outcome.NOT_FINITE):
            code = where(self.diverging[0], int(Outcome.NOT_CONVERGED), code)
        self.set_count("code", code)
        self.write("failed_residual", [self.size[0]])
        c.go("leave")


def refine(past: Sequence[Operand], cubic: Sequence[float] = CUBIC, refinement: np.ndarray = REFINEMENT) -> Operand:
    """The prediction from all solutions that are kept, newest first: vectors of any width.

    What the newest enters last is the shortest way from it to the next step. cubic, refinement: of a stage's change and its
    differences, from which the next change follows.
    """
    low, (excess, *others) = _weighted(cubic, past), (_weighted(row, past) for row in refinement.tolist())
    highest, *fourth = map(abs, others)
    smooth = highest <= SMOOTH * intrinsic("maxnum", *fourth)
    return where(smooth, low + excess, low)


def _weighted(weights: Sequence[float], past: Sequence[Operand]) -> Operand:
    with past[0].code.using("contract"):
        terms = [w * x for w, x in reversed([pair for pair in zip(weights, past, strict=False) if pair[0] != 0.0])]
        return functools.reduce(operator.add, terms)


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
        self.now: Operand = code.number(0, "i64")
        self.back: Operand | None = None
        self.slot: Any = None

    def changes(self, i: int) -> int:
        """Level of a node, which says how often it is evaluated: what depends on h once per stage, where stages differ."""
        level = self.step.level(i)
        return max(level, 1) if self.number > 1 and self.step.depend.on(i, "h") else level

    def of(self, k: Operand) -> Operand:
        """The stage that begins at count k."""
        return self.now if self.number == 1 else k % self.number

    def enter(self, k: Operand) -> None:
        """Before the first step, at count k."""
        if self.number > 1:
            self.slot = self.code.slot("stage", "i64")
            self.slot[0] = self.of(k)

    def begin(self) -> None:
        """The stage that is under way is the one that the slot counts; `of(k)` is the same, by a remainder that takes 3 %
        of the time of a stage."""
        if self.number > 1:
            self.now, self.back = self.slot[0], None

    def advance(self, whole: bool) -> None:
        """The next stage is the first of the next step, or the one after this."""
        if self.number > 1:
            self.slot[0] = 0 if whole else self.now + 1

    def last(self) -> Operand | None:
        """Condition that the step ends with this stage; None where it always does."""
        return None if self.number == 1 else self.now == self.number - 1

    def backwards(self) -> Operand | None:
        """Condition that the stage that is under way goes back in time; None where none does."""
        if min(self.step.weights) > 0:
            return None
        if self.back is None:
            self.back = self.part("gammas", self.now) < 0.0
        return self.back

    def node(self, k: Operand) -> Operand:
        """The number of whole steps in k, as a double."""
        return (k if self.number == 1 else k // self.number).convert("double")

    def part(self, table: str, stage: Operand) -> Operand:
        """A number of a stage."""
        return self.code.argument(f"@{table}")[stage]

    def row(self, known: Operand) -> Operand:
        """Weights of the prediction with so many known solutions."""
        known = intrinsic("smin", known, HISTORY)
        if self.number > 1:
            known = known + self.now * (HISTORY + 1)
        return self.code.argument("@weights")[known * HISTORY :]
