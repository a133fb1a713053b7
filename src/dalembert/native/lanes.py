"""The run in lanes: W trajectories side by side in vectors, each with its own outcome.

Lanes share the node index. A lane that needs more than the written-out elimination - a pivot fails its check, a number is
not finite, Newton's iteration does not end, the domain is left, the run is stopped - is written back as it was before that
step, and masked; the scalar run takes it from there. No lane's arithmetic depends on another lane: an iterate that has
converged is kept while others go on, so that its last evaluation is repeated bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.code import Code
from dalembert.native.dense import ASTRAY
from dalembert.native.description import Translated
from dalembert.native.emit import Emitter, Values
from dalembert.native.layout import COUNTS, HISTORY, Layout, total
from dalembert.native.loop import WEIGHTS
from dalembert.native.roots import Plan, Roots

SHARED = ("known", "rows", "saved", "target")  # counts that lanes of one group have in common
FIXED = ("last", "every", "limit", "law_every", "first")
OWN = ("iterations", "max_iterations", "crossings")
STATE = ("q", "lost", "s", "held", "sign", "residual", "reduced", "before_q", "before_s", "low")


class Lanes:
    """Writes @lanes(ptr carry, count, inputs, rows, i64 lanes, i64 inputs_stride, i64 rows_stride, i64 from, i64 until).

    Arrays as in Layout, one after the other for each lane; a stride of 0 shares the inputs. Of the first `lanes` lanes
    those without outcome at node `from` are advanced to node `until`.
    """

    def __init__(self, step: Translated, layout: Layout, roots: Roots, plan: Plan, width: int):
        self.step, self.layout, self.roots, self.plan = step, layout, roots, plan
        self.code = Code(width)
        self.emitter = Emitter(step.graph, self.code)

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        self._begin()
        self._step()
        self._finish()
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows"))
        numbers = ", ".join(f"i64 %{name}" for name in ("lanes", "inputs_stride", "rows_stride", "from", "until"))
        # Without the attribute LLVM splits vectors where the processor prefers narrower ones.
        head = f'define void @lanes({arrays}, {numbers}) nounwind "min-legal-vector-width"="{64 * self.code.width}"'
        return "\n".join([
            WEIGHTS, self.code.function(head), *sorted(self.code.declared),
            '!0 = !{!"branch_weights", i32 100000, i32 1}', '!1 = !{!"branch_weights", i32 1, i32 100000}',
        ])  # fmt: skip

    # Vectors of addresses.

    def _bases(self, array: str, stride: str, kind: str) -> str:
        """Addresses of each lane's part of an array."""
        c = self.code
        steps = c.let(f"mul {c.whole} {self.index}, {c.broadcast(stride, 'i64')}")
        return c.let(f"getelementptr {kind}, ptr %{array}, {c.whole} {steps}")

    def _gather(self, bases: str, offset: int, kind: str, mask: str) -> str:
        c, w = self.code, self.code.width
        short = "f64" if kind == "double" else "i64"
        at = c.let(f"getelementptr {kind}, <{w} x ptr> {bases}, i64 {offset}")
        return c.call(f"<{w} x {kind}>", f"llvm.masked.gather.v{w}{short}.v{w}p0", (f"<{w} x ptr>", at),
                      ("i32", "8"), (c.truth, mask), (f"<{w} x {kind}>", "zeroinitializer"))  # fmt: skip

    def _scatter(self, value: str, bases: str, offset: int, kind: str, mask: str) -> None:
        c, w = self.code, self.code.width
        short = "f64" if kind == "double" else "i64"
        at = c.let(f"getelementptr {kind}, <{w} x ptr> {bases}, i64 {offset}")
        c.act(f"llvm.masked.scatter.v{w}{short}.v{w}p0", (f"<{w} x {kind}>", value), (f"<{w} x ptr>", at),
              ("i32", "8"), (c.truth, mask))  # fmt: skip

    # Before the first step.

    def _begin(self) -> None:
        c, layout = self.code, self.layout
        self.index = "<" + ", ".join(f"i64 {i}" for i in range(c.width)) + ">"
        self.carry = self._bases("carry", str(total(layout.carry)), "double")
        self.count = self._bases("count", str(len(COUNTS)), "i64")
        self.rows = self._bases("rows", "%rows_stride", "double")
        inputs = self._bases("inputs", "%inputs_stride", "double")
        there = c.let(f"icmp slt {c.whole} {self.index}, {c.broadcast('%lanes', 'i64')}")
        self._choose(there)
        alive = c.load(self.alive, c.truth)
        c.fork(c.some(alive), "enter", "end")
        c.label("enter")
        self.run_values = Values()
        given = {name: [self._gather(inputs, start + i, "double", there) for i in range(length)]
                 for name, (start, length) in layout.inputs.items()}  # fmt: skip
        self.t0, self.h, self.tolerance = (given[name][0] for name in ("t0", "h", "tolerance"))
        for name in ("h", "p", "captured"):
            self.emitter.bind(self.run_values, name, given[name])
        self.state = {name: self._loaded(name, there) for name in STATE}
        self._load_history(there)
        self.z, self.w = ([c.slot(name) for _ in range(layout.z)] for name in "zw")
        self.cut = {j: c.slot("cut") for j in self.roots.compensated(self.step.graph)}
        self.good, self.going, self.out = (c.slot(name, c.truth) for name in ("good", "going", "out"))
        self.turns, self.lap = c.slot("turns", c.whole), c.slot("lap", "i64")
        self.emitter.hoist(self.roots.stepped, self.run_values, self.step.level, 0)

    def _choose(self, there: str) -> None:
        """Which lanes take part: those at node `from` that agree with the first of them in what they share."""
        c = self.code
        place = {name: i for i, name in enumerate(COUNTS)}
        column = {name: self._gather(self.count, place[name], "i64", there) for name in ("k", "code", *SHARED, *OWN)}
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

    def _loaded(self, name: str, mask: str) -> list[str]:
        """Slots with a part of the carry."""
        start, length = self.layout.carry[name]
        slots = [self.code.slot(name) for _ in range(length)]
        self._store(slots, [self._gather(self.carry, start + i, "double", mask) for i in range(length)])
        return slots

    def _load_history(self, mask: str) -> None:
        """The head's last solutions, in a ring of four, `newest` telling where; of the tail only the latest."""
        c, head, tail = self.code, sorted(self.plan.head.columns), sorted(self.plan.tail.columns)
        start, n = self.layout.carry["history"][0], self.layout.z
        self.ring, self.newest = c.slot("ring", c.real, HISTORY * len(head)), c.slot("newest", "i64")
        c.store("0", self.newest, "i64")
        for j, row in enumerate(self._history()):
            for i, column in enumerate(head):
                c.store(self._gather(self.carry, start + j * n + column, "double", mask), c.at(row, i, c.real))
        self.latest = {column: c.slot("latest") for column in tail}
        for column, slot in self.latest.items():
            c.store(self._gather(self.carry, start + column, "double", mask), slot)

    def _history(self) -> list[str]:
        """Addresses of the head's solutions in the ring, the newest first."""
        c, rows = self.code, []
        newest = c.load(self.newest, "i64")
        for j in range(HISTORY):
            place = c.let(f"and i64 {c.let(f'sub i64 {newest}, {j}')}, {HISTORY - 1}")
            rows.append(c.at(self.ring, c.let(f"mul i64 {place}, {len(self.plan.head.columns)}"), c.real))
        return rows

    def _store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.code.store(value, slot)

    def _number(self, name: str) -> str:
        return self.code.load(self.shared[name], "i64")

    def _read(self, name: str) -> list[str]:
        return [self.code.load(slot) for slot in self.state[name]]

    # One step.

    def _step(self) -> None:
        c = self.code
        c.label("step")
        k = self._number("k")
        c.fork(c.let(f"icmp slt i64 {k}, %until"), "begin", "leave", True)
        c.label("begin")
        values = dict(self.run_values)
        node = c.broadcast(c.let(f"sitofp i64 {k} to double"), "double")
        since = c.let(f"fmul {c.real} {node}, {self.h}")
        self.emitter.bind(values, "t", [c.let(f"fadd {c.real} {self.t0}, {since}")])
        for name in ("q", "s", "lost", "low", "reduced"):
            self.emitter.bind(values, name, self._read(name))
        if self.roots.law:
            self._sample_law(values, k)
            self.emitter.bind(values, "held", self._read("held"))
        self._predict(values)
        r = self.roots
        self.emitter.hoist([*r.update, *r.check, *r.tail_update, *r.tail_check], values, self.step.level, 1)
        inner = self._iterate(values)
        tail_pivots = self._solve_tail(values) if self.plan.tail.rows else []
        self._accept(values, inner, tail_pivots)

    def _sample_law(self, values: Values, k: str) -> None:
        c = self.code
        since = c.let(f"sub i64 {k}, {self.fixed['first']}")
        turn = c.let(f"srem i64 {since}, {self.fixed['law_every']}")
        c.fork(c.let(f"icmp eq i64 {turn}, 0"), "sample", "sampled")
        c.label("sample")
        self._store(self.state["held"], self.emitter.emit(self.roots.law, dict(values)))
        c.label("sampled")

    def _predict(self, values: Values) -> None:
        """The head extrapolated through the last steps, by a polynomial of degree up to 3; the guess before the first."""
        c = self.code
        known = self._number("known")
        c.fork(c.let(f"icmp eq i64 {known}, 0"), "guess", "extrapolate", False)
        c.label("guess")
        self._store(self.z, self.emitter.emit(self.roots.guess, dict(values)))
        c.go("iterate.start")
        c.label("extrapolate")
        row = c.at("@weights", c.let(f"shl i64 {known}, 2"), "double")
        weights = [c.broadcast(c.load(c.at(row, j, "double"), "double"), "double") for j in range(HISTORY)]
        history = self._history()
        for i, column in enumerate(sorted(self.plan.head.columns)):
            value = None
            for j in reversed(range(HISTORY)):
                term = c.let(f"fmul contract {c.real} {weights[j]}, {c.load(c.at(history[j], i, c.real))}")
                value = c.let(f"fadd contract {c.real} {value}, {term}") if value else term
            c.store(value or "", self.z[column])
        for column, slot in self.latest.items():
            c.store(c.load(slot), self.z[column])
        c.label("iterate.start")

    def _iterate(self, values: Values) -> Values:
        """Newton's iteration of all lanes that go on; `good` tells which have a solution. Returns the last values."""
        c = self.code
        c.store("0", self.lap, "i64")
        c.store("zeroinitializer", self.turns, c.whole)
        c.store(c.load(self.alive, c.truth), self.going, c.truth)
        c.label("iterate")
        inner = dict(values)
        z = [c.load(x) for x in self.z]
        self.emitter.bind(inner, "z", z)
        *update, check = self.emitter.emit([*self.roots.update, *self.roots.check], inner, fast=True)
        solved = self._checked(update, check, c.load(self.alive, c.truth))
        head, w = sorted(self.plan.head.columns), list(z)
        for j, x in zip(head, update, strict=True):
            w[j] = c.let(f"fsub {c.real} {z[j]}, {x}")
        self._store(self.w, w)
        self._keep_cut(z, w, dict(zip(head, update, strict=True)))
        counted = c.let(f"zext {c.truth} {c.load(self.going, c.truth)} to {c.whole}")
        c.store(c.let(f"add {c.whole} {c.load(self.turns, c.whole)}, {counted}"), self.turns, c.whole)
        if self.step.linear:
            c.store(solved, self.good, c.truth)
            return inner
        passed, near = self._passed(values, dict(zip(head, update, strict=True)), w)
        solved = c.let(f"and {c.truth} {solved}, {near}")
        c.store(c.let(f"and {c.truth} {solved}, {passed}"), self.good, c.truth)
        more = c.let(f"and {c.truth} {solved}, {c.let(f'xor {c.truth} {passed}, {c.constant(True)}')}")
        c.store(more, self.going, c.truth)
        lap = c.let(f"add i64 {c.load(self.lap, 'i64')}, 1")
        c.store(lap, self.lap, "i64")
        allowed = c.let(f"icmp slt i64 {lap}, {self.fixed['limit']}")
        c.fork(c.let(f"and i1 {c.some(more)}, {allowed}"), "again", "solved")
        c.label("again")
        for j in head:
            c.store(c.let(f"select {c.truth} {more}, {c.real} {w[j]}, {c.real} {z[j]}"), self.z[j])
        c.go("iterate")
        c.label("solved")
        return inner

    def _keep_cut(self, z: Sequence[str], w: Sequence[str] | dict[int, str], update: dict[int, str]) -> None:
        """What z - update has lost to rounding, of the unknowns of which it is kept."""
        c = self.code
        for j in sorted(self.cut.keys() & update.keys()):
            moved = c.let(f"fsub {c.real} {z[j]}, {w[j]}")
            c.store(c.let(f"fsub {c.real} {moved}, {update[j]}"), self.cut[j])

    def _checked(self, update: list[str], check: str, so_far: str) -> str:
        """Whether the pivots were good ones and the update is finite."""
        c = self.code
        check = c.let(f"fadd {c.real} {check}, {c.vanishing(update)}")
        direct = c.let(f"fcmp ole {c.real} {check}, {c.constant(self.step.growth)}")
        return c.let(f"and {c.truth} {direct}, {so_far}")

    def _solve_tail(self, values: Values) -> list[str]:
        """The unknowns that follow linearly from the head, starting from the predicted ones. Returns their pivots."""
        c, r, known = self.code, self.roots, dict(values)
        w, tail = [c.load(x) for x in self.w], sorted(self.plan.tail.columns)
        self.emitter.bind(known, "z", w)
        *update, check = self.emitter.emit([*r.tail_update, *r.tail_check], known, fast=True)
        c.store(self._checked(update, check, c.load(self.good, c.truth)), self.good, c.truth)
        solved = [c.let(f"fsub {c.real} {w[j]}, {x}") for j, x in zip(tail, update, strict=True)]
        self._store([self.w[j] for j in tail], solved)
        self._keep_cut(w, dict(zip(tail, solved, strict=True)), dict(zip(tail, update, strict=True)))
        return [] if r.factor else self.emitter.emit(r.tail_pivots, known, fast=True)

    def _passed(self, values: Values, update: dict[int, str], w: list[str]) -> tuple[str, str]:
        """Whether every tested |update_i| ≤ tolerance · scale_i at the new z, and whether ≤ ASTRAY · scale_i."""
        c, inside, passed = self.code, dict(values), self.code.constant(True)
        near = passed
        self.emitter.bind(inside, "w", w)
        groups: dict[int, list[str]] = {}
        for j, value in update.items():
            if self.step.graph.value(self.roots.scale[j]) != float("inf"):
                groups.setdefault(self.roots.scale[j], []).append(c.absolute(value))
        for node, sizes in groups.items():
            (scale,) = self.emitter.emit([node], inside, fast=True)
            largest = c.maximum(sizes)
            bounds = [c.let(f"fmul {c.real} {scale}, {part}") for part in (self.tolerance, c.constant(ASTRAY))]
            small, fair = (c.let(f"fcmp ole {c.real} {largest}, {bound}") for bound in bounds)
            passed, near = c.let(f"and {c.truth} {passed}, {small}"), c.let(f"and {c.truth} {near}, {fair}")
        return passed, near

    # After the solution.

    def _accept(self, values: Values, inner: Values, tail_pivots: list[str]) -> None:
        c, r, emit = self.code, self.roots, self.emitter.emit
        size = c.constant(0.0) if self.step.linear else emit(r.size, inner, fast=True)[0]
        pivots = [] if r.factor else [*emit(r.pivots, inner, fast=True), *tail_pivots]
        self.emitter.bind(values, "w", [c.load(x) for x in self.w])
        for j, slot in self.cut.items():
            values[self.step.graph.variable("cut", j)] = c.load(slot)
        parts = {"q": r.new_q, "lost": r.new_lost, "s": r.new_s, "low": r.new_low}
        new = {name: emit(roots, values) for name, roots in parts.items()}
        good = c.load(self.good, c.truth)
        for passed in self._conditions(values, [*new["q"], *new["s"]]):
            good = c.let(f"and {c.truth} {good}, {passed}")
        alive = c.load(self.alive, c.truth)
        out = c.let(f"and {c.truth} {alive}, {c.let(f'xor {c.truth} {good}, {c.constant(True)}')}")
        c.store(out, self.out, c.truth)
        c.fork(c.some(out), "write", "keep", False)
        c.label("keep")
        self._store(self.state["reduced"], emit(r.new_reduced, values))
        self._count_crossing(values, pivots)
        (residual,) = self.state["residual"]
        c.store(c.maximum([size, c.load(residual)]), residual)
        for name in ("q", "s"):
            self._store(self.state[f"before_{name}"], self._read(name))
        for name, given in new.items():
            self._store(self.state[name], given)
        self._remember()
        self._save(values, new["q"])

    def _conditions(self, values: Values, numbers: list[str]) -> list[str]:
        """Truth values that hold where the step is an ordinary one."""
        c, r = self.code, self.roots
        finite = c.let(f"fcmp oeq {c.real} {c.vanishing(numbers)}, {c.constant(0.0)}")
        stopped = [c.let(f"xor {c.truth} {x}, {c.constant(True)}") for x in self.emitter.emit(r.stop, values)]
        return [finite, *self.emitter.emit(r.inside, values), *stopped]

    def _count_crossing(self, values: Values, pivots: list[str]) -> None:
        c, zero, (slot,) = self.code, self.code.constant(0.0), self.state["sign"]
        old = c.load(slot)
        now = self.emitter.sign(self.emitter.emit(self.roots.factor, values)[0]) if self.roots.factor else self._sign(pivots)
        crossed = c.let(f"fcmp olt {c.real} {c.let(f'fmul {c.real} {now}, {old}')}, {zero}")
        self._add("crossings", c.let(f"zext {c.truth} {crossed} to {c.whole}"))
        none = c.let(f"fcmp oeq {c.real} {now}, {zero}")
        c.store(c.let(f"select {c.truth} {none}, {c.real} {old}, {c.real} {now}"), slot)

    def _sign(self, pivots: list[str]) -> str:
        """The determinant's sign."""
        c = self.code
        bits = f"splat (i64 {-1 if self.plan.parity else 0})"
        for pivot in pivots:
            bits = c.let(f"xor {c.whole} {bits}, {c.let(f'bitcast {c.real} {pivot} to {c.whole}')}")
        negative = c.let(f"icmp slt {c.whole} {bits}, zeroinitializer")
        return c.let(f"select {c.truth} {negative}, {c.real} {c.constant(-1.0)}, {c.real} {c.constant(1.0)}")

    def _add(self, name: str, amount: str) -> None:
        c, slot = self.code, self.own[name]
        c.store(c.let(f"add {c.whole} {c.load(slot, c.whole)}, {amount}"), slot, c.whole)

    def _remember(self) -> None:
        """Counters, and the history of z."""
        c = self.code
        turns, most = c.load(self.turns, c.whole), self.own["max_iterations"]
        self._add("iterations", turns)
        larger = c.call(c.whole, f"llvm.smax.v{c.width}i64", (c.whole, c.load(most, c.whole)), (c.whole, turns))
        c.store(larger, most, c.whole)
        more = c.let(f"add i64 {c.load(self.newest, 'i64')}, 1")
        place = c.let(f"and i64 {more}, {HISTORY - 1}")
        c.store(place, self.newest, "i64")
        row = self._history()[0]
        for i, column in enumerate(sorted(self.plan.head.columns)):
            c.store(c.load(self.w[column]), c.at(row, i, c.real))
        for column, slot in self.latest.items():
            c.store(c.load(self.w[column]), slot)
        known = c.let(f"add i64 {self._number('known')}, 1")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", known), ("i64", str(HISTORY))), self.shared["known"], "i64")
        c.store(c.let(f"add i64 {self._number('k')}, 1"), self.shared["k"], "i64")

    def _save(self, values: Values, q: list[str]) -> None:
        """A row where one is due."""
        c, r, row = self.code, self.roots, self.layout.row
        k, target = self._number("k"), self._number("target")
        c.fork(c.let(f"icmp sge i64 {k}, {target}"), "save", "step")
        c.label("save")
        rows = self._number("rows")
        start = c.let(f"mul i64 {rows}, {row['k'][0] + 1}")
        at = c.let(f"getelementptr double, <{c.width} x ptr> {self.rows}, i64 {start}")
        given = self.emitter.emit([*r.new_velocity, *r.multipliers, *r.force], values)
        held = self._read("held") if r.law else [c.constant(0.0)] * self.layout.n
        index = c.broadcast(c.let(f"sitofp i64 {k} to double"), "double")
        alive = c.load(self.alive, c.truth)
        for i, value in enumerate([*q, *given, *held, index]):
            self._scatter(value, at, i, "double", alive)
        c.store(c.let(f"add i64 {rows}, 1"), self.shared["rows"], "i64")
        c.store(k, self.shared["saved"], "i64")
        later = c.let(f"add i64 {target}, {self.fixed['every']}")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", later), ("i64", self.fixed["last"])), self.shared["target"], "i64")
        c.go("step")

    # At the end.

    def _finish(self) -> None:
        """Write back the lanes in `out`, and go on with the others: the step that is under way is begun again."""
        c = self.code
        c.label("leave")
        c.store(c.load(self.alive, c.truth), self.out, c.truth)
        c.label("write")
        out = c.load(self.out, c.truth)
        for name, slots in self.state.items():
            for i, slot in enumerate(slots):
                self._scatter(c.load(slot), self.carry, self.layout.carry[name][0] + i, "double", out)
        self._write_history(out)
        for name, slot in self.shared.items():
            self._scatter(c.broadcast(c.load(slot, "i64"), "i64"), self.count, COUNTS.index(name), "i64", out)
        for name, slot in self.own.items():
            self._scatter(c.load(slot, c.whole), self.count, COUNTS.index(name), "i64", out)
        left = c.let(f"and {c.truth} {c.load(self.alive, c.truth)}, {c.let(f'xor {c.truth} {out}, {c.constant(True)}')}")
        c.store(left, self.alive, c.truth)
        c.fork(c.some(left), "step", "end")
        c.label("end")
        c.line("ret void")

    def _write_history(self, mask: str) -> None:
        """The ring in the carry's order. The scalar run predicts the tail by the latest, too: its four rows are equal."""
        c, (start, _), n = self.code, self.layout.carry["history"], self.layout.z
        for j, row in enumerate(self._history()):
            for i, column in enumerate(sorted(self.plan.head.columns)):
                self._scatter(c.load(c.at(row, i, c.real)), self.carry, start + j * n + column, "double", mask)
            for column, slot in self.latest.items():
                self._scatter(c.load(slot), self.carry, start + j * n + column, "double", mask)
