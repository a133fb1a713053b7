"""Where the numbers of runs in lanes are: vectors of addresses, variables in registers, and the last solutions in a ring."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.stepper.arrays import COUNTS, HISTORY, SINCE, Layout
from dalembert.native.stepper.linear_systems import Plan, Roots
from dalembert.native.stepper.stages import Stages
from dalembert.native.stepper.step import Translated

SHARED = ("known", "rows", "saved", "target")  # counts that lanes of one group have in common
FIXED = ("last", "every", "limit", "law_every", "first")
OWN = ("iterations", "max_iterations", "crossings", "turns", "leaps")
STATE = ("q", "lost", "s", "held", "sign", "residual", "reduced", "before_q", "before_s", "low", "determinant")


class LaneState:
    """part: the carry by name; shared, fixed: counts of the group; own: counts of each lane; alive: lanes that take part."""

    def __init__(self, step: Translated, layout: Layout, roots: Roots, plan: Plan, width: int):
        self.step, self.layout, self.roots, self.plan = step, layout, roots, plan
        self.code = Code(width)
        self.emitter = Emitter(step.graph, self.code)
        c = self.code
        self.index = "<" + ", ".join(f"i64 {i}" for i in range(c.width)) + ">"
        self.carry = self.bases("carry", str(layout.packed_carry.size), "double")
        self.count = self.bases("count", str(len(COUNTS)), "i64")
        self.rows = self.bases("rows", "%rows_stride", "double")
        inputs = self.bases("inputs", "%inputs_stride", "double")
        there = c.let(f"icmp slt {c.whole} {self.index}, {c.broadcast('%lanes', 'i64')}")
        self.choose(there)
        alive = c.load(self.alive, c.truth)
        c.fork(c.some(alive), "enter", "end")
        c.label("enter")
        self.run_values = Values()
        given = {name: [self.gather(inputs, start + i, "double", there) for i in range(length)]
                 for name, (start, length) in layout.inputs.items()}  # fmt: skip
        self.t0, self.h, self.tolerance = (given[name][0] for name in ("t0", "h", "tolerance"))
        self.stages = Stages(step, self.code)
        for name in ("h", "p", "captured") if self.stages.number == 1 else ("p", "captured"):
            self.emitter.bind(self.run_values, name, given[name])
        since = [f"begin_{name}" for name in (*SINCE, "w")] if self.stages.number > 1 else []
        self.part = {name: self.loaded(name, there) for name in (*STATE, *since)}
        self.load_history(there)
        self.z, self.w = ([c.slot(name) for _ in range(layout.z)] for name in "zw")
        self.cut = {j: c.slot("cut") for j in self.roots.compensated(self.step.graph)}
        self.moved = {j: c.slot("moved") for j in self.roots.moved(self.step.graph)}
        self.good, self.going, self.out = (c.slot(name, c.truth) for name in ("good", "going", "out"))
        self.turns, self.lap = c.slot("turns", c.whole), c.slot("lap", "i64")
        self.emitter.hoist(self.roots.stepped, self.run_values, self.stages.changes, 0)

    def bases(self, array: str, stride: str, kind: str) -> str:
        """Addresses of each lane's part of an array."""
        c = self.code
        steps = c.let(f"mul {c.whole} {self.index}, {c.broadcast(stride, 'i64')}")
        return c.let(f"getelementptr {kind}, ptr %{array}, {c.whole} {steps}")

    def gather(self, bases: str, offset: int, kind: str, mask: str) -> str:
        c, w = self.code, self.code.width
        short = "f64" if kind == "double" else "i64"
        at = c.let(f"getelementptr {kind}, <{w} x ptr> {bases}, i64 {offset}")
        return c.call(f"<{w} x {kind}>", f"llvm.masked.gather.v{w}{short}.v{w}p0", (f"<{w} x ptr>", at),
                      ("i32", "8"), (c.truth, mask), (f"<{w} x {kind}>", "zeroinitializer"))  # fmt: skip

    def scatter(self, value: str, bases: str, offset: int, kind: str, mask: str) -> None:
        c, w = self.code, self.code.width
        short = "f64" if kind == "double" else "i64"
        at = c.let(f"getelementptr {kind}, <{w} x ptr> {bases}, i64 {offset}")
        c.act(f"llvm.masked.scatter.v{w}{short}.v{w}p0", (f"<{w} x {kind}>", value), (f"<{w} x ptr>", at),
              ("i32", "8"), (c.truth, mask))  # fmt: skip

    def choose(self, there: str) -> None:
        """Which lanes take part: those at node `from` that agree with the first of them in what they share."""
        c = self.code
        place = {name: i for i, name in enumerate(COUNTS)}
        column = {name: self.gather(self.count, place[name], "i64", there) for name in ("k", "code", *SHARED, *OWN)}
        at_node = c.let(f"icmp eq {c.whole} {column['k']}, {c.broadcast('%from', 'i64')}")
        running = c.let(f"icmp eq {c.whole} {column['code']}, zeroinitializer")
        mask = c.let(f"and {c.truth} {there}, {c.let(f'and {c.truth} {at_node}, {running}')}")
        bits = c.let(f"bitcast {c.truth} {mask} to i{c.width}")
        first = c.call(f"i{c.width}", f"llvm.cttz.i{c.width}", (f"i{c.width}", bits), ("i1", "false"))
        inside = c.let(f"and i{c.width} {first}, {c.width - 1}")  # without any lane: lane 0, which is then not used
        row = c.let(f"mul i64 {c.let(f'zext i{c.width} {inside} to i64')}, {len(COUNTS)}")
        start = c.at("%count", row, "i64")
        number = {name: c.load(c.at(start, place[name], "i64"), "i64") for name in (*SHARED, *FIXED)}
        for name in SHARED:
            same = c.let(f"icmp eq {c.whole} {column[name]}, {c.broadcast(number[name], 'i64')}")
            mask = c.let(f"and {c.truth} {mask}, {same}")
        self.fixed = {name: number[name] for name in FIXED}
        self.shared = {name: c.slot(name, "i64") for name in ("k", *SHARED)}
        for name in SHARED:
            c.store(number[name], self.shared[name], "i64")
        c.store("%from", self.shared["k"], "i64")
        self.own = {name: c.slot(name, c.whole) for name in OWN}
        for name, slot in self.own.items():
            c.store(column[name], slot, c.whole)
        self.alive = c.slot("alive", c.truth)
        c.store(mask, self.alive, c.truth)

    def loaded(self, name: str, mask: str) -> list[str]:
        """Slots with a part of the carry."""
        start, length = self.layout.carry[name]
        slots = [self.code.slot(name) for _ in range(length)]
        self.store(slots, [self.gather(self.carry, start + i, "double", mask) for i in range(length)])
        return slots

    def load_history(self, mask: str) -> None:
        """The head's last solutions, in a ring of four, `newest` telling where; of the tail only the latest."""
        c, head, tail = self.code, sorted(self.plan.head.columns), sorted(self.plan.tail.columns)
        start, n = self.layout.carry["history"][0], self.layout.z
        self.ring, self.newest = c.slot("ring", c.real, HISTORY * len(head)), c.slot("newest", "i64")
        c.store("0", self.newest, "i64")
        for j, row in enumerate(self.history()):
            for i, column in enumerate(head):
                c.store(self.gather(self.carry, start + j * n + column, "double", mask), c.at(row, i, c.real))
        self.latest = {column: c.slot("latest") for column in tail}
        for column, slot in self.latest.items():
            c.store(self.gather(self.carry, start + column, "double", mask), slot)

    def history(self) -> list[str]:
        """Addresses of the head's solutions in the ring, the newest first."""
        c, rows = self.code, []
        newest = c.load(self.newest, "i64")
        for j in range(HISTORY):
            place = c.let(f"and i64 {c.let(f'sub i64 {newest}, {j}')}, {HISTORY - 1}")
            rows.append(c.at(self.ring, c.let(f"mul i64 {place}, {len(self.plan.head.columns)}"), c.real))
        return rows

    def write_history(self, mask: str) -> None:
        """The ring in the carry's order. The scalar run predicts the tail by the latest, too: its four rows are equal."""
        c, (start, _), n = self.code, self.layout.carry["history"], self.layout.z
        for j, row in enumerate(self.history()):
            for i, column in enumerate(sorted(self.plan.head.columns)):
                self.scatter(c.load(c.at(row, i, c.real)), self.carry, start + j * n + column, "double", mask)
            for column, slot in self.latest.items():
                self.scatter(c.load(slot), self.carry, start + j * n + column, "double", mask)

    def store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.code.store(value, slot)

    def number(self, name: str) -> str:
        return self.code.load(self.shared[name], "i64")

    def read(self, name: str) -> list[str]:
        return [self.code.load(slot) for slot in self.part[name]]

    def add(self, name: str, amount: str) -> None:
        c, slot = self.code, self.own[name]
        c.store(c.let(f"add {c.whole} {c.load(slot, c.whole)}, {amount}"), slot, c.whole)
