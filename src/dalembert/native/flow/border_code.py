"""What a step knows of the borders of choices, and of arguments, as machine code.

d of a border keeps its sign along a step, or the step ends where it changes. |u| of an argument may change by WAY in a step,
because its function shows in no slope where it is flat to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

from dalembert.native.flow.field_code import FIELD
from dalembert.native.llvm.builder import Code

SAMPLES = (0, 3, 5, 9, 10, 12)  # stages of a step, the first and the last among them, at which d and u are kept
WAY = 2.0, 0.5  # of an argument, at most: within which its function shows, or as a part of the argument


def border_numbers(many: int) -> int:
    """Of the samples, for so many borders and arguments."""
    return len(SAMPLES) * (1 + 2 * many)


class Borders:
    """Values and rates of borders and arguments as `Choices` lays them out: where the field was evaluated last, and at the
    samples of a step. slope: room for one. Slots: how long the step may be, and whether no border is at zero where it
    begins."""

    def __init__(self, c: Code, work: str, n: str):
        self.c, self.slope = c, work
        word = {x: c.load(c.at("%told", FIELD.offset(x)), "i64") for x in ("signs", "flat", "sides")}
        self.signs, self.sides = word["signs"], word["sides"]
        self.many = c.let(f"add i64 {word['signs']}, {word['flat']}")
        self.stride = c.let(f"add i64 {c.let(f'mul i64 {self.many}, 2')}, 1")
        self.clock = c.load(c.at("%told", FIELD.offset("clock")))
        self.none = c.let(f"icmp eq i64 {self.sides}, 0")
        result, self.given = (c.load(c.at("%told", FIELD.offset(x)), "ptr") for x in ("written_result", "sides_given"))
        self.regular = c.at(result, c.let(f"add i64 {n}, 1"))
        self.here = c.at(self.regular, 1)
        self.rates = c.at(self.here, self.many)
        self.chosen = c.at(self.rates, self.many)
        self.samples = c.at(work, n)
        self.longest, self.regular_before = c.slot("longest"), c.slot("regular")

    def begin(self, free: str, again: Callable[[], None]) -> None:
        """Choose as the state says, and evaluate the field again."""
        c = self.c
        settle, begun = c.name("settle"), c.name("begun")
        c.store(c.constant(float("inf")), self.longest)
        c.store(c.constant(1.0), self.regular_before)
        c.fork(self.none, begun, settle, True)
        c.label(settle)
        c.store(c.select(free, c.constant(1.0), c.constant(0.0)), self.given)
        self.choose()
        again()
        c.store(c.load(self.regular), self.regular_before)
        self.keep(0, c.constant(0.0))
        with c.loop(self.signs, self.many) as k:
            _, u, rate = self._kept("0", k)
            limit = c.times(c.constant(0.5), c.let(f"fdiv double {self._way(u)}, {c.absolute(rate)}"))
            limited = c.both(c.compare("ogt", limit, c.constant(0.0)), c.compare("olt", limit, c.load(self.longest)))
            c.store(c.select(limited, limit, c.load(self.longest)), self.longest)
        c.label(begun)

    def choose(self) -> None:
        """The sides are those of the state at which the field was evaluated."""
        c = self.c
        with c.loop(1, self.sides) as i:
            c.store(c.load(c.at(self.chosen, c.let(f"sub i64 {i}, 1"))), c.at(self.given, i))

    def keep(self, sample: int, passed: str) -> None:
        """What stands where the field was evaluated, so much after the beginning of the step."""
        c = self.c
        to = c.at(self.samples, c.let(f"mul i64 {self.stride}, {sample}"))
        values, rates = c.at(to, 1), c.at(to, c.let(f"add i64 {self.many}, 1"))
        c.store(passed, to)
        with c.loop(0, self.many) as k:
            c.store(c.load(c.at(self.here, k)), c.at(values, k))
            c.store(c.times(self.clock, c.load(c.at(self.rates, k))), c.at(rates, k))

    def _kept(self, sample: str, k: str) -> tuple[str, str, str]:
        """Time, value and rate."""
        c = self.c
        at = c.at(self.samples, c.let(f"mul i64 {self.stride}, {sample}"))
        value = c.at(c.at(at, 1), k)
        return c.load(at), c.load(value), c.load(c.at(value, self.many))

    def _pair(self, sample: str, k: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
        """At this sample and the next one."""
        return self._kept(sample, k), self._kept(self.c.let(f"add i64 {sample}, 1"), k)

    def _way(self, u: str) -> str:
        c = self.c
        return c.intrinsic("maxnum", c.constant(WAY[0]), c.times(c.constant(WAY[1]), c.absolute(u)))

    def refuse_long_ways(self, otherwise: str) -> None:
        """To this label where an argument goes too far between two samples."""
        c = self.c
        with c.loop(self.signs, self.many) as k, c.loop(0, len(SAMPLES) - 1) as i:
            on, ((t, _, rate), (end, u, last)) = c.name("on"), self._pair(i, k)
            way = c.times(c.minus(end, t), c.intrinsic("maxnum", c.absolute(rate), c.absolute(last)))
            far = c.both(c.compare("ogt", way, self._way(u)), c.compare("olt", way, c.constant(float("inf"))))
            c.fork(far, otherwise, on, False)
            c.label(on)

    def doubtful(self) -> str:
        """Whether any border may be passed in the step."""
        c, found = self.c, self.c.slot("doubtful", "i1")
        c.store("false", found, "i1")
        with c.loop(0, self.signs) as j, c.loop(0, len(SAMPLES) - 1) as k:
            c.store(c.either(c.load(found, "i1"), self.doubts(j, k)[1]), found, "i1")
        return c.load(found, "i1")

    def doubts(self, j: str, k: str) -> tuple[str, str, str, str]:
        """Whether the step is beyond border j at sample k + 1, whether it may pass it after sample k; times of both."""
        c, zero = self.c, self.c.constant(0.0)
        (t, d, rate), (end, e, last) = self._pair(k, j)
        side = self._side(j)
        d, rate, e, last = (c.times(side, x) for x in (d, rate, e, last))
        beyond = c.negated(c.compare("oge", e, zero))
        returns = c.both(c.compare("olt", rate, zero), c.compare("ogt", last, zero))
        h = c.minus(end, t)
        s = c.let(f"fdiv double {c.minus(c.minus(e, d), c.times(last, h))}, {c.minus(rate, last)}")
        above = c.compare("ogt", c.plus(d, c.times(rate, s)), zero)
        inside = c.both(c.compare("oge", s, zero), c.compare("ole", s, h))
        return beyond, c.either(beyond, c.both(returns, c.negated(c.both(above, inside)))), t, end

    def _side(self, j: str) -> str:
        """1 or -1."""
        return self.c.intrinsic("copysign", self.c.constant(1.0), self._kept("0", j)[1])

    def passed(self, j: str) -> str:
        """Whether the border is passed where the field was evaluated."""
        c = self.c
        return c.negated(c.compare("oge", c.times(self._side(j), c.load(c.at(self.here, j))), c.constant(0.0)))

    def leaves(self, j: str) -> str:
        """Whether the motion comes no nearer there."""
        c = self.c
        rate = c.times(self.clock, c.load(c.at(self.rates, j)))
        return c.compare("oge", c.times(self._side(j), rate), c.constant(0.0))
