"""The run in lanes: W trajectories side by side in vectors, each with its own outcome.

Lanes share the node index. A lane that needs more than the written-out elimination - a pivot fails its check, a number is
not finite, Newton's iteration does not end, the domain is left, a singularity is crossed, the run is stopped - is written
back as it was before that step, and masked; the scalar run takes it from there. No lane's arithmetic depends on another
lane: an iterate that has converged is kept while others go on, so that its last evaluation is repeated bit by bit.
"""

from __future__ import annotations

from dalembert.native.llvm.builder import module
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.arrays import COUNTS, HISTORY, SINCE, Layout
from dalembert.native.stepper.lane_frame import LaneState
from dalembert.native.stepper.lane_iterate import LaneIteration
from dalembert.native.stepper.linear_systems import Plan, Roots
from dalembert.native.stepper.stages import tables
from dalembert.native.stepper.step import Translated
from dalembert.native.stepper.watch import determinant, leaped


class Lanes:
    """Writes @lanes(ptr carry, count, inputs, rows, i64 lanes, i64 inputs_stride, i64 rows_stride, i64 from, i64 until).

    Arrays as in Layout, one after the other for each lane; a stride of 0 shares the inputs. Of the first `lanes` lanes
    those without outcome at node `from` are advanced to node `until`.
    """

    def __init__(self, step: Translated, layout: Layout, roots: Roots, plan: Plan, width: int):
        self.state = LaneState(step, layout, roots, plan, width)
        self.iteration = LaneIteration(self.state)

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        self._step()
        self._finish()
        arrays = ", ".join(f"ptr noalias %{name}" for name in ("carry", "count", "inputs", "rows"))
        numbers = ", ".join(f"i64 %{name}" for name in ("lanes", "inputs_stride", "rows_stride", "from", "until"))
        # Without the attribute LLVM splits vectors where the processor prefers narrower ones.
        head = f'define void @lanes({arrays}, {numbers}) nounwind "min-legal-vector-width"="{64 * self.state.code.width}"'
        return module(tables(self.state.step), self.state.code.function(head), declared=self.state.code.declared)

    def _step(self) -> None:
        c = self.state.code
        c.label("step")
        k = self.state.number("k")
        c.fork(c.let(f"icmp slt i64 {k}, %until"), "begin", "leave", True)
        c.label("begin")
        self._begin(k)
        values = dict(self.state.run_values)
        self._bind_time(values, k)
        for name in ("q", "s", "lost", "low", "reduced"):
            self.state.emitter.bind(values, name, self.state.read(name))
        if self.state.roots.law:
            self._sample_law(values, k)
            self.state.emitter.bind(values, "held", self.state.read("held"))
        self._predict(values)
        r = self.state.roots
        self.state.emitter.hoist([*r.update, *r.check, *r.tail_update, *r.tail_check], values, self.state.step.level, 1)
        inner = self.iteration.iterate(values)
        tail_pivots = self.iteration.solve_tail(values) if self.state.plan.tail.rows else []
        self._accept(values, inner, tail_pivots)

    def _begin(self, k: str) -> None:
        """Keep the state where a step with stages begins."""
        c, stages, state = self.state.code, self.state.stages, self.state
        stages.now = stages.of(k)
        if stages.number == 1:
            return
        c.fork(c.let(f"icmp eq i64 {stages.now}, 0"), "begin.keep", "begin.kept")
        c.label("begin.keep")
        for name in SINCE:
            state.store(state.part[f"begin_{name}"], state.read(name))
        latest, row = state.part["begin_w"], state.history()[0]
        for i, column in enumerate(sorted(state.plan.head.columns)):
            c.store(c.load(c.at(row, i, c.real)), latest[column])
        for column, slot in state.latest.items():
            c.store(c.load(slot), latest[column])
        c.label("begin.kept")

    def _bind_time(self, values: Values, k: str) -> None:
        """t and h of the stage."""
        c, stages = self.state.code, self.state.stages
        since = c.let(f"fmul {c.real} {c.broadcast(stages.node(k), 'double')}, {self.state.h}")
        t = c.let(f"fadd {c.real} {self.state.t0}, {since}")
        if stages.number > 1:
            parts = {name: c.broadcast(stages.part(name, stages.now), "double") for name in ("begins", "gammas")}
            begin, h = (c.let(f"fmul {c.real} {parts[name]}, {self.state.h}") for name in ("begins", "gammas"))
            t = c.let(f"fadd {c.real} {t}, {begin}")
            self.state.emitter.bind(values, "h", [h])
        self.state.emitter.bind(values, "t", [t])

    def _sample_law(self, values: Values, k: str) -> None:
        c = self.state.code
        since = c.let(f"sub i64 {k}, {self.state.fixed['first']}")
        turn = c.let(f"srem i64 {since}, {self.state.fixed['law_every']}")
        c.fork(c.let(f"icmp eq i64 {turn}, 0"), "sample", "sampled")
        c.label("sample")
        self.state.store(self.state.part["held"], self.state.emitter.emit(self.state.roots.law, dict(values)))
        c.label("sampled")

    def _predict(self, values: Values) -> None:
        """The head extrapolated through the last steps, by a polynomial of degree up to 3; the guess before the first."""
        c = self.state.code
        if self.state.plan.affine:  # any start will do
            self.state.store(self.state.z, self.state.emitter.emit(self.state.roots.guess, dict(values)))
            return
        known = self.state.number("known")
        c.fork(c.let(f"icmp eq i64 {known}, 0"), "guess", "extrapolate", False)
        c.label("guess")
        self.state.store(self.state.z, self.state.emitter.emit(self.state.roots.guess, dict(values)))
        c.go("iterate.start")
        c.label("extrapolate")
        row = self.state.stages.row(known)
        weights = [c.broadcast(c.load(c.at(row, j, "double"), "double"), "double") for j in range(HISTORY)]
        history = self.state.history()
        for i, column in enumerate(sorted(self.state.plan.head.columns)):
            value = None
            for j in reversed(range(HISTORY)):
                term = c.let(f"fmul contract {c.real} {weights[j]}, {c.load(c.at(history[j], i, c.real))}")
                value = c.let(f"fadd contract {c.real} {value}, {term}") if value else term
            c.store(value or "", self.state.z[column])
        for column, slot in self.state.latest.items():
            c.store(c.load(slot), self.state.z[column])
        c.label("iterate.start")

    def _accept(self, values: Values, inner: Values, tail_pivots: list[str]) -> None:
        c, r, emit = self.state.code, self.state.roots, self.state.emitter.emit
        size = c.constant(0.0) if self.state.plan.affine else emit(r.size, inner, fast=True)[0]
        pivots = [] if r.factor else [*emit(r.pivots, inner), *tail_pivots]
        self.state.emitter.bind(values, "w", [c.load(x) for x in self.state.w])
        for name, slots in (("cut", self.state.cut), ("moved", self.state.moved)):
            for j, slot in slots.items():
                values[self.state.step.graph.variable(name, j)] = c.load(slot)
        parts = {"q": r.new_q, "lost": r.new_lost, "s": r.new_s, "low": r.new_low}
        new = {name: emit(roots, values) for name, roots in parts.items()}
        good = c.load(self.state.good, c.truth)
        last = self.state.stages.last()
        sign, crossed = self._crossed(values, pivots, last)
        for passed in self._conditions(values, [*new["q"], *new["s"]], last, crossed):
            good = c.let(f"and {c.truth} {good}, {passed}")
        alive = c.load(self.state.alive, c.truth)
        out = c.let(f"and {c.truth} {alive}, {c.let(f'xor {c.truth} {good}, {c.constant(True)}')}")
        c.store(out, self.state.out, c.truth)
        c.fork(c.some(out), "write", "keep", False)
        c.label("keep")
        reduced = self.state.emitter.stored(r.new_reduced, values)
        if last and reduced:
            pairs = zip(reduced, self.state.read("reduced"), strict=True)
            reduced = [c.let(f"select i1 {last}, {c.real} {new}, {c.real} {old}") for new, old in pairs]
        self.state.store(self.state.part["reduced"], reduced)
        self._count(values, sign, crossed, last)
        if self.state.step.ends:
            self._count_leap(pivots, last)
        (residual,) = self.state.part["residual"]
        c.store(c.maximum([size, c.load(residual)]), residual)
        for name in ("q", "s"):
            self.state.store(self.state.part[f"before_{name}"], self.state.read(name))
        for name, given in new.items():
            self.state.store(self.state.part[name], given)
        self._remember()
        self._save(values, new["q"])

    def _conditions(self, values: Values, numbers: list[str], last: str | None, crossed: str) -> list[str]:
        """Truth values that hold where the step is an ordinary one; domain and stop are read at the end of its stages."""
        c, r = self.state.code, self.state.roots
        always = [c.let(f"fcmp oeq {c.real} {c.vanishing(numbers)}, {c.constant(0.0)}")]
        if r.overlap:
            always.append(c.let(f"fcmp uge {c.real} {self.state.emitter.emit(r.overlap, values)[0]}, {c.constant(0.0)}"))
        if self.state.step.ends:
            always.append(c.let(f"xor {c.truth} {crossed}, {c.constant(True)}"))
        stopped = [c.let(f"xor {c.truth} {x}, {c.constant(True)}") for x in self.state.emitter.emit(r.stop, values)]
        users = [*self.state.emitter.emit(r.inside, values), *stopped]
        if last:
            users = [c.let(f"select i1 {last}, {c.truth} {x}, {c.truth} {c.constant(True)}") for x in users]
        return [*always, *users]

    def _crossed(self, values: Values, pivots: list[str], last: str | None) -> tuple[str, str]:
        """The sign of the factor or of the determinant, and whether it is another than before.

        It is watched in every stage where a change ends the run, otherwise at the end of a step: 0 is no sign.
        """
        c, zero, back = self.state.code, self.state.code.constant(0.0), self.state.stages.backwards()
        old, *other = self.state.read("sign")
        if back:
            old = c.let(f"select i1 {back}, {c.real} {other[0]}, {c.real} {old}")
        now = (
            self.state.emitter.sign(self.state.emitter.emit(self.state.roots.factor, values)[0])
            if self.state.roots.factor
            else self._sign(pivots)
        )
        if last and not self.state.step.ends:
            now = c.let(f"select i1 {last}, {c.real} {now}, {c.real} {zero}")
        return now, c.let(f"fcmp olt {c.real} {c.let(f'fmul {c.real} {now}, {old}')}, {zero}")

    def _count(self, values: Values, sign: str, crossed: str, last: str | None) -> None:
        """Crossings that do not end the run, and steps that turned the velocity by more than a right angle."""
        c, zero, back = self.state.code, self.state.code.constant(0.0), self.state.stages.backwards()
        if not self.state.step.ends:
            self.state.add("crossings", c.let(f"zext {c.truth} {crossed} to {c.whole}"))
        none = c.let(f"fcmp oeq {c.real} {sign}, {zero}")
        for slot, other in zip(self.state.part["sign"], ("true", "false"), strict=False):
            old = c.load(slot)
            new = c.let(f"select {c.truth} {none}, {c.real} {old}, {c.real} {sign}")
            there = c.let(f"icmp eq i1 {back}, {other}") if back else None
            c.store(c.let(f"select i1 {there}, {c.real} {old}, {c.real} {new}") if there else new, slot)
        if last:
            self.state.emitter.bind(values, "since", self.state.read("begin_s"))
        turned = c.let(f"fcmp olt {c.real} {self.state.emitter.emit(self.state.roots.turned, values)[0]}, {zero}")
        if last:
            turned = c.let(f"and {c.truth} {c.broadcast(last, 'i1')}, {turned}")
        self.state.add("turns", c.let(f"zext {c.truth} {turned} to {c.whole}"))

    def _count_leap(self, pivots: list[str], last: str | None) -> None:
        """Of whole steps only, as in the scalar run."""
        c, (slot,) = self.state.code, self.state.part["determinant"]
        old, new = c.load(slot), determinant(c, pivots)
        leap = leaped(c, old, new)
        if last:
            leap = c.let(f"and {c.truth} {c.broadcast(last, 'i1')}, {leap}")
            new = c.let(f"select i1 {last}, {c.real} {new}, {c.real} {old}")
        self.state.add("leaps", c.let(f"zext {c.truth} {leap} to {c.whole}"))
        c.store(new, slot)

    def _sign(self, pivots: list[str]) -> str:
        """The determinant's sign."""
        c = self.state.code
        bits = f"splat (i64 {-1 if self.state.plan.parity else 0})"
        for pivot in pivots:
            bits = c.let(f"xor {c.whole} {bits}, {c.let(f'bitcast {c.real} {pivot} to {c.whole}')}")
        negative = c.let(f"icmp slt {c.whole} {bits}, zeroinitializer")
        return c.let(f"select {c.truth} {negative}, {c.real} {c.constant(-1.0)}, {c.real} {c.constant(1.0)}")

    def _remember(self) -> None:
        """Counters, and the history of z."""
        c = self.state.code
        turns, most = c.load(self.state.turns, c.whole), self.state.own["max_iterations"]
        self.state.add("iterations", turns)
        larger = c.call(c.whole, f"llvm.smax.v{c.width}i64", (c.whole, c.load(most, c.whole)), (c.whole, turns))
        c.store(larger, most, c.whole)
        if not self.state.plan.affine:
            more = c.let(f"add i64 {c.load(self.state.newest, 'i64')}, 1")
            place = c.let(f"and i64 {more}, {HISTORY - 1}")
            c.store(place, self.state.newest, "i64")
        row = self.state.history()[0]
        for i, column in enumerate(sorted(self.state.plan.head.columns)):
            c.store(c.load(self.state.w[column]), c.at(row, i, c.real))
        for column, slot in self.state.latest.items():
            c.store(c.load(self.state.w[column]), slot)
        known = c.let(f"add i64 {self.state.number('known')}, 1")
        c.store(c.call("i64", "llvm.smin.i64", ("i64", known), ("i64", str(HISTORY))), self.state.shared["known"], "i64")
        c.store(c.let(f"add i64 {self.state.number('k')}, 1"), self.state.shared["k"], "i64")

    def _save(self, values: Values, q: list[str]) -> None:
        """A row where one is due."""
        c, r, row = self.state.code, self.state.roots, self.state.layout.row
        k, target = self.state.number("k"), self.state.number("target")
        c.fork(c.let(f"icmp sge i64 {k}, {target}"), "save", "step")
        c.label("save")
        rows = self.state.number("rows")
        start = c.let(f"mul i64 {rows}, {row['k'][0] + 1}")
        at = c.let(f"getelementptr double, <{c.width} x ptr> {self.state.rows}, i64 {start}")
        given = self.state.emitter.emit([*r.new_velocity, *r.multipliers, *r.force], values)
        held = self.state.read("held") if r.law else [c.constant(0.0)] * self.state.layout.n
        index = c.broadcast(c.let(f"sitofp i64 {k} to double"), "double")
        alive = c.load(self.state.alive, c.truth)
        for i, value in enumerate([*q, *given, *held, index]):
            self.state.scatter(value, at, i, "double", alive)
        c.store(c.let(f"add i64 {rows}, 1"), self.state.shared["rows"], "i64")
        c.store(k, self.state.shared["saved"], "i64")
        later = c.let(f"add i64 {target}, {self.state.fixed['every']}")
        c.store(
            c.call("i64", "llvm.smin.i64", ("i64", later), ("i64", self.state.fixed["last"])),
            self.state.shared["target"],
            "i64",
        )
        c.go("step")

    def _finish(self) -> None:
        """Write back the lanes in `out`, and go on with the others: the step that is under way is begun again."""
        c = self.state.code
        c.label("leave")
        c.store(c.load(self.state.alive, c.truth), self.state.out, c.truth)
        c.label("write")
        out = c.load(self.state.out, c.truth)
        for name, slots in self.state.part.items():
            for i, slot in enumerate(slots):
                self.state.scatter(c.load(slot), self.state.carry, self.state.layout.carry[name][0] + i, "double", out)
        self.state.write_history(out)
        for name, slot in self.state.shared.items():
            self.state.scatter(c.broadcast(c.load(slot, "i64"), "i64"), self.state.count, COUNTS.index(name), "i64", out)
        for name, slot in self.state.own.items():
            self.state.scatter(c.load(slot, c.whole), self.state.count, COUNTS.index(name), "i64", out)
        left = c.let(
            f"and {c.truth} {c.load(self.state.alive, c.truth)}, {c.let(f'xor {c.truth} {out}, {c.constant(True)}')}"
        )
        c.store(left, self.state.alive, c.truth)
        c.fork(c.some(left), "step", "end")
        c.label("end")
        c.line("ret void")
