"""The choices of an equation, kept along a step, and the borders at which they change.

Every choice is written as a selection. A condition a < b keeps its value until a - b passes zero; a rounded number until it
passes to the next one. So the field of a step is smooth, also beyond a border, and the step can end just behind it.

Exponentials and the like are flat to rounding in places, and may hide a wall from every error estimate: how fast their
arguments change limits a step, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.assembly.function import CompiledFunction, GraphFunction
from dalembert.native.flow.field_code import FIELD
from dalembert.native.graph.dependence import Dependence, reached
from dalembert.native.graph.derivative import along
from dalembert.native.graph.graph import COMPARISONS, Graph, Unsupported, operands, paired
from dalembert.native.graph.simplify import rebuilt, replaced
from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.cache import Cache

MOVING = ("x0", "x1")  # the state and the time
FLAT = frozenset(["exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf", "erfc"])
EQUALITIES = frozenset(["eq", "ne"])
ROUNDED = frozenset(["floor", "ceil", "round", "nearest"])
CHOOSING = COMPARISONS | ROUNDED | {"sign"}  # of numbers: they keep their values along a step


def write_selections(g: Graph, outputs: Sequence[int]) -> list[int]:
    """The outputs with |x|, maxima, minima, remainders and branches as selections."""
    new: dict[int, int] = {}
    for i in reached(g, outputs):
        op, *x = node = g.nodes[i]
        smooth = op in ("branch", "pick") and _agrees(g, i if op == "branch" else x[0])
        if op in ("const", "var") or (op == "branch" and not smooth):
            new[i] = i
        elif op == "pick" and not smooth:
            _, condition, *sides = g.nodes[x[0]]
            new[i] = g.apply("select", new[condition], *(new[side[x[1]]] for side in sides))
        elif op == "abs" and g.kind[i] == "f":
            new[i] = _absolute_value(g, new[x[0]])
        elif op == "int" and g.kind[x[0]] == "f":
            a = new[x[0]]
            new[i] = g.apply("int", g.apply("select", g.apply("lt", a, g.zero), g.apply("ceil", a), g.apply("floor", a)))
        elif op in ("max", "min") and g.kind[i] == "f":
            a, b = (new[j] for j in x)
            new[i] = g.apply("select", g.apply("gt" if op == "max" else "lt", a, b), a, b)
        elif op == "fmod" and g.kind[i] == "f":
            a, b = (new[j] for j in x)
            ratio = g.apply("div", a, b)
            whole = g.apply("mul", g.apply("sign", ratio), g.apply("floor", _absolute_value(g, ratio)))
            new[i] = g.apply("sub", a, g.apply("mul", b, whole))
        elif op in EQUALITIES and g.kind[x[0]] == "f":
            same = _equal(g, *(new[j] for j in x))
            new[i] = same if op == "eq" else g.apply("not", same)
        else:
            new[i] = rebuilt(g, node, new.__getitem__)
    return [new[o] for o in outputs]


def _agrees(g: Graph, branch: int) -> bool:
    """True if both sides are promised to agree where they meet."""
    return g.nodes[g.nodes[branch][1]][0] == "agree"


def _absolute_value(g: Graph, x: int) -> int:
    return g.apply("select", g.apply("lt", x, g.zero), g.apply("neg", x), x)


def _equal(g: Graph, a: int, b: int) -> int:
    """a = b, by the conditions of a selection among whose numbers the other one is, as in the derivative of a maximum."""
    for one, other in ((a, b), (b, a)):
        if g.nodes[other][0] == "select" and one in _selectable(g, other):
            condition, *sides = g.nodes[other][1:]
            return g.apply("select", condition, *(g.true if x == one else _equal(g, one, x) for x in sides))
    return g.apply("eq", a, b)


def _selectable(g: Graph, i: int) -> set[int]:
    """The numbers among which a selection selects."""
    if g.nodes[i][0] != "select":
        return {i}
    return _selectable(g, g.nodes[i][2]) | _selectable(g, g.nodes[i][3])


def borders(g: Graph, i: int) -> list[int]:
    """Nodes that are not zero as long as node i keeps its value; an equality keeps it beyond a zero."""
    op, *x = g.nodes[i]
    if op == "sign":
        return x
    if op in COMPARISONS - EQUALITIES and g.kind[x[0]] == "f":
        return [g.apply("sub", *x)]
    if op not in ROUNDED:
        return []
    up, down = g.apply("sub", x[0], i), g.apply("sub", i, x[0])
    if op == "floor":
        return [up, g.apply("add", g.one, down)]
    if op == "ceil":
        return [down, g.apply("add", g.one, up)]
    half = g.constant(0.5)
    return [g.apply("add", half, up), g.apply("add", half, down)]


def tie(g: Graph, i: int) -> int | None:
    """Of an equality, the difference of its two numbers: where this is zero, no side may be followed."""
    op, *x = g.nodes[i]
    return g.apply("sub", *x) if op in EQUALITIES and g.kind[x[0]] == "f" and x[0] != x[1] else None


class Choices(NamedTuple):
    """A field (y, t, *given, sides) → (ẏ, whether it holds, whether no border is at zero, borders and arguments, their
    rates, sides). sides: whether to choose as the state says, 0 or 1, and else the values of the choices, which come back as
    the state says. signs: how many borders there are, flat: how many arguments, sides: how many choices."""

    code: CompiledFunction
    signs: int
    flat: int
    sides: int

    @classmethod
    def of(cls, made: GraphFunction, cache: Cache) -> Choices | None:
        """made: results (ẏ, whether it holds), or ẏ alone; None where nothing is chosen and nothing is flat."""
        try:
            found = _choices(dataclasses.replace(made, graph=made.graph.copy()))
        except Unsupported:  # a border has no derivative
            return None
        return found and cls(found[0].compiled(cache), *found[1:])


def _choices(made: GraphFunction) -> tuple[GraphFunction, int, int, int] | None:
    g, slope = made.graph, made.results[0].ravel().tolist()
    holds = int(made.results[1].item()) if len(made.results) > 1 else g.true
    slope, depend = write_selections(g, slope), Dependence(g)
    chosen, at_borders, ties = _find_choices(g, slope, depend)
    flat = dict.fromkeys(g.nodes[i][1] for i in reached(g, [*slope, *at_borders]) if g.nodes[i][0] in FLAT)
    flat = [i for i in flat if depend.on(i, *MOVING)]
    if not chosen and not flat:
        return None
    sides = g.vector(f"x{len(made.sizes)}", len(chosen) + 1).tolist()
    as_is, half = g.apply("gt", sides[0], g.constant(0.5)), g.constant(0.5)
    kept: dict[int, int] = {}
    for i, side in zip(chosen, sides[1:], strict=True):
        kept[i] = g.apply("select", as_is, i, side if g.kind[i] == "f" else g.apply("gt", side, half))
    smooth = replaced(g, [*slope, *at_borders, *flat], kept)
    slope, numbers = smooth[: len(slope)], smooth[len(slope) :]
    state = [*g.vector("x0", len(slope)).tolist(), g.variable("x1", 0)]
    rates = along(g, numbers, state, [*slope, g.one])
    regular = [g.apply("gt", g.apply("abs", d), g.zero) for d in (*at_borders, *ties)]
    whole = paired(lambda a, b: g.apply("and", a, b), regular, g.true)
    results = [*slope, holds, whole, *numbers, *rates, *chosen]
    found = dataclasses.replace(made, sizes=(*made.sizes, len(sides)), results=(np.array(results),))
    return found, len(at_borders), len(flat), len(sides)


def _find_choices(g: Graph, outputs: Sequence[int], depend: Dependence) -> tuple[list[int], list[int], list[int]]:
    """The choices that the outputs need, and those that their borders need; borders and ties."""
    seen, pending = set[int](), list(outputs)
    chosen, at_borders, ties = dict[int, None](), dict[int, None](), dict[int, None]()
    while pending:
        i = pending.pop()
        if i in seen or not depend.on(i, *MOVING):
            continue
        seen.add(i)
        op, *x = g.nodes[i]
        if op in ("agree", "finite", "var"):
            continue
        if op in CHOOSING and g.kind[x[0]] == "f":
            chosen[i] = None
            at_borders |= dict.fromkeys(d for d in borders(g, i) if depend.on(d, *MOVING))
            ties |= dict.fromkeys(d for d in [tie(g, i)] if d is not None)
            pending += [*at_borders]
        else:
            pending += operands(g.nodes[i])
    return [*chosen], [*at_borders], [*ties]


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
            _, u, rate = self._sample_of("0", k)
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
        """Store as a sample the values and rates where the field was evaluated, so much after the beginning of the step."""
        c = self.c
        to = c.at(self.samples, c.let(f"mul i64 {self.stride}, {sample}"))
        values, rates = c.at(to, 1), c.at(to, c.let(f"add i64 {self.many}, 1"))
        c.store(passed, to)
        with c.loop(0, self.many) as k:
            c.store(c.load(c.at(self.here, k)), c.at(values, k))
            c.store(c.times(self.clock, c.load(c.at(self.rates, k))), c.at(rates, k))

    def _sample_of(self, sample: str, k: str) -> tuple[str, str, str]:
        """Time, value and rate."""
        c = self.c
        at = c.at(self.samples, c.let(f"mul i64 {self.stride}, {sample}"))
        value = c.at(c.at(at, 1), k)
        return c.load(at), c.load(value), c.load(c.at(value, self.many))

    def _pair(self, sample: str, k: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
        """At this sample and the next one."""
        return self._sample_of(sample, k), self._sample_of(self.c.let(f"add i64 {sample}, 1"), k)

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
        """Condition that some border may be passed in the step."""
        c, found = self.c, self.c.slot("doubtful", "i1")
        c.store("false", found, "i1")
        with c.loop(0, self.signs) as j, c.loop(0, len(SAMPLES) - 1) as k:
            c.store(c.either(c.load(found, "i1"), self.doubts(j, k)[1]), found, "i1")
        return c.load(found, "i1")

    def doubts(self, j: str, k: str) -> tuple[str, str, str, str]:
        """Conditions that the step is beyond border j at sample k + 1, that it may pass it after sample k; times of both."""
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
        return self.c.intrinsic("copysign", self.c.constant(1.0), self._sample_of("0", j)[1])

    def passed(self, j: str) -> str:
        """Condition that the border is passed where the field was evaluated."""
        c = self.c
        return c.negated(c.compare("oge", c.times(self._side(j), c.load(c.at(self.here, j))), c.constant(0.0)))

    def leaves(self, j: str) -> str:
        """Condition that the motion comes no nearer to the border there."""
        c = self.c
        rate = c.times(self.clock, c.load(c.at(self.rates, j)))
        return c.compare("oge", c.times(self._side(j), rate), c.constant(0.0))
