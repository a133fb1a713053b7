"""The method of order 8 with its step control and its interpolant as one loop of machine code, for any field that is one.

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j),   y ← y + h Σ b_j k_j

It holds no system: field, watch and what they are told are addresses, and the number of components is an argument.
"""

from __future__ import annotations

from collections.abc import Callable

from dalembert.native.flow.coefficients import DENSE, ERROR_3, ERROR_5, NODES, STAGES, Row
from dalembert.native.flow.step_loop import StepLoop
from dalembert.native.llvm.builder import Code, module

END = 12  # the stage at the end of a step, whose slope begins the next one
COLUMNS = len(STAGES)
SHORTEST = 1e-6  # of first steps, where sizes say nothing
SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0  # of the factor by which a step changes

WORK = ("slopes", "stage", "new", "dense")  # their columns have `size` numbers


def work_size(size: int) -> int:
    """Numbers of the workspace."""
    return size * (COLUMNS + 2 + 3 + len(DENSE))


def loop() -> str:
    """LLVM module with  i64 @integrate(ptr field, ptr told, ptr watch, ptr watch_told, ptr project, ptr project_told,
    ptr numbers, ptr counts, ptr times, ptr y, ptr rows, ptr work): y from numbers.t over times, one row each, as `NUMBERS`
    and `COUNTED` lay out.

    The error of a step is judged in the mean square of |error| / (tolerance (s + |y|)), s the typical size. clipped: steps
    end at the times; otherwise rows come from the interpolant. watch: 0, or a field with one result; below 0 at the end of a
    step it ends the integration. project: 0, or what brings the y of a row, and that at the end of a step, onto constraints;
    a step for which it does not is refused. numbers.h: the first step, or 0. In y and numbers.t is what was reached. Returns
    REACHED, TOO_MANY steps (of those refused, too), TOO_SMALL a step, or WATCHED. After TOO_MANY it goes on with a larger
    count as if it had not ended.
    """
    return module(_Loop().text(), declared=())


def weighted_sum(c: Code, row: Row, slope: Callable[[int], str]) -> str:
    """Σ a_j k_j of one component. slope: j → k_j."""
    total, *terms = [c.times(c.constant(a), slope(j)) for j, a in row.items()]
    for term in terms:
        total = c.plus(total, term)
    return total


def dense_terms(c: Code, h: str, change: str, slope: Callable[[int], str]) -> list[str]:
    """The seven terms of the polynomial, of one component. change: of y in the step."""
    first, last = (c.times(h, slope(i)) for i in (0, END))
    bend = c.minus(change, first)
    terms = [change, c.minus(first, change), c.minus(bend, c.minus(last, change))]
    return [*terms, *(c.times(h, weighted_sum(c, row, slope)) for row in DENSE)]


class _Loop(StepLoop):
    """refused: in this step. Slots: norm of the error, the next h, whether this one is cut."""

    shorter = "shorter"

    def __init__(self) -> None:
        super().__init__()
        c = self.c
        self.slopes = [c.at("%work", self._columns(i)) for i in range(COLUMNS)]
        self.stage, self.new = (c.at("%work", self._columns(COLUMNS + i)) for i in range(2))
        self.dense = [c.at("%work", self._columns(COLUMNS + 2 + i)) for i in range(3 + len(DENSE))]
        self.h, self.norm, self.next, self.cut = self.kept_h, c.slot("norm"), c.slot("next"), c.slot("cut", "i1")

    def _columns(self, i: int) -> str:
        return self.c.let(f"mul i64 {self.n}, {i}")

    def text(self) -> str:
        c = self.c
        arguments = ["field", "told", "watch", "watch_told", "project", "project_told", "numbers", "counts", "times", "y",
                     "rows", "work"]  # fmt: skip
        self._field(self.slopes[0], c.load(self.t), "%y", "no_slope")
        c.fork(c.compare("ogt", c.load(self.h), c.constant(0.0)), "step", "first", True)
        c.label("first")
        self._first()
        c.label("step")
        self._proposed()
        self._stages()
        self._judged()
        self._accepted()
        c.label("no_slope")
        self._returns()
        return c.function(f"define i64 @integrate({', '.join(f'ptr %{name}' for name in arguments)}) nounwind")

    def _first(self) -> None:
        """A first step whose error is about the tolerance: from the sizes of y, ẏ and ÿ; Hairer, Norsett, Wanner, II.4."""
        c, number, t = self.c, self.c.constant, self.c.load(self.t)
        over = lambda x, y: c.let(f"fdiv double {x}, {y}")  # noqa: E731
        least = lambda x, y: c.select(c.compare("olt", x, y), x, y)  # noqa: E731
        whole = c.minus(c.load(c.at("%times", c.let(f"sub i64 {self.times}, 1"))), t)
        state = self._size(lambda l: c.load(c.at("%y", l)))
        speed = self._size(lambda l: c.load(c.at(self.slopes[0], l)))
        large = c.compare("oge", least(state, speed), number(1e-5))
        short = least(c.select(large, c.times(number(0.01), over(state, speed)), number(SHORTEST)), whole)
        known = c.compare("olt", c.plus(state, speed), number(float("inf")))
        c.store(c.select(known, short, least(number(SHORTEST), whole)), self.h)
        c.fork(known, "bend", "step", True)
        c.label("bend")
        self._moved(self.stage, {0: 1.0})
        self._field(self.slopes[1], c.plus(t, short), self.stage, "step")
        change = lambda l: c.minus(*(c.load(c.at(self.slopes[i], l)) for i in (1, 0)))  # noqa: E731
        bent = over(self._size(change), short)
        bend = c.select(c.compare("ogt", bent, speed), bent, speed)
        steady = c.times(number(1e-3), short)
        steady = c.select(c.compare("ogt", steady, number(SHORTEST)), steady, number(SHORTEST))
        found = c.intrinsic("pow", over(number(0.01), bend), number(0.125))
        found = c.select(c.compare("ogt", bend, number(1e-15)), found, steady)
        found = c.select(c.compare("ogt", found, number(0.0)), found, short)
        c.store(least(least(c.times(number(100.0), short), found), whole), self.h)

    def _size(self, component: Callable[[str], str]) -> str:
        """√(mean of (x / (tolerance (s + |y|)))²), s the typical size."""
        c, total = self.c, self.c.slot("total")
        c.store(c.constant(0.0), total)
        with c.loop(0, self.n) as l:
            part = c.let(f"fdiv double {component(l)}, {self._allowed(l, c.absolute(c.load(c.at('%y', l))))}")
            c.store(c.plus(c.load(total), c.times(part, part)), total)
        return c.intrinsic("sqrt", c.let(f"fdiv double {c.load(total)}, {c.let(f'sitofp i64 {self.n} to double')}"))

    def _allowed(self, l: str, size: str) -> str:
        c = self.c
        return c.plus(c.times(self.tolerance, self._typical(l)), c.times(self.tolerance, size))

    def _proposed(self) -> None:
        self._counted()
        c, h = self.c, self.c.load(self.h)
        c.store(h, self.next)
        h, cut = self._ended(h)
        c.store(cut, self.cut, "i1")
        c.store(h, self.h)

    def _stages(self) -> None:
        """The slopes k₁ … k₁₁ and the new y, projected, with the slope there; then the norm of the error. Where a slope does
        not exist, or no projection, it is infinite."""
        c = self.c
        c.store(c.constant(float("inf")), self.norm)
        for i in range(1, END):
            self._moved(self.stage, STAGES[i])
            self._field(self.slopes[i], self._time(i), self.stage, "judge")
        self._moved(self.new, STAGES[END])
        self._measured()
        self._projected(self.new, c.load(self.end), "unbounded")
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
        return weighted_sum(self.c, row, lambda j: self.c.load(self.c.at(self.slopes[j], l)))

    def _measured(self) -> None:
        """h |e₅|² / √(n (|e₅|² + |e₃|²/100)), in units of what is allowed; Hairer, Norsett, Wanner, II.10."""
        c, five, three = self.c, self.c.slot("five"), self.c.slot("three")
        for slot in (five, three):
            c.store(c.constant(0.0), slot)
        with c.loop(0, self.n) as l:
            old, new = (c.absolute(c.load(c.at(x, l))) for x in ("%y", self.new))
            size = c.select(c.compare("ogt", old, new), old, new)
            allowed = self._allowed(l, size)
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
        self._rows()
        self._copied(self.slopes[END], self.slopes[0])
        self._begun_again(self.c.load(self.next))

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
            terms = dense_terms(c, h, change, lambda j, l=l: c.load(c.at(self.slopes[j], l)))
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
