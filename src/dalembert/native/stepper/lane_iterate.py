"""Newton's iteration in lanes: each lane goes on until its own update is small."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.algebra.newton import DIVERGING
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.iterate import following
from dalembert.native.stepper.lane_frame import LaneState


class LaneIteration:
    """Writes the blocks from "iterate" on; `good` then tells which lanes have a solution, in `w`."""

    def __init__(self, state: LaneState):
        self.state = state

    def iterate(self, values: Values) -> Values:
        """Newton's iteration of all lanes that go on; `good` tells which have a solution. Returns the last values."""
        c = self.state.code
        c.store("0", self.state.lap, "i64")
        c.store("zeroinitializer", self.state.turns, c.whole)
        c.store(c.load(self.state.alive, c.truth), self.state.going, c.truth)
        c.label("iterate")
        inner = dict(values)
        z = [c.load(x) for x in self.state.z]
        self.state.emitter.bind(inner, "z", z)
        *update, check = self.state.emitter.emit([*self.state.roots.update, *self.state.roots.check], inner)
        solved = self._checked(update, check, c.load(self.state.alive, c.truth))
        head, w = sorted(self.state.plan.head.columns), list(z)
        for j, x in zip(head, update, strict=True):
            w[j] = c.let(f"fsub {c.real} {z[j]}, {x}")
        self.state.store(self.state.w, w)
        self._keep_cut(z, w, dict(zip(head, update, strict=True)))
        counted = c.let(f"zext {c.truth} {c.load(self.state.going, c.truth)} to {c.whole}")
        c.store(c.let(f"add {c.whole} {c.load(self.state.turns, c.whole)}, {counted}"), self.state.turns, c.whole)
        if self.state.plan.affine:
            c.store(solved, self.state.good, c.truth)
            return inner
        passed, near = self._passed(values, dict(zip(head, update, strict=True)), w)
        if self.state.plan.judged:
            after = following(self.state, self.state.plan, inner, values, w)
            small, _ = self._passed(values, dict(zip(head, after, strict=True)), w)
            passed = c.let(f"and {c.truth} {passed}, {small}")
        solved = c.let(f"and {c.truth} {solved}, {near}")
        c.store(c.let(f"and {c.truth} {solved}, {passed}"), self.state.good, c.truth)
        more = c.let(f"and {c.truth} {solved}, {c.let(f'xor {c.truth} {passed}, {c.constant(True)}')}")
        c.store(more, self.state.going, c.truth)
        lap = c.let(f"add i64 {c.load(self.state.lap, 'i64')}, 1")
        c.store(lap, self.state.lap, "i64")
        allowed = c.let(f"icmp slt i64 {lap}, {self.state.fixed['limit']}")
        c.fork(c.let(f"and i1 {c.some(more)}, {allowed}"), "again", "solved")
        c.label("again")
        for j in head:
            c.store(c.let(f"select {c.truth} {more}, {c.real} {w[j]}, {c.real} {z[j]}"), self.state.z[j])
        c.go("iterate")
        c.label("solved")
        return inner

    def _keep_cut(self, z: Sequence[str], w: Sequence[str] | dict[int, str], update: dict[int, str]) -> None:
        """What z - update has lost to rounding, of the unknowns of which it is kept."""
        c = self.state.code
        for j in sorted(self.state.cut.keys() & update.keys()):
            moved = c.let(f"fsub {c.real} {z[j]}, {w[j]}")
            c.store(c.let(f"fsub {c.real} {moved}, {update[j]}"), self.state.cut[j])
        for j in sorted(self.state.moved.keys() & update.keys()):
            c.store(c.let(f"fneg {c.real} {update[j]}"), self.state.moved[j])

    def _checked(self, update: list[str], check: str, so_far: str) -> str:
        """Whether the pivots were good ones and the update is finite."""
        c = self.state.code
        check = c.let(f"fadd {c.real} {check}, {c.vanishing(update)}")
        direct = c.let(f"fcmp ole {c.real} {check}, {c.constant(self.state.plan.growth)}")
        return c.let(f"and {c.truth} {direct}, {so_far}")

    def solve_tail(self, values: Values) -> list[str]:
        """The unknowns that follow linearly from the head, starting from the predicted ones. Returns their pivots."""
        c, r, known = self.state.code, self.state.roots, dict(values)
        w, tail = [c.load(x) for x in self.state.w], sorted(self.state.plan.tail.columns)
        self.state.emitter.bind(known, "z", w)
        *update, check = self.state.emitter.emit([*r.tail_update, *r.tail_check], known)
        c.store(self._checked(update, check, c.load(self.state.good, c.truth)), self.state.good, c.truth)
        solved = [c.let(f"fsub {c.real} {w[j]}, {x}") for j, x in zip(tail, update, strict=True)]
        self.state.store([self.state.w[j] for j in tail], solved)
        self._keep_cut(w, dict(zip(tail, solved, strict=True)), dict(zip(tail, update, strict=True)))
        return [] if r.factor else self.state.emitter.emit(r.tail_pivots, known)

    def _passed(self, values: Values, update: dict[int, str], w: list[str]) -> tuple[str, str]:
        """Whether every tested |update_i| ≤ tolerance · scale_i at the new z, and whether ≤ DIVERGING · scale_i."""
        c, inside, passed = self.state.code, dict(values), self.state.code.constant(True)
        near = passed
        self.state.emitter.bind(inside, "w", w)
        groups: dict[int, list[str]] = {}
        for j, value in update.items():
            if self.state.step.graph.value(self.state.roots.scale[j]) != float("inf"):
                groups.setdefault(self.state.roots.scale[j], []).append(c.absolute(value))
        for node, sizes in groups.items():
            (scale,) = self.state.emitter.emit([node], inside, fast=True)
            largest = c.maximum(sizes)
            bounds = [c.let(f"fmul {c.real} {scale}, {part}") for part in (self.state.tolerance, c.constant(DIVERGING))]
            small, fair = (c.let(f"fcmp ole {c.real} {largest}, {bound}") for bound in bounds)
            passed, near = c.let(f"and {c.truth} {passed}, {small}"), c.let(f"and {c.truth} {near}, {fair}")
        return passed, near
