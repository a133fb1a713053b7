"""The method of order 8 with its step control and its interpolant as one loop of machine code, for any field that is one.

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j),   y ← y + h Σ b_j k_j

It holds no system: field, watch and what they are told are addresses, and the number of components is an argument.
"""

from __future__ import annotations

from dalembert.native.flow.coefficients import DENSE, ERROR_3, ERROR_5, NODES, STAGES, Row
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.packing import Packing

REACHED, TOO_MANY, TOO_SMALL, WATCHED = range(4)
END = 12  # the stage at the end of a step, whose slope begins the next one
COLUMNS = len(STAGES)
SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0  # of the factor by which a step changes
TINY = 4.0 * 2.0**-52  # of t: a step that is not longer does not move it

NUMBERS = Packing.scalars("t", "h", "tolerance")
COUNTED = Packing.words("size", "times", "most", "clipped", "steps", "saved", "refused")
WORK = ("slopes", "stage", "new", "dense")  # their columns have `size` numbers


def work_size(size: int) -> int:
    """Numbers of the workspace."""
    return size * (COLUMNS + 2 + 3 + len(DENSE))


def loop() -> str:
    """LLVM module with  i64 @integrate(ptr field, ptr told, ptr watch, ptr watch_told, ptr numbers, ptr counts, ptr times,
    ptr y, ptr rows, ptr work): y from numbers.t over times, one row each, as `NUMBERS` and `COUNTED` lay out.

    The error of a step is judged in the mean square of |error| / (tolerance (1 + |y|)). clipped: steps end at the times;
    otherwise rows come from the interpolant. watch: 0, or a field with one result; below 0 at the end of a step it ends the
    integration. In y and numbers.t is what was reached. Returns REACHED, TOO_MANY steps (of those refused, too), TOO_SMALL
    a step, or WATCHED. After TOO_MANY it goes on with a larger count as if it had not ended.
    """
    return module(_Loop().text(), declared=())


class _Loop:
    """Writes the loop. refused: in this step. Slots: norm of the error, the next h, the end of the step."""

    def __init__(self) -> None:
        c = self.c = Code()
        self.n, self.times, self.clipped = (
            c.load(c.at("%counts", COUNTED.fields[name].offset), "i64") for name in ("size", "times", "clipped")
        )
        self.tolerance = c.load(c.at("%numbers", NUMBERS.fields["tolerance"].offset))
        self.slopes = [c.at("%work", self._columns(i)) for i in range(COLUMNS)]
        self.stage, self.new = (c.at("%work", self._columns(COLUMNS + i)) for i in range(2))
        self.dense = [c.at("%work", self._columns(COLUMNS + 2 + i)) for i in range(3 + len(DENSE))]
        self.t, self.h = (c.at("%numbers", NUMBERS.fields[name].offset) for name in ("t", "h"))
        self.steps, self.saved, self.most, self.refused = (
            c.at("%counts", COUNTED.fields[name].offset) for name in ("steps", "saved", "most", "refused")
        )
        self.norm, self.next, self.end = c.slot("norm"), c.slot("next"), c.slot("end")
        self.cut = c.slot("cut", "i1")

    def _columns(self, i: int) -> str:
        return self.c.let(f"mul i64 {self.n}, {i}")

    def text(self) -> str:
        c = self.c
        arguments = ["field", "told", "watch", "watch_told", "numbers", "counts", "times", "y", "rows", "work"]
        self._field(self.slopes[0], c.load(self.t), "%y", "no_slope")
        c.label("step")
        self._proposed()
        self._stages()
        self._judged()
        self._accepted()
        c.label("no_slope")
        c.label("too_small")
        c.line(f"ret i64 {TOO_SMALL}")
        c.label("too_many")
        c.line(f"ret i64 {TOO_MANY}")
        c.label("watched")
        c.line(f"ret i64 {WATCHED}")
        c.label("reached")
        c.line(f"ret i64 {REACHED}")
        return c.function(f"define i64 @integrate({', '.join(f'ptr %{name}' for name in arguments)}) nounwind")

    def _field(self, out: str, t: str, y: str, otherwise: str, field: str = "%field", told: str = "%told") -> None:
        """out ← f(t, y); to the label `otherwise` where it has no value."""
        c, on = self.c, self.c.name("on")
        code = c.let(f"call i64 {field}(ptr {told}, double {t}, ptr {y}, ptr {out})")
        c.fork(c.let(f"icmp eq i64 {code}, 0"), on, otherwise, True)
        c.label(on)

    def _proposed(self) -> None:
        """Count the step, and end it where it may not go beyond: the next time, if steps end there, or the last."""
        c, on = self.c, self.c.name("on")
        count = c.let(f"add i64 {c.load(self.steps, 'i64')}, 1")
        c.fork(c.let(f"icmp sgt i64 {count}, {c.load(self.most, 'i64')}"), "too_many", on, False)
        c.label(on)
        c.store(count, self.steps, "i64")
        last = c.let(f"sub i64 {self.times}, 1")
        to_next = c.let(f"icmp ne i64 {self.clipped}, 0")
        index = c.let(f"select i1 {to_next}, i64 {c.load(self.saved, 'i64')}, i64 {last}")
        bound, t, h = c.load(c.at("%times", index)), c.load(self.t), c.load(self.h)
        ahead = c.plus(t, h)
        beyond = c.let(f"fcmp oge double {ahead}, {bound}")
        c.store(beyond, self.cut, "i1")
        end = c.select(beyond, bound, ahead)
        c.store(end, self.end)
        c.store(h, self.next)
        h = c.minus(end, t)  # far from t = 0 the sum is rounded: what has passed is the difference
        c.store(h, self.h)
        least = c.times(c.constant(TINY), c.absolute(t))
        enough, long = c.let(f"fcmp ogt double {h}, {least}"), c.name("long")
        c.fork(c.let(f"or i1 {enough}, {beyond}"), long, "too_small", True)
        c.label(long)

    def _stages(self) -> None:
        """The slopes k₁ … k₁₁ and the new y; then the norm of the error. Where a slope does not exist it is infinite."""
        c = self.c
        c.store(c.constant(float("inf")), self.norm)
        for i in range(1, END):
            self._moved(self.stage, STAGES[i])
            self._field(self.slopes[i], self._time(i), self.stage, "judge")
        self._moved(self.new, STAGES[END])
        self._measured()
        self._field(self.slopes[END], c.load(self.end), self.new, "unbounded")
        c.go("judge")
        c.label("unbounded")
        c.store(c.constant(float("inf")), self.norm)

    def _time(self, i: int) -> str:
        c = self.c
        return c.plus(c.load(self.t), c.times(c.constant(NODES[i]), c.load(self.h)))

    def _moved(self, to: str, row: Row) -> None:
        """to ← y + h Σ a_j k_j."""
        c, h = self.c, self.c.load(self.h)
        with c.loop(0, self.n) as l:
            c.store(c.plus(c.load(c.at("%y", l)), c.times(h, self._sum(row, l))), c.at(to, l))

    def _sum(self, row: Row, l: str) -> str:
        """Σ a_j k_j of one component."""
        c = self.c
        terms = [c.times(c.constant(a), c.load(c.at(self.slopes[j], l))) for j, a in row.items()]
        total = terms[0]
        for term in terms[1:]:
            total = c.plus(total, term)
        return total

    def _measured(self) -> None:
        """h |e₅|² / √(n (|e₅|² + |e₃|²/100)), in units of what is allowed; Hairer, Norsett, Wanner, II.10."""
        c, five, three = self.c, self.c.slot("five"), self.c.slot("three")
        for slot in (five, three):
            c.store(c.constant(0.0), slot)
        with c.loop(0, self.n) as l:
            old, new = (c.absolute(c.load(c.at(x, l))) for x in ("%y", self.new))
            size = c.select(c.compare("ogt", old, new), old, new)
            allowed = c.plus(self.tolerance, c.times(self.tolerance, size))
            for slot, row in ((five, ERROR_5), (three, ERROR_3)):
                e = c.let(f"fdiv double {self._sum(row, l)}, {allowed}")
                c.store(c.plus(c.load(slot), c.times(e, e)), slot)
        whole = c.plus(c.load(five), c.times(c.constant(0.01), c.load(three)))
        number = c.let(f"sitofp i64 {self.n} to double")
        root = c.intrinsic("sqrt", c.times(whole, number))
        found = c.let(f"fdiv double {c.times(c.load(self.h), c.load(five))}, {root}")
        nothing = c.compare("oeq", whole, c.constant(0.0))
        c.store(c.select(nothing, c.constant(0.0), found), self.norm)

    def _judged(self) -> None:
        """The length of the next step; back to "step" where this one is refused."""
        c = self.c
        c.label("judge")
        norm = c.load(self.norm)
        good = c.compare("olt", norm, c.constant(1.0))  # not so if it is NaN
        power = c.intrinsic("pow", norm, c.constant(-0.125))
        factor = c.times(c.constant(SAFETY), power)
        factor = c.select(c.compare("ogt", factor, c.constant(SMALLEST)), factor, c.constant(SMALLEST))
        refused = c.let(f"icmp ne i64 {c.load(self.refused, 'i64')}, 0")
        most = c.select(refused, c.constant(1.0), c.constant(LARGEST), "i1")
        factor = c.select(c.compare("olt", factor, most), factor, most)
        proposed = c.times(c.load(self.h), factor)
        c.fork(good, "accept", "refuse", True)
        c.label("refuse")
        c.store(proposed, self.h)
        c.store("1", self.refused, "i64")
        c.go("step")
        c.label("accept")
        before = c.load(self.next)  # a step that was cut says little about the next one: that which was meant is kept
        longer = c.both(c.load(self.cut, "i1"), c.compare("ogt", before, proposed))
        c.store(c.select(longer, before, proposed), self.next)
        c.store("0", self.refused, "i64")

    def _accepted(self) -> None:
        """Rows up to the end of the step, then the end becomes the beginning of the next one."""
        c = self.c
        self._rows()
        c.store(c.load(self.end), self.t)
        c.store(c.load(self.next), self.h)
        for source, to in ((self.new, "%y"), (self.slopes[END], self.slopes[0])):
            self._copied(source, to)
        over = c.let(f"icmp sge i64 {c.load(self.saved, 'i64')}, {self.times}")
        c.fork(over, "reached", "look", False)
        c.label("look")
        c.fork(c.let("icmp eq ptr %watch, null"), "step", "watching", True)
        c.label("watching")
        self._field(self.stage, c.load(self.t), "%y", "watched", "%watch", "%watch_told")
        c.fork(c.compare("oge", c.load(self.stage), c.constant(0.0)), "step", "watched", True)

    def _copied(self, source: str, to: str) -> None:
        c = self.c
        with c.loop(0, self.n) as l:
            c.store(c.load(c.at(source, l)), c.at(to, l))

    def _due(self, yes: str, no: str, order: str = "ole") -> str:
        """To `yes` if a time that is not saved yet is within the step, or at its end (order "oeq"); returns its row."""
        c, inside = self.c, self.c.name("inside")
        saved = c.load(self.saved, "i64")
        c.fork(c.let(f"icmp slt i64 {saved}, {self.times}"), inside, no)
        c.label(inside)
        time = c.load(c.at("%times", saved))
        c.fork(c.compare(order, time, c.load(self.end)), yes, no)
        return saved

    def _rows(self) -> None:
        """The rows at times before the end of the step by interpolation, that at its end from the new y."""
        c = self.c
        self._due("prepare", "rows_done", "olt")
        c.label("prepare")
        self._interpolant()
        c.label("row")
        saved = self._due("interpolate", "rows_done", "olt")
        c.label("interpolate")
        self._interpolated(saved)
        c.store(c.let(f"add i64 {saved}, 1"), self.saved, "i64")
        c.go("row")
        c.label("rows_done")
        saved = self._due("last_row", "rows_written", "oeq")
        c.label("last_row")
        self._copied(self.new, self._row(saved))
        c.store(c.let(f"add i64 {saved}, 1"), self.saved, "i64")
        c.label("rows_written")

    def _row(self, saved: str) -> str:
        return self.c.at("%rows", self.c.let(f"mul i64 {saved}, {self.n}"))

    def _interpolant(self) -> None:
        """The three more slopes and the seven terms of the polynomial; a step that has not these is refused."""
        c = self.c
        for i in range(END + 1, COLUMNS):
            self._moved(self.stage, STAGES[i])
            self._field(self.slopes[i], self._time(i), self.stage, "shorter")
        c.go("terms")
        c.label("shorter")
        c.store(c.times(c.constant(SMALLEST), c.load(self.h)), self.h)
        c.store("1", self.refused, "i64")
        c.go("step")
        c.label("terms")
        h = c.load(self.h)
        with c.loop(0, self.n) as l:
            change = c.minus(c.load(c.at(self.new, l)), c.load(c.at("%y", l)))
            first, last = (c.times(h, c.load(c.at(self.slopes[i], l))) for i in (0, END))
            bend = c.minus(change, first)
            terms = [change, c.minus(first, change), c.minus(bend, c.minus(last, change))]
            terms += [c.times(h, self._sum(row, l)) for row in DENSE]
            for x, to in zip(terms, self.dense, strict=True):
                c.store(x, c.at(to, l))

    def _interpolated(self, saved: str) -> None:
        """y + s (d₀ + (1 - s)(d₁ + s (d₂ + …))), s the part of the step that has passed."""
        c, row = self.c, self._row(saved)
        passed = c.minus(c.load(c.at("%times", saved)), c.load(self.t))
        s = c.let(f"fdiv double {passed}, {c.load(self.h)}")
        factors = s, c.minus(c.constant(1.0), s)
        with c.loop(0, self.n) as l:
            total = c.constant(0.0)
            for i, term in reversed(list(enumerate(self.dense))):
                total = c.times(factors[i % 2], c.plus(total, c.load(c.at(term, l))))
            c.store(c.plus(c.load(c.at("%y", l)), total), c.at(row, l))
