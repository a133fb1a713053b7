"""Newton's iteration of one run: on the written-out elimination while its check holds, pivoted otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.algebra.newton import DIVERGING
from dalembert.native.llvm.builder import real
from dalembert.native.llvm.dense import EXACT, NOT_FINITE, SOLVED
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.lane_frame import LaneState
from dalembert.native.stepper.linear_systems import Plan
from dalembert.native.stepper.scalar_frame import State
from dalembert.native.stepper.watch import determinant
from dalembert.outcome import Outcome


def following(state: State | LaneState, plan: Plan, inner: Values, values: Values, w: list[str]) -> list[str]:
    """The head's update from w with the Jacobian at z, where `inner` is: what jumps between them is seen in it."""
    there, again, rows = dict(values), dict(inner), sorted(plan.head.rows)
    state.emitter.bind(there, "z", w)
    f = state.emitter.emit([state.roots.f[i] for i in rows], there)
    again |= {state.step.graph.variable("again", i): value for i, value in zip(rows, f, strict=True)}
    return state.emitter.emit(state.roots.following, again)


class Iteration:
    """Writes the blocks from "iterate" to "accept"; a step that is not solved goes to "leave" with its outcome."""

    def __init__(self, state: State):
        self.state = state

    def iterate(self, values: Values) -> None:
        """Newton's iteration, on the written-out elimination while its check holds, with the pivoted solver otherwise."""
        c = self.state.code
        c.store("0", self.state.turns, "i64")
        c.store("false", self.state.astray, "i1")
        c.label("iterate")
        inner = dict(values)
        z = [c.load(x) for x in self.state.z]
        self.state.emitter.bind(inner, "z", z)
        c.store(c.let(f"add i64 {c.load(self.state.turns, 'i64')}, 1"), self.state.turns, "i64")
        if self.state.plan is not None:
            self._direct(self.state.plan, inner, values, z)
        self._pivoted(dict(inner), values, z)
        c.label("again")
        self.state.store(self.state.z, [c.load(x) for x in self.state.w])
        c.fork(c.let(f"icmp slt i64 {c.load(self.state.turns, 'i64')}, {self.state.count('limit')}"),
               "iterate", "not_converged", True)  # fmt: skip
        c.label("not_converged")
        if self.state.plan is not None:
            c.store(self.state.emitter.emit(self.state.roots.size, dict(inner), fast=True)[0], self.state.size)
        self.state.fail(Outcome.NOT_CONVERGED)

    def _direct(self, plan: Plan, inner: Values, values: Values, z: list[str]) -> None:
        """Newton's update of the head; the tail stays as predicted until the head is solved."""
        c, r = self.state.code, self.state.roots
        *update, check = self.state.emitter.emit([*r.update, *r.check], inner)
        # Far from a root the rows may have any size, which the check of the pivots does not know.
        astray = c.load(self.state.astray, "i1")
        check = c.let(f"select i1 {astray}, double {real(float('inf'))}, double {check}")
        self._checked(plan, update, check, "direct")
        head = sorted(plan.head.columns)
        w = list(z)
        for j, x in zip(head, update, strict=True):
            w[j] = c.let(f"fsub double {z[j]}, {x}")
        self.state.store(self.state.w, w)
        if not plan.affine:
            self._test(
                values, dict(zip(head, update, strict=True)), w, "passed.head" if plan.judged else "solved.head", "again"
            )
        if plan.judged:
            c.label("passed.head")
            after = following(self.state, plan, inner, values, w)
            self._test(values, dict(zip(head, after, strict=True)), w, "solved.head", "again", judged=True)
        if not plan.affine:
            c.label("solved.head")
        self._keep_cut(z, w, dict(zip(head, update, strict=True)))
        known = dict(values)
        if plan.tail.rows:
            self._solve_tail(plan, known, w)
        self._report(plan, dict(inner), known)
        c.go("accept")

    def _keep_cut(self, z: Sequence[str], w: Sequence[str] | dict[int, str], update: dict[int, str]) -> None:
        """What z - update has lost to rounding: exact, because the update is the smaller of the two."""
        c = self.state.code
        for j in sorted(self.state.cut.keys() & update.keys()):
            moved = c.let(f"fsub double {z[j]}, {w[j]}")
            c.store(c.let(f"fsub double {moved}, {update[j]}"), self.state.cut[j])
        for j in sorted(self.state.moved.keys() & update.keys()):
            c.store(c.let(f"fneg double {update[j]}"), self.state.moved[j])

    def _keep_moved(self, w: Sequence[str]) -> None:
        """Increments after the pivoted solver, which may have been called several times."""
        c = self.state.code
        for j, k in self.state.origin.items():
            c.store(c.let(f"fsub double {w[j]}, {c.load(self.state.d['s'][k])}"), self.state.moved[j])

    def _solve_tail(self, plan: Plan, known: Values, w: list[str]) -> None:
        """The unknowns that follow linearly from the head, starting from the predicted ones."""
        c, r, tail = self.state.code, self.state.roots, sorted(plan.tail.columns)
        self.state.emitter.bind(known, "z", w)
        *update, check = self.state.emitter.emit([*r.tail_update, *r.tail_check], known)
        self._checked(plan, update, check, "solved.tail")
        solved = [c.let(f"fsub double {w[j]}, {x}") for j, x in zip(tail, update, strict=True)]
        self.state.store([self.state.w[j] for j in tail], solved)
        self._keep_cut(w, dict(zip(tail, solved, strict=True)), dict(zip(tail, update, strict=True)))

    def _checked(self, plan: Plan, update: list[str], check: str, label: str) -> None:
        """Go on at `label` if the pivots were good ones and the update is finite, to the pivoted solver otherwise."""
        c = self.state.code
        check = c.let(f"fadd double {check}, {c.vanishing(update)}")
        c.fork(c.let(f"fcmp ole double {check}, {real(plan.growth)}"), label, "pivot", True)
        c.label(label)

    def _pivoted(self, inner: Values, values: Values, z: list[str]) -> None:
        c = self.state.code
        c.label("pivot")
        code = self._by_pivots(inner, self.state.emitter.emit(self.state.roots.f, inner))
        c.store(c.let(f"add i64 {self.state.count('slow')}, 1"), self.state.i["slow"], "i64")
        c.store(c.load(self.state.part["report"]), self.state.size)
        c.store(c.load(c.at(self.state.part["report"], 1)), self.state.sign)
        c.store(c.load(c.at(self.state.part["report"], 2)), self.state.determinant)
        c.line(f"switch i64 {code}, label %singular [ i64 {SOLVED}, label %solved i64 {EXACT}, label %exact"
               f" i64 {NOT_FINITE}, label %not_finite ]")  # fmt: skip
        c.label("exact")
        self.state.store(self.state.w, z)
        for slot in self.state.cut.values():
            c.store("0.0", slot)
        self._keep_moved(z)
        c.go("accept")
        c.label("solved")
        update = self.state.read("right")
        new = [c.let(f"fsub double {a}, {b}") for a, b in zip(z, update, strict=True)]
        self.state.store(self.state.w, new)
        self._keep_cut(z, new, dict(enumerate(update)))
        self._keep_moved(new)
        c.fork(self.state.all_finite(new), "solved.finite", "not_finite", True)
        c.label("solved.finite")
        step = self.state.step
        judged = step.equations.judged(step.everything, step.everything)
        if step.linear and self.state.plan is not None:
            c.go("accept")
        else:
            self._test(values, dict(enumerate(update)), new, "passed" if judged else "accept", "again")
        if judged:
            self._judge(inner, values, new)
        for name, outcome in (("singular", Outcome.SINGULAR), ("not_finite", Outcome.NOT_FINITE)):
            c.label(name)
            self.state.fail(outcome, self.state.astray)

    def _by_pivots(self, inner: Values, right: list[str]) -> str:
        """The system with the Jacobian at z, solved with pivoting; returns the code of the outcome."""
        c, n = self.state.code, self.state.layout.z
        self.state.write("right", right)
        with c.loop(0, n * n) as i:
            c.store("0.0", c.at(self.state.part["matrix"], i))
        for i, node in enumerate(self.state.roots.jacobian):
            if node != self.state.g.zero:
                c.store(self.state.emitter.emit([node], inner)[0], c.at(self.state.part["matrix"], i))
        arguments = ", ".join(f"ptr {self.state.part[name]}" for name in ("matrix", "right", "report"))
        return c.let(f"call i64 %solver(i64 {n}, {arguments})")

    def _judge(self, inner: Values, values: Values, w: list[str]) -> None:
        """As in `_direct`: the update from w, with the same Jacobian, must pass the test, too."""
        c, there = self.state.code, dict(values)
        c.label("passed")
        self.state.emitter.bind(there, "z", w)
        code = self._by_pivots(inner, self.state.emitter.emit(self.state.roots.f, there))
        c.line(f"switch i64 {code}, label %again [ i64 {SOLVED}, label %following i64 {EXACT}, label %accept ]")
        c.label("following")
        update = dict(enumerate(self.state.read("right")))
        self._test(values, update, w, "accept", "again", judged=True)

    def _test(self, values: Values, update: dict[int, str], w: list[str], yes: str, no: str, judged: bool = False) -> None:
        """Whether every tested |update_i| ≤ tolerance · scale_i at the new z; judged: of the update that follows on it."""
        c, inside, passed, near = self.state.code, dict(values), "true", "true"
        self.state.emitter.bind(inside, "w", w)
        groups: dict[int, list[str]] = {}
        for j, value in update.items():
            if self.state.g.value(self.state.roots.scale[j]) != float("inf"):
                groups.setdefault(self.state.roots.scale[j], []).append(c.absolute(value))
        for node, sizes in groups.items():
            largest = c.maximum(sizes)
            (scale,) = self.state.emitter.emit([node], inside, fast=True)
            bound = c.let(f"fmul double {scale}, {self.state.settings['tolerance']}")
            passed = c.let(f"and i1 {passed}, {c.let(f'fcmp ole double {largest}, {bound}')}")
            limit = c.let(f"fmul double {scale}, {real(DIVERGING)}")
            near = c.let(f"and i1 {near}, {c.let(f'fcmp ole double {largest}, {limit}')}")
        if not judged:
            c.store(c.let(f"xor i1 {near}, true"), self.state.astray, "i1")  # as in algebra/newton.py
        c.fork(passed, yes, no)

    def _report(self, plan: Plan, inner: Values, known: Values) -> None:
        """Scaled residual, sign and size of the determinant of the last evaluation, from the written-out elimination.

        An affine head is solved by one evaluation, and what is left is not evaluated: it counts as zero.
        """
        c, r = self.state.code, self.state.roots
        c.store("0.0" if plan.affine else self.state.emitter.emit(r.size, inner, fast=True)[0], self.state.size)
        if not r.factor:
            bits = "-1" if plan.parity else "0"
            emit = self.state.emitter.emit
            pivots = [*emit(r.pivots, inner), *emit(r.tail_pivots, known)]
            for pivot in pivots:
                bits = c.let(f"xor i64 {bits}, {c.let(f'bitcast double {pivot} to i64')}")
            negative = c.let(f"icmp slt i64 {bits}, 0")
            c.store(c.let(f"select i1 {negative}, double -1.0, double 1.0"), self.state.sign)
            if self.state.step.ends:
                c.store(determinant(c, pivots), self.state.determinant)
