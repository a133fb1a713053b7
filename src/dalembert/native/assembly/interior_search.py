"""Machine code of the line search of interior steps: the points on a step, all slacks cut, corrections of second order."""

from __future__ import annotations

from typing import Any

from dalembert.native.assembly.interior_parts import InteriorPart


class InteriorSearch(InteriorPart):
    """What the loop does with a step x; it goes on at the label `taken`, and `end`s the loop where no point is taken.

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
        self.hold("jammed", self._judge(self.rules.jams, self.start, self.get("jammed")))
        self.at = self._standing("")

    def _searched(self) -> None:
        """The first point on the step, halved from the longest inside, that is taken; before it all slacks cut, where one
        alone stops the step; after the first one corrections of second order."""
        c, rules = self.c, self.rules
        cut, search = c.name("cut"), c.name("search")
        stopped = self._judge(rules.stopped, self.start, self.get("theta"), self.get("tolerance"))
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
        """Whether the filter takes the new point."""
        given = self.at, self._standing("new_"), self.along, length, self.get("small"), self.get("tolerance")
        return self.c.both(self._judge(self.rules.taken, *given), self._allowed)

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
        square = self._total(self.n, lambda i: [self._square("w", i)], 1)[0]
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
        c.fork(self._judge(rules.remembered, *given), add, on)
        c.label(add)
        count = c.let(f"fptosi double {self.get('corners')} to i64")
        self._until(c.let(f"icmp slt i64 {count}, {self.word['room']}"))
        place = c.let(f"shl i64 {count}, 1")
        c.store(self._judge(rules.corner_violation, self.at, self.get("tolerance")), c.at(self.word["filter"], place))
        corner = c.at(c.at(self.word["filter"], place), 1)
        c.store(self._judge(rules.corner_barrier, self.at), corner)
        self.put("corners", self._plus(self.get("corners"), c.constant(1.0)))
        c.label(on)
