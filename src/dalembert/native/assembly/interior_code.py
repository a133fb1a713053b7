"""Machine code of whole interior steps on a KKT system. When a step is taken say boundary/interior/rules.py.

    diagonal of K + κz/(U²s),   right = -∇L̃ ± κμ/(Us),   K x = right,   z + αx  (α from the slacks, halved)

Three functions, `interior` the loop: it returns where something is met that it does not know, as if nothing of the iteration
had happened, or at the end. `point` and `solution` are in `interior_parts`.
"""

from __future__ import annotations

from typing import Any

from dalembert.native.assembly.interior_parts import CONVERGED, LIMIT, REFUSED, InteriorPart, PointPart, SolutionPart
from dalembert.native.llvm.builder import module


def interior_text(terms: int, data: int, coordinates: int, rules: Any) -> str:
    """The module."""
    parts = [part(terms, data, coordinates, rules) for part in (PointPart, SolutionPart, InteriorLoop)]
    texts = [part.text() for part in parts]
    return module(*texts, declared=set().union(*(part.c.declared for part in parts)))


class InteriorSearch(InteriorPart):
    """Search of the loop along a step x; it goes on at the label `taken`, and `end`s the loop where no point is taken.

    trial: slots of numbers of the iteration that is under way; along: the slope of the barrier function along x.
    """

    trial: dict[str, str]
    length: str
    first: str
    along: str
    own: str
    start: str
    at: Any

    def held(self, name: str) -> str:
        """A number of the iteration that is under way."""
        return self.c.load(self.trial[name])

    def hold(self, name: str, value: str) -> None:
        self.c.store(value, self.trial[name])

    def _lengths(self) -> None:
        """Changes of slacks and of multipliers, and the longest steps inside."""
        c, barrier = self.c, self.get("barrier")
        self.fraction = self._judge(self.rules.fraction, barrier)
        own, longest = self._begun(1.0), self._begun(1.0)
        with c.loop(0, self.word["bound_count"]) as j:
            change, m, s = self._slack_change("x", j), self._item("multipliers", j), self._item("slacks", j)
            wanted = c.let(f"fdiv double {self._minus(barrier, self._times(m, change))}, {s}")
            dual = self._minus(wanted, m)
            c.store(dual, c.at(self.word["dual_step"], j))
            self._shorten(own, m, dual)
            self._shorten(longest, s, change)
        self.own = c.load(own)
        self.start = c.load(longest)
        c.store(self.start, self.length)
        self.hold("whole", c.constant(0.0))
        self.hold("jammed", self._judge(self.rules.count_tiny_steps, self.start, self.get("jammed")))
        self.at = self._standing("")

    def _searched(self) -> None:
        """The first point on the step, halved from the longest inside, that is taken; before it all slacks cut, where one
        alone stops the step; after the first one corrections of second order."""
        c, rules = self.c, self.rules
        cut, search = c.name("cut"), c.name("search")
        stopped = self._judge(rules.slack_stops, self.start, self.get("theta"), self.get("tolerance"))
        c.store(c.constant(1.0), self.first)
        c.fork(stopped, cut, search, likely=False)
        c.label(cut)
        self._cut()
        c.label(search)
        self._unless_stopped()
        self._until(self._judge(rules.long_enough, c.load(self.length)))
        self._move("x", c.load(self.length))
        self._point()
        yes, no, correct, halve = (c.name(x) for x in ("yes", "no", "correct", "halve"))
        c.fork(self._takes(c.load(self.length)), yes, no)
        c.label(yes)
        shorter = c.let(f"fmul double {self.own}, {c.load(self.length)}")  # one of them is below 1
        whole = c.let(f"fcmp oeq double {shorter}, {c.constant(1.0)}")
        self.hold("whole", c.let(f"uitofp i1 {whole} to double"))
        c.go("taken")
        c.label(no)
        begun = c.let(f"fcmp ogt double {c.load(self.first)}, {c.constant(0.0)}")
        worse = c.let(f"fcmp oge double {self.get('new_theta')}, {self.at.violation}")
        finite = c.let(f"fcmp ogt double {self.get('new_finite')}, {c.constant(0.0)}")
        c.fork(c.both(c.both(begun, worse), finite), correct, halve)
        c.label(correct)
        self._corrected(halve)
        c.label(halve)
        c.store(self._times(c.constant(0.5), c.load(self.length)), self.length)
        c.store(c.constant(0.0), self.first)
        c.go(search)

    def _takes(self, length: str) -> str:
        """Condition that the new point is acceptable: that it decreases θ or ϕ enough, and that the filter allows it."""
        given = self.at, self._standing("new_"), self.along, length, self.get("small"), self.get("tolerance")
        return self.c.both(self._judge(self.rules.acceptable, *given), self._allowed)

    @property
    def _allowed(self) -> str:
        return self.c.let(f"fcmp ogt double {self.get('allowed')}, {self.c.constant(0.0)}")

    def _cut(self) -> None:
        """The whole step, every slack for itself keeping a part, where that lowers the violation."""
        c = self.c
        self._move("x", c.constant(1.0))
        kept = self._minus(c.constant(1.0), self.fraction)
        with c.loop(0, self.word["bound_count"]) as j:
            s = self._item("slacks", j)
            short = self._minus(self._times(kept, s), self._plus(s, self._slack_change("x", j)))
            at = c.at(self.word["new_z"], self._index("places", j))
            back = self._times(self._item("reaches", j), self._larger(c.constant(0.0), short))
            c.store(self._plus(c.load(at), back), at)
        self._point()
        better = self._judge(self.rules.much_better, self.at, self._standing("new_"))
        yes, no = c.name("cut_taken"), c.name("cut_refused")
        c.fork(c.both(better, self._allowed), yes, no)
        c.label(yes)
        self.hold("jammed", c.constant(0.0))
        c.go("taken")
        c.label(no)

    def _corrected(self, halve: str) -> None:
        """Steps towards c(z) + c(z + step) = 0 by the same factors."""
        c, length, before, k = self.c, self.c.load(self.length), self.c.slot("before"), self.c.slot("k")
        c.store(self.at.violation, before)
        c.store(c.constant(0.0), k)
        with c.loop(0, self.n) as i:
            c.store(self._times(length, self._item("g", i)), c.at(self.word["constraints_sum"], i))
        again, on = c.name("again"), c.name("on")
        c.label(again)
        with c.loop(0, self.n) as i:
            at = c.at(self.word["constraints_sum"], i)
            total = self._plus(c.load(at), self._item("new_g", i))
            c.store(total, at)
            primal = c.let(f"fcmp ogt double {self._item('primal', i)}, {c.constant(0.0)}")
            free = c.let(f"fneg double {self._times(total, self._item('free', i))}")
            right = c.let(f"select i1 {primal}, double {self._item('right', i)}, double {free}")
            c.store(right, c.at(self.word["other"], i))
            c.store(right, c.at(self.word["w"], i))
        self._substitute("w")
        self._until(self._solves("w", "other"))
        square = self._total(self.n, lambda i: [self._times(self._item("w", i), self._item("w", i))], 1)[0]
        good = c.name("good")
        c.fork(self._finite(square), good, halve)
        c.label(good)
        short = self._begun(1.0)
        with c.loop(0, self.word["bound_count"]) as j:
            self._shorten(short, self._item("slacks", j), self._slack_change("w", j))
        self._move("w", c.load(short))
        self._point()
        c.fork(self._takes(length), "taken", on)
        c.label(on)
        worse = self._judge(self.rules.no_better, self._standing("new_"), c.load(before))
        finite = c.let(f"fcmp ogt double {self.get('new_finite')}, {c.constant(0.0)}")
        next_, stop = c.name("next"), c.let(f"or i1 {worse}, {c.negated(finite)}")
        c.fork(stop, halve, next_)
        c.label(next_)
        c.store(self.get("new_theta"), before)
        with c.loop(0, self.n) as i:
            at = c.at(self.word["constraints_sum"], i)
            c.store(self._times(c.load(short), c.load(at)), at)
        count = self._plus(c.load(k), c.constant(1.0))
        c.store(count, k)
        c.fork(c.let(f"fcmp olt double {count}, {self.get('corrections')}"), again, halve)

    def _remember(self) -> None:
        """The point that is left goes into the filter, unless ϕ falls as it has to; refused where there is no room."""
        c, rules = self.c, self.rules
        add, on = c.name("add"), c.name("added")
        given = self.at, self._standing("new_"), self.along, c.load(self.length), self.get("small"), self.get("tolerance")
        c.fork(self._judge(rules.augments_filter, *given), add, on)
        c.label(add)
        count = c.let(f"fptosi double {self.get('corners')} to i64")
        self._until(c.let(f"icmp slt i64 {count}, {self.word['room']}"))
        place = c.let(f"shl i64 {count}, 1")
        c.store(self._judge(rules.corner_violation, self.at, self.get("tolerance")), c.at(self.word["filter"], place))
        corner = c.at(c.at(self.word["filter"], place), 1)
        c.store(self._judge(rules.corner_barrier, self.at), corner)
        self.put("corners", self._plus(self.get("corners"), c.constant(1.0)))
        c.label(on)


class InteriorLoop(InteriorSearch):
    """The loop."""

    def text(self) -> str:
        c, rules = self.c, self.rules
        self.trial = {name: c.slot(name) for name in ("shift", "trusted", "sound", "factorizations", "jammed", "whole")}
        self.length, self.first = c.slot("length"), c.slot("first")
        self.finish(REFUSED)
        self._measure()
        c.label("step")
        self._ends_if(c.let(f"fcmp oge double {self.get('iterations')}, {self.real('most')}"), LIMIT)
        self._residuals()
        errors = self._errors(c.constant(0.0))
        given = errors, self.last, self._violation(), self.get("largest_update"), self.get("tolerance")
        self._ends_if(self._judge(rules.meets_tolerance, *given), CONVERGED)
        self._lower()
        self._until(c.negated(self._judge(rules.watches, self.get("shortened"))))
        self._equations()
        self._factored()
        self._lengths()
        self._searched()
        c.label("taken")
        self._remember()
        self._take()
        c.go("step")
        c.label("end")
        c.line(f"ret i64 {c.load(self.status, 'i64')}")
        return c.function("define i64 @interior(ptr %job, ptr %values) nounwind")

    def _ends_if(self, condition: str, status: int) -> None:
        c = self.c
        stop, on = c.name("stop"), c.name("on")
        c.fork(condition, stop, on, likely=False)
        c.label(stop)
        self.finish(status)
        c.go("end")
        c.label(on)

    def _residuals(self) -> None:
        """dual: the largest |∇L̃ ∓ κz/U| in units of κ, relative; size: what it is relative to; the span of sz."""
        c = self.c

        def multiplier(i: str) -> list[str]:
            c.store(self._times(self._item("g", i), self._item("dual", i)), c.at(self.word["y"], i))
            return [self._times(self._abs(self._item("z", i)), self._item("held", i))]

        own = self._total(self.n, multiplier, 1)[0]
        total, most, least = (self._begun(x) for x in (0.0, float("-inf"), float("inf")))
        with c.loop(0, self.word["bound_count"]) as j:
            at, m = c.at(self.word["y"], self._index("places", j)), self._item("multipliers", j)
            c.store(self._minus(c.load(at), self._times(self._item("presses", j), m)), at)
            c.store(self._plus(c.load(total), m), total)
            product = self._times(self._item("slacks", j), m)
            c.store(self._larger(c.load(most), product), most)
            c.store(self._smaller(c.load(least), product), least)
        largest = self._begun(0.0)
        with c.loop(0, self.n) as i:
            value, known = self._abs(self._item("y", i)), c.load(largest)
            more = c.let(f"fcmp nnan nsz ogt double {value}, {known}")
            c.store(c.let(f"select nnan nsz i1 {more}, double {value}, double {known}"), largest)
        size = self._judge(self.rules.magnitude, own, c.load(total), self.get("count"))
        self.dual, self.magnitude = c.let(f"fdiv double {c.load(largest)}, {size}"), size
        self.span = c.load(most), c.load(least)

    def _errors(self, barrier: str):
        """Against the equations of this μ; max|sz - μ| is that of the largest or of the smallest product."""
        c, (most, least) = self.c, self.span
        off = self._larger(self._minus(most, barrier), self._minus(barrier, least))
        off = self._larger(c.constant(0.0), off)
        return self.rules.BarrierErrors(self.dual, self.get("theta"), c.let(f"fdiv double {off}, {self.magnitude}"))

    @property
    def last(self):
        return self.rules.LastStep(self.get("update"), self.get("shift"), self.get("whole"))

    def _lower(self) -> None:
        """The next μ, as long as the equations of the present one are solved; then the filter is empty."""
        c, rules = self.c, self.rules
        more, fall, on = c.name("lower"), c.name("fall"), c.name("direction")
        c.label(more)
        barrier = self.get("barrier")
        open_ = self._judge(rules.exceeds_barrier, barrier, self._errors(barrier), self.last, self.get("tolerance"))
        least = c.let(f"fcmp ole double {barrier}, {self.get('least')}")
        c.fork(c.let(f"or i1 {open_}, {least}"), on, fall)
        c.label(fall)
        self.put("barrier", self._judge(rules.lower_barrier, barrier, self.get("least")))
        self.put("corners", c.constant(0.0))
        self.put("shortened", c.constant(0.0))
        c.go(more)
        c.label(on)

    def _equations(self) -> None:
        """The right-hand side, and what the barrier adds to the diagonal."""
        c, barrier = self.c, self.get("barrier")
        with c.loop(0, self.n) as i:
            c.store(self._item("unit", i), c.at(self.word["added"], i))
            c.store(c.let(f"fneg double {self._item('g', i)}"), c.at(self.word["right"], i))
        with c.loop(0, self.word["bound_count"]) as j:
            place, slack = self._index("places", j), self._item("slacks", j)
            to, right = (c.at(self.word[name], place) for name in ("added", "right"))
            ratio = c.let(f"fdiv double {self._item('multipliers', j)}, {slack}")
            c.store(self._plus(c.load(to), self._times(ratio, self._item("stiffness", j))), to)
            push = self._times(self._item("pushes", j), c.let(f"fdiv double {barrier}, {slack}"))
            c.store(self._plus(c.load(right), push), right)

    def _factored(self) -> None:
        """x = K⁻¹ right, δ raised until K has as many negative eigenvalues as constraints; refused where it has fewer, or
        where solutions are not accurate, with a nudge neither."""
        c, rules = self.c, self.rules
        known, whole, more, done = (c.name(x) for x in ("known", "solved", "more", "done"))
        for name in ("shift", "factorizations"):
            self.hold(name, c.constant(0.0))
        self.hold("sound", self.get("sound"))
        c.label("factor")
        self._unless_stopped()
        self._diagonal()
        self._clear_tail("x")
        self._call("first", "blocks", "z", "free", "fixed_blocks", "pivots", "stored", "x", more=self.data)
        self.hold("factorizations", self._plus(self.held("factorizations"), c.constant(1.0)))
        negative = c.let(f"call i64 {self.word['negative']}(i64 {self.word['blocks']}, ptr {self.word['stored']})")
        over = c.let(f"icmp sgt i64 {negative}, {self.word['constraints']}")
        sure = c.let(f"fcmp ogt double {self.held('sound')}, {self.get('nudged')}")  # sound, and not nudged
        c.fork(c.let(f"and i1 {over}, {sure}"), more, known)
        c.label(known)
        self._unless_stopped()
        self._call("backward", "blocks", "stored", "free", "fixed_blocks", "x")
        self.put("trusted", c.constant(0.0))
        found = self._solves("x", "right")
        self._nudge_if(c.negated(c.both(found, self._finite(self._measured()))))
        self.hold("sound", c.constant(1.0))
        update = self._change("x")
        given = self.get("theta"), self.held("shift"), update, self.get("tolerance")
        self._until(c.negated(self._judge(rules.locally_infeasible, *given)))
        c.fork(over, more, whole)
        c.label(more)
        self.hold("shift", self._judge(rules.raise_shift, self.held("shift"), self.get("last_shift")))
        self._until(self._judge(rules.affordable, self.held("shift")))
        c.go("factor")
        c.label(whole)
        self._until(c.let(f"icmp eq i64 {negative}, {self.word['constraints']}"))
        c.go(done)
        c.label(done)
        self.hold("trusted", self.get("trusted"))
        self.update = update

    def _nudge_if(self, inaccurate: str) -> None:
        """The same factorization with a nudge, from then on."""
        c = self.c
        again, on = c.name("nudge"), c.name("accurate")
        c.fork(inaccurate, again, on, likely=False)
        c.label(again)
        self._until(c.let(f"fcmp oeq double {self.get('nudged')}, {c.constant(0.0)}"))
        self.put("nudged", c.constant(1.0))
        self.hold("sound", c.constant(0.0))
        self.hold("factorizations", self._minus(self.held("factorizations"), c.constant(1.0)))
        c.go("factor")
        c.label(on)

    def _diagonal(self) -> None:
        """That of K and of what is factorized; x begins as the right-hand side."""
        c, shift, nudged = self.c, self.held("shift"), self.get("nudged")
        with c.loop(0, self.n) as i:
            own = self._plus(self._item("added", i), self._times(shift, self._item("shifted", i)))
            c.store(own, c.at(self.word["diagonal"], i))
            c.store(self._plus(own, self._times(nudged, self._item("nudge", i))), c.at(self.word["pivots"], i))
            c.store(self._item("right", i), c.at(self.word["x"], i))

    def _measured(self) -> str:
        """|x|²; the slope of the barrier function along the step: residualᵀdx of the unknowns and -νᵀA dx, divided by κ."""

        def both(i: str) -> list[str]:
            x = self._item("x", i)
            free = self._times(self._times(self._item("right", i), self._item("unknowns", i)), x)
            held = self._times(self._times(self._item("g", i), self._item("rows", i)), self._item("z", i))
            return [self._times(x, x), self._minus(held, free)]

        square, total = self._total(self.n, both, 2)
        self.along = self.c.let(f"fdiv double {total}, {self.get('curvature')}")
        return square

    def _take(self) -> None:
        """The new point is the present one; μ is raised where slacks have stopped several steps."""
        c, rules, barrier = self.c, self.rules, self.get("barrier")
        with c.loop(0, self.word["bound_count"]) as j:
            at, slack = c.at(self.word["multipliers"], j), self._item("new_slacks", j)
            wanted = self._plus(c.load(at), self._times(self.own, self._item("dual_step", j)))
            c.store(self._judge(rules.clip_multiplier, wanted, slack, barrier), at)
            c.store(slack, c.at(self.word["slacks"], j))
        self._copy("z", "new_z")
        self._copy("g", "new_g")
        for name in ("objective", "violation", "norm", "theta", "logarithms"):
            self.put(name, self.get(f"new_{name}"))
        for name in ("shift", "trusted", "sound", "whole"):
            self.put(name, self.held(name))
        for name, more in (("iterations", c.constant(1.0)), ("factorizations", self.held("factorizations"))):
            self.put(name, self._plus(self.get(name), more))
        shifted = c.let(f"fcmp ogt double {self.get('shift')}, {c.constant(0.0)}")
        self.put("last_shift", c.let(f"select i1 {shifted}, double {self.get('shift')}, double {self.get('last_shift')}"))
        self.put("update", self.update)
        halved = self._minus(c.constant(1.0), c.load(self.first))
        self.put("shortened", self._judge(rules.shortens, halved, self.get("shortened")))
        self._measure()
        jammed = self._judge(rules.patient, self.held("jammed"), barrier, self.get("raises"))
        self.put("jammed", jammed)
        stuck, on = c.name("stuck"), c.name("on")
        c.fork(self._judge(rules.takes_tiny_steps, jammed), stuck, on, likely=False)
        c.label(stuck)
        self.put("jammed", c.constant(0.0))
        self.put("shortened", c.constant(0.0))
        self.put("raises", self._plus(self.get("raises"), c.constant(1.0)))
        self.put("barrier", self._judge(rules.raise_barrier, barrier))
        self.put("corners", c.constant(0.0))
        c.label(on)
