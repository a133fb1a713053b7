"""How long the conditions of a series keep their values, as machine code.

    d(s) = Σ_k d_k sᵏ,   |d(s)| ≥ |d₀| + Σ_k min(0, ± d_k hᵏ)   for 0 ≤ s ≤ h, with the sign of d₀

Where this bound is positive, d does not pass zero; where it is for d′, d passes zero once, if its signs at 0 and h differ.

    |x(s) - x₀| ≤ Σ_k |x_k| hᵏ

bounds the way of an argument: of a function that is flat to rounding at x₀, and somewhere else is not.
"""

from __future__ import annotations

from dalembert.native.llvm.builder import Code

HALVINGS = 60  # of an interval, after which it is a point
UNKNOWN = -1.0
WAY = 2.0, 0.5  # of an argument, at most: within which its function shows in its series, or as a part of the argument


def passage() -> Code:
    """double @passage(ptr borders, i64 signs, i64 many, i64 order, double h, ptr which): where the first of so many d passes
    zero within h, and which one does; infinite where none does, and UNKNOWN where the bounds do not tell, or where an
    argument has too long a way. Row k of borders has the coefficients d_k, then those of the arguments; k below `order`."""
    c = Code()
    first, low, low_rate, value, power = (c.slot(x) for x in ("first", "low", "low_rate", "value", "power"))
    zero = c.constant(0.0)
    lower = lambda x: c.select(c.compare("olt", x, zero), x, zero)  # noqa: E731
    c.store(c.constant(float("inf")), first)
    _ways(c, power, value)
    with c.loop(0, "%signs") as j:
        column = c.at("%borders", j)
        coefficient = lambda k, at=column: c.load(c.at(at, c.let(f"mul i64 {k}, %many")))  # noqa: E731
        start = c.load(column)
        side = c.intrinsic("copysign", c.constant(1.0), start)
        turn = c.intrinsic("copysign", c.constant(1.0), coefficient("1"))
        for x, slot in ((c.absolute(start), low), (zero, low_rate), (start, value), ("%h", power)):
            c.store(x, slot)
        with c.loop(1, "%order") as k:
            term = c.times(coefficient(k), c.load(power))
            rate = c.times(turn, c.times(c.let(f"sitofp i64 {k} to double"), term))
            rate = c.select(c.let(f"icmp eq i64 {k}, 1"), rate, lower(rate))
            more = ((term, value), (lower(c.times(side, term)), low), (rate, low_rate))
            for x, slot in more:
                c.store(c.plus(c.load(slot), x), slot)
            c.store(c.times(c.load(power), "%h"), power)
        safe, once = (c.compare("ogt", c.load(x), zero) for x in (low, low_rate))
        same = c.compare("ogt", c.times(side, c.load(value)), zero)
        passes, unsafe, search, unknown = (c.name(x) for x in ("passes", "unsafe", "search", "unknown"))
        c.fork(c.either(safe, c.both(once, same)), passes, unsafe)
        c.label(unsafe)
        c.fork(once, search, unknown)
        c.label(unknown)
        c.line(f"ret double {c.constant(UNKNOWN)}")
        c.label(search)
        root = _root(c, coefficient, side)
        sooner, before = c.compare("olt", root, c.load(first)), c.load("%which", "i64")
        c.store(c.let(f"select i1 {sooner}, i64 {j}, i64 {before}"), "%which", "i64")
        c.store(c.select(sooner, root, c.load(first)), first)
        c.label(passes)
    c.line(f"ret double {c.load(first)}")
    return c


def _ways(c: Code, power: str, way: str) -> None:
    """Leave with UNKNOWN where one is too long."""
    with c.loop("%signs", "%many") as j:
        column, short, long = c.at("%borders", j), c.name("short"), c.name("long")
        c.store("%h", power)
        c.store(c.constant(0.0), way)
        with c.loop(1, "%order") as k:
            size = c.absolute(c.load(c.at(column, c.let(f"mul i64 {k}, %many"))))
            c.store(c.plus(c.load(way), c.times(size, c.load(power))), way)
            c.store(c.times(c.load(power), "%h"), power)
        part = c.times(c.constant(WAY[1]), c.absolute(c.load(column)))
        allowed = c.intrinsic("maxnum", c.constant(WAY[0]), part)
        c.fork(c.compare("ole", c.load(way), allowed), short, long, True)
        c.label(long)
        c.line(f"ret double {c.constant(UNKNOWN)}")
        c.label(short)


def _root(c: Code, coefficient, side: str) -> str:
    """The end of what bisection leaves of [0, h], where d is on the other side."""
    near, far, value = (c.slot(x) for x in ("near", "far", "at"))
    c.store(c.constant(0.0), near)
    c.store("%h", far)
    with c.loop(0, HALVINGS):
        middle = c.times(c.constant(0.5), c.plus(c.load(near), c.load(far)))
        c.store(c.constant(0.0), value)
        with c.loop(1, c.let("add i64 %order, 1")) as i:
            raised = c.times(c.load(value), middle)
            c.store(c.plus(raised, coefficient(c.let(f"sub i64 %order, {i}"))), value)
        same = c.compare("ogt", c.times(side, c.load(value)), c.constant(0.0))
        c.store(c.select(same, middle, c.load(near)), near)
        c.store(c.select(same, c.load(far), middle), far)
    return c.load(far)
