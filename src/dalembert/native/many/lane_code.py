"""The method of order 8 for several integrations side by side, each with a step of its own, as one loop of machine code.

It is `loop_code` with a vector in place of every number. It holds no system: the field is an address.
"""

from __future__ import annotations

from collections.abc import Callable

from dalembert.native.flow.coefficients import ERROR_3, ERROR_5, NODES, STAGES
from dalembert.native.flow.field_code import NEAR, ROUNDING, UPDATES
from dalembert.native.flow.loop_code import COLUMNS, END, LARGEST, SAFETY, SHORTEST, SMALLEST, dense_terms
from dalembert.native.flow.step_loop import TINY
from dalembert.native.llvm.builder import module
from dalembert.native.many.lane_vectors import FINISHED, FRESH, LEFT, ON, LaneVectors, wide_function


def lane_loop(width: int) -> str:
    """LLVM module with  void @lanes(ptr told): steps of all lanes that are ON or FRESH, until one of them is neither, or for
    `budget` steps. FRESH: its first slope and step are still to be found."""
    made = _LaneLoop(width)
    text = made.text()
    return module(text, declared=made.c.declared)


class _LaneLoop(LaneVectors):
    """Steps of all lanes."""

    def text(self) -> str:
        c = self.c
        c.store("0", self.count, "i64")
        c.fork(c.some(self._is(FRESH)), "fresh", "step", False)
        c.label("fresh")
        fresh = self._is(FRESH)
        self._first(fresh)
        c.fork(c.some(c.both(fresh, c.negated(self._is(ON)))), "out", "step", False)
        c.label("step")
        c.store(self._is(ON), self.live, c.truth)
        c.store(c.load(self.live, c.truth), self.holds, c.truth)
        self._proposed()
        self._stages()
        self._judged()
        self._rows()
        self._accepted()
        return c.function(f"define void @lanes(ptr %told) {wide_function(self.w)}")

    def _first(self, fresh: str) -> None:
        """As in `loop_code`, in the lanes that are fresh; those without a slope are left."""
        c, number = self.c, self.c.constant
        c.store(fresh, self.holds, c.truth)
        self._copied(self.to["y"], self.to["given"])
        self._field(self._of("t"), self.slopes[0], c.negated(fresh))
        whole = c.minus(self._of("last"), self._of("t"))
        state, speed = self._size(self.to["y"]), self._size(self.slopes[0])
        large = c.compare("oge", self._least(state, speed), number(1e-5))
        short = c.select(large, c.times(number(0.01), self._over(state, speed)), number(SHORTEST))
        short = self._least(short, whole)
        self._put("h", short, fresh)
        self._moved({0: 1.0})
        begun = c.load(self.holds, c.truth)
        self._field(c.plus(self._of("t"), short), self.slopes[1])
        with c.loop(0, self.n) as l:
            a, b = (c.load(self._component(self.slopes[i], l)) for i in (1, 0))
            c.store(c.minus(a, b), self._component(self.slopes[2], l))
        bend = self._most(self._over(self._size(self.slopes[2]), short), speed)
        steady = self._most(c.times(number(1e-3), short), number(SHORTEST))
        found = c.intrinsic("pow", self._over(number(0.01), bend), number(0.125))
        found = c.select(c.compare("ogt", bend, number(1e-15)), found, steady)
        found = c.select(c.compare("ogt", found, number(0.0)), found, short)
        found = self._least(self._least(c.times(number(100.0), short), found), whole)
        self._put("h", c.select(c.load(self.holds, c.truth), found, short), fresh)
        sound = c.both(begun, c.compare("olt", c.plus(state, speed), number(float("inf"))))
        self._put("state", c.select(sound, number(float(ON)), number(float(LEFT))), fresh)

    def _proposed(self) -> None:
        """Count the step, and end it at the last time; a lane that has had all its steps, or whose step is too small, is
        left."""
        c, t, live = self.c, self._of("t"), self.c.load(self.live, self.c.truth)
        self._put("steps", c.plus(self._of("steps"), c.constant(1.0)), live)
        ahead, last = c.plus(t, self._of("h")), self._of("last")
        beyond = c.compare("oge", ahead, last)
        c.store(c.select(beyond, last, ahead), self.end)
        h = c.minus(c.load(self.end), t)
        self._put("h", c.select(live, h, c.constant(0.0)), c.constant(True))
        long = c.either(beyond, c.compare("ogt", h, c.times(c.constant(TINY), c.absolute(t))))
        few = c.compare("ole", self._of("steps"), self._number(self.most))
        c.store(c.both(c.load(self.holds, c.truth), c.both(long, few)), self.holds, c.truth)

    def _stages(self) -> None:
        """The slopes, the new y, its error, and the slope there after its projection."""
        for i in range(1, END):
            self._moved(STAGES[i])
            self._field(self._time(i), self.slopes[i])
        self._moved(STAGES[END])
        self._copied(self.to["given"], self.to["new"])
        self._measured()
        self._projected()
        self._copied(self.to["new"], self.to["given"])
        self._field(self._time(END), self.slopes[END])

    def _time(self, i: int) -> str:
        c = self.c
        return c.plus(self._of("t"), c.times(c.constant(NODES[i]), self._of("h")))

    def _projected(self) -> None:
        """The new y to the nearest one on the constraints, as `project` of `field_code`; a step without one has no error
        that is allowed."""
        c, given, result = self.c, self.to["onto_given"], self.to["onto_result"]
        pending, updates, infinite = c.slot("pending", c.truth), c.slot("updates", "i64"), c.constant(float("inf"))
        c.fork(c.let(f"icmp eq ptr {self.to['onto']}, null"), "free", "bound")
        c.label("bound")
        c.store(c.load(self.holds, c.truth), pending, c.truth)
        c.store("0", updates, "i64")
        c.store(c.times(self._of("clock"), c.load(self.end)), self._component(given, self.n))
        c.label("update")
        self._copied(self.to["new"], given)
        c.line(f"call void {self.to['onto']}(ptr {given}, ptr {result})")
        sizes = self._component(result, self.n)
        before, after, rest = (c.load(c.at(sizes, i * self.w)) for i in range(3))
        exact, near = c.compare("ole", after, c.constant(ROUNDING)), c.compare("ole", rest, c.constant(NEAR))
        nearer = c.compare("ole", after, c.times(c.constant(0.5), before))  # not so if it is NaN
        good, now = c.either(near, nearer), c.load(pending, c.truth)
        c.store(c.select(c.both(now, c.negated(good)), infinite, c.load(self.five)), self.five)
        self._copied(result, self.to["new"], c.both(now, good))
        done = c.either(exact, c.both(near, c.negated(nearer)))
        c.store(c.both(c.both(now, good), c.negated(done)), pending, c.truth)
        count = c.let(f"add i64 {c.load(updates, 'i64')}, 1")
        c.store(count, updates, "i64")
        more = c.let(f"and i1 {c.some(c.load(pending, c.truth))}, {c.let(f'icmp slt i64 {count}, {UPDATES}')}")
        c.fork(more, "update", "updated", False)
        c.label("updated")
        c.store(c.select(c.load(pending, c.truth), infinite, c.load(self.five)), self.five)
        c.label("free")

    def _measured(self) -> None:
        """The error, as in `loop_code`."""
        c, h = self.c, self._of("h")
        for slot in (self.five, self.three):
            c.store(c.constant(0.0), slot)
        with c.loop(0, self.n) as l:
            old, new = (c.absolute(c.load(self._component(self.to[x], l))) for x in ("y", "new"))
            allowed = self._allowed(l, self._most(old, new))
            for slot, row in ((self.five, ERROR_5), (self.three, ERROR_3)):
                e = self._over(self._sum(row, l), allowed)
                c.store(c.plus(c.load(slot), c.times(e, e)), slot)
        five = c.load(self.five)
        whole = c.plus(five, c.times(c.constant(0.01), c.load(self.three)))
        norm = self._over(c.times(h, five), c.intrinsic("sqrt", c.times(whole, self._number(self.n))))
        norm = c.select(c.compare("oeq", whole, c.constant(0.0)), c.constant(0.0), norm)
        c.store(norm, self.five)

    def _judged(self) -> None:
        """The lanes whose step is taken, and those that are left."""
        c = self.c
        good = c.compare("olt", c.load(self.five), c.constant(1.0))  # not so if it is NaN
        live, holds = c.load(self.live, c.truth), c.load(self.holds, c.truth)
        c.store(c.both(good, c.both(live, holds)), self.taken, c.truth)
        self._put("state", c.constant(float(LEFT)), c.both(live, c.negated(holds)))

    def _rows(self) -> None:
        """The rows of every lane at times before the end of its step by interpolation, that at its end from the new y."""
        c = self.c
        before = c.compare("olt", self._of("due"), c.load(self.end))
        c.fork(c.some(c.both(c.load(self.taken, c.truth), before)), "between", "ends", False)
        c.label("between")
        for i in range(END + 1, COLUMNS):
            self._moved(STAGES[i])
            self._field(self._time(i), self.slopes[i])
        lost = c.both(c.load(self.taken, c.truth), c.negated(c.load(self.holds, c.truth)))
        self._put("state", c.constant(float(LEFT)), lost)
        c.store(c.both(c.load(self.taken, c.truth), c.negated(lost)), self.taken, c.truth)
        self._terms()
        self._written("olt", self._between)
        c.label("ends")
        self._written("oeq", self._at_end)

    def _terms(self) -> None:
        """The seven terms of the polynomial."""
        c, h = self.c, self._of("h")
        with c.loop(0, self.n) as l:
            change = c.minus(*(c.load(self._component(self.to[x], l)) for x in ("new", "y")))
            terms = dense_terms(c, h, change, lambda j, l=l: self._slope(j, l))
            for x, to in zip(terms, self.dense, strict=True):
                c.store(x, self._component(to, l))

    def _written(self, order: str, value: Callable[[str, str], str]) -> None:
        """Rows at times before the end ("olt") or at it ("oeq"), lane by lane. value: of (s, where it stands)."""
        c = self.c
        mask = c.both(c.load(self.taken, c.truth), c.compare(order, self._of("due"), c.load(self.end)))
        done = c.name("done")
        some = c.name("some")
        c.fork(c.some(mask), some, done)
        c.label(some)
        bits = c.slot("mask", f"[{self.w} x i8]")
        c.line(f"store <{self.w} x i8> {c.let(f'zext {c.truth} {mask} to <{self.w} x i8>')}, ptr {bits}, align 8")
        with c.loop(0, str(self.w)) as i:
            here, on, more, over = (c.name(x) for x in ("here", "on", "more", "over"))
            is_due = c.let(f"load i8, ptr {c.let(f'getelementptr i8, ptr {bits}, i64 {i}')}, align 1")
            c.fork(c.let(f"icmp ne i8 {is_due}, 0"), here, over)
            c.label(here)
            rows, times = (c.load(c.at(self.to[x], i, "ptr"), "ptr") for x in ("rows", "times"))
            at = {name: c.at(self.each[name], i) for name in ("saved", "due", "t", "h")}
            end = c.load(c.at(self.end, i), "double")
            c.label(more)
            due = c.load(at["due"], "double")
            c.fork(c.let(f"fcmp {order} double {due}, {end}"), on, over)
            c.label(on)
            saved = c.let(f"fptosi double {c.load(at['saved'], 'double')} to i64")
            row = c.at(rows, c.let(f"mul i64 {saved}, {self.n}"))
            passed = c.let(f"fsub double {due}, {c.load(at['t'], 'double')}")
            s = c.let(f"fdiv double {passed}, {c.load(at['h'], 'double')}")
            with c.loop(0, self.n) as l:
                place = c.let(f"add i64 {c.let(f'mul i64 {l}, {self.w}')}, {i}")
                c.store(value(s, place), c.at(row, l), "double")
            after = c.let(f"add i64 {saved}, 1")
            c.store(c.let(f"sitofp i64 {after} to double"), at["saved"], "double")
            inside, far = c.let(f"icmp slt i64 {after}, {self.length}"), c.name("far")
            nearer = c.name("nearer")
            c.fork(inside, nearer, far)
            c.label(nearer)
            c.store(c.load(c.at(times, after), "double"), at["due"], "double")
            c.go(more)
            c.label(far)
            c.store("0x7FF0000000000000", at["due"], "double")
            c.label(over)
        c.label(done)

    def _between(self, s: str, place: str) -> str:
        """y + s (d₀ + (1 - s)(d₁ + s (d₂ + …)))."""
        c = self.c
        factors, total = (s, c.let(f"fsub double 1.0, {s}")), "0.0"
        for i, term in reversed(list(enumerate(self.dense))):
            inner = c.let(f"fadd double {total}, {c.load(c.at(term, place), 'double')}")
            total = c.let(f"fmul double {factors[i % 2]}, {inner}")
        return c.let(f"fadd double {c.load(c.at(self.to['y'], place), 'double')}, {total}")

    def _at_end(self, _: str, place: str) -> str:
        return self.c.load(self.c.at(self.to["new"], place), "double")

    def _accepted(self) -> None:
        """The end of a step that is taken is the beginning of the next one."""
        c, norm = self.c, self.c.load(self.five)
        live, taken = c.load(self.live, c.truth), c.load(self.taken, c.truth)
        power = norm
        for _ in range(3):
            power = c.intrinsic("sqrt", power)
        factor = self._most(self._over(c.constant(SAFETY), power), c.constant(SMALLEST))
        again = c.compare("ogt", self._of("refused"), c.constant(0.5))
        factor = self._least(factor, c.select(again, c.constant(1.0), c.constant(LARGEST)))
        self._put("h", c.times(self._of("h"), factor), live)
        self._put("refused", c.select(taken, c.constant(0.0), c.constant(1.0)), live)
        self._put("t", c.load(self.end), taken)
        self._copied(self.to["new"], self.to["y"], taken)
        self._copied(self.slopes[END], self.slopes[0], taken)
        finished = c.both(taken, c.compare("oge", self._of("t"), self._of("last")))
        self._put("state", c.constant(float(FINISHED)), finished)
        count = c.let(f"add i64 {c.load(self.count, 'i64')}, 1")
        c.store(count, self.count, "i64")
        ended = c.some(c.both(live, c.negated(self._is(ON))))
        over = c.let(f"icmp sge i64 {count}, {self.budget}")
        c.fork(c.let(f"or i1 {ended}, {over}"), "out", "step")
        c.label("out")
        c.line("ret void")
