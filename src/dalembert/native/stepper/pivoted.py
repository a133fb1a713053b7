"""Newton's iteration of one run where the written-out elimination is none or not to be trusted: with the pivoted solver."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.llvm.dense import EXACT, NOT_FINITE, SOLVED
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.convergence import judgement, keep_compensation
from dalembert.native.stepper.scalar_frame import ScalarFrame
from dalembert.outcome import Outcome


class Pivoted:
    """Writes the blocks "pivot", from which it goes to "accept", and "again", from which it goes to "iterate".

    inner: values at the iterate z; values: those of the step. pivoted: at the iterate, in "pivot" and what follows from it
    alone.
    """

    def __init__(self, frame: ScalarFrame, inner: Values, values: Values, z: Sequence[str]):
        self.frame, self.code = frame, frame.code
        self.inner, self.pivoted, self.values, self.z = inner, dict(inner), values, z

    def write(self) -> None:
        f, c, report = self.frame, self.code, self.frame.part["report"]
        c.label("pivot")
        code = self._solution(f.emitter.emit(f.outputs.f, self.pivoted))
        f.add("slow", "1")
        for i, slot in enumerate((f.size, f.sign, f.determinant)):
            c.store(c.load(c.at(report, i)), slot)
        singular, not_finite = f.failure(Outcome.SINGULAR), f.failure(Outcome.NOT_FINITE)
        c.line(f"switch i64 {code}, label %{singular} [ i64 {SOLVED}, label %solved i64 {EXACT}, label %exact"
               f" i64 {NOT_FINITE}, label %{not_finite} ]")  # fmt: skip
        c.label("exact")
        f.store(f.w, self.z)
        for slot in f.compensation.values():
            c.store("0.0", slot)
        self._keep_increments(self.z)
        c.go("accept")
        c.label("solved")
        self._solved()
        self._again()

    def _solved(self) -> None:
        """w = z - update; it is accepted if the update is small, and the one that follows on it where F may jump."""
        f, c = self.frame, self.code
        update = f.read("right")
        w = [c.minus(a, b) for a, b in zip(self.z, update, strict=True)]
        f.store(f.w, w)
        keep_compensation(f, self.z, dict(enumerate(w)), dict(enumerate(update)))
        self._keep_increments(w)
        f.require(f.all_finite(w), Outcome.NOT_FINITE)
        if not (f.step.linear and f.plan is not None):
            small, near = judgement(f, self.values, dict(enumerate(update)), w)
            f.note_divergence(near)
            f.require_convergence(small)
        if f.step.equations.judged(f.step.everything, f.step.everything):
            there = dict(self.values)
            f.emitter.bind(there, "z", w)
            code = self._solution(f.emitter.emit(f.outputs.f, there))
            c.line(f"switch i64 {code}, label %again [ i64 {SOLVED}, label %following i64 {EXACT}, label %accept ]")
            c.label("following")
            f.require_convergence(judgement(f, self.values, dict(enumerate(f.read("right"))), w)[0])
        c.go("accept")

    def _solution(self, right: Sequence[str]) -> str:
        """The system with the Jacobian at z, solved with pivoting; returns the code of the outcome."""
        f, c, n = self.frame, self.code, self.frame.layout.z
        f.write("right", right)
        with c.loop(0, n * n) as i:
            c.store("0.0", c.at(f.part["matrix"], i))
        for i, node in enumerate(f.outputs.jacobian):
            if node != f.step.graph.zero:
                c.store(f.emitter.emit([node], self.pivoted)[0], c.at(f.part["matrix"], i))
        arguments = ", ".join(f"ptr {f.part[name]}" for name in ("matrix", "right", "report"))
        return c.let(f"call i64 %solver(i64 {n}, {arguments})")

    def _keep_increments(self, w: Sequence[str]) -> None:
        """Of unknowns that start at s: the solver may have been called several times."""
        f, s = self.frame, self.frame.read("s") if self.frame.origin else []
        for j, k in f.origin.items():
            self.code.store(self.code.minus(w[j], s[k]), f.increments[j])

    def _again(self) -> None:
        f, c = self.frame, self.code
        c.label("again")
        f.store(f.z, f.loaded(f.w))
        more = c.let(f"icmp slt i64 {c.load(f.iterations, 'i64')}, {f.count('limit')}")
        c.fork(more, "iterate", "not_converged", True)
        c.label("not_converged")
        if f.plan is not None:
            c.store(f.emitter.emit(f.outputs.size, dict(self.inner), fast=True)[0], f.size)
        c.go(f.failure(Outcome.NOT_CONVERGED))
