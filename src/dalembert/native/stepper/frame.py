"""What the algorithm of a step leaves open: where the numbers of a run stand, and what becomes of a condition."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from dalembert.native.llvm.builder import Code, real
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.stepper.arrays import CUBIC, REFINEMENT, SETTINGS, SMOOTH, Layout
from dalembert.native.stepper.linear_systems import GraphOutputs, Plan
from dalembert.native.stepper.stages import Stages
from dalembert.native.stepper.step import Translated
from dalembert.outcome import Outcome


class LastUpdate(abc.ABC):
    """What ends an iteration without another Jacobian."""

    @abc.abstractmethod
    def keep(self) -> None:
        """The update that was small."""

    @abc.abstractmethod
    def report(self) -> str:
        """The size of the residual before it."""

    @abc.abstractmethod
    def tried(self) -> str:
        """Whether the next one is, and all that it changes may be taken."""

    @abc.abstractmethod
    def take(self, where: str | None) -> None:
        """The next one instead, with the size of its residual."""


class Frame(abc.ABC):
    """One run, or runs in lanes. A number is one of each lane; nodes and what is told in counts are shared by all lanes.

    Lanes leave to the run of one what needs the pivoted solver, and what ends with an outcome.

    t0, h, tolerance, close (its root), run_values: what does not change in a run. Slots: z: the iterate, w: the solution,
    compensation: what rounding has cut off it, increments: w - s of unknowns that start at s; of the system that was solved
    last: size of its scaled residual, sign and size of its determinant; iterations: of this step.
    """

    def __init__(self, step: Translated, layout: Layout, outputs: GraphOutputs, plan: Plan | None, width: int):
        self.step, self.layout, self.outputs, self.plan = step, layout, outputs, plan
        self.code = Code(width)
        self.emitter = Emitter(step.graph, self.code)
        self.stages = Stages(step, self.code)

    @property
    def once(self) -> bool:
        """Whether one linear solution is enough, from wherever it starts."""
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
        self.compensation = {j: c.slot("compensation") for j in out.compensated(g)}
        self.origin = out.increments(g)
        self.increments = {j: c.slot("increment") for j in self.origin}
        self.size, self.sign, self.determinant = (c.slot(name) for name in ("size", "sign", "determinant"))
        self.iterations = c.slot("iterations", c.whole)
        self.emitter.hoist(out.stepped, self.run_values, self.stages.changes, 0)

    def store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.code.store(value, slot)

    def place(self, slot: str, value: str, where: str | None) -> None:
        """Store a value, in lanes where a condition holds; None: everywhere."""
        c = self.code
        self.code.store(value if where is None or c.width == 1 else c.select(where, value, c.load(slot)), slot)

    def loaded(self, slots: Sequence[str]) -> list[str]:
        return [self.code.load(slot) for slot in slots]

    def add(self, name: str, amount: str) -> None:
        """To a count."""
        kind = self.kind(name)
        self.set_count(name, self.code.let(f"add {kind} {self.count(name)}, {amount}"))

    @property
    @abc.abstractmethod
    def signature(self) -> str:
        """The first line of the function."""

    @abc.abstractmethod
    def kind(self, name: str) -> str:
        """The type of a count: one number for all lanes, or one of each."""

    @abc.abstractmethod
    def count(self, name: str) -> str:
        """A count, by its name in COUNTS."""

    @abc.abstractmethod
    def set_count(self, name: str, value: str) -> None:
        """Give a count a value."""

    @abc.abstractmethod
    def read(self, name: str) -> list[str]:
        """A part of the carry."""

    @abc.abstractmethod
    def write(self, name: str, values: Sequence[str]) -> None:
        """Give a part of the carry its values."""

    @abc.abstractmethod
    def read_sign(self) -> str:
        """What has been kept by the last stage that went in the direction of this one."""

    @abc.abstractmethod
    def write_sign(self, value: str) -> None:
        """Keep it for the next that does."""

    @abc.abstractmethod
    def latest(self) -> list[str]:
        """The solution of the last step or stage."""

    @abc.abstractmethod
    def extrapolate(self, weights: Sequence[str]) -> None:
        """z ← Σⱼ weights[j] w_{k-j}."""

    @abc.abstractmethod
    def extrapolate_refined(self) -> None:
        """z ← `refined` of the last solutions; all are known."""

    @abc.abstractmethod
    def remember(self) -> None:
        """w is the latest of the solutions."""

    @abc.abstractmethod
    def write_row(self, values: Sequence[str]) -> None:
        """The next row of output."""

    @abc.abstractmethod
    def begin_iteration(self) -> None:
        """Before the first evaluation."""

    @abc.abstractmethod
    def count_iteration(self) -> None:
        """One more evaluation, in `iterations`."""

    @abc.abstractmethod
    def trusted(self, check: str) -> str:
        """The check of the pivots, or infinity where the iteration diverges: rows far from a root may have any size."""

    @abc.abstractmethod
    def require_solution(self, good: str) -> None:
        """Where this fails the pivoted solver takes over."""

    @abc.abstractmethod
    def note_divergence(self, near: str) -> None:
        """Whether the update is a small one, or the iteration diverges."""

    @abc.abstractmethod
    def require_convergence(self, small: str) -> None:
        """Where this fails the iteration goes on."""

    @abc.abstractmethod
    def finish(self, small: str, tiny: str, close: str, last: LastUpdate) -> None:
        """The iteration ends where an update is tiny, or small and the last that is allowed; where it is close to that
        `last` is tried once, and ends it where it can."""

    @abc.abstractmethod
    def conclude(self, last: LastUpdate) -> None:
        """After the iteration: what has not been stored of its end."""

    @abc.abstractmethod
    def repeat(self, z: Sequence[str], w: Sequence[str]) -> None:
        """Go on with the iteration from w, where it goes on."""

    @abc.abstractmethod
    def require(self, condition: str, outcome: Outcome) -> None:
        """Where this fails the run ends with that outcome, before this step."""

    @abc.abstractmethod
    def stop(self, condition: str) -> None:
        """Where this holds the run ends after this step."""

    @abc.abstractmethod
    def stopped(self) -> str | None:
        """Whether it does so; None if it never does."""

    @abc.abstractmethod
    def commit(self) -> None:
        """From here on nothing fails, and the state may be changed."""

    @abc.abstractmethod
    def leave(self) -> None:
        """Write back what is kept between calls, and return."""


def refined(c: Code, width: int, past: Sequence[str]) -> str:
    """The prediction from all solutions that are kept, newest first: vectors of any width.

    What the newest enters last is the shortest way from it to the next step.
    """
    kind, suffix = ("double", "f64") if width == 1 else (f"<{width} x double>", f"v{width}f64")

    def number(x: float) -> str:
        return real(x) if width == 1 else f"splat (double {real(x)})"

    def total(weights: Sequence[float]) -> str:
        value = number(0.0)
        for weight, x in reversed([pair for pair in zip(weights, past, strict=False) if pair[0] != 0.0]):
            term = c.let(f"fmul contract {kind} {number(weight)}, {x}")
            value = term if value == number(0.0) else c.let(f"fadd contract {kind} {value}, {term}")
        return value

    low, (excess, *others) = total(CUBIC), (total(row) for row in REFINEMENT.tolist())
    highest, *fourth = (c.call(kind, f"llvm.fabs.{suffix}", (kind, x)) for x in others)
    reach = c.call(kind, f"llvm.maxnum.{suffix}", *((kind, x) for x in fourth))
    limit = c.let(f"fmul {kind} {number(SMOOTH)}, {reach}")
    smooth = c.let(f"fcmp ole {kind} {highest}, {limit}")
    truth = "i1" if width == 1 else f"<{width} x i1>"
    return c.let(f"select {truth} {smooth}, {kind} {c.let(f'fadd {kind} {low}, {excess}')}, {kind} {low}")
