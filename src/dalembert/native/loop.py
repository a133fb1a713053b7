"""The run as one function of machine code: predict, iterate, accept, save; until the last node or a failure."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.dense import EXACT, NOT_FINITE, SOLVED, pivoted_solver
from dalembert.native.description import Translated
from dalembert.native.eliminate import GROWTH, Order, eliminate
from dalembert.native.depend import eager
from dalembert.native.layout import COUNTS, HISTORY, Layout
from dalembert.native.llvm import Code, Emitter, Values, real
from dalembert.path import Outcome

EXTRAPOLATE = ((0, 0, 0, 0), (1, 0, 0, 0), (2, -1, 0, 0), (3, -3, 1, 0), (4, -6, 4, -1))
LARGEST_UNROLLED = 12_000  # operations of an elimination that is written out; beyond it the loops of the pivoted solver


class Run:
    """Writes @run(ptr carry, ptr count, ptr inputs, ptr rows). See Layout for what the arrays hold."""

    def __init__(self, step: Translated, layout: Layout, order: Order | None):
        self.step, self.layout, self.g = step, layout, step.graph
        self.code = Code()
        self.emitter = Emitter(self.g, self.code)
        self.order = order if order is not None and order.operations <= LARGEST_UNROLLED else None
        self._prepare_nodes()

    def _prepare_nodes(self) -> None:
        """All roots, in their final form."""
        s, g = self.step, self.g
        f, jacobian = s.f, [int(x) for x in s.jacobian.ravel()]
        update: list[int] = []
        pivots: list[int] = []
        check = g.zero
        if self.order is not None:
            found = eliminate(g, f, s.jacobian, self.order, s.level)
            update, check, pivots = found.update, found.check, found.pivots
        size = self._scaled_residual()
        after = [*s.new_q, *s.new_lost, *s.new_s, *s.multipliers, *s.force, *s.new_velocity, *s.scale]
        extra = [x for x in (s.factor, s.inside, s.stop) if x is not None]
        law, reduced = s.law or [], s.new_reduced or []
        groups = [f, jacobian, update, [check, size], pivots, s.guess, after, extra, law, reduced, s.velocity]
        flat = s.share_reciprocals([x for group in groups for x in group])
        parts, at = [], 0
        for group in groups:
            parts.append(flat[at : at + len(group)])
            at += len(group)
        self.f, self.jacobian, self.update, (self.check, self.size), self.pivots, self.guess = parts[:6]
        sizes = [len(x) for x in (s.new_q, s.new_lost, s.new_s, s.multipliers, s.force, s.new_velocity, s.scale)]
        pieces = _cut(parts[6], sizes)
        self.new_q, self.new_lost, self.new_s, self.multipliers, self.force, self.new_v, self.scale = pieces
        given = iter(parts[7])
        self.factor, self.inside, self.stop = (
            None if x is None else next(given) for x in (s.factor, s.inside, s.stop)
        )
        self.law, self.new_reduced, self.velocity = parts[8:]

    def _scaled_residual(self) -> int:
        """Node of max_i |F_i| / max_j |F′_ij|."""
        g, worst = self.g, self.g.zero
        for value, row in zip(self.step.f, self.step.jacobian, strict=True):
            largest = None
            for x in row.tolist():
                if x != g.zero:
                    size = g.apply("abs", x)
                    largest = size if largest is None else g.apply("max", largest, size)
            scaled = g.apply("abs", value) if largest is None else g.apply("div", g.apply("abs", value), largest)
            worst = scaled if worst == g.zero else g.apply("max", worst, scaled)
        return worst

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        self._begin()
        self._step()
        self._finish()
        solver, declared = pivoted_solver(self.layout.z)
        head = "define void @run(ptr noalias %carry, ptr noalias %count, ptr noalias %inputs, ptr noalias %rows) nounwind"
        weights = ", ".join(f"double {real(x)}" for row in EXTRAPOLATE for x in row)
        return "\n".join([
            f"@weights = private constant [{len(EXTRAPOLATE) * HISTORY} x double] [{weights}]",
            solver, self.code.function(head), *sorted(declared | self.code.declared),
            '!0 = !{!"branch_weights", i32 100000, i32 1}', '!1 = !{!"branch_weights", i32 1, i32 100000}',
        ])  # fmt: skip

    # Before the first step.

    def _begin(self) -> None:
        c, layout = self.code, self.layout
        self.count = {name: c.at("%count", i, "i64") for i, name in enumerate(COUNTS)}
        self.i = {name: self._copied(name, self.count[name], "i64") for name in COUNTS}
        self.settings = {
            name: c.load(c.at("%inputs", layout.inputs[name][0])) for name in ("t0", "h", "tolerance")
        }
        self.run_values: Values = {}
        self._bind(self.run_values, "h", [self.settings["h"]])
        for name in ("p", "captured"):
            start, length = layout.inputs[name]
            self._bind(self.run_values, name, [c.load(c.at("%inputs", start + i)) for i in range(length)])
        self.d = {name: self._copied_vector(name) for name in layout.carry}
        self.before = {name: [c.slot("old") for _ in self.d[name]] for name in ("q", "s")}
        self.z = [c.slot("z") for _ in range(layout.z)]
        self.w = [c.slot("w") for _ in range(layout.z)]
        self.matrix, self.right = c.slot("matrix", count=layout.z**2), c.slot("right", count=layout.z)
        self.report, self.new_sign = c.slot("report", count=2), c.slot("new_sign")
        self.turns, self.saved = c.slot("turns", "i64"), c.slot("saved", "i64")
        c.store(c.load(self.i["k"], "i64"), self.saved, "i64")
        everything = [*self.f, *self.jacobian, *self.update, self.check, self.size, *self.new_q, *self.new_s,
                      *self.scale, *self.multipliers, *self.force, *self.new_v]  # fmt: skip
        self._hoist(everything, self.run_values, 0)

    def _copied(self, name: str, source: str, kind: str = "double") -> str:
        slot = self.code.slot(name, kind)
        self.code.store(self.code.load(source, kind), slot, kind)
        return slot

    def _copied_vector(self, name: str) -> list[str]:
        """Slots with the numbers of a part of the carry; history stays in one piece."""
        start, length = self.layout.carry[name]
        c = self.code
        if name == "history":
            block = c.slot("history", count=max(length, 1))
            for i in range(length):
                c.store(c.load(c.at("%carry", start + i)), c.at(block, i))
            return [block]
        return [self._copied(name, c.at("%carry", start + i)) for i in range(length)]

    def _bind(self, values: Values, name: str, given: Sequence[str]) -> None:
        for i, value in enumerate(given):
            values[self.g.variable(name, i)] = value

    def _hoist(self, roots: Sequence[int], values: Values, level: int) -> None:
        """Compute what the roots need and what changes no more often than `level`."""
        nodes = [i for i in eager(self.g, roots, values) if self.step.level(i) <= level]
        self.emitter.emit([i for i in nodes if self.g.nodes[i][0] not in ("const", "pick")], values)

    # One step.

    def _step(self) -> None:
        c = self.code
        c.label("step")
        k = c.load(self.i["k"], "i64")
        c.fork(c.let(f"icmp slt i64 {k}, {c.load(self.i['last'], 'i64')}"), "begin", "leave", True)
        c.label("begin")
        values = dict(self.run_values)
        time = c.let(f"fmul double {c.let(f'sitofp i64 {k} to double')}, {self.settings['h']}")
        self._bind(values, "t", [c.let(f"fadd double {self.settings['t0']}, {time}")])
        for name in ("q", "s", "lost", "reduced"):
            self._bind(values, name, [c.load(x) for x in self.d[name]])
        if self.law:
            self._sample_law(values, k)
        self._bind(values, "held", [c.load(x) for x in self.d["held"]])
        self._predict(values)
        newton = [*self.update, self.check] if self.order else [*self.f, *self.jacobian]
        self._hoist(newton, values, 1)
        self._iterate(values)
        self._accept(values)

    def _sample_law(self, values: Values, k: str) -> None:
        c = self.code
        since = c.let(f"sub i64 {k}, {c.load(self.i['first'], 'i64')}")
        turn = c.let(f"srem i64 {since}, {c.load(self.i['law_every'], 'i64')}")
        c.fork(c.let(f"icmp eq i64 {turn}, 0"), "sample", "sampled")
        c.label("sample")
        for slot, value in zip(self.d["held"], self.emitter.emit(self.law, dict(values)), strict=True):
            c.store(value, slot)
        c.label("sampled")

    def _predict(self, values: Values) -> None:
        """z extrapolated through the last steps, by a polynomial of degree up to 3; the guess before the first."""
        c, (history,) = self.code, self.d["history"]
        known = c.load(self.i["known"], "i64")
        c.fork(c.let(f"icmp eq i64 {known}, 0"), "guess", "extrapolate", False)
        c.label("guess")
        for slot, value in zip(self.z, self.emitter.emit(self.guess, dict(values)), strict=True):
            c.store(value, slot)
        c.go("iterate.start")
        c.label("extrapolate")
        row = c.at("@weights", c.let(f"shl i64 {known}, 2"))
        weights = [c.load(c.at(row, j)) for j in range(HISTORY)]
        for i, slot in enumerate(self.z):
            guess = None
            for j in range(HISTORY):
                old = c.load(c.at(history, j * self.layout.z + i))
                term = c.let(f"fmul contract double {weights[j]}, {old}")
                guess = term if guess is None else c.let(f"fadd contract double {guess}, {term}")
            c.store(str(guess), slot)
        c.label("iterate.start")

    def _iterate(self, values: Values) -> None:
        """Newton's iteration, on the written-out elimination while its check holds, with the pivoted solver otherwise."""
        c = self.code
        c.store("0", self.turns, "i64")
        c.label("iterate")
        inner = dict(values)
        z = [c.load(x) for x in self.z]
        self._bind(inner, "z", z)
        turns = c.let(f"add i64 {c.load(self.turns, 'i64')}, 1")
        c.store(turns, self.turns, "i64")
        if self.order is not None:
            *update, check = self.emitter.emit([*self.update, self.check], inner, fast=True)
            for x in update:
                check = c.let(f"fadd contract double {check}, {c.let(f'fmul contract double {x}, 0.0')}")
            c.fork(c.let(f"fcmp ole double {check}, {real(GROWTH)}"), "direct", "pivot", True)
            c.label("direct")
            new = [c.let(f"fsub double {a}, {b}") for a, b in zip(z, update, strict=True)]
            self._store(self.w, new)
            if self.step.linear:
                c.go("direct.done")
            else:
                self._test(values, new, update, "direct.done", "again")
            c.label("direct.done")
            self._report_direct(dict(inner))
            c.go("accept")
        self._pivoted(values, inner, z)
        c.label("again")
        self._store(self.z, [c.load(x) for x in self.w])
        c.fork(c.let(f"icmp slt i64 {c.load(self.turns, 'i64')}, {c.load(self.i['limit'], 'i64')}"),
               "iterate", "not_converged", True)  # fmt: skip
        c.label("not_converged")
        if self.order is not None:
            c.store(self.emitter.emit([self.size], dict(inner), fast=True)[0], self.report)
        self._fail(Outcome.NOT_CONVERGED)

    def _store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.code.store(value, slot)

    def _test(self, values: Values, new: list[str], update: list[str], done: str, again: str) -> None:
        """Whether every tested |update_i| ≤ tolerance · scale_i at the new z."""
        c, inside, passed = self.code, dict(values), None
        self._bind(inside, "w", new)
        groups: dict[int, list[str]] = {}
        for node, x in zip(self.scale, update, strict=True):
            if self.g.value(node) != float("inf"):
                groups.setdefault(node, []).append(c.call("double", "llvm.fabs.f64", ("double", x)))
        for node, sizes in groups.items():
            largest = sizes[0]
            for x in sizes[1:]:
                larger = c.let(f"fcmp ogt double {x}, {largest}")
                largest = c.let(f"select i1 {larger}, double {x}, double {largest}")
            (scale,) = self.emitter.emit([node], inside, fast=True)
            bound = c.let(f"fmul double {scale}, {self.settings['tolerance']}")
            small = c.let(f"fcmp ole double {largest}, {bound}")
            passed = small if passed is None else c.let(f"and i1 {passed}, {small}")
        c.fork(passed or "true", done, again)

    def _report_direct(self, inner: Values) -> None:
        """Scaled residual and sign of the determinant of the last evaluation, from the written-out elimination."""
        c = self.code
        size = "0.0" if self.step.linear else self.emitter.emit([self.size], inner, fast=True)[0]
        c.store(size, self.report)
        if self.factor is None:
            bits = "-1" if self.order and self.order.parity else "0"
            for pivot in self.emitter.emit(self.pivots, inner, fast=True):
                bits = c.let(f"xor i64 {bits}, {c.let(f'bitcast double {pivot} to i64')}")
            negative = c.let(f"icmp slt i64 {bits}, 0")
            c.store(c.let(f"select i1 {negative}, double -1.0, double 1.0"), self.new_sign)

    def _pivoted(self, values: Values, inner: Values, z: list[str]) -> None:
        c = self.code
        c.label("pivot")
        entries = self.emitter.emit([*self.f, *self.jacobian], dict(inner), fast=True)
        n = self.layout.z
        for i, value in enumerate(entries[:n]):
            c.store(value, c.at(self.right, i))
        for i, value in enumerate(entries[n:]):
            c.store(value, c.at(self.matrix, i))
        c.store(c.let(f"add i64 {c.load(self.i['slow'], 'i64')}, 1"), self.i["slow"], "i64")
        code = c.let(f"call i64 @pivoted(ptr {self.matrix}, ptr {self.right}, ptr {self.report})")
        c.store(c.load(c.at(self.report, 1)), self.new_sign)
        c.line(f"switch i64 {code}, label %singular [ i64 {SOLVED}, label %solved i64 {EXACT}, label %exact"
               f" i64 {NOT_FINITE}, label %not_finite ]")  # fmt: skip
        c.label("exact")
        self._store(self.w, z)
        c.go("accept")
        c.label("solved")
        update = [c.load(c.at(self.right, i)) for i in range(n)]
        new = [c.let(f"fsub double {a}, {b}") for a, b in zip(z, update, strict=True)]
        self._store(self.w, new)
        c.fork(self._all_finite(new), "solved.test", "not_finite", True)
        c.label("solved.test")
        if self.step.linear and self.order is not None:
            c.go("accept")
        else:
            self._test(values, new, update, "accept", "again")
        for name, outcome in (("singular", Outcome.SINGULAR), ("not_finite", Outcome.NOT_FINITE)):
            c.label(name)
            self._fail(outcome)

    def _all_finite(self, values: Sequence[str]) -> str:
        c, total = self.code, "0.0"
        for x in values:
            total = c.let(f"fadd contract double {total}, {c.let(f'fmul contract double {x}, 0.0')}")
        return c.let(f"fcmp oeq double {total}, 0.0")

    def _fail(self, outcome: Outcome) -> None:
        c = self.code
        c.store(str(int(outcome)), self.i["code"], "i64")
        c.store(c.load(self.report), self.d["failed_residual"][0])
        c.go("leave")

    # After the solution.

    def _accept(self, values: Values) -> None:
        c = self.code
        c.label("accept")
        self._bind(values, "w", [c.load(x) for x in self.w])
        q, s = self.emitter.emit(self.new_q, values), self.emitter.emit(self.new_s, values)
        lost = self.emitter.emit(self.new_lost, values)
        c.fork(self._all_finite([*q, *s]), "finite", "not_finite", True)
        c.label("finite")
        if self.inside is not None:
            c.fork(self.emitter.emit([self.inside], values)[0], "inside", "left_domain", True)
            c.label("left_domain")
            self._fail(Outcome.LEFT_DOMAIN)
            c.label("inside")
        if self.stop is not None:
            stopped = self.emitter.emit([self.stop], values)[0]
            code = c.let(f"select i1 {stopped}, i64 {int(Outcome.STOPPED)}, i64 0")
            c.store(code, self.i["code"], "i64")
        if self.new_reduced:
            self._store(self.d["reduced"], self.emitter.emit(self.new_reduced, values))
        self._count_crossing(values)
        self._store(self.before["q"], [c.load(x) for x in self.d["q"]])
        self._store(self.before["s"], [c.load(x) for x in self.d["s"]])
        for name, new in (("q", q), ("lost", lost), ("s", s)):
            self._store(self.d[name], new)
        self._remember()
        self._save(values, q)

    def _count_crossing(self, values: Values) -> None:
        c = self.code
        (slot,) = self.d["sign"]
        old = c.load(slot)
        new = c.load(self.new_sign)
        if self.factor is not None:
            value = self.emitter.emit([self.factor], values)[0]
            up, down = c.let(f"fcmp ogt double {value}, 0.0"), c.let(f"fcmp olt double {value}, 0.0")
            low = c.let(f"select i1 {down}, double -1.0, double {value}")
            new = c.let(f"select i1 {up}, double 1.0, double {low}")
        crossed = c.let(f"fcmp olt double {c.let(f'fmul double {new}, {old}')}, 0.0")
        self._add("crossings", c.let(f"zext i1 {crossed} to i64"))
        none = c.let(f"fcmp oeq double {new}, 0.0")
        c.store(c.let(f"select i1 {none}, double {old}, double {new}"), slot)

    def _add(self, name: str, amount: str) -> str:
        c = self.code
        value = c.let(f"add i64 {c.load(self.i[name], 'i64')}, {amount}")
        c.store(value, self.i[name], "i64")
        return value

    def _remember(self) -> None:
        """Counters, statistics and the history of z."""
        c, (history,) = self.code, self.d["history"]
        turns = c.load(self.turns, "i64")
        self._add("iterations", turns)
        most = c.load(self.i["max_iterations"], "i64")
        c.store(c.call("i64", "llvm.smax.i64", ("i64", most), ("i64", turns)), self.i["max_iterations"], "i64")
        (slot,) = self.d["residual"]
        size, worst = c.load(self.report), c.load(slot)
        larger = c.let(f"fcmp ogt double {size}, {worst}")
        c.store(c.let(f"select i1 {larger}, double {size}, double {worst}"), slot)
        nz = self.layout.z
        for j in reversed(range(1, HISTORY)):
            for i in range(nz):
                c.store(c.load(c.at(history, (j - 1) * nz + i)), c.at(history, j * nz + i))
        for i, x in enumerate(self.w):
            c.store(c.load(x), c.at(history, i))
        more = c.let(f"add i64 {c.load(self.i['known'], 'i64')}, 1")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", more), ("i64", str(HISTORY))), self.i["known"], "i64")
        self._add("k", "1")

    def _save(self, values: Values, q: list[str]) -> None:
        """A row where one is due, or where the run stops."""
        c = self.code
        k, target = c.load(self.i["k"], "i64"), c.load(self.i["target"], "i64")
        due = c.let(f"icmp sge i64 {k}, {target}")
        if self.stop is not None:
            stopped = c.let(f"icmp ne i64 {c.load(self.i['code'], 'i64')}, 0")
            due = c.let(f"or i1 {due}, {stopped}")
        c.fork(due, "save", "saved")
        c.label("save")
        self._write_row(values, self.new_v, q, k)
        next_target = c.let(f"add i64 {target}, {c.load(self.i['every'], 'i64')}")
        last = c.load(self.i["last"], "i64")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", next_target), ("i64", last)), self.i["target"], "i64")
        c.label("saved")
        if self.stop is not None:
            stopped = c.let(f"icmp ne i64 {c.load(self.i['code'], 'i64')}, 0")
            c.fork(stopped, "leave", "step", False)
        else:
            c.go("step")

    def _write_row(self, values: Values, velocity: list[int], q: Sequence[str], k: str) -> None:
        c, row = self.code, self.layout.row
        width = row["k"][0] + 1
        rows = c.load(self.i["rows"], "i64")
        start = c.at("%rows", c.let(f"mul i64 {rows}, {width}"))
        multipliers, force = self.emitter.emit(self.multipliers, values), self.emitter.emit(self.force, values)
        self._store(self.d["multipliers"], multipliers)
        self._store(self.d["force"], force)
        held = [c.load(x) for x in self.d["held"]]
        columns = [*q, *self.emitter.emit(velocity, values), *multipliers, *force, *held,
                   c.let(f"sitofp i64 {k} to double")]  # fmt: skip
        for i, value in enumerate(columns):
            c.store(value, c.at(start, i))
        c.store(c.let(f"add i64 {rows}, 1"), self.i["rows"], "i64")
        c.store(k, self.saved, "i64")

    # At the end.

    def _finish(self) -> None:
        """A row for the last solved step if it has none yet, and the carry for the next call."""
        c, layout = self.code, self.layout
        c.label("leave")
        k = c.load(self.i["k"], "i64")
        unsaved = c.let(f"icmp sgt i64 {k}, {c.load(self.saved, 'i64')}")
        c.fork(unsaved, "last_row", "end", False)
        c.label("last_row")
        values = dict(self.run_values)
        (history,) = self.d["history"]
        self._bind(values, "w", [c.load(c.at(history, i)) for i in range(layout.z)])
        before = c.let(f"sitofp i64 {c.let(f'sub i64 {k}, 1')} to double")
        time = c.let(f"fmul double {before}, {self.settings['h']}")
        self._bind(values, "t", [c.let(f"fadd double {self.settings['t0']}, {time}")])
        for name in ("q", "s"):
            self._bind(values, name, [c.load(x) for x in self.before[name]])
        self._write_row(values, self.new_v, [c.load(x) for x in self.d["q"]], k)
        c.label("end")
        for name, (start, length) in layout.carry.items():
            slots = self.d[name]
            for i in range(length):
                source = c.at(slots[0], i) if name == "history" else slots[i]
                c.store(c.load(source), c.at("%carry", start + i))
        for name in COUNTS:
            c.store(c.load(self.i[name], "i64"), self.count[name], "i64")
        c.line("ret void")


def _cut(flat: list[int], sizes: Sequence[int]) -> list[list[int]]:
    parts, at = [], 0
    for size in sizes:
        parts.append(flat[at : at + size])
        at += size
    return parts
