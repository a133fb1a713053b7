"""The run as one function of machine code: predict, iterate, accept, save; until the last node or a failure."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.code import Code, real
from dalembert.native.dense import ASTRAY, EXACT, NOT_FINITE, SOLVED
from dalembert.native.description import Translated
from dalembert.native.emit import Emitter, Values
from dalembert.native.layout import COUNTS, HISTORY, Layout
from dalembert.native.roots import Plan, Roots
from dalembert.path import Outcome

EXTRAPOLATE = ((0, 0, 0, 0), (1, 0, 0, 0), (2, -1, 0, 0), (3, -3, 1, 0), (4, -6, 4, -1))
WEIGHTS = (
    f"@weights = private constant [{len(EXTRAPOLATE) * HISTORY} x double] "
    f"[{', '.join(f'double {real(x)}' for row in EXTRAPOLATE for x in row)}]"
)
IN_REGISTERS = ("k", "known", "target", "saved")


class Run:
    """Writes @run(ptr carry, ptr count, ptr inputs, ptr rows, ptr scratch, ptr solver). See Layout for the arrays.

    solver: the address of the pivoted solver of dense.py, compiled once for all steps.
    """

    def __init__(self, step: Translated, layout: Layout, roots: Roots, plan: Plan | None):
        self.step, self.layout, self.g = step, layout, step.graph
        self.roots, self.plan = roots, plan
        self.code = Code()
        self.emitter = Emitter(self.g, self.code)

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        self._begin()
        self._step()
        self._finish()
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows", "scratch"))
        head = f"define void @run({arrays}, ptr %solver) nounwind"
        return "\n".join([
            WEIGHTS, self.code.function(head), *sorted(self.code.declared),
            '!0 = !{!"branch_weights", i32 100000, i32 1}', '!1 = !{!"branch_weights", i32 1, i32 100000}',
        ])  # fmt: skip

    # Before the first step.

    def _begin(self) -> None:
        c, layout, r = self.code, self.layout, self.roots
        self.i = {name: c.at("%count", i, "i64") for i, name in enumerate(COUNTS)}
        self.in_memory = {name: self.i[name] for name in IN_REGISTERS}
        for name in IN_REGISTERS:
            self.i[name] = self._copied(name, self.i[name], "i64")
        inputs, self.run_values = layout.inputs, Values()
        self.settings = {name: c.load(c.at("%inputs", inputs[name][0])) for name in ("t0", "h", "tolerance")}
        self.emitter.bind(self.run_values, "h", [self.settings["h"]])
        for name in ("p", "captured"):
            start, length = inputs[name]
            self.emitter.bind(self.run_values, name, [c.load(c.at("%inputs", start + i)) for i in range(length)])
        self.part = {name: c.at("%carry", start) for name, (start, _) in layout.carry.items()}
        self.part |= {name: c.at("%scratch", start) for name, (start, _) in layout.scratch.items()}
        self.length = {name: length for name, (_, length) in {**layout.carry, **layout.scratch}.items()}
        self.d = {
            name: [self._copied(name, c.at(self.part[name], i)) for i in range(layout.carry[name][1])]
            for name in ("q", "lost", "s", "low")
        }
        self.z = [c.slot("z") for _ in range(layout.z)]
        self.cut = {j: c.slot("cut") for j in r.compensated(self.g)}
        self.w = [self._copied("w", c.at(self.part["history"], i)) for i in range(layout.z)]
        self.turns, self.astray = c.slot("turns", "i64"), c.slot("astray", "i1")
        self.size, self.sign = c.slot("size"), c.slot("sign")
        self.emitter.hoist(r.stepped, self.run_values, self.step.level, 0)

    def _copied(self, name: str, source: str, kind: str = "double") -> str:
        """A slot that starts with the number at an address."""
        slot = self.code.slot(name, kind)
        self.code.store(self.code.load(source, kind), slot, kind)
        return slot

    def _count(self, name: str) -> str:
        return self.code.load(self.i[name], "i64")

    def _store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.code.store(value, slot)

    def _write(self, part: str, values: Sequence[str]) -> None:
        for i, value in enumerate(values):
            self.code.store(value, self.code.at(self.part[part], i))

    def _read(self, part: str) -> list[str]:
        return [self.code.load(self.code.at(self.part[part], i)) for i in range(self.length[part])]

    # One step.

    def _step(self) -> None:
        c, r = self.code, self.roots
        c.label("step")
        k = self._count("k")
        c.fork(c.let(f"icmp slt i64 {k}, {self._count('until')}"), "begin", "leave", True)
        c.label("begin")
        values = dict(self.run_values)
        self.emitter.bind(values, "t", [self._time(k)])
        for name in ("q", "s", "lost", "low"):
            self.emitter.bind(values, name, [c.load(x) for x in self.d[name]])
        self.emitter.bind(values, "reduced", self._read("reduced"))
        if r.law:
            self._sample_law(values, k)
            self.emitter.bind(values, "held", self._read("held"))
        self._predict(values)
        iterated = [*r.update, *r.check, *r.tail_update, *r.tail_check] if self.plan else [*r.f, *r.jacobian]
        self.emitter.hoist(iterated, values, self.step.level, 1)
        self._iterate(values)
        self._accept(values)

    def _time(self, k: str) -> str:
        c = self.code
        since = c.let(f"fmul double {c.let(f'sitofp i64 {k} to double')}, {self.settings['h']}")
        return c.let(f"fadd double {self.settings['t0']}, {since}")

    def _sample_law(self, values: Values, k: str) -> None:
        c = self.code
        since = c.let(f"sub i64 {k}, {self._count('first')}")
        turn = c.let(f"srem i64 {since}, {self._count('law_every')}")
        c.fork(c.let(f"icmp eq i64 {turn}, 0"), "sample", "sampled")
        c.label("sample")
        self._write("held", self.emitter.emit(self.roots.law, dict(values)))
        c.label("sampled")

    def _predict(self, values: Values) -> None:
        """z extrapolated through the last steps, by a polynomial of degree up to 3; the guess before the first.

        The older terms are summed over whole vectors; the latest z is still in registers.
        """
        c, n = self.code, self.layout.z
        known = self._count("known")
        c.fork(c.let(f"icmp eq i64 {known}, 0"), "guess", "extrapolate", False)
        c.label("guess")
        self._store(self.z, self.emitter.emit(self.roots.guess, dict(values)))
        c.go("iterate.start")
        c.label("extrapolate")
        row = c.at("@weights", c.let(f"shl i64 {known}, 2"))
        weights = [c.load(c.at(row, j)) for j in range(HISTORY)]
        for start, width in c.chunks(n):
            kind, terms = f"<{width} x double>", []
            for j in range(1, HISTORY):
                old = c.load(c.at(self.part["history"], j * n + start), kind)
                terms.append(c.let(f"fmul contract {kind} {c.spread(weights[j], width)}, {old}"))
            total = c.let(f"fadd contract {kind} {terms[0]}, {terms[1]}")
            total = c.let(f"fadd contract {kind} {total}, {terms[2]}")
            c.store(total, c.at(self.part["partial"], start), kind)
        for i, (z, w) in enumerate(zip(self.z, self.w, strict=True)):
            latest = c.let(f"fmul contract double {weights[0]}, {c.load(w)}")
            c.store(c.let(f"fadd contract double {latest}, {c.load(c.at(self.part['partial'], i))}"), z)
        c.label("iterate.start")

    def _iterate(self, values: Values) -> None:
        """Newton's iteration, on the written-out elimination while its check holds, with the pivoted solver otherwise."""
        c = self.code
        c.store("0", self.turns, "i64")
        c.store("false", self.astray, "i1")
        c.label("iterate")
        inner = dict(values)
        z = [c.load(x) for x in self.z]
        self.emitter.bind(inner, "z", z)
        c.store(c.let(f"add i64 {c.load(self.turns, 'i64')}, 1"), self.turns, "i64")
        if self.plan is not None:
            self._direct(self.plan, inner, values, z)
        self._pivoted(dict(inner), values, z)
        c.label("again")
        self._store(self.z, [c.load(x) for x in self.w])
        c.fork(c.let(f"icmp slt i64 {c.load(self.turns, 'i64')}, {self._count('limit')}"),
               "iterate", "not_converged", True)  # fmt: skip
        c.label("not_converged")
        if self.plan is not None:
            c.store(self.emitter.emit(self.roots.size, dict(inner), fast=True)[0], self.size)
        self._fail(Outcome.NOT_CONVERGED)

    def _direct(self, plan: Plan, inner: Values, values: Values, z: list[str]) -> None:
        """Newton's update of the head; the tail stays as predicted until the head is solved."""
        c, r = self.code, self.roots
        *update, check = self.emitter.emit([*r.update, *r.check], inner, fast=True)
        # Far from a root the rows may have any size, which the check of the pivots does not know.
        astray = c.load(self.astray, "i1")
        check = c.let(f"select i1 {astray}, double {real(float('inf'))}, double {check}")
        self._checked(update, check, "direct")
        head = sorted(plan.head.columns)
        w = list(z)
        for j, x in zip(head, update, strict=True):
            w[j] = c.let(f"fsub double {z[j]}, {x}")
        self._store(self.w, w)
        if not self.step.linear:
            self._test(values, dict(zip(head, update, strict=True)), w, "solved.head", "again")
            c.label("solved.head")
        self._keep_cut(z, w, dict(zip(head, update, strict=True)))
        known = dict(values)
        if plan.tail.rows:
            self._solve_tail(plan, known, w)
        self._report(plan, dict(inner), known)
        c.go("accept")

    def _keep_cut(self, z: Sequence[str], w: Sequence[str] | dict[int, str], update: dict[int, str]) -> None:
        """What z - update has lost to rounding: exact, because the update is the smaller of the two."""
        c = self.code
        for j in sorted(self.cut.keys() & update.keys()):
            moved = c.let(f"fsub double {z[j]}, {w[j]}")
            c.store(c.let(f"fsub double {moved}, {update[j]}"), self.cut[j])

    def _solve_tail(self, plan: Plan, known: Values, w: list[str]) -> None:
        """The unknowns that follow linearly from the head, starting from the predicted ones."""
        c, r, tail = self.code, self.roots, sorted(plan.tail.columns)
        self.emitter.bind(known, "z", w)
        *update, check = self.emitter.emit([*r.tail_update, *r.tail_check], known, fast=True)
        self._checked(update, check, "solved.tail")
        solved = [c.let(f"fsub double {w[j]}, {x}") for j, x in zip(tail, update, strict=True)]
        self._store([self.w[j] for j in tail], solved)
        self._keep_cut(w, dict(zip(tail, solved, strict=True)), dict(zip(tail, update, strict=True)))

    def _checked(self, update: list[str], check: str, label: str) -> None:
        """Go on at `label` if the pivots were good ones and the update is finite, to the pivoted solver otherwise."""
        c = self.code
        check = c.let(f"fadd double {check}, {c.vanishing(update)}")
        c.fork(c.let(f"fcmp ole double {check}, {real(self.step.growth)}"), label, "pivot", True)
        c.label(label)

    def _pivoted(self, inner: Values, values: Values, z: list[str]) -> None:
        c, n = self.code, self.layout.z
        c.label("pivot")
        self._write("right", self.emitter.emit(self.roots.f, inner, fast=True))
        with c.loop(0, n * n) as i:
            c.store("0.0", c.at(self.part["matrix"], i))
        for i, node in enumerate(self.roots.jacobian):
            if node != self.g.zero:
                c.store(self.emitter.emit([node], inner, fast=True)[0], c.at(self.part["matrix"], i))
        c.store(c.let(f"add i64 {self._count('slow')}, 1"), self.i["slow"], "i64")
        arguments = ", ".join(f"ptr {self.part[name]}" for name in ("matrix", "right", "report"))
        code = c.let(f"call i64 %solver(i64 {n}, {arguments})")
        c.store(c.load(self.part["report"]), self.size)
        c.store(c.load(c.at(self.part["report"], 1)), self.sign)
        c.line(f"switch i64 {code}, label %singular [ i64 {SOLVED}, label %solved i64 {EXACT}, label %exact"
               f" i64 {NOT_FINITE}, label %not_finite ]")  # fmt: skip
        c.label("exact")
        self._store(self.w, z)
        for slot in self.cut.values():
            c.store("0.0", slot)
        c.go("accept")
        c.label("solved")
        update = self._read("right")
        new = [c.let(f"fsub double {a}, {b}") for a, b in zip(z, update, strict=True)]
        self._store(self.w, new)
        self._keep_cut(z, new, dict(enumerate(update)))
        c.fork(self._all_finite(new), "solved.finite", "not_finite", True)
        c.label("solved.finite")
        if self.step.linear and self.plan is not None:
            c.go("accept")
        else:
            self._test(values, dict(enumerate(update)), new, "accept", "again")
        for name, outcome in (("singular", Outcome.SINGULAR), ("not_finite", Outcome.NOT_FINITE)):
            c.label(name)
            self._fail(outcome, self.astray)

    def _test(self, values: Values, update: dict[int, str], w: list[str], yes: str, no: str) -> None:
        """Whether every tested |update_i| ≤ tolerance · scale_i at the new z."""
        c, inside, passed, near = self.code, dict(values), "true", "true"
        self.emitter.bind(inside, "w", w)
        groups: dict[int, list[str]] = {}
        for j, value in update.items():
            if self.g.value(self.roots.scale[j]) != float("inf"):
                groups.setdefault(self.roots.scale[j], []).append(c.absolute(value))
        for node, sizes in groups.items():
            largest = c.maximum(sizes)
            (scale,) = self.emitter.emit([node], inside, fast=True)
            bound = c.let(f"fmul double {scale}, {self.settings['tolerance']}")
            passed = c.let(f"and i1 {passed}, {c.let(f'fcmp ole double {largest}, {bound}')}")
            limit = c.let(f"fmul double {scale}, {real(ASTRAY)}")
            near = c.let(f"and i1 {near}, {c.let(f'fcmp ole double {largest}, {limit}')}")
        c.store(c.let(f"xor i1 {near}, true"), self.astray, "i1")  # as in algebra/newton.py
        c.fork(passed, yes, no)

    def _report(self, plan: Plan, inner: Values, known: Values) -> None:
        """Scaled residual and sign of the determinant of the last evaluation, from the written-out elimination.

        A linear system is solved by one evaluation, and what is left is not evaluated: it counts as zero.
        """
        c, r = self.code, self.roots
        c.store("0.0" if self.step.linear else self.emitter.emit(r.size, inner, fast=True)[0], self.size)
        if not r.factor:
            bits = "-1" if plan.parity else "0"
            head, tail = self.emitter.emit(r.pivots, inner, fast=True), self.emitter.emit(r.tail_pivots, known, fast=True)
            for pivot in (*head, *tail):
                bits = c.let(f"xor i64 {bits}, {c.let(f'bitcast double {pivot} to i64')}")
            negative = c.let(f"icmp slt i64 {bits}, 0")
            c.store(c.let(f"select i1 {negative}, double -1.0, double 1.0"), self.sign)

    def _all_finite(self, values: Sequence[str]) -> str:
        return self.code.let(f"fcmp oeq double {self.code.vanishing(values)}, 0.0")

    def _fail(self, outcome: Outcome, astray: str | None = None) -> None:
        """End the run; where the iteration had lost its way that is why, whatever it met there."""
        c, code = self.code, str(int(outcome))
        if astray is not None:
            lost = c.load(astray, "i1")
            code = c.let(f"select i1 {lost}, i64 {int(Outcome.NOT_CONVERGED)}, i64 {code}")
        c.store(code, self.i["code"], "i64")
        c.store(c.load(self.size), self.part["failed_residual"])
        c.go("leave")

    # After the solution.

    def _accept(self, values: Values) -> None:
        c, r = self.code, self.roots
        c.label("accept")
        self.emitter.bind(values, "w", [c.load(x) for x in self.w])
        for j, slot in self.cut.items():
            values[self.g.variable("cut", j)] = c.load(slot)
        parts = {"q": r.new_q, "lost": r.new_lost, "s": r.new_s, "low": r.new_low}
        new = {name: self.emitter.emit(roots, values) for name, roots in parts.items()}
        c.fork(self._all_finite([*new["q"], *new["s"]]), "finite", "not_finite", True)
        c.label("finite")
        if r.inside:
            c.fork(self.emitter.emit(r.inside, values)[0], "inside", "left_domain", True)
            c.label("left_domain")
            self._fail(Outcome.LEFT_DOMAIN)
            c.label("inside")
        if r.stop:
            stopped = self.emitter.emit(r.stop, values)[0]
            c.store(c.let(f"select i1 {stopped}, i64 {int(Outcome.STOPPED)}, i64 0"), self.i["code"], "i64")
        self._write("reduced", self.emitter.emit(r.new_reduced, values))
        self._count_crossing(values)
        for name in ("q", "s"):
            self._write(f"before_{name}", [c.load(x) for x in self.d[name]])
        for name, given in new.items():
            self._store(self.d[name], given)
        self._remember()
        self._save(values, new["q"])

    def _count_crossing(self, values: Values) -> None:
        c, new = self.code, self.sign
        old = c.load(self.part["sign"])
        if self.roots.factor:
            value = self.emitter.emit(self.roots.factor, values)[0]
            c.store(self.emitter.sign(value), new)
        now = c.load(new)
        crossed = c.let(f"fcmp olt double {c.let(f'fmul double {now}, {old}')}, 0.0")
        self._add("crossings", c.let(f"zext i1 {crossed} to i64"))
        none = c.let(f"fcmp oeq double {now}, 0.0")
        c.store(c.let(f"select i1 {none}, double {old}, double {now}"), self.part["sign"])

    def _add(self, name: str, amount: str) -> str:
        c = self.code
        value = c.let(f"add i64 {self._count(name)}, {amount}")
        c.store(value, self.i[name], "i64")
        return value

    def _remember(self) -> None:
        """Counters, statistics and the history of z."""
        c, n, history = self.code, self.layout.z, self.part["history"]
        turns = c.load(self.turns, "i64")
        self._add("iterations", turns)
        most = c.call("i64", "llvm.smax.i64", ("i64", self._count("max_iterations")), ("i64", turns))
        c.store(most, self.i["max_iterations"], "i64")
        c.store(c.maximum([c.load(self.size), c.load(self.part["residual"])]), self.part["residual"])
        for j in reversed(range(1, HISTORY)):
            for start, width in c.chunks(n):
                kind = f"<{width} x double>"
                c.store(c.load(c.at(history, (j - 1) * n + start), kind), c.at(history, j * n + start), kind)
        for i, x in enumerate(self.w):
            c.store(c.load(x), c.at(history, i))
        more = c.let(f"add i64 {self._count('known')}, 1")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", more), ("i64", str(HISTORY))), self.i["known"], "i64")
        self._add("k", "1")

    def _save(self, values: Values, q: list[str]) -> None:
        """A row where one is due, or where the run stops."""
        c, stop = self.code, bool(self.roots.stop)
        k, target = self._count("k"), self._count("target")
        due = c.let(f"icmp sge i64 {k}, {target}")
        stopped = c.let(f"icmp ne i64 {self._count('code')}, 0") if stop else "false"
        c.fork(c.let(f"or i1 {due}, {stopped}"), "save", "saved")
        c.label("save")
        self._write_row(values, q, k)
        later = c.let(f"add i64 {target}, {self._count('every')}")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", later), ("i64", self._count("last"))), self.i["target"], "i64")
        c.label("saved")
        if stop:
            c.fork(stopped, "leave", "step", False)
        else:
            c.go("step")

    def _write_row(self, values: Values, q: Sequence[str], k: str) -> None:
        c, row, r = self.code, self.layout.row, self.roots
        rows = self._count("rows")
        start = c.at("%rows", c.let(f"mul i64 {rows}, {row['k'][0] + 1}"))
        given = self.emitter.emit([*r.new_velocity, *r.multipliers, *r.force], values)
        held = self._read("held") if r.law else ["0.0"] * self.layout.n
        for i, value in enumerate([*q, *given, *held, c.let(f"sitofp i64 {k} to double")]):
            c.store(value, c.at(start, i))
        c.store(c.let(f"add i64 {rows}, 1"), self.i["rows"], "i64")
        c.store(k, self.i["saved"], "i64")

    # At the end.

    def _finish(self) -> None:
        """A row for the last solved step, if the run ends and it has none yet; and the carry for the next call."""
        c = self.code
        c.label("leave")
        k = self._count("k")
        unsaved = c.let(f"icmp sgt i64 {k}, {self._count('saved')}")
        ended = c.let(f"icmp ne i64 {self._count('code')}, 0")
        c.fork(c.let(f"and i1 {unsaved}, {ended}"), "last_row", "end", False)
        c.label("last_row")
        values = dict(self.run_values)
        self.emitter.bind(values, "w", self._read("history")[: self.layout.z])
        self.emitter.bind(values, "t", [self._time(c.let(f"sub i64 {k}, 1"))])
        for name in ("q", "s"):
            self.emitter.bind(values, name, self._read(f"before_{name}"))
        for name, length in (("low", self.layout.k), ("cut", self.layout.z)):  # not kept: the last digit of this row's v
            self.emitter.bind(values, name, ["0.0"] * length)
        self._write_row(values, [c.load(x) for x in self.d["q"]], k)
        c.label("end")
        for name, slots in self.d.items():
            self._write(name, [c.load(x) for x in slots])
        for name in IN_REGISTERS:
            c.store(self._count(name), self.in_memory[name], "i64")
        c.line("ret void")
