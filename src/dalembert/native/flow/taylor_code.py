"""Steps of a Taylor series with its polynomial as interpolant, as one loop of machine code for any series that is one.

    y(t + s) = Σ_{k≤p} y_k s^k,   h = min over k = p-1, p of (tolerance / |y_k|)^(1/k)

Source: Jorba and Zou, Experimental Mathematics 14 (2005) 99; p follows from the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dalembert.native.flow.loop_code import COUNTED, NUMBERS, REACHED, TINY, TOO_MANY, TOO_SMALL, WATCHED
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.packing import Packing

NO_SERIES = 4  # y and t are those of the last step that was taken
POINTS = 8  # of a step, where it is looked at along it
GROWTH = 2.0  # of a step, at most
DEFECT = 10.0  # of what is allowed: h |ẏ - f(y)| at the end of a step
PART = 0.1  # of the tolerance: with it errors are those of the method of order 8
ONE = 1023 << 52  # the bits of 1.0

# what the loop is told: functions and arrays by address
TAYLOR = Packing.words("begin", "expand", "polynomial", "given", "kept", "slope", "rows", "work", "rate", "clock", "order",
                      "points")  # fmt: skip


def order_for(tolerance: float) -> int:
    """p = 1 - 0.65 log(tolerance); 0.5 is that of least work where it grows like p², and here it grows less."""
    return min(30, max(4, math.ceil(1.0 - 0.65 * math.log(tolerance))))


def taylor() -> str:
    """LLVM module with  i64 @taylor(ptr told, ptr watch, ptr watch_told, ptr numbers, counts, times, y, rows).

    As `integrate`; or NO_SERIES where there is none, and another method may go on from y and numbers.t.
    """
    made = _Taylor()
    return module(made.text(), declared=made.c.declared)


class _Taylor:
    """Writes the loop. Slots: this h, the one that the coefficients propose, the end of the step; whether the growth of h
    limits it, and whether the polynomial solves the equation."""

    def __init__(self) -> None:
        c = self.c = Code()
        word = {name: c.load(c.at("%told", TAYLOR.fields[name].offset), "i64") for name in TAYLOR.fields}
        self.p, self.points = word["order"], word["points"]
        self.to = {
            name: c.let(f"inttoptr i64 {x} to ptr") for name, x in word.items() if name not in ("clock", "order", "points")
        }
        self.clock = c.let(f"bitcast i64 {word['clock']} to double")
        self.n, self.times, self.clipped = (
            c.load(c.at("%counts", COUNTED.fields[name].offset), "i64") for name in ("size", "times", "clipped")
        )
        self.tolerance = c.load(c.at("%numbers", NUMBERS.fields["tolerance"].offset))
        self.t, self.before = (c.at("%numbers", NUMBERS.fields[name].offset) for name in ("t", "h"))
        self.steps, self.saved, self.most = (
            c.at("%counts", COUNTED.fields[name].offset) for name in ("steps", "saved", "most")
        )
        self.h, self.natural, self.end = (c.slot(x) for x in ("h", "natural", "end"))
        self.capped, self.solves = (c.slot(x, "i1") for x in ("capped", "solves"))
        self.new = self.to["given"]

    def text(self) -> str:
        c = self.c
        arguments = ["told", "watch", "watch_told", "numbers", "counts", "times", "y", "rows"]
        self._copied("%y", self.new)
        self._begun(c.load(self.t))
        c.label("step")
        self._expanded()
        self._proposed()
        self._judged()
        self._accepted()
        for name, code in (("too_small", TOO_SMALL), ("too_many", TOO_MANY), ("watched", WATCHED), ("reached", REACHED),
                           ("no_series", NO_SERIES)):  # fmt: skip
            c.label(name)
            c.line(f"ret i64 {code}")
        return c.function(f"define i64 @taylor({', '.join(f'ptr %{name}' for name in arguments)}) nounwind")

    def _copied(self, source: str, to: str) -> None:
        c = self.c
        with c.loop(0, self.n) as l:
            c.store(c.load(c.at(source, l)), c.at(to, l))

    def _begun(self, t: str) -> None:
        """The field at what stands in `given`, at the time t; to "no_series" where it does not hold."""
        c, on = self.c, self.c.name("on")
        c.store(c.times(self.clock, t), c.at(self.new, self.n))
        c.line(f"call void {self.to['begin']}(ptr {self.new}, ptr {self.to['kept']}, ptr {self.to['slope']})")
        holds = c.compare("ogt", c.load(c.at(self.to["slope"], self.n)), c.constant(0.5))
        c.fork(holds, on, "no_series", True)
        c.label(on)

    def _expanded(self) -> None:
        """Count the step; the coefficients, and the length that they propose."""
        c, on = self.c, self.c.name("on")
        count = c.let(f"add i64 {c.load(self.steps, 'i64')}, 1")
        c.fork(c.let(f"icmp sgt i64 {count}, {c.load(self.most, 'i64')}"), "too_many", on, False)
        c.label(on)
        c.store(count, self.steps, "i64")
        first = c.at(self.to["rows"], self.n)
        with c.loop(0, self.n) as l:
            c.store(c.load(c.at("%y", l)), c.at(self.to["rows"], l))
            c.store(c.times(self.clock, c.load(c.at(self.to["slope"], l))), c.at(first, l))
        c.line(f"call void {self.to['expand']}(ptr {self.to['kept']}, ptr {self.to['rows']}, ptr {self.to['work']}, "
               f"i64 {self.p}, double {self.clock})")  # fmt: skip
        lengths = self._lengths([c.let(f"sub i64 {self.p}, {back}") for back in (0, 1)])
        h = c.select(c.compare("olt", *lengths), *lengths)
        good = c.both(*(c.compare("ogt", x, c.constant(0.0)) for x in lengths))
        long = c.name("long")
        c.fork(good, long, "no_series", True)
        c.label(long)
        most = c.times(c.constant(GROWTH), c.load(self.before))
        free = c.compare("olt", h, most)
        c.store(c.negated(free), self.capped, "i1")
        c.store(c.select(free, h, most), self.natural)
        c.store(c.load(self.natural), self.h)

    def _lengths(self, orders: Sequence[str]) -> list[str]:
        """(tolerance (1 + |y|) / |y_k|)^(1/k) for the largest of these quotients, of each order k; 0 if one is no number."""
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
        return self.c.plus(self.c.constant(1.0), self.c.absolute(self.c.load(self.c.at("%y", l))))

    def _root(self, norm: str, k: str) -> str:
        """(tolerance / norm)^(1/k), to 6 %: its bits are a k-th of the way from those of 1 to those of the number."""
        c = self.c
        ratio = c.let(f"fdiv double {c.times(self.tolerance, c.constant(PART))}, {norm}")
        bits = c.let(f"sub i64 {c.let(f'bitcast double {ratio} to i64')}, {ONE}")
        root = c.let(f"add i64 {c.let(f'sdiv i64 {bits}, {k}')}, {ONE}")
        found = c.let(f"bitcast i64 {root} to double")
        return c.select(c.compare("olt", norm, c.constant(float("inf"))), found, c.constant(0.0))

    def _proposed(self) -> None:
        c = self.c
        c.label("propose")
        last = c.let(f"sub i64 {self.times}, 1")
        to_next = c.let(f"icmp ne i64 {self.clipped}, 0")
        index = c.let(f"select i1 {to_next}, i64 {c.load(self.saved, 'i64')}, i64 {last}")
        bound, t, h = c.load(c.at("%times", index)), c.load(self.t), c.load(self.h)
        ahead = c.plus(t, h)
        beyond = c.let(f"fcmp oge double {ahead}, {bound}")
        end = c.select(beyond, bound, ahead)
        c.store(end, self.end)
        h = c.minus(end, t)  # far from t = 0 the sum is rounded: what has passed is the difference
        c.store(h, self.h)
        least = c.times(c.constant(TINY), c.absolute(t))
        enough, long = c.let(f"fcmp ogt double {h}, {least}"), c.name("long")
        c.fork(c.let(f"or i1 {enough}, {beyond}"), long, "too_small", True)
        c.label(long)

    def _judged(self) -> None:
        """The new y, and the field there; a shorter step where the polynomial does not solve the equation.

        A series knows its beginning alone: what is flat there to rounding, as e^-x² is, may be a wall within the step. So
        the equation is looked at along the step where it has such functions, or where the coefficients set no limit.
        """
        c = self.c
        h, t = c.load(self.h), c.load(self.t)
        points = c.let(f"select i1 {c.load(self.capped, 'i1')}, i64 {POINTS}, i64 {self.points}")
        c.store("true", self.solves, "i1")
        c.fork(c.let(f"icmp eq i64 {points}, 1"), "at_end", "along", True)
        c.label("along")
        part = c.let(f"fdiv double {h}, {c.let(f'sitofp i64 {points} to double')}")
        with c.loop(1, points) as i:
            passed = c.times(part, c.let(f"sitofp i64 {i} to double"))
            self._looked_at(passed, c.plus(t, passed))
        c.label("at_end")
        self._looked_at(h, c.load(self.end))
        c.fork(c.load(self.solves, "i1"), "accept", "refuse", True)
        c.label("refuse")
        half = c.times(c.constant(0.5), h)
        c.store(half, self.h)
        c.store(half, self.natural)
        c.go("propose")

    def _looked_at(self, passed: str, t: str) -> None:
        """Whether h |ẏ - f(y)| is small, too, where so much of the step has passed."""
        c = self.c
        self._polynomial(passed, self.new)
        self._begun(t)
        allowed = c.times(c.constant(DEFECT), c.plus(self.tolerance, c.constant(64 * 2.0**-52)))
        with c.loop(0, self.n) as l:
            rate = c.times(self.clock, c.load(c.at(self.to["slope"], l)))
            defect = c.absolute(c.times(c.load(self.h), c.minus(rate, c.load(c.at(self.to["rate"], l)))))
            small = c.compare("ole", defect, c.times(allowed, self._size(l)))
            c.store(c.both(c.load(self.solves, "i1"), small), self.solves, "i1")

    def _polynomial(self, h: str, to: str) -> None:
        self.c.line(f"call void {self.to['polynomial']}(ptr {self.to['rows']}, i64 {self.p}, double {h}, ptr {to}, "
                    f"ptr {self.to['rate']})")  # fmt: skip

    def _accepted(self) -> None:
        """Rows up to the end of the step, then the end becomes the beginning of the next one."""
        c = self.c
        c.label("accept")
        c.label("row")
        saved = self._due("interpolate", "rows_done", "olt")
        c.label("interpolate")
        passed = c.minus(c.load(c.at("%times", saved)), c.load(self.t))
        self._polynomial(passed, self._row(saved))
        c.store(c.let(f"add i64 {saved}, 1"), self.saved, "i64")
        c.go("row")
        c.label("rows_done")
        saved = self._due("last_row", "rows_written", "oeq")
        c.label("last_row")
        self._copied(self.new, self._row(saved))
        c.store(c.let(f"add i64 {saved}, 1"), self.saved, "i64")
        c.label("rows_written")
        c.store(c.load(self.end), self.t)
        c.store(c.load(self.natural), self.before)
        self._copied(self.new, "%y")
        over = c.let(f"icmp sge i64 {c.load(self.saved, 'i64')}, {self.times}")
        c.fork(over, "reached", "look", False)
        c.label("look")
        c.fork(c.let("icmp eq ptr %watch, null"), "step", "watching", True)
        c.label("watching")
        value = c.slot("watched")
        code = c.let(f"call i64 %watch(ptr %watch_told, double {c.load(self.t)}, ptr %y, ptr {value})")
        c.fork(c.let(f"icmp eq i64 {code}, 0"), "seen", "watched", True)
        c.label("seen")
        c.fork(c.compare("oge", c.load(value), c.constant(0.0)), "step", "watched", True)

    def _due(self, yes: str, no: str, order: str) -> str:
        """To `yes` if a time that is not saved yet is within the step, or at its end (order "oeq"); returns its row."""
        c, inside = self.c, self.c.name("inside")
        saved = c.load(self.saved, "i64")
        c.fork(c.let(f"icmp slt i64 {saved}, {self.times}"), inside, no)
        c.label(inside)
        time = c.load(c.at("%times", saved))
        c.fork(c.compare(order, time, c.load(self.end)), yes, no)
        return saved

    def _row(self, saved: str) -> str:
        return self.c.at("%rows", self.c.let(f"mul i64 {saved}, {self.n}"))
