"""W runs side by side in vectors, each with its own outcome: everything in registers, and a mask for every condition.

Lanes share the node index. A lane that needs more than the written-out elimination - a pivot fails its check, a number is
not finite, Newton's iteration does not end, the domain is left, a singularity is crossed, the run is stopped - is written
back as it was before that step, and masked; the scalar run takes it from there. No lane's arithmetic depends on another
lane: an iterate that has converged is kept while others go on, so that its last evaluation is repeated bit by bit.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence

from dalembert.native.llvm.builder import Operand, where
from dalembert.native.stepper.arrays import COUNTED, HISTORY, OF_STAGE, SINCE, STAGE_HISTORY, Layout, history_length
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

    fixed: counts that nothing changes. Masks: alive: lanes that take part; going: whose iteration goes on; out: that
    leave; good, settled: what the conditions of a step have come to.
    """

    def __init__(self, step: Translated, layout: Layout, outputs: GraphOutputs, plan: Plan, width: int):
        self.iterated, self.affine_columns = sorted(plan.nonlinear.columns), sorted(plan.affine.columns)
        super().__init__(step, layout, outputs, plan, width)

    def open(self) -> None:
        layout, self.kept = self.layout, history_length(self.stages.number)
        c = self.code
        stride = {name: c.argument(f"{name}_stride", "i64") for name in ("inputs", "rows")}
        self.in_carry = c.addresses(c.argument("carry"), c.number(layout.packed_carry.size, "i64"))
        self.in_count = c.addresses(c.argument("count", item="i64"), c.number(COUNTED.size, "i64"))
        self.in_rows = c.addresses(c.argument("rows"), stride["rows"])
        in_inputs = c.addresses(c.argument("inputs"), stride["inputs"])
        there = c.lanes < c.broadcast(c.argument("lanes", "i64"))
        self._choose(there)
        c.fork(c.some(self.alive[0]), "enter", "end")
        c.label("enter")
        inputs = {name: [c.gather(in_inputs, f.offset + i, there) for i in range(f.length)]
                  for name, f in layout.packed_inputs.fields.items()}  # fmt: skip
        since = [f"begin_{name}" for name in (*SINCE, "w")] if self.stages.number > 1 else []
        self.registers = {name: self._copy(name, there) for name in (*STATE, *since)}
        self._copy_solutions(there, self.affine_columns)
        self.going, self.out = (c.slot(name, c.truth) for name in ("going", "out"))
        self.lap = c.slot("lap", "i64")
        self.good = self.settled = c.number(True)
        self.enter(inputs)
        self.stages.enter(c.argument("from", "i64"))

    @property
    def signature(self) -> str:
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows"))
        numbers = ", ".join(f"i64 %{name}" for name in ("lanes", "inputs_stride", "rows_stride", "from", "until"))
        # Without the attribute LLVM splits vectors where the processor prefers narrower ones.
        return f'define void @lanes({arrays}, {numbers}) nounwind "min-legal-vector-width"="{64 * self.code.width}"'

    def _choose(self, there: Operand) -> None:
        """Which lanes take part: those at node `from` that agree with the first of them in what they share."""
        c, first_node = self.code, self.code.argument("from", "i64")
        place = {name: COUNTED.offset(name) for name in COUNTED.fields}
        column = {name: c.gather(self.in_count, place[name], there) for name in ("k", "code", *SHARED, *OWN)}
        mask = there & (column["k"] == c.broadcast(first_node)) & (column["code"] == 0)
        bits = c.let(f"bitcast {c.truth} {mask} to i{c.width}", f"i{c.width}")
        first = c.call(f"i{c.width}", f"llvm.cttz.i{c.width}", bits, ("i1", False))
        inside = first & (c.width - 1)  # without any lane: lane 0, which is then not used
        row = c.argument("count", item="i64")[inside.cast("zext", "i64") * COUNTED.size :]
        number = {name: row[place[name]] for name in (*SHARED, *FIXED)}
        for name in SHARED:
            mask = mask & (column[name] == c.broadcast(number[name]))
        self.fixed = {"until": c.argument("until", "i64"), **{name: number[name] for name in FIXED}}
        self.counts = {name: c.slot(name, "i64") for name in ("k", *SHARED)} | {name: c.slot(name, c.whole) for name in OWN}
        for name, value in {"k": first_node, **{x: number[x] for x in SHARED}, **{x: column[x] for x in OWN}}.items():
            self.counts[name][0] = value
        self.alive = c.slot("alive", c.truth)
        self.alive[0] = mask

    def _copy(self, name: str, mask: Operand) -> list[Operand]:
        """Slots with a part of the carry."""
        start, length = self.layout.packed_carry.offset(name), self.layout.packed_carry.fields[name].length
        slots = [self.code.slot(name) for _ in range(length)]
        self.store(slots, [self.code.gather(self.in_carry, start + i, mask) for i in range(length)])
        return slots

    def _copy_solutions(self, mask: Operand, affine: Sequence[int]) -> None:
        """The last solutions of what is iterated, in a ring, `newest` telling where; of the others the latest."""
        c, start, n = self.code, self.layout.packed_carry.offset("history"), self.layout.z
        self.ring, self.newest = c.slot("ring", c.real, self.kept * len(self.iterated)), c.slot("newest", "i64")
        self.newest[0] = 0
        for j, row in enumerate(self._history()):
            for i, column in enumerate(self.iterated):
                row[i] = c.gather(self.in_carry, start + j * n + column, mask)
        if self.layout.by_stage:
            rows = range(HISTORY, self.layout.history)
            self.changes = c.slot("changes", c.real, len(rows) * len(self.iterated))
            for at, (j, column) in enumerate(itertools.product(rows, self.iterated)):
                self.changes[at] = c.gather(self.in_carry, start + j * n + column, mask)
        self.affine = {column: c.slot("affine") for column in affine}
        for column, slot in self.affine.items():
            slot[0] = c.gather(self.in_carry, start + column, mask)

    def _history(self) -> list[Operand]:
        """The solutions in the ring, the newest first."""
        newest = self.newest[0]
        return [self.ring[((newest - j) & (self.kept - 1)) * len(self.iterated) :] for j in range(self.kept)]

    def _write_history(self, mask: Operand) -> None:
        """The ring in the carry's order. The scalar run predicts affine unknowns by the latest, too: equal rows."""
        c, start, n = self.code, self.layout.packed_carry.offset("history"), self.layout.z
        for j, row in enumerate(self._history()):
            for i, column in enumerate(self.iterated):
                c.scatter(row[i], self.in_carry, start + j * n + column, mask)
            for column, slot in self.affine.items():
                c.scatter(slot[0], self.in_carry, start + j * n + column, mask)
        if self.layout.by_stage:
            for at, (j, column) in enumerate(itertools.product(range(HISTORY, self.layout.history), self.iterated)):
                c.scatter(self.changes[at], self.in_carry, start + j * n + column, mask)

    def count(self, name: str) -> Operand:
        return self.fixed[name] if name in self.fixed else super().count(name)

    def latest(self) -> list[Operand]:
        row = self._history()[0]
        found = {column: row[i] for i, column in enumerate(self.iterated)}
        found |= {column: slot[0] for column, slot in self.affine.items()}
        return [found[column] for column in range(self.layout.z)]

    def extrapolate(self, weights: Sequence[Operand]) -> None:
        with self.code.using("contract"):
            for past, column in self._begin_prediction():
                terms = [w * x for w, x in zip(weights, past, strict=False)]
                self.z[column][0] = functools.reduce(operator.add, reversed(terms))

    def extrapolate_refined(self) -> None:
        for past, column in self._begin_prediction():
            self.z[column][0] = refine(past)

    def _begin_prediction(self) -> Iterator[tuple[list[Operand], int]]:
        """(solutions, newest first; index) of what is iterated; the others start from their latest solution."""
        history = self._history()
        for column, slot in self.affine.items():
            self.z[column][0] = slot[0]
        for i, column in enumerate(self.iterated):
            yield [row[i] for row in history], column

    def refine_stage(self) -> None:
        for i, (past, column) in enumerate(self._begin_prediction()):
            self.z[column][0] = past[0] + refine([self._of_stage(j, i)[0] for j in range(STAGE_HISTORY)], *OF_STAGE)

    def _of_stage(self, j: int, start: int, width: int = 1) -> Operand:
        return self.changes[(self.stages.now * STAGE_HISTORY + j) * len(self.iterated) + start :]

    def _remember_stage(self) -> None:
        latest = self._history()[0]
        for i, column in enumerate(self.iterated):
            self.renew_differences(self.w[column][0] - latest[i], [self._of_stage(j, i) for j in range(STAGE_HISTORY)])

    def remember(self) -> None:
        if self.layout.by_stage and not self.once:
            self._remember_stage()
        if not self.once:
            self.newest[0] = (self.newest[0] + 1) & (self.kept - 1)
        row = self._history()[0]
        for i, column in enumerate(self.iterated):
            row[i] = self.w[column][0]
        for column, slot in self.affine.items():
            slot[0] = self.w[column][0]

    def write_row(self, values: Sequence[Operand]) -> None:
        rows, alive = self.code.moved(self.in_rows, self.count("rows") * self.layout.packed_row.size), self.alive[0]
        for i, value in enumerate(values):
            self.code.scatter(value, rows, i, alive)

    def begin_iteration(self) -> None:
        self.lap[0], self.iterations[0], self.going[0] = 0, 0, self.alive[0]

    def count_iteration(self) -> None:
        """Of those that go on. All lanes that are alive are evaluated."""
        self.good, self.settled = self.alive[0], self.code.number(True)
        self.iterations[0] = self.iterations[0] + self.going[0].convert("i64")

    def trust(self, check: Operand) -> Operand:
        return check  # a lane that diverges has left

    def require_solution(self, good: Operand) -> None:
        self.good = self.good & good

    def note_divergence(self, near: Operand) -> None:
        self.good = self.good & near

    def require_convergence(self, small: Operand) -> None:
        self.settled = self.settled & small

    def repeat(self, z: Sequence[Operand], w: Sequence[Operand]) -> None:
        """Those that have settled stay where they are while others go on, up to the limit."""
        c = self.code
        more = self.good & ~self.settled
        self.good = self.good & self.settled
        self.going[0] = more
        lap = self.lap[0] + 1
        self.lap[0] = lap
        c.fork(c.some(more) & (lap < self.fixed["limit"]), "again", "solved")
        c.label("again")
        for j in self.iterated:
            self.z[j][0] = where(more, w[j], z[j])
        c.go("iterate")
        c.label("solved")

    def require(self, condition: Operand, outcome: Outcome) -> None:
        self.good = self.good & condition

    def stop(self, condition: Operand) -> None:
        self.good = self.good & ~condition

    def stop_flag(self) -> Operand | None:
        return None

    def commit(self) -> None:
        """Lanes for which something has failed leave, before the step."""
        c, here = self.code, self.code.name("on")
        out = self.alive[0] & ~self.good
        self.out[0] = out
        c.fork(c.some(out), "write", here, False)
        c.label(here)

    def leave(self) -> None:
        """Write back the lanes in `out`, and go on with the others: the step that is under way is begun again."""
        c, offset = self.code, self.layout.packed_carry.offset
        self.out[0] = self.alive[0]
        c.label("write")
        out = self.out[0]
        for name, slots in self.registers.items():
            for i, slot in enumerate(slots):
                c.scatter(slot[0], self.in_carry, offset(name) + i, out)
        self._write_history(out)
        for name in self.counts:
            value = self.count(name)
            c.scatter(value if name in OWN else c.broadcast(value), self.in_count, COUNTED.offset(name), out)
        left = self.alive[0] & ~out
        self.alive[0] = left
        c.fork(c.some(left), "step", "end")
        c.label("end")
        c.line("ret void")
