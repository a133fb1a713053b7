"""The run as one function of machine code: predict, iterate, accept, save; until the last node or a failure.

Written once, over a frame: of one run, or of runs in lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dalembert.native.llvm.builder import module
from dalembert.native.llvm.emit import Values
from dalembert.native.stepper.arrays import HISTORY, LONG_HISTORY, SINCE, kept
from dalembert.native.stepper.convergence import Chord, is_close, is_tiny, judgement, keep_compensation, next_update
from dalembert.native.stepper.frame import Frame
from dalembert.native.stepper.linear_systems import Plan
from dalembert.native.stepper.pivoted import Pivoted
from dalembert.native.stepper.scalar_frame import ScalarFrame
from dalembert.native.stepper.stages import tables
from dalembert.native.stepper.watch import Crossing, count_leap, count_turn, report, watch_sign
from dalembert.outcome import Outcome


class StepCode:
    """Writes the function that advances a run, or runs in lanes. See Layout for the arrays."""

    def __init__(self, frame: Frame):
        self.frame, self.code, self.outputs, self.emit = frame, frame.code, frame.outputs, frame.emitter.emit

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        self._step()
        self.code.label("leave")
        if isinstance(self.frame, ScalarFrame):
            self._end(self.frame)
        self.frame.leave()
        return module(tables(self.frame.step), self.code.function(self.frame.signature), declared=self.code.declared)

    def _step(self) -> None:
        f, c, out = self.frame, self.code, self.outputs
        c.label("step")
        k = f.count("k")
        c.fork(c.let(f"icmp slt i64 {k}, {f.count('until')}"), "begin", "leave", True)
        c.label("begin")
        f.stages.begin()
        self._keep_beginning()
        values = dict(f.run_values)
        f.stages.load(values)
        self._bind_time(values, k, f.stages.now)
        for name in ("q", "s", "q_compensation", "s_compensation", "reduced"):
            f.emitter.bind(values, name, f.read(name))
        if out.law:
            self._sample_law(values, k)
            f.emitter.bind(values, "held_force", f.read("sampled"))
        self._predict(values)
        iterated = [*out.update, *out.check, *out.affine_update, *out.affine_check] if f.plan else [*out.f, *out.jacobian]
        f.emitter.hoist(iterated, values, f.step.level, 1)
        self._iterate(values)
        self._accept(values)

    def _keep_beginning(self) -> None:
        """The state where a step with stages begins."""
        f, c = self.frame, self.code
        if f.stages.number == 1:
            return
        c.fork(c.let(f"icmp eq i64 {f.stages.now}, 0"), "keep", "kept")
        c.label("keep")
        for name in SINCE:
            f.write(f"begin_{name}", f.read(name))
        f.write("begin_w", f.latest())
        c.label("kept")

    def _bind_time(self, values: Values, k: str, stage: str) -> None:
        """t and h of the stage."""
        f, c, stages = self.frame, self.code, self.frame.stages
        t = c.plus(f.t0, c.times(c.splat(stages.node(k)), f.h))
        if stages.number > 1:
            begin, gamma = (c.splat(stages.part(name, stage)) for name in ("begins", "gammas"))
            t = c.plus(t, c.times(begin, f.h))
            f.emitter.bind(values, "h", [c.times(gamma, f.h)])
        f.emitter.bind(values, "t", [t])

    def _sample_law(self, values: Values, k: str) -> None:
        """A new force at every so many nodes, held from here on once a step with it has been made."""
        f, c = self.frame, self.code
        since = c.let(f"sub i64 {k}, {f.count('first')}")
        turn = c.let(f"srem i64 {since}, {f.count('law_every')}")
        c.fork(c.let(f"icmp eq i64 {turn}, 0"), "sample", "sampled")
        c.label("sample")
        f.write("sampled", self.emit(self.outputs.law, dict(values)))
        c.label("sampled")

    def _predict(self, values: Values) -> None:
        """z extrapolated through the last steps, by a polynomial of degree up to 3, or 7 where that is the better one; the
        guess before the first.

        Where one linear solution is enough it does not matter where it starts from: the guess, and no history.
        """
        f, c = self.frame, self.code
        if f.once:
            f.store(f.z, self.emit(self.outputs.guess, dict(values)))
            return
        known = f.count("known")
        c.fork(c.let(f"icmp eq i64 {known}, 0"), "guess", "extrapolate", False)
        c.label("guess")
        f.store(f.z, self.emit(self.outputs.guess, dict(values)))
        c.go("iterate.start")
        c.label("extrapolate")
        if kept(f.stages.number) == LONG_HISTORY:
            c.fork(c.let(f"icmp eq i64 {known}, {LONG_HISTORY}"), "refine", "begin.extrapolate", True)
            c.label("refine")
            f.extrapolate_refined()
            c.go("iterate.start")
            c.label("begin.extrapolate")
        row = f.stages.row(known)
        f.extrapolate([c.splat(c.load(c.at(row, j), "double")) for j in range(HISTORY)])
        c.label("iterate.start")

    def _iterate(self, values: Values) -> None:
        """Newton's iteration z ← w = z - F′(z)⁻¹F(z), until the update is small; goes on at "accept"."""
        f, c = self.frame, self.code
        f.begin_iteration()
        c.label("iterate")
        inner, z = dict(values), f.loaded(f.z)
        f.emitter.bind(inner, "z", z)
        f.count_iteration()
        if f.plan is not None:
            self._direct(f.plan, inner, values, z)
        if isinstance(f, ScalarFrame):
            Pivoted(f, inner, values, z).write()
        c.label("accept")

    def _direct(self, plan: Plan, inner: Values, values: Values, z: Sequence[str]) -> None:
        """By the written-out elimination. The affine unknowns stay as predicted until the others are solved."""
        f, c, out, iterated = self.frame, self.code, self.outputs, sorted(plan.nonlinear.columns)
        *update, check = self.emit([*out.update, *out.check], inner)
        self._check(plan, update, f.trusted(check))
        last = Chord(f, plan, inner, values, z=z, first=dict(zip(iterated, update, strict=True)))
        w = last.w
        f.store(f.w, w)
        if not plan.once:
            small, near = judgement(f, values, last.first, w)
            f.note_divergence(near)
            if out.ends_with_chord:
                tiny, close = (test(f, values, last.first, w) for test in (is_tiny, is_close))
                f.finish(small, tiny, close, last)
            else:
                f.require_convergence(small)
            if plan.judged:
                f.require_convergence(judgement(f, values, next_update(f, plan, inner, values, w)[0], w)[0])
            f.repeat(z, w)
        if out.ends_with_chord:
            f.conclude(last)
            w = f.loaded(f.w)
        else:
            last.keep()
        known = dict(values)
        if plan.affine.rows:
            self._solve_affine(plan, known, w)
        report(f, plan, dict(inner), known)
        c.go("accept")

    def _check(self, plan: Plan, update: Sequence[str], check: str) -> None:
        """Whether the pivots were good ones, and the update is finite."""
        c = self.code
        check = c.plus(check, c.vanishing(update))
        self.frame.require_solution(c.compare("ole", check, c.constant(plan.growth)))

    def _solve_affine(self, plan: Plan, known: Values, w: Sequence[str]) -> None:
        """The unknowns that follow linearly from the others, starting from the predicted ones."""
        f, c, out, columns = self.frame, self.code, self.outputs, sorted(plan.affine.columns)
        f.emitter.bind(known, "z", w)
        *update, check = self.emit([*out.affine_update, *out.affine_check], known)
        self._check(plan, update, check)
        solved = [c.minus(w[j], x) for j, x in zip(columns, update, strict=True)]
        f.store([f.w[j] for j in columns], solved)
        keep_compensation(f, w, dict(zip(columns, solved, strict=True)), dict(zip(columns, update, strict=True)))

    def _accept(self, values: Values) -> None:
        """The new state, if nothing ends the run; domain and stop are read where a step with stages ends."""
        f, c, out, found = self.frame, self.code, self.outputs, None
        f.emitter.bind(values, "w", f.loaded(f.w))
        for name, slots in (("w_compensation", f.compensation), ("increment", f.increments)):
            values |= {f.step.graph.variable(name, j): c.load(slot) for j, slot in slots.items()}
        if out.overlap:
            f.require(c.compare("uge", self.emit(out.overlap, values)[0], c.constant(0.0)), Outcome.CROSSED)
        if f.step.ends:
            found = watch_sign(f, values)
            f.require(c.negated(found.crossed), Outcome.CROSSED)
        parts = {
            "q": out.new_q,
            "q_compensation": out.new_q_compensation,
            "s": out.new_s,
            "s_compensation": out.new_s_compensation,
        }
        new = {name: self.emit(outputs, values) for name, outputs in parts.items()}
        last = f.stages.last()
        if last:
            c.fork(last, "whole", "part")
            c.label("part")
            f.commit()
            self._advance(new, found, whole=False)
            c.go("step")
            c.label("whole")
        f.require(c.compare("oeq", c.vanishing([*new["q"], *new["s"]]), c.constant(0.0)), Outcome.NOT_FINITE)
        if out.inside:
            f.require(self.emit(out.inside, values)[0], Outcome.LEFT_DOMAIN)
        if out.stop:
            f.stop(self.emit(out.stop, values)[0])
        f.commit()
        for name in ("q", "s"):
            f.write(f"before_{name}", f.read(name))
            f.emitter.bind(values, f"after_{name}", new[name])
        self._count(values, found)
        if out.law:
            f.write("held_force", f.read("sampled"))
        self._advance(new, found, whole=True)
        self._save(values, new["q"])

    def _count(self, values: Values, found: Crossing | None) -> None:
        """What is counted and reduced of whole steps; a crossing, where it does not end the run."""
        f = self.frame
        if found is None:
            found = watch_sign(f, values)
            f.add("crossings", f.code.counted(found.crossed))
            f.write_sign(found.sign)
        f.write("reduced", f.emitter.stored(self.outputs.new_reduced, values))
        count_turn(f, values)
        if self.outputs.astray:  # determinants of steps of different lengths are not to be compared
            f.add("leaps", f.code.counted(self.emit(self.outputs.astray, values)[0]))
        elif f.step.ends:
            count_leap(f)

    def _advance(self, new: dict[str, list[str]], found: Crossing | None, whole: bool) -> None:
        """To the new state: after a whole step, or after one of its stages."""
        f, c = self.frame, self.code
        if found is not None:
            f.write_sign(found.sign)
        for name, given in new.items():
            f.write(name, given)
        iterations = c.load(f.iterations, c.whole)
        f.add("iterations", iterations)
        f.set_count("max_iterations", c.whole_intrinsic("smax", f.count("max_iterations"), iterations))
        f.write("residual", [c.maximum([c.load(f.size), *f.read("residual")])])
        if whole or not f.once:
            f.remember()
        more = c.let(f"add i64 {f.count('known')}, 1")
        f.set_count("known", c.call("i64", "llvm.smin.i64", ("i64", more), ("i64", str(kept(f.stages.number)))))
        f.add("k", "1")
        f.stages.advance(whole)

    def _save(self, values: Values, q: Sequence[str]) -> None:
        """A row where one is due, or where the run stops."""
        f, c = self.frame, self.code
        k, target, stopped = f.count("k"), f.count("target"), f.stopped()
        due = c.let(f"icmp sge i64 {k}, {target}")
        c.fork(c.let(f"or i1 {due}, {stopped}") if stopped else due, "save", "saved")
        c.label("save")
        self._write_row(values, q, k)
        later = c.let(f"add i64 {target}, {f.count('every')}")
        f.set_count("target", c.call("i64", "llvm.smin.i64", ("i64", later), ("i64", f.count("last"))))
        c.label("saved")
        if stopped:
            c.fork(stopped, "leave", "step", False)
        else:
            c.go("step")

    def _write_row(self, values: Values, q: Sequence[str], k: str) -> None:
        f, c, out = self.frame, self.code, self.outputs
        given = self.emit([*out.new_velocity, *out.multipliers, *out.force, *out.clock], values)
        given, clock = given[: len(given) - len(out.clock)], given[len(given) - len(out.clock) :]
        held_force = f.read("held_force") if out.law else [c.constant(0.0)] * f.layout.n
        f.write_row([*q, *given, *held_force, *clock, c.splat(c.let(f"sitofp i64 {k} to double"))])
        f.add("rows", "1")
        f.set_count("saved", k)

    def _end(self, f: ScalarFrame) -> None:
        """A row for the last solved step, if the run ends and it has none yet."""
        c = self.code
        f.go_back()
        k = f.count("k")
        unsaved = c.let(f"icmp sgt i64 {k}, {f.count('saved')}")
        c.fork(c.let(f"and i1 {unsaved}, {f.ended()}"), "last_row", "end", False)
        c.label("last_row")
        values = dict(f.run_values)
        f.emitter.bind(values, "w", f.read("history")[: f.layout.z])
        self._bind_time(values, c.let(f"sub i64 {k}, 1"), str(f.stages.number - 1))
        for name in ("q", "s"):
            f.emitter.bind(values, name, f.read(f"before_{name}"))
        for name, length in (
            ("s_compensation", f.layout.k),
            ("w_compensation", f.layout.z),
        ):  # not kept: the last digit of this row's v
            f.emitter.bind(values, name, ["0.0"] * length)
        for j, i in f.origin.items():
            w, s = (values[f.step.graph.variable(*x)] for x in (("w", j), ("s", i)))
            values[f.step.graph.variable("increment", j)] = c.minus(w, s)
        if self.outputs.law:
            f.emitter.bind(values, "held_force", f.read("held_force"))
        self._write_row(values, f.read("q"), k)
        c.label("end")
