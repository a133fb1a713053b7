"""One column of a panel: the search for its pivot and the elimination below, side by side for all rows, as LLVM assembly."""

from __future__ import annotations

from dalembert.native.band.shape import PANEL, Shape, lanes_from, minus_product, shuffle, vector
from dalembert.native.llvm.builder import Code


def gather(c: Code, shape: Shape, window: str, panel: str) -> None:
    """The first four columns of the window, each in a piece: transposes of four by four numbers."""
    for at in range(0, shape.height, PANEL):
        a, b, d, e = (c.load(c.at(window, (at + i) * shape.stride)) for i in range(PANEL))
        even = shuffle(c, a, b, 0, 4, 2, 6), shuffle(c, d, e, 0, 4, 2, 6)
        odd = shuffle(c, a, b, 1, 5, 3, 7), shuffle(c, d, e, 1, 5, 3, 7)
        for half, lanes in ((0, (0, 1, 4, 5)), (2, (2, 3, 6, 7))):
            c.store(shuffle(c, *even, *lanes), c.at(panel, half * shape.height + at))
            c.store(shuffle(c, *odd, *lanes), c.at(panel, (half + 1) * shape.height + at))


def call_column(c: Code, k: int, panel: str, block: str) -> str:
    return c.let(f"call i64 @column.{k}(ptr {panel}, ptr {block})")


def column(shape: Shape, k: int) -> Code:
    """Body of  i64 @column.k(panel, block): find the pivot of column k of a panel and eliminate below; returns its place.

    The pivot's own multiplier is put to 1: its row becomes exactly zero in the columns that follow, and is not found again.
    """
    c = Code(PANEL)
    groups = range(0, shape.height, PANEL)
    column = [c.at("%panel", j * shape.height) for j in range(PANEL)]
    entries = [c.load(c.at(column[k], at)) for at in groups]
    largest, place = _search(c, [c.absolute(x) for x in entries])
    row = c.let(f"extractelement {c.whole} {place}, i64 0")
    size = c.let(f"fdiv double 1.0, {largest}")
    inverse = c.call("double", "llvm.copysign.f64", ("double", size), ("double", c.load(c.at(column[k], row), "double")))
    c.store(inverse, c.at("%block", k * PANEL + k), "double")
    c.store(inverse, c.at("%panel", PANEL * shape.height + k), "double")
    above = {}
    for j in range(k + 1, PANEL):
        number = c.load(c.at(column[j], row), "double")
        c.store(number, c.at("%block", k * PANEL + j), "double")
        above[j] = vector(c, number)
    by, own = vector(c, inverse), shuffle(c, place, "poison", 0, 0, 0, 0, kind="i64")
    for at, entry in zip(groups, entries, strict=True):
        here = c.let(f"icmp eq {c.whole} {own}, {lanes_from(at)}")
        factor = c.let(f"fmul {c.real} {entry}, {by}")
        factor = c.let(f"select {c.truth} {here}, {c.real} {c.constant(1.0)}, {c.real} {factor}")
        c.store(factor, c.at(column[k], at))
        for j, number in above.items():
            target = c.at(column[j], at)
            c.store(minus_product(c, c.load(target), factor, number), target)
    c.line(f"ret i64 {row}")
    return c


def _search(c: Code, sizes: list[str]) -> tuple[str, str]:
    """The largest of the numbers in some vectors, and in the first lane its place; the first of several that are equal."""

    def better(x: tuple[str, str], y: tuple[str, str]) -> tuple[str, str]:
        less = c.let(f"fcmp olt {c.real} {x[0]}, {y[0]}")
        size = c.let(f"select {c.truth} {less}, {c.real} {y[0]}, {c.real} {x[0]}")
        return size, c.let(f"select {c.truth} {less}, {c.whole} {y[1]}, {c.whole} {x[1]}")

    found = [(size, lanes_from(PANEL * g)) for g, size in enumerate(sizes)]
    while len(found) > 1:
        pairs = [better(x, y) for x, y in zip(found[::2], found[1::2], strict=False)]
        found = pairs + found[len(found) - len(found) % 2 :]
    for lanes in ((2, 3, 2, 3), (1, 1, 1, 1)):
        size, place = found[0]
        found = [better(found[0], (shuffle(c, size, size, *lanes), shuffle(c, place, place, *lanes, kind="i64")))]
    return c.let(f"extractelement {c.real} {found[0][0]}, i64 0"), found[0][1]
