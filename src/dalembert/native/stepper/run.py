"""The run as one function of machine code: predict, iterate, accept, save; until the last node or a failure."""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.llvm.builder import module
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.arrays import HISTORY, SINCE, Layout
from dalembert.native.stepper.iterate import Iteration
from dalembert.native.stepper.linear_systems import Plan, Roots
from dalembert.native.stepper.scalar_frame import IN_REGISTERS, State
from dalembert.native.stepper.stages import tables
from dalembert.native.stepper.step import Translated
from dalembert.native.stepper.watch import count_leap, count_turn, cross
from dalembert.outcome import Outcome


class Run:
    """Writes @run(ptr carry, ptr count, ptr inputs, ptr rows, ptr scratch, ptr solver). See Layout for the arrays.

    solver: the address of the pivoted solver of dense.py, compiled once for all steps.
    """

    def __init__(self, step: Translated, layout: Layout, roots: Roots, plan: Plan | None):
        self.state = State(step, layout, roots, plan)
        self.iteration = Iteration(self.state)

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        self._step()
        self._finish()
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows", "scratch"))
        head = f"define void @run({arrays}, ptr %solver) nounwind"
        return module(tables(self.state.step), self.state.code.function(head), declared=self.state.code.declared)

    @property
    def _affine(self) -> bool:
        return self.state.plan is not None and self.state.plan.affine

    def _step(self) -> None:
        c, r = self.state.code, self.state.roots
        c.label("step")
        k = self.state.count("k")
        c.fork(c.let(f"icmp slt i64 {k}, {self.state.count('until')}"), "begin", "leave", True)
        c.label("begin")
        self._begin()
        values = dict(self.state.run_values)
        self.state.stages.load(values)
        self._bind_time(values, k, self.state.stages.now)
        for name in ("q", "s", "lost", "low"):
            self.state.emitter.bind(values, name, [c.load(x) for x in self.state.d[name]])
        self.state.emitter.bind(values, "reduced", self.state.read("reduced"))
        if r.law:
            self._sample_law(values, k)
            self.state.emitter.bind(values, "held", self.state.read("held"))
        self._predict(values)
        iterated = [*r.update, *r.check, *r.tail_update, *r.tail_check] if self.state.plan else [*r.f, *r.jacobian]
        self.state.emitter.hoist(iterated, values, self.state.step.level, 1)
        self.iteration.iterate(values)
        self._accept(values)

    def _begin(self) -> None:
        """Keep the state where a step with stages begins."""
        c, stages = self.state.code, self.state.stages
        stages.begin(self.state.stage)
        if stages.number == 1:
            return
        c.fork(c.let(f"icmp eq i64 {stages.now}, 0"), "keep", "kept")
        c.label("keep")
        for name in SINCE:
            d = self.state.d.get(name)
            self.state.write(f"begin_{name}", [c.load(x) for x in d] if d else self.state.read(name))
        self.state.write("begin_w", [c.load(x) for x in self.state.w])
        c.label("kept")

    def _go_back(self, k: str) -> None:
        """To where the step began, if one of its stages has ended the run."""
        c, stages = self.state.code, self.state.stages
        if stages.number == 1:
            return
        stage = stages.of(k)
        ended = c.let(f"icmp ne i64 {self.state.count('code')}, 0")
        inside = c.let(f"icmp ne i64 {stage}, 0")
        c.fork(c.let(f"and i1 {ended}, {inside}"), "back", "leaving", False)
        c.label("back")
        for name in SINCE:
            values = self.state.read(f"begin_{name}")
            if name in self.state.d:
                self.state.store(self.state.d[name], values)
            else:
                self.state.write(name, values)
        for i, value in enumerate(self.state.read("begin_w")):
            c.store(value, c.at(self.state.part["history"], i))
        c.store(c.let(f"sub i64 {k}, {stage}"), self.state.i["k"], "i64")
        c.label("leaving")

    def _bind_time(self, values: Values, k: str, stage: str) -> None:
        """t and h of the stage."""
        c, stages, h = self.state.code, self.state.stages, self.state.settings["h"]
        since = c.let(f"fmul double {stages.node(k)}, {h}")
        t = c.let(f"fadd double {self.state.settings['t0']}, {since}")
        if stages.number > 1:
            begin = c.let(f"fmul double {stages.part('begins', stage)}, {h}")
            t = c.let(f"fadd double {t}, {begin}")
            self.state.emitter.bind(values, "h", [c.let(f"fmul double {stages.part('gammas', stage)}, {h}")])
        self.state.emitter.bind(values, "t", [t])

    def _sample_law(self, values: Values, k: str) -> None:
        c = self.state.code
        since = c.let(f"sub i64 {k}, {self.state.count('first')}")
        turn = c.let(f"srem i64 {since}, {self.state.count('law_every')}")
        c.fork(c.let(f"icmp eq i64 {turn}, 0"), "sample", "sampled")
        c.label("sample")
        self.state.write("held", self.state.emitter.emit(self.state.roots.law, dict(values)))
        c.label("sampled")

    def _predict(self, values: Values) -> None:
        """z extrapolated through the last steps, by a polynomial of degree up to 3; the guess before the first.

        The older terms are summed over whole vectors; the latest z is still in registers. Where one linear solution is
        enough it does not matter where it starts from: the guess, and no history.
        """
        c, n = self.state.code, self.state.layout.z
        if self._affine:
            self.state.store(self.state.z, self.state.emitter.emit(self.state.roots.guess, dict(values)))
            return
        known = self.state.count("known")
        c.fork(c.let(f"icmp eq i64 {known}, 0"), "guess", "extrapolate", False)
        c.label("guess")
        self.state.store(self.state.z, self.state.emitter.emit(self.state.roots.guess, dict(values)))
        c.go("iterate.start")
        c.label("extrapolate")
        row = self.state.stages.row(known)
        weights = [c.load(c.at(row, j)) for j in range(HISTORY)]
        for start, width in c.chunks(n):
            kind, terms = f"<{width} x double>", []
            for j in range(1, HISTORY):
                old = c.load(c.at(self.state.part["history"], j * n + start), kind)
                terms.append(c.let(f"fmul contract {kind} {c.broadcast(weights[j], 'double', width)}, {old}"))
            total = c.let(f"fadd contract {kind} {terms[0]}, {terms[1]}")
            total = c.let(f"fadd contract {kind} {total}, {terms[2]}")
            c.store(total, c.at(self.state.part["partial"], start), kind)
        for i, (z, w) in enumerate(zip(self.state.z, self.state.w, strict=True)):
            latest = c.let(f"fmul contract double {weights[0]}, {c.load(w)}")
            c.store(c.let(f"fadd contract double {latest}, {c.load(c.at(self.state.part['partial'], i))}"), z)
        c.label("iterate.start")

    def _accept(self, values: Values) -> None:
        c, r = self.state.code, self.state.roots
        c.label("accept")
        self.state.emitter.bind(values, "w", [c.load(x) for x in self.state.w])
        for name, slots in (("cut", self.state.cut), ("moved", self.state.moved)):
            for j, slot in slots.items():
                values[self.state.g.variable(name, j)] = c.load(slot)
        if r.overlap:
            negative = c.let(f"fcmp olt double {self.state.emitter.emit(r.overlap, values)[0]}, 0.0")
            c.fork(negative, "turned_back", "forwards", False)
            c.label("turned_back")
            self.state.fail(Outcome.CROSSED)
            c.label("forwards")
        if self.state.step.ends:
            cross(self.state, values)
        parts = {"q": r.new_q, "lost": r.new_lost, "s": r.new_s, "low": r.new_low}
        new = {name: self.state.emitter.emit(roots, values) for name, roots in parts.items()}
        last = self.state.stages.last()
        if last:
            c.fork(last, "whole", "part")
            c.label("part")
            for name, given in new.items():
                self.state.store(self.state.d[name], given)
            self._remember(history=not self._affine)
            c.go("step")
            c.label("whole")
        c.fork(self.state.all_finite([*new["q"], *new["s"]]), "finite", "not_finite", True)
        c.label("finite")
        if r.inside:
            c.fork(self.state.emitter.emit(r.inside, values)[0], "inside", "left_domain", True)
            c.label("left_domain")
            self.state.fail(Outcome.LEFT_DOMAIN)
            c.label("inside")
        if not self.state.step.ends:
            cross(self.state, values)
        if r.stop:
            stopped = self.state.emitter.emit(r.stop, values)[0]
            c.store(c.let(f"select i1 {stopped}, i64 {int(Outcome.STOPPED)}, i64 0"), self.state.i["code"], "i64")
        self.state.write("reduced", self.state.emitter.stored(r.new_reduced, values))
        count_turn(self.state, values)
        if self.state.step.ends:
            count_leap(self.state)
        for name in ("q", "s"):
            self.state.write(f"before_{name}", [c.load(x) for x in self.state.d[name]])
        for name, given in new.items():
            self.state.store(self.state.d[name], given)
        self._remember()
        self._save(values, new["q"])

    def _remember(self, history: bool = True) -> None:
        """Counters, statistics, and the history of z if it is read again."""
        c, n, past = self.state.code, self.state.layout.z, self.state.part["history"]
        turns = c.load(self.state.turns, "i64")
        self.state.add("iterations", turns)
        most = c.call("i64", "llvm.smax.i64", ("i64", self.state.count("max_iterations")), ("i64", turns))
        c.store(most, self.state.i["max_iterations"], "i64")
        c.store(c.maximum([c.load(self.state.size), c.load(self.state.part["residual"])]), self.state.part["residual"])
        for j in reversed(range(1, 1 if self._affine else HISTORY)):
            for start, width in c.chunks(n):
                kind = f"<{width} x double>"
                c.store(c.load(c.at(past, (j - 1) * n + start), kind), c.at(past, j * n + start), kind)
        for i, x in enumerate(self.state.w if history else ()):
            c.store(c.load(x), c.at(past, i))
        more = c.let(f"add i64 {self.state.count('known')}, 1")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", more), ("i64", str(HISTORY))), self.state.i["known"], "i64")
        self.state.add("k", "1")

    def _save(self, values: Values, q: list[str]) -> None:
        """A row where one is due, or where the run stops."""
        c, stop = self.state.code, bool(self.state.roots.stop)
        k, target = self.state.count("k"), self.state.count("target")
        due = c.let(f"icmp sge i64 {k}, {target}")
        stopped = c.let(f"icmp ne i64 {self.state.count('code')}, 0") if stop else "false"
        c.fork(c.let(f"or i1 {due}, {stopped}"), "save", "saved")
        c.label("save")
        self._write_row(values, q, k)
        later = c.let(f"add i64 {target}, {self.state.count('every')}")
        c.store(
            c.call("i64", "llvm.smin.i64", ("i64", later), ("i64", self.state.count("last"))), self.state.i["target"], "i64"
        )
        c.label("saved")
        if stop:
            c.fork(stopped, "leave", "step", False)
        else:
            c.go("step")

    def _write_row(self, values: Values, q: Sequence[str], k: str) -> None:
        c, row, r = self.state.code, self.state.layout.row, self.state.roots
        rows = self.state.count("rows")
        start = c.at("%rows", c.let(f"mul i64 {rows}, {row['k'][0] + 1}"))
        given = self.state.emitter.emit([*r.new_velocity, *r.multipliers, *r.force], values)
        held = self.state.read("held") if r.law else ["0.0"] * self.state.layout.n
        for i, value in enumerate([*q, *given, *held, c.let(f"sitofp i64 {k} to double")]):
            c.store(value, c.at(start, i))
        c.store(c.let(f"add i64 {rows}, 1"), self.state.i["rows"], "i64")
        c.store(k, self.state.i["saved"], "i64")

    def _finish(self) -> None:
        """A row for the last solved step, if the run ends and it has none yet; and the carry for the next call."""
        c = self.state.code
        c.label("leave")
        self._go_back(self.state.count("k"))
        k = self.state.count("k")
        unsaved = c.let(f"icmp sgt i64 {k}, {self.state.count('saved')}")
        ended = c.let(f"icmp ne i64 {self.state.count('code')}, 0")
        c.fork(c.let(f"and i1 {unsaved}, {ended}"), "last_row", "end", False)
        c.label("last_row")
        values = dict(self.state.run_values)
        self.state.emitter.bind(values, "w", self.state.read("history")[: self.state.layout.z])
        self._bind_time(values, c.let(f"sub i64 {k}, 1"), str(self.state.stages.number - 1))
        for name in ("q", "s"):
            self.state.emitter.bind(values, name, self.state.read(f"before_{name}"))
        for name, length in (
            ("low", self.state.layout.k),
            ("cut", self.state.layout.z),
        ):  # not kept: the last digit of this row's v
            self.state.emitter.bind(values, name, ["0.0"] * length)
        for j, i in self.state.origin.items():
            w, s = (values[self.state.g.variable(*x)] for x in (("w", j), ("s", i)))
            values[self.state.g.variable("moved", j)] = c.let(f"fsub double {w}, {s}")
        if self.state.roots.law and self.state.stages.number > 1:
            self.state.emitter.bind(values, "held", self.state.read("begin_held"))
        self._write_row(values, [c.load(x) for x in self.state.d["q"]], k)
        c.label("end")
        for name, slots in self.state.d.items():
            self.state.write(name, [c.load(x) for x in slots])
        for name in IN_REGISTERS:
            c.store(self.state.count(name), self.state.in_memory[name], "i64")
        c.line("ret void")
