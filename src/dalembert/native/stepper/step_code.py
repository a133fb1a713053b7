"""The run as one function of machine code: predict, iterate, accept, save; until the last node or a failure.

Written once, over a frame: of one run, or of runs in lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dalembert.algebra import DIVERGING
from dalembert.native.graph.graph import combine_pairs
from dalembert.native.llvm.builder import Code, Operand, intrinsic, module, where
from dalembert.native.llvm.dense import EXACT, NOT_FINITE, SOLVED
from dalembert.native.llvm.emit import OPERATORS, Values
from dalembert.native.stepper.arrays import HISTORY, LEAP, SINCE
from dalembert.native.stepper.frame import Frame, tables
from dalembert.native.stepper.linear_systems import Plan
from dalembert.outcome import Outcome

Updates = Mapping[int, Operand]  # by unknown


class StepCode:
    """Writes the function that advances a run, or runs in lanes. See Layout for the arrays."""

    def __init__(self, frame: Frame):
        self.frame, self.code, self.outputs, self.emit = frame, frame.code, frame.outputs, frame.emitter.emit

    def text(self) -> str:
        """The whole module as LLVM assembly."""
        self._step()
        self.code.label("leave")
        if self.code.width == 1:
            self._end(self.frame)
        self.frame.leave()
        return module(tables(self.frame.step), self.code.function(self.frame.signature), declared=self.code.declared)

    def _step(self) -> None:
        f, c, out = self.frame, self.code, self.outputs
        c.label("step")
        k = f.count("k")
        c.fork(k < f.count("until"), "begin", "leave", True)
        c.label("begin")
        f.stages.begin()
        self._keep_beginning()
        values = dict(f.run_values)
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
        f = self.frame
        if f.stages.number == 1:
            return
        with self.code.only_if(f.stages.now == 0):
            for name in SINCE:
                f.write(f"begin_{name}", f.read(name))
            f.write("begin_w", f.latest())

    def _bind_time(self, values: Values, k: Operand, stage: Operand) -> None:
        """t and h of the stage."""
        f, c, stages = self.frame, self.code, self.frame.stages
        t = f.t0 + c.broadcast(stages.node(k)) * f.h
        if stages.number > 1:
            begin, gamma = (c.broadcast(stages.part(name, stage)) for name in ("begins", "gammas"))
            t = t + begin * f.h
            f.emitter.bind(values, "h", [gamma * f.h])
        f.emitter.bind(values, "t", [t])

    def _sample_law(self, values: Values, k: Operand) -> None:
        """A new force at every so many nodes, held from here on once a step with it has been made."""
        f = self.frame
        with self.code.only_if((k - f.count("first")) % f.count("law_every") == 0):
            f.write("sampled", self.emit(self.outputs.law, dict(values)))

    def _predict(self, values: Values) -> None:
        """z extrapolated through the last steps, by a polynomial of degree up to 3, or 7 where that is the better one; the
        guess before the first. Where differences of stages are kept, it is these that are extrapolated.

        Where one linear solution is enough it does not matter where it starts from: the guess, and no history.
        """
        f, c = self.frame, self.code
        if f.once:
            f.store(f.z, self.emit(self.outputs.guess, dict(values)))
            return
        known = f.count("known")
        c.fork(known == 0, "guess", "extrapolate", False)
        c.label("guess")
        f.store(f.z, self.emit(self.outputs.guess, dict(values)))
        c.go("iterate.start")
        c.label("extrapolate")
        if f.layout.history > HISTORY:
            c.fork(known == f.layout.history, "refine", "begin.extrapolate", True)
            c.label("refine")
            (f.refine_stage if f.layout.by_stage else f.extrapolate_refined)()
            c.go("iterate.start")
            c.label("begin.extrapolate")
        row = f.stages.row(known)
        f.extrapolate([c.broadcast(row[j]) for j in range(HISTORY)])
        c.label("iterate.start")

    def _iterate(self, values: Values) -> None:
        """Newton's iteration z ← w = z - F′(z)⁻¹F(z), until the update is small; goes on at "accept"."""
        f, c = self.frame, self.code
        f.begin_iteration()
        c.label("iterate")
        inner, z = dict(values), f.load_all(f.z)
        f.emitter.bind(inner, "z", z)
        f.count_iteration()
        if f.plan is not None:
            self._direct(f.plan, inner, values, z)
        if c.width == 1:
            Pivoted(f, inner, values, z).write_solution()
        c.label("accept")

    def _direct(self, plan: Plan, inner: Values, values: Values, z: Sequence[Operand]) -> None:
        """By the written-out elimination. The affine unknowns stay as predicted until the others are solved."""
        f, c, out, iterated = self.frame, self.code, self.outputs, sorted(plan.nonlinear.columns)
        *update, check = self.emit([*out.update, *out.check], inner)
        self._check_update(plan, update, f.trust(check))
        updates = dict(zip(iterated, update, strict=True))
        w = [x - updates[j] if j in updates else x for j, x in enumerate(z)]
        f.store(f.w, w)
        if not plan.once:
            small, near = judgement(f, values, updates, w)
            f.note_divergence(near)
            f.require_convergence(small)
            if plan.judged:
                f.require_convergence(judgement(f, values, next_update(f, plan, inner, values, w), w)[0])
            f.repeat(z, w)
        keep_compensation(f, z, dict(enumerate(w)), updates)
        known = dict(values)
        if plan.affine.rows:
            self._solve_affine(plan, known, w)
        report(f, plan, dict(inner), known)
        c.go("accept")

    def _check_update(self, plan: Plan, update: Sequence[Operand], check: Operand) -> None:
        """Require that the pivots were good ones, and that the update is finite."""
        self.frame.require_solution(check + self.code.vanishing(update) <= plan.growth)

    def _solve_affine(self, plan: Plan, known: Values, w: Sequence[Operand]) -> None:
        """The unknowns that follow linearly from the others, starting from the predicted ones."""
        f, out, columns = self.frame, self.outputs, sorted(plan.affine.columns)
        f.emitter.bind(known, "z", w)
        *update, check = self.emit([*out.affine_update, *out.affine_check], known)
        self._check_update(plan, update, check)
        solved = [w[j] - x for j, x in zip(columns, update, strict=True)]
        f.store([f.w[j] for j in columns], solved)
        keep_compensation(f, w, dict(zip(columns, solved, strict=True)), dict(zip(columns, update, strict=True)))

    def _accept(self, values: Values) -> None:
        """The new state, if nothing ends the run; domain and stop are read where a step with stages ends."""
        f, c, out, found = self.frame, self.code, self.outputs, None
        f.emitter.bind(values, "w", f.load_all(f.w))
        values |= {f.step.graph.variable("w_compensation", j): slot[0] for j, slot in f.compensation.items()}
        if out.overlap:
            f.require(~(self.emit(out.overlap, values)[0] < 0.0), Outcome.CROSSED)
        if f.step.ends:
            found = watch_sign(f, values)
            f.require(~found.crossed, Outcome.CROSSED)
        parts = {
            "q": out.new_q,
            "q_compensation": out.new_q_compensation,
            "s": out.new_s,
            "s_compensation": out.new_s_compensation,
        }
        new = {name: self.emit(outputs, values) for name, outputs in parts.items()}
        last = f.stages.last()
        if last is not None:
            c.fork(last, "whole", "part")
            c.label("part")
            f.commit()
            self._advance(new, found, whole=False)
            c.go("step")
            c.label("whole")
        f.require(f.all_finite([*new["q"], *new["s"]]), Outcome.NOT_FINITE)
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
        """Update the counts and the reductions of whole steps; count a crossing where it does not end the run."""
        f = self.frame
        if found is None:
            found = watch_sign(f, values)
            f.add("crossings", found.crossed.convert("i64"))
            f.write_sign(found.sign)
        f.write("reduced", f.emitter.emit_doubles(self.outputs.new_reduced, values))
        count_turn(f, values)
        if self.outputs.astray:  # determinants of steps of different lengths are not to be compared
            f.add("leaps", self.emit(self.outputs.astray, values)[0].convert("i64"))
        elif f.step.ends:
            count_leap(f)

    def _advance(self, new: dict[str, list[Operand]], found: Crossing | None, whole: bool) -> None:
        """To the new state: after a whole step, or after one of its stages."""
        f = self.frame
        if found is not None:
            f.write_sign(found.sign)
        for name, given in new.items():
            f.write(name, given)
        iterations = f.iterations[0]
        f.add("iterations", iterations)
        f.set_count("max_iterations", intrinsic("smax", f.count("max_iterations"), iterations))
        f.write("residual", [self.code.maximum([f.size[0], *f.read("residual")])])
        if whole or not f.once:
            f.remember()
        f.set_count("known", intrinsic("smin", f.count("known") + 1, f.layout.history))
        f.add("k", 1)
        f.stages.advance(whole)

    def _save(self, values: Values, q: Sequence[Operand]) -> None:
        """A row where one is due, or where the run stops."""
        f, c = self.frame, self.code
        k, target, stop = f.count("k"), f.count("target"), f.stop_flag()
        due = k >= target
        with c.only_if(due if stop is None else due | stop):
            self._write_row(values, q, k)
            f.set_count("target", intrinsic("smin", target + f.count("every"), f.count("last")))
        if stop is None:
            c.go("step")
        else:
            c.fork(stop, "leave", "step", False)

    def _write_row(self, values: Values, q: Sequence[Operand], k: Operand) -> None:
        f, c, out = self.frame, self.code, self.outputs
        given = self.emit([*out.new_velocity, *out.multipliers, *out.force, *out.clock], values)
        given, clock = given[: len(given) - len(out.clock)], given[len(given) - len(out.clock) :]
        held_force = f.read("held_force") if out.law else [c.number(0.0)] * f.layout.held
        f.write_row([*q, *given, *held_force, *clock, c.broadcast(k.convert("double"))])
        f.add("rows", 1)
        f.set_count("saved", k)

    def _end(self, f: Frame) -> None:
        """A row for the last solved step, if the run ends and it has none yet."""
        c = self.code
        f.go_back()
        k = f.count("k")
        with c.only_if((k > f.count("saved")) & f.has_outcome(), likely=False):
            values = dict(f.run_values)
            f.emitter.bind(values, "w", f.read("history")[: f.layout.z])
            self._bind_time(values, k - 1, c.number(f.stages.number - 1))
            for name in ("q", "s"):
                f.emitter.bind(values, name, f.read(f"before_{name}"))
            for name, length in (
                ("s_compensation", f.layout.k),
                ("w_compensation", f.layout.z),
            ):  # not kept: the last digit of this row's v
                f.emitter.bind(values, name, [c.number(0.0)] * length)
            if self.outputs.law:
                f.emitter.bind(values, "held_force", f.read("held_force"))
            self._write_row(values, f.read("q"), k)


def judgement(f: Frame, values: Values, update: Updates, w: Sequence[Operand]) -> tuple[Operand, Operand]:
    """Conditions that every tested |update_i| is ≤ tolerance · scale_i at the new w, and ≤ DIVERGING · scale_i."""
    small, near = f.code.number(True), f.code.number(True)
    inside, groups = dict(values), dict[int, list[Operand]]()  # by the scale
    f.emitter.bind(inside, "w", w)
    for j, value in update.items():
        if f.step.graph.value(f.outputs.scale[j]) != float("inf"):
            groups.setdefault(f.outputs.scale[j], []).append(abs(value))
    for node, sizes in groups.items():
        largest, (scale,) = f.code.maximum(sizes), f.emitter.emit([node], inside, fast=True)
        small, near = small & (largest <= scale * f.tolerance), near & (largest <= scale * DIVERGING)
    return small, near


def next_update(f: Frame, plan: Plan, inner: Values, values: Values, w: Sequence[Operand]) -> Updates:
    """The update from w with the Jacobian at z, where `inner` is, by unknown."""
    there, again, rows = dict(values), dict(inner), sorted(plan.nonlinear.rows)
    f.emitter.bind(there, "z", w)
    residual = f.emitter.emit([f.outputs.f[i] for i in rows], there)
    again |= {f.step.graph.variable("again", i): value for i, value in zip(rows, residual, strict=True)}
    update = f.emitter.emit(f.outputs.following, again)
    return dict(zip(sorted(plan.nonlinear.columns), update, strict=True))


def keep_compensation(f: Frame, z: Sequence[Operand], w: Updates, update: Updates) -> None:
    """Store what rounding has cut off w = z - update: exact, because the update is smaller than z."""
    for j in sorted(f.compensation.keys() & update.keys()):
        f.compensation[j][0] = (z[j] - w[j]) - update[j]


def report(f: Frame, plan: Plan, inner: Values, known: Values) -> None:
    """Scaled residual, sign and size of the determinant of the last evaluation, from the written-out elimination.

    inner: values at the iterate; known: those at the solution of the nonlinear unknowns. Where one evaluation solves
    them, what is left is not evaluated: it counts as zero.
    """
    out, emit = f.outputs, f.emitter.emit
    f.size[0] = 0.0 if plan.once else emit(out.size, inner, fast=True)[0]
    if not out.factor:
        pivots = [*emit(out.pivots, inner), *emit(out.affine_pivots, known)]
        f.sign[0] = determinant_sign(f.code, pivots, plan.parity)
        if f.step.ends:
            f.determinant[0] = determinant(f.code, pivots)


class Crossing(NamedTuple):
    """The sign of a factor, or of the determinant, the last one if it is none; whether it changed."""

    sign: Operand
    crossed: Operand


def determinant(c: Code, pivots: Sequence[Operand]) -> Operand:
    """Its size, from the pivots of an elimination."""
    with c.using("contract"):
        return abs(combine_pairs(lambda a, b: a * b, list(pivots), c.number(1.0)))


def determinant_sign(c: Code, pivots: Sequence[Operand], odd: int) -> Operand:
    """1 or -1, from the signs of the pivots; odd: whether their order is an odd permutation."""
    bits = c.number(-1 if odd else 0)
    for pivot in pivots:
        bits = bits ^ pivot.cast("bitcast", "i64")
    return where(bits < 0, c.number(-1.0), 1.0)


def is_leap(before: Operand, after: Operand) -> Operand:
    """Condition that a determinant changed its size more than LEAP-fold; 0 stands for one that is not known."""
    grew = before < after
    low, high = where(grew, before, after), where(grew, after, before)
    return (low > 0.0) & (high > low * LEAP)


def watch_sign(f: Frame, values: Values) -> Crossing:
    """Crossing: a sign, and whether it changed since the last stage that went in the direction of this one: 0 is no sign."""
    old = f.read_sign()
    new = OPERATORS["sign"](*f.emitter.emit(f.outputs.factor, values)) if f.outputs.factor else f.sign[0]
    return Crossing(where(new == 0.0, old, new), new * old < 0.0)


def count_turn(f: Frame, values: Values) -> None:
    """Steps in which the velocity turned by more than a right angle."""
    if f.stages.number > 1:
        for name in ("q", "s"):
            f.emitter.bind(values, f"since_{name}", f.read(f"begin_{name}"))
    f.add("turns", (f.emitter.emit(f.outputs.turned, values)[0] < 0.0).convert("i64"))


def count_leap(f: Frame) -> None:
    """Of whole steps only: determinants of stages of different lengths are not to be compared."""
    (old,), new = f.read("determinant"), f.determinant[0]
    f.add("leaps", is_leap(old, new).convert("i64"))
    f.write("determinant", [new])


class Pivoted:
    """Writes the blocks "pivot", from which it goes to "accept", and "again", from which it goes to "iterate".

    inner: values at the iterate z; values: those of the step. pivoted: at the iterate, in "pivot" and what follows from it
    alone.
    """

    def __init__(self, frame: Frame, inner: Values, values: Values, z: Sequence[Operand]):
        self.frame, self.code = frame, frame.code
        self.inner, self.pivoted, self.values, self.z = inner, dict(inner), values, z

    def write_solution(self) -> None:
        f, c, report = self.frame, self.code, self.frame.part["report"]
        c.label("pivot")
        code = self._solution(f.emitter.emit(f.outputs.f, self.pivoted))
        f.add("slow", 1)
        for i, slot in enumerate((f.size, f.sign, f.determinant)):
            slot[0] = report[i]
        singular, not_finite = f.failure(Outcome.SINGULAR), f.failure(Outcome.NOT_FINITE)
        c.line(f"switch i64 {code}, label %{singular} [ i64 {SOLVED}, label %solved i64 {EXACT}, label %exact"
               f" i64 {NOT_FINITE}, label %{not_finite} ]")  # fmt: skip
        c.label("exact")
        f.store(f.w, self.z)
        for slot in f.compensation.values():
            slot[0] = 0.0
        c.go("accept")
        c.label("solved")
        self._judge_solution()
        self._again()

    def _judge_solution(self) -> None:
        """w = z - update; it is accepted if the update is small, and the one that follows on it where F may jump."""
        f, c = self.frame, self.code
        update = f.read("right")
        w = [a - b for a, b in zip(self.z, update, strict=True)]
        f.store(f.w, w)
        keep_compensation(f, self.z, dict(enumerate(w)), dict(enumerate(update)))
        f.require(f.all_finite(w), Outcome.NOT_FINITE)
        if not (f.step.linear and f.plan is not None):
            small, near = judgement(f, self.values, dict(enumerate(update)), w)
            f.note_divergence(near)
            f.require_convergence(small)
        if f.step.equations.may_jump(f.step.everything, f.step.everything):
            there = dict(self.values)
            f.emitter.bind(there, "z", w)
            code = self._solution(f.emitter.emit(f.outputs.f, there))
            c.line(f"switch i64 {code}, label %again [ i64 {SOLVED}, label %following i64 {EXACT}, label %accept ]")
            c.label("following")
            f.require_convergence(judgement(f, self.values, dict(enumerate(f.read("right"))), w)[0])
        c.go("accept")

    def _solution(self, right: Sequence[Operand]) -> Operand:
        """The system with the Jacobian at z, solved with pivoting; returns the code of the outcome."""
        f, c, n = self.frame, self.code, self.frame.layout.z
        f.write("right", right)
        with c.loop(0, n * n) as i:
            f.part["matrix"][i] = 0.0
        for i, node in enumerate(f.outputs.jacobian):
            if node != f.step.graph.zero:
                f.part["matrix"][i] = f.emitter.emit([node], self.pivoted)[0]
        arguments = ", ".join(f"ptr {f.part[name]}" for name in ("matrix", "right", "report"))
        return c.let(f"call i64 %solver(i64 {n}, {arguments})", "i64")

    def _again(self) -> None:
        f, c = self.frame, self.code
        c.label("again")
        f.store(f.z, f.load_all(f.w))
        c.fork(f.iterations[0] < f.count("limit"), "iterate", "not_converged", True)
        c.label("not_converged")
        if f.plan is not None:
            f.size[0] = f.emitter.emit(f.outputs.size, dict(self.inner), fast=True)[0]
        c.go(f.failure(Outcome.NOT_CONVERGED))
