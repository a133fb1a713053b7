"""Steps of a Taylor series with its polynomial as interpolant, as one loop of machine code for any series that is one.

    y(t + s) = Σ_{k≤p} y_k s^k,   h = min over k = p-1, p of (tolerance / |y_k|)^(1/k)

A step that would pass a border of the equation's choices ends just behind it, and the next one begins there.

Source: Jorba and Zou, Experimental Mathematics 14 (2005) 99; p follows from the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dalembert.native.flow.border_code import passage
from dalembert.native.flow.step_loop import TINY, StepLoop
from dalembert.native.llvm.builder import module
from dalembert.native.llvm.packing import Packing

POINTS = 8  # of a step, where it is looked at along it
GROWTH = 2.0  # of a step, at most
DEFECT = 10.0  # of what is allowed: h |ẏ - f(y)| at the end of a step
SHORTEST = 2.0**-20  # of a proposed step, that may be taken where it is not clear which border comes first
LONGER = 2.0**10  # times such a step: from there the next one may grow
NEAR = 0.25  # of a proposed step: a border that is crossed
BEHIND = 1e-4, 64 * 2.0**-52  # a border, of a proposed step: of the tolerance; at least
FARTHER, FARTHEST = 8.0, 1e-3  # times that, until the border is passed; of a proposed step
RETURN = 64.0  # times that: how soon a motion that is held at a border is there again
PART = 0.1  # of the tolerance: with it errors are those of the method of order 8
ONE = 1023 << 52  # the bits of 1.0

# what the loop is told: functions and arrays by address
TAYLOR = Packing.words("begin", "expand", "polynomial", "given", "kept", "slope", "rows", "borders", "work", "rate", "clock",
                      "order", "signs", "many")  # fmt: skip


def order_for(tolerance: float) -> int:
    """p = 1 - 0.65 log(tolerance); 0.5 is that of least work where it grows like p², and here it grows less."""
    return min(30, max(4, math.ceil(1.0 - 0.65 * math.log(tolerance))))


def taylor() -> str:
    """LLVM module with  i64 @taylor(ptr told, ptr watch, ptr watch_told, ptr project, project_told, numbers, counts, times,
    y, rows).

    As `integrate`; or NO_SERIES where there is none, and another method may go on from y and numbers.t.
    """
    made = _Taylor()
    borders = passage()
    head = "define double @passage(ptr %borders, i64 %signs, i64 %many, i64 %order, double %h, ptr %which) nounwind"
    return module(made.text(), borders.function(head), declared=made.c.declared | borders.declared)


class _Taylor(StepLoop):
    """Slots: this h, the one that the coefficients propose, the one from which the next may grow; whether the growth of h
    limits it, and whether the polynomial solves the equation. crosses, crossed: whether this step crosses a border, and
    whether the one before has; which, border, behind: which one, where that is, and how far the step goes beyond; cut:
    whether less far, because it has to end. judged: how far the polynomial is looked at, which is less than h then."""

    shorter = "refuse"

    def __init__(self) -> None:
        super().__init__()
        c = self.c
        word = {name: c.load(c.at("%told", TAYLOR.fields[name].offset), "i64") for name in TAYLOR.fields}
        self.p, self.signs, self.many = word["order"], word["signs"], word["many"]
        numbers = ("clock", "order", "signs", "many")
        self.to = {name: c.let(f"inttoptr i64 {x} to ptr") for name, x in word.items() if name not in numbers}
        self.clock = c.let(f"bitcast i64 {word['clock']} to double")
        numbers = ("h", "proposed", "natural", "judged", "border", "behind")
        truths = ("capped", "solves", "cut", "crosses", "crossed")
        self.h, self.proposed, self.natural, self.judged, self.border, self.behind = (c.slot(x) for x in numbers)
        self.capped, self.solves, self.cut, self.crosses, self.crossed = (c.slot(x, "i1") for x in truths)
        self.which = c.slot("which", "i64")
        c.store("false", self.crossed, "i1")
        c.store("0", self.which, "i64")
        self.new = self.to["given"]

    def text(self) -> str:
        c = self.c
        arguments = ["told", "watch", "watch_told", "project", "project_told", "numbers", "counts", "times", "y", "rows"]
        self._copied("%y", self.new)
        self._begun(c.load(self.t))
        c.label("step")
        self._expanded()
        self._proposed()
        self._within_borders()
        self._judged()
        self._accepted()
        self._returns()
        return c.function(f"define i64 @taylor({', '.join(f'ptr %{name}' for name in arguments)}) nounwind")

    def _begun(self, t: str) -> None:
        """The field at what stands in `given`, at the time t; to "no_series" where it does not hold."""
        self.c.store(self.c.times(self.clock, t), self.c.at(self.new, self.n))
        self.c.line(f"call void {self.to['begin']}(ptr {self.new}, ptr {self.to['kept']}, ptr {self.to['slope']})")
        self._demand(self.n)

    def _demand(self, i: str) -> None:
        """To "no_series" unless number i of what `begin` finds is true."""
        c, on = self.c, self.c.name("on")
        c.fork(c.compare("ogt", c.load(c.at(self.to["slope"], i)), c.constant(0.5)), on, "no_series", True)
        c.label(on)

    def _expanded(self) -> None:
        """Count the step; the coefficients, and the length that they propose."""
        self._counted()
        c = self.c
        self._demand(c.let(f"add i64 {self.n}, 1"))
        first = c.at(self.to["rows"], self.n)
        with c.loop(0, self.n) as l:
            c.store(c.load(c.at("%y", l)), c.at(self.to["rows"], l))
            c.store(c.times(self.clock, c.load(c.at(self.to["slope"], l))), c.at(first, l))
        with c.loop(0, self.many) as j:
            c.store(c.load(self._border(j)), c.at(self.to["borders"], j))
        arrays = ", ".join(f"ptr {self.to[x]}" for x in ("kept", "rows", "borders", "work"))
        c.line(f"call void {self.to['expand']}({arrays}, i64 {self.p}, double {self.clock})")
        lengths = self._lengths([c.let(f"sub i64 {self.p}, {back}") for back in (0, 1)])
        h = c.select(c.compare("olt", *lengths), *lengths)
        good = c.both(*(c.compare("ogt", x, c.constant(0.0)) for x in lengths))
        long = c.name("long")
        c.fork(good, long, "no_series", True)
        c.label(long)
        most = c.times(c.constant(GROWTH), c.load(self.kept_h))
        free = c.compare("olt", h, most)
        c.store(c.negated(free), self.capped, "i1")
        for slot in (self.h, self.natural, self.proposed):
            c.store(c.select(free, h, most), slot)

    def _lengths(self, orders: Sequence[str]) -> list[str]:
        """(tolerance (s + |y|) / |y_k|)^(1/k) for the largest of these quotients, of each order k; 0 if one is no number."""
        c = self.c
        norms = [c.slot("norm") for _ in orders]
        rows = [c.at(self.to["rows"], c.let(f"mul i64 {k}, {self.n}")) for k in orders]
        for norm in norms:
            c.store(c.constant(0.0), norm)
        with c.loop(0, self.n) as l:
            over = c.let(f"fdiv double {c.constant(1.0)}, {self._size(l)}")
            for row, norm in zip(rows, norms, strict=True):
                part = c.times(over, c.absolute(c.load(c.at(row, l))))
                c.store(c.intrinsic("maximum", c.load(norm), part), norm)  # NaN if one is
        return [self._root(c.load(norm), k) for norm, k in zip(norms, orders, strict=True)]

    def _size(self, l: str) -> str:
        return self.c.plus(self._typical(l), self.c.absolute(self.c.load(self.c.at("%y", l))))

    def _root(self, norm: str, k: str) -> str:
        """(tolerance / norm)^(1/k), to 6 %: its bits are a k-th of the way from those of 1 to those of the number."""
        c = self.c
        ratio = c.let(f"fdiv double {c.times(self.tolerance, c.constant(PART))}, {norm}")
        bits = c.let(f"sub i64 {c.let(f'bitcast double {ratio} to i64')}, {ONE}")
        root = c.let(f"add i64 {c.let(f'sdiv i64 {bits}, {k}')}, {ONE}")
        found = c.let(f"bitcast i64 {root} to double")
        return c.select(c.compare("olt", norm, c.constant(float("inf"))), found, c.constant(0.0))

    def _border(self, j: str) -> str:
        """Where its value stands that `begin` has found."""
        return self.c.at(self.to["slope"], self.c.let(f"add i64 {self.c.let(f'add i64 {self.n}, 2')}, {j}"))

    def _proposed(self) -> None:
        c = self.c
        c.label("propose")
        c.store(self._ended(c.load(self.h))[0], self.h)
        c.store(c.load(self.h), self.judged)
        c.store("false", self.crosses, "i1")

    def _within_borders(self) -> None:
        """A step that would pass a border ends just behind it; half of it where it is not clear which comes first, or where
        an argument has too long a way."""
        c = self.c
        c.fork(c.let(f"icmp eq i64 {self.many}, 0"), "judge", "choose", True)
        c.label("choose")
        h = c.load(self.h)
        first = c.let(f"call double @passage(ptr {self.to['borders']}, i64 {self.signs}, i64 {self.many}, i64 {self.p}, "
                      f"double {h}, ptr {self.which})")  # fmt: skip
        c.fork(c.compare("ogt", first, c.constant(0.0)), "clear", "unclear", True)
        c.label("unclear")
        half = c.times(c.constant(0.5), h)
        enough = c.compare("ogt", half, c.times(c.constant(SHORTEST), c.load(self.proposed)))
        c.fork(enough, "half", "no_series", True)
        c.label("half")
        c.store(half, self.h)
        c.store(c.intrinsic("minnum", c.load(self.natural), c.times(c.constant(LONGER), half)), self.natural)
        c.go("propose")
        c.label("clear")
        c.fork(c.compare("olt", first, h), "border", "judge")
        c.label("border")
        near = c.compare("ole", first, c.times(c.constant(NEAR), c.load(self.proposed)))
        c.fork(near, "at_border", "approach")
        c.label("approach")  # a short step knows the place of the border better than the tolerance
        c.store(c.times(c.constant(1.0 - NEAR), first), self.h)
        c.go("propose")
        c.label("at_border")
        of_tolerance, least = (c.constant(x) for x in BEHIND)
        part = c.intrinsic("maxnum", c.times(of_tolerance, self.tolerance), least)
        rounding = c.times(c.constant(4 * TINY), c.absolute(c.load(self.t)))
        behind = c.plus(c.times(part, c.load(self.proposed)), rounding)
        c.store(first, self.border)
        c.store(behind, self.behind)
        held = c.both(c.load(self.crossed, "i1"), c.compare("olt", first, c.times(c.constant(RETURN), behind)))
        c.fork(held, "no_series", "cross", False)
        c.label("cross")
        border, behind = c.load(self.border), c.load(self.behind)
        h, cut = self._ended(c.plus(border, behind))
        c.store(h, self.h)
        c.store(cut, self.cut, "i1")
        c.store(c.intrinsic("maxnum", c.minus(border, behind), c.times(c.constant(0.5), border)), self.judged)
        c.store("true", self.crosses, "i1")

    def _judged(self) -> None:
        """The new y, projected, and the field there; a shorter step where the polynomial does not solve the equation.

        A series knows its beginning alone. So the equation is looked at along the step, too, where the coefficients set no
        limit.
        """
        c = self.c
        c.label("judge")
        h, t = c.load(self.judged), c.load(self.t)
        c.store("true", self.solves, "i1")
        c.fork(c.load(self.capped, "i1"), "along", "at_end", False)
        c.label("along")
        part = c.times(c.constant(1.0 / POINTS), h)
        with c.loop(1, POINTS) as i:
            passed = c.times(part, c.let(f"sitofp i64 {i} to double"))
            self._polynomial(passed, self.new)
            self._looked_at(c.plus(t, passed))
        c.label("at_end")
        crosses = c.load(self.crosses, "i1")
        at = c.select(crosses, c.plus(t, h), c.load(self.end))
        self._polynomial(h, self.new)
        self._projected(self.new, at, "refuse")
        self._looked_at(at)
        c.fork(c.load(self.solves, "i1"), "solved", "wrong", True)
        c.label("wrong")
        c.fork(crosses, "farther", "refuse")
        c.label("refuse")
        half = c.times(c.constant(0.5), h)
        for slot in (self.h, self.natural, self.proposed):
            c.store(half, slot)
        c.go("propose")
        c.label("solved")
        c.store("false", self.crossed, "i1")
        c.fork(crosses, "behind", "accept", False)
        self._crossed()

    def _crossed(self) -> None:
        """The new y just behind the border; from farther before it to farther behind where rounding hides the side."""
        c = self.c
        c.label("behind")
        self._polynomial(c.load(self.h), self.new)
        self._projected(self.new, c.load(self.end), "refuse")
        self._begun(c.load(self.end))
        which = c.load(self.which, "i64")  # if its sign is the same, what is rounded there has jumped, and it with it
        here, before = (c.absolute(c.load(x)) for x in (self._border(which), c.at(self.to["borders"], which)))
        jumped = c.compare("ogt", here, c.times(c.constant(0.5), before))
        c.store(c.either(c.negated(self._keeps(which)), jumped), self.crossed, "i1")
        c.fork(c.either(c.load(self.crossed, "i1"), c.load(self.cut, "i1")), "accept", "farther", True)
        c.label("farther")
        behind = c.times(c.constant(FARTHER), c.load(self.behind))
        c.store(behind, self.behind)
        c.fork(c.compare("olt", behind, c.times(c.constant(FARTHEST), c.load(self.proposed))), "cross", "no_series")

    def _keeps(self, j: str) -> str:
        """Whether a border that `begin` has found has the sign that it has at the beginning of the step."""
        c = self.c
        here, before = c.load(self._border(j)), c.load(c.at(self.to["borders"], j))
        return c.compare("oeq", here, c.intrinsic("copysign", here, before))

    def _looked_at(self, t: str) -> None:
        """Whether h |ẏ - f(y)| is small, too, where the polynomial was evaluated, and no border has been passed."""
        c = self.c
        self._begun(t)
        allowed = c.times(c.constant(DEFECT), c.plus(self.tolerance, c.constant(64 * 2.0**-52)))
        with c.loop(0, self.n) as l:
            rate = c.times(self.clock, c.load(c.at(self.to["slope"], l)))
            defect = c.absolute(c.times(c.load(self.h), c.minus(rate, c.load(c.at(self.to["rate"], l)))))
            small = c.compare("ole", defect, c.times(allowed, self._size(l)))
            c.store(c.both(c.load(self.solves, "i1"), small), self.solves, "i1")
        with c.loop(0, self.signs) as j:
            c.store(c.both(c.load(self.solves, "i1"), self._keeps(j)), self.solves, "i1")

    def _polynomial(self, h: str, to: str) -> None:
        self.c.line(f"call void {self.to['polynomial']}(ptr {self.to['rows']}, i64 {self.p}, double {h}, ptr {to}, "
                    f"ptr {self.to['rate']})")  # fmt: skip

    def _accepted(self) -> None:
        self.c.label("accept")
        self._rows()
        self._begun_again(self.c.load(self.natural))

    def _interpolant(self) -> None:
        """The polynomial is there."""

    def _interpolated(self, saved: str) -> None:
        passed = self.c.minus(self.c.load(self.c.at("%times", saved)), self.c.load(self.t))
        self._polynomial(passed, self._row(saved))
