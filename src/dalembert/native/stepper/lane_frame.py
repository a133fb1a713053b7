"""W runs side by side in vectors, each with its own outcome: everything in registers, and a mask for every condition.

Lanes share the node index. A lane that needs more than the written-out elimination - a pivot fails its check, a number is
not finite, Newton's iteration does not end, the domain is left, a singularity is crossed, the run is stopped - is written
back as it was before that step, and masked; the scalar run takes it from there. No lane's arithmetic depends on another
lane: an iterate that has converged is kept while others go on, so that its last evaluation is repeated bit by bit.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from dalembert.native.stepper.arrays import COUNTED, SINCE, Layout, history_length
from dalembert.native.stepper.frame import Frame, refine
from dalembert.native.stepper.linear_systems import GraphOutputs, Plan
from dalembert.native.stepper.step import Translated
from dalembert.outcome import Outcome

SHARED = ("known", "rows", "saved", "target")  # counts that lanes of one group have in common
FIXED = ("last", "every", "limit", "law_every", "first")
OWN = ("iterations", "max_iterations", "crossings", "turns", "leaps")
STATE = ("q", "q_compensation", "s", "held_force", "sampled", "sign", "residual", "reduced", "before_q", "before_s",
         "s_compensation", "determinant")  # fmt: skip


class LaneFrame(Frame):
    """@lanes(ptr carry, count, inputs, rows, i64 lanes, i64 inputs_stride, i64 rows_stride, i64 from, i64 until).

    Arrays as in Layout, one after the other for each lane; a stride of 0 shares the inputs. Of the first `lanes` lanes
    those without outcome at node `from` are advanced to node `until`.

    part: slots of the carry by name; shared, fixed: counts of the group; own: counts of each lane. Masks: alive: lanes that
    take part; going: whose iteration goes on; chord: whose has ended with one; out: that leave; good, settled: what the
    conditions of a step have come to.
    """

    def __init__(self, step: Translated, layout: Layout, outputs: GraphOutputs, plan: Plan, width: int):
        self.iterated, self.affine_columns = sorted(plan.nonlinear.columns), sorted(plan.affine.columns)
        super().__init__(step, layout, outputs, plan, width)

    def open(self) -> None:
        layout, self.kept = self.layout, history_length(self.stages.number)
        c = self.code
        self.in_carry = self.code.addresses("carry", str(layout.packed_carry.size), "double")
        self.in_count = self.code.addresses("count", str(COUNTED.size), "i64")
        self.in_rows = self.code.addresses("rows", "%rows_stride", "double")
        in_inputs = self.code.addresses("inputs", "%inputs_stride", "double")
        there = c.let(f"icmp slt {c.whole} {c.lanes}, {c.broadcast('%lanes', 'i64')}")
        self._choose(there)
        c.fork(c.some(c.load(self.alive, c.truth)), "enter", "end")
        c.label("enter")
        inputs = {name: [self.code.gather(in_inputs, f.offset + i, "double", there) for i in range(f.length)]
                  for name, f in layout.packed_inputs.fields.items()}  # fmt: skip
        since = [f"begin_{name}" for name in (*SINCE, "w")] if self.stages.number > 1 else []
        self.part = {name: self._copy(name, there) for name in (*STATE, *since)}
        self._copy_solutions(there, self.affine_columns)
        self.going, self.out, self.chord = (c.slot(name, c.truth) for name in ("going", "out", "chord"))
        self.lap = c.slot("lap", "i64")
        self.good = self.settled = c.constant(True)
        self.enter(inputs)
        self.stages.enter("%from")

    @property
    def signature(self) -> str:
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows"))
        numbers = ", ".join(f"i64 %{name}" for name in ("lanes", "inputs_stride", "rows_stride", "from", "until"))
        # Without the attribute LLVM splits vectors where the processor prefers narrower ones.
        return f'define void @lanes({arrays}, {numbers}) nounwind "min-legal-vector-width"="{64 * self.code.width}"'

    def _choose(self, there: str) -> None:
        """Which lanes take part: those at node `from` that agree with the first of them in what they share."""
        c = self.code
        place = {name: COUNTED.offset(name) for name in COUNTED.fields}
        column = {name: self.code.gather(self.in_count, place[name], "i64", there) for name in ("k", "code", *SHARED, *OWN)}
        at_node = c.let(f"icmp eq {c.whole} {column['k']}, {c.broadcast('%from', 'i64')}")
        running = c.let(f"icmp eq {c.whole} {column['code']}, zeroinitializer")
        mask = c.both(there, c.both(at_node, running))
        bits = c.let(f"bitcast {c.truth} {mask} to i{c.width}")
        first = c.call(f"i{c.width}", f"llvm.cttz.i{c.width}", (f"i{c.width}", bits), ("i1", "false"))
        inside = c.let(f"and i{c.width} {first}, {c.width - 1}")  # without any lane: lane 0, which is then not used
        row = c.let(f"mul i64 {c.let(f'zext i{c.width} {inside} to i64')}, {COUNTED.size}")
        start = c.at("%count", row, "i64")
        number = {name: c.load(c.at(start, place[name], "i64"), "i64") for name in (*SHARED, *FIXED)}
        for name in SHARED:
            same = c.let(f"icmp eq {c.whole} {column[name]}, {c.broadcast(number[name], 'i64')}")
            mask = c.both(mask, same)
        self.fixed = {"until": "%until", **{name: number[name] for name in FIXED}}
        self.shared = {name: c.slot(name, "i64") for name in ("k", *SHARED)}
        for name, slot in self.shared.items():
            c.store("%from" if name == "k" else number[name], slot, "i64")
        self.own = {name: c.slot(name, c.whole) for name in OWN}
        for name, slot in self.own.items():
            c.store(column[name], slot, c.whole)
        self.alive = c.slot("alive", c.truth)
        c.store(mask, self.alive, c.truth)

    def _copy(self, name: str, mask: str) -> list[str]:
        """Slots with a part of the carry."""
        start, length = self.layout.packed_carry.offset(name), self.layout.packed_carry.fields[name].length
        slots = [self.code.slot(name) for _ in range(length)]
        self.store(slots, [self.code.gather(self.in_carry, start + i, "double", mask) for i in range(length)])
        return slots

    def _copy_solutions(self, mask: str, affine: Sequence[int]) -> None:
        """The last solutions of what is iterated, in a ring, `newest` telling where; of the others the latest."""
        c, start, n = self.code, self.layout.packed_carry.offset("history"), self.layout.z
        self.ring, self.newest = c.slot("ring", c.real, self.kept * len(self.iterated)), c.slot("newest", "i64")
        c.store("0", self.newest, "i64")
        for j, row in enumerate(self._history()):
            for i, column in enumerate(self.iterated):
                c.store(self.code.gather(self.in_carry, start + j * n + column, "double", mask), c.at(row, i, c.real))
        self.affine = {column: c.slot("affine") for column in affine}
        for column, slot in self.affine.items():
            c.store(self.code.gather(self.in_carry, start + column, "double", mask), slot)

    def _history(self) -> list[str]:
        """Addresses of the solutions in the ring, the newest first."""
        c, rows = self.code, []
        newest = c.load(self.newest, "i64")
        for j in range(self.kept):
            place = c.let(f"and i64 {c.let(f'sub i64 {newest}, {j}')}, {self.kept - 1}")
            rows.append(c.at(self.ring, c.let(f"mul i64 {place}, {len(self.iterated)}"), c.real))
        return rows

    def _write_history(self, mask: str) -> None:
        """The ring in the carry's order. The scalar run predicts affine unknowns by the latest, too: equal rows."""
        c, start, n = self.code, self.layout.packed_carry.offset("history"), self.layout.z
        for j, row in enumerate(self._history()):
            for i, column in enumerate(self.iterated):
                self.code.scatter(c.load(c.at(row, i, c.real)), self.in_carry, start + j * n + column, "double", mask)
            for column, slot in self.affine.items():
                self.code.scatter(c.load(slot), self.in_carry, start + j * n + column, "double", mask)

    def kind(self, name: str) -> str:
        return self.code.whole if name in self.own else "i64"

    def count(self, name: str) -> str:
        return self.fixed[name] if name in self.fixed else self.code.load((self.shared | self.own)[name], self.kind(name))

    def set_count(self, name: str, value: str) -> None:
        self.code.store(value, (self.shared | self.own)[name], self.kind(name))

    def read(self, name: str) -> list[str]:
        return self.load_all(self.part[name])

    def write(self, name: str, values: Sequence[str]) -> None:
        self.store(self.part[name], values)

    def read_sign(self) -> str:
        back, signs = self.stages.backwards(), self.read("sign")
        return self.code.select(back, signs[1], signs[0], "i1") if back else signs[0]

    def write_sign(self, value: str) -> None:
        c, back, signs = self.code, self.stages.backwards(), self.read("sign")
        if back:
            self.write("sign", [c.select(back, signs[0], value, "i1"), c.select(back, value, signs[1], "i1")])
        else:
            self.write("sign", [value])

    def latest(self) -> list[str]:
        c, row = self.code, self._history()[0]
        found = {column: c.load(c.at(row, i, c.real)) for i, column in enumerate(self.iterated)}
        found |= {column: c.load(slot) for column, slot in self.affine.items()}
        return [found[column] for column in range(self.layout.z)]

    def extrapolate(self, weights: Sequence[str]) -> None:
        c, add = self.code, f"fadd contract {self.code.real}"
        for past, column in self._begin_prediction():
            terms = [c.let(f"fmul contract {c.real} {w}, {x}") for w, x in zip(weights, past, strict=False)]
            c.store(functools.reduce(lambda a, b: c.let(f"{add} {a}, {b}"), reversed(terms)), self.z[column])

    def extrapolate_refined(self) -> None:
        for past, column in self._begin_prediction():
            self.code.store(refine(self.code, self.code.width, past), self.z[column])

    def _begin_prediction(self) -> Iterator[tuple[list[str], int]]:
        """(solutions, newest first; index) of what is iterated; the others start from their latest solution."""
        c, history = self.code, self._history()
        for column, slot in self.affine.items():
            c.store(c.load(slot), self.z[column])
        for i, column in enumerate(self.iterated):
            yield [c.load(c.at(row, i, c.real)) for row in history], column

    def remember(self) -> None:
        c = self.code
        if not self.once:
            more = c.let(f"add i64 {c.load(self.newest, 'i64')}, 1")
            c.store(c.let(f"and i64 {more}, {self.kept - 1}"), self.newest, "i64")
        row = self._history()[0]
        for i, column in enumerate(self.iterated):
            c.store(c.load(self.w[column]), c.at(row, i, c.real))
        for column, slot in self.affine.items():
            c.store(c.load(self.w[column]), slot)

    def write_row(self, values: Sequence[str]) -> None:
        c = self.code
        start = c.let(f"mul i64 {self.count('rows')}, {self.layout.packed_row.size}")
        at = c.let(f"getelementptr double, <{c.width} x ptr> {self.in_rows}, i64 {start}")
        alive = c.load(self.alive, c.truth)
        for i, value in enumerate(values):
            self.code.scatter(value, at, i, "double", alive)

    def begin_iteration(self) -> None:
        c = self.code
        c.store("0", self.lap, "i64")
        c.store("zeroinitializer", self.iterations, c.whole)
        c.store(c.load(self.alive, c.truth), self.going, c.truth)

    def count_iteration(self) -> None:
        """Of those that go on. All lanes that are alive are evaluated."""
        c = self.code
        self.good, self.settled = c.load(self.alive, c.truth), c.constant(True)
        counted = c.as_count(c.load(self.going, c.truth))
        c.store(c.let(f"add {c.whole} {c.load(self.iterations, c.whole)}, {counted}"), self.iterations, c.whole)

    def trust(self, check: str) -> str:
        return check  # a lane that diverges has left

    def require_solution(self, good: str) -> None:
        self.good = self.code.both(self.good, good)

    def note_divergence(self, near: str) -> None:
        self.good = self.code.both(self.good, near)

    def require_convergence(self, small: str) -> None:
        self.settled = self.code.both(self.settled, small)

    def finish(self, small: str, tiny: str, close: str, last: Any) -> None:
        """A lane that has ended by a chord does so again in every lap of the others, bit by bit, and counts it once."""
        c, chord, ended = self.code, self.code.name("chord"), self.code.name("ended")
        last.keep()
        c.store("zeroinitializer", self.chord, c.truth)
        done, limit = c.load(self.iterations, c.whole), c.broadcast(self.fixed["limit"], "i64")
        fewer = c.either(c.let(f"icmp slt {c.whole} {done}, {limit}"), c.negate(c.load(self.going, c.truth)))
        tiny = c.either(tiny, c.both(small, c.negate(fewer)))
        try_next = c.both(c.both(self.good, c.negate(tiny)), c.both(close, fewer))
        c.fork(c.some(try_next), chord, ended)
        c.label(chord)
        taken = c.both(try_next, last.try_next())
        last.take(taken)
        c.store(taken, self.chord, c.truth)
        counted = c.as_count(c.both(taken, c.load(self.going, c.truth)))
        c.store(c.let(f"add {c.whole} {c.load(self.iterations, c.whole)}, {counted}"), self.iterations, c.whole)
        c.label(ended)
        self.settled = c.both(self.settled, c.either(tiny, c.load(self.chord, c.truth)))

    def conclude(self, last: Any) -> None:
        c, report = self.code, last.report()
        c.store(c.select(c.load(self.chord, c.truth), c.load(self.size), report), self.size)

    def repeat(self, z: Sequence[str], w: Sequence[str]) -> None:
        """Those that have settled stay where they are while others go on, up to the limit."""
        c = self.code
        more = c.both(self.good, c.negate(self.settled))
        self.good = c.both(self.good, self.settled)
        c.store(more, self.going, c.truth)
        lap = c.let(f"add i64 {c.load(self.lap, 'i64')}, 1")
        c.store(lap, self.lap, "i64")
        allowed = c.let(f"icmp slt i64 {lap}, {self.fixed['limit']}")
        c.fork(c.let(f"and i1 {c.some(more)}, {allowed}"), "again", "solved")
        c.label("again")
        for j in self.iterated:
            c.store(c.select(more, w[j], z[j]), self.z[j])
        c.go("iterate")
        c.label("solved")

    def require(self, condition: str, outcome: Outcome) -> None:
        self.good = self.code.both(self.good, condition)

    def stop(self, condition: str) -> None:
        self.good = self.code.both(self.good, self.code.negate(condition))

    def stop_flag(self) -> str | None:
        return None

    def commit(self) -> None:
        """Lanes for which something has failed leave, before the step."""
        c, here = self.code, self.code.name("on")
        out = c.both(c.load(self.alive, c.truth), c.negate(self.good))
        c.store(out, self.out, c.truth)
        c.fork(c.some(out), "write", here, False)
        c.label(here)

    def leave(self) -> None:
        """Write back the lanes in `out`, and go on with the others: the step that is under way is begun again."""
        c = self.code
        c.store(c.load(self.alive, c.truth), self.out, c.truth)
        c.label("write")
        out = c.load(self.out, c.truth)
        for name, slots in self.part.items():
            for i, slot in enumerate(slots):
                self.code.scatter(c.load(slot), self.in_carry, self.layout.packed_carry.offset(name) + i, "double", out)
        self._write_history(out)
        for name in (*self.shared, *self.own):
            value = self.count(name) if name in self.own else c.broadcast(self.count(name), "i64")
            self.code.scatter(value, self.in_count, COUNTED.offset(name), "i64", out)
        left = c.both(c.load(self.alive, c.truth), c.negate(out))
        c.store(left, self.alive, c.truth)
        c.fork(c.some(left), "step", "end")
        c.label("end")
        c.line("ret void")
