"""P S A = L U of one banded matrix, four columns at a time, as LLVM assembly.

A window of the matrix is kept column by column in aligned vectors: the lower + 4 rows that can hold a pivot of the next
four columns. A panel is these four columns. It is factored first, side by side for all rows; then the other columns of the
window lose the four products at once, each row being loaded and stored once for four columns, and move one vector to the
left as they are stored. Rows that were pivots leave, the last rows take their places, and four new rows enter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from dalembert.native.code import Code

PANEL = 4  # columns of a panel, and doubles in a vector
CHUNK = 2  # vectors of a row that are updated at once: those of the pivots' rows stay in registers
ORDER = 2 * PANEL  # numbers kept of the interchanges of a panel
BLOCK = PANEL * PANEL  # numbers kept of L and U of its four rows


@dataclass(frozen=True)
class Shape:
    """Sizes that follow from the bandwidths.

    width: stored entries of a row; trailing: columns of the window beside the panel; vectors, stride: of a row of the
    window; rows: of the window; height: rows rounded up to whole vectors.
    """

    lower: int
    upper: int

    @property
    def width(self) -> int:
        return 2 * self.lower + self.upper + 1

    @property
    def trailing(self) -> int:
        return self.lower + self.upper

    @property
    def vectors(self) -> int:
        return 1 + -(-self.trailing // PANEL)

    @property
    def stride(self) -> int:
        return PANEL * self.vectors

    @property
    def rows(self) -> int:
        return self.lower + PANEL

    @property
    def panel(self) -> int:
        """Doubles of a panel: its columns, then the reciprocals of its pivots."""
        return PANEL * self.height + PANEL

    @property
    def height(self) -> int:
        return -(-self.rows // PANEL) * PANEL


def factor(shape: Shape) -> tuple[str, set[str]]:
    """@factor.one(ptr a, ptr scales, ptr blocks, ptr order, ptr tail, ptr singular, ptr pivots, i64 n), and its parts.

    a (n, width) becomes, panel by panel, the trailing parts of four rows of U and four columns of L without their common
    rows; a last panel of fewer than four rows goes to tail (4·width).
    blocks (panels + 1, 4, 4): L and U in the common rows, with the reciprocals of the pivots on the diagonal.
    order (panels, 8): places in the window of the four pivots, and the places to which the last four rows move, from the
    last on, where they are not pivots themselves.
    scales (4·panels + rows): powers of two by which rows were multiplied. pivots, singular: as in banded.Factors.
    """
    c = Code(PANEL)
    window = c.slot("window", "double", shape.height * shape.stride)
    panels = c.slot("panels", "double", 2 * shape.panel)
    ending = _ending(c, shape)
    low, high = c.slot("low"), c.slot("high")
    c.store(c.constant(float("inf")), low)
    c.store(c.constant(0.0), high)
    with c.loop(0, shape.height * shape.vectors) as i:
        c.store(c.constant(0.0), c.at(window, c.let(f"mul i64 {i}, {PANEL}")))
    with c.loop(0, shape.rows) as r:
        _enter(c, shape, r, c.at(window, c.let(f"mul i64 {r}, {shape.stride}")))
    found = [c.slot("place", "i64") for _ in range(PANEL)]
    _gather(c, shape, window, panels)
    for k in range(PANEL):
        c.store(_call_column(c, k, panels, "%blocks"), found[k], "i64")
    _scale_four(c, shape, str(shape.rows), ending)
    number = c.let(f"sdiv i64 {c.let('add i64 %n, 3')}, {PANEL}")
    with c.loop(0, number) as p:
        odd = c.let(f"and i64 {p}, 1")
        old = c.at(panels, c.let(f"mul i64 {odd}, {shape.panel}"))
        new = c.at(panels, c.let(f"mul i64 {c.let(f'xor i64 {odd}, 1')}, {shape.panel}"))
        _panel(c, shape, p, window, old, new, ending, found, low, high)
    _ratio(c, low, high)
    c.store("-1", "%singular", "i64")
    c.line("ret void")
    arrays = ", ".join(f"ptr noalias %{x}" for x in ("a", "scales", "blocks", "order", "tail", "singular", "pivots"))
    columns = [_column(shape, k) for k in range(PANEL)]
    parts = [_unit_row(shape)]
    for k, code in enumerate(columns):
        parts.append(
            code.function(f"define internal i64 @column.{k}(ptr noalias %panel, ptr noalias %block) nounwind noinline")
        )
    parts.append(c.function(f"define internal void @factor.one({arrays}, i64 %n) nounwind"))
    return "\n".join(parts), c.declared.union(*(code.declared for code in columns))


def _unit_row(shape: Shape) -> str:
    """@unit, a row of the identity: what stands below the last row."""
    entries = ", ".join(f"double {float(i == shape.lower)}" for i in range(shape.width))
    return f"@unit = internal constant [{shape.width} x double] [{entries}]"


def vector(c: Code, value: str) -> str:
    return c.broadcast(value, "double")


def minus_product(c: Code, total: str, x: str, y: str) -> str:
    """total − x y."""
    return c.intrinsic("fmuladd", c.let(f"fneg {c.real} {x}"), y, total)


def _lanes(start: int) -> str:
    return "<" + ", ".join(f"i64 {start + i}" for i in range(PANEL)) + ">"


def shuffle(c: Code, x: str, y: str, *lanes: int, kind: str = "double") -> str:
    mask = ", ".join(f"i32 {i}" for i in lanes)
    whole = f"<{PANEL} x {kind}>"
    return c.let(f"shufflevector {whole} {x}, {whole} {y}, <{len(lanes)} x i32> <{mask}>")


def _larger(c: Code, x: str, y: str) -> str:
    """max(x, y), and y where one of them is not a number."""
    return c.let(f"select {c.truth} {c.let(f'fcmp ogt {c.real} {x}, {y}')}, {c.real} {x}, {c.real} {y}")


def _tree(c: Code, values: list[str]) -> str:
    while len(values) > 1:
        pairs = [_larger(c, x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


def _ending(c: Code, shape: Shape) -> str:
    """The last three rows, which may enter together with rows below them, and four of these."""
    rows, count = c.slot("ending", "double", (2 * PANEL - 1) * shape.width), PANEL - 1
    with c.loop(0, 2 * PANEL - 1) as i:
        row = c.let(f"sub i64 {c.let(f'add i64 %n, {i}')}, {count}")
        own = c.at("%a", c.let(f"mul i64 {row}, {shape.width}"))
        inside = c.let(f"icmp ult i64 {row}, %n")
        source = c.let(f"select i1 {inside}, ptr {own}, ptr @unit")
        target = c.at(rows, c.let(f"mul i64 {i}, {shape.width}"))
        length = str(8 * (shape.trailing + 1))
        c.act("llvm.memcpy.p0.p0.i64", ("ptr", target), ("ptr", source), ("i64", length), ("i1", "false"))
    return rows


def _enter(c: Code, shape: Shape, row: str, place: str) -> None:
    """One of the first rows, scaled, into its place of the window, whose first column is that of the matrix."""
    source = c.let(f"select i1 {c.let(f'icmp slt i64 {row}, %n')}, ptr {_row_of(c, shape, row)}, ptr @unit")
    shift = c.let(f"sub i64 {shape.lower}, {row}")
    entries = []
    for v in range(shape.vectors):
        first = c.let(f"add i64 {shift}, {PANEL * v}")
        places = c.let(f"add {c.whole} {c.broadcast(first, 'i64')}, {_lanes(0)}")
        mask = c.let(f"icmp ult {c.whole} {places}, splat (i64 {shape.trailing + 1})")
        entries.append(masked(c, c.at(source, first), mask))
    largest = c.call("double", "llvm.vector.reduce.fmax.v4f64", (c.real, _tree(c, [c.absolute(x) for x in entries])))
    scale = _scales(c, vector(c, largest))
    c.store(c.let(f"extractelement {c.real} {scale}, i64 0"), c.at("%scales", row), "double")
    for v, x in enumerate(entries):
        c.store(c.let(f"fmul {c.real} {x}, {scale}"), c.at(place, PANEL * v))


def _row_of(c: Code, shape: Shape, row: str) -> str:
    return c.at("%a", c.let(f"mul i64 {row}, {shape.width}"))


def masked(c: Code, pointer: str, mask: str) -> str:
    """A vector, with zeros where the mask is false; memory is not touched there."""
    arguments = (("ptr", pointer), ("i32", "8"), (c.truth, mask), (c.real, c.constant(0.0)))
    return c.call(c.real, "llvm.masked.load.v4f64.p0", *arguments)


def _scales(c: Code, largest: str) -> str:
    """The powers of two that bring numbers into [1, 2); finite ones for zero, infinity and what is not a number."""
    bits = c.let(f"bitcast {c.real} {largest} to {c.whole}")
    opposite = c.let(f"sub {c.whole} splat (i64 2046), {c.let(f'lshr {c.whole} {bits}, splat (i64 52)')}")
    small = c.let(f"icmp slt {c.whole} {opposite}, splat (i64 1)")
    kept = c.let(f"select {c.truth} {small}, {c.whole} splat (i64 1), {c.whole} {opposite}")
    return c.let(f"bitcast {c.whole} {c.let(f'shl {c.whole} {kept}, splat (i64 52)')} to {c.real}")


def _four(c: Code, shape: Shape, first: str, ending: str) -> str:
    """Where the rows first … first + 3 stand."""
    inside = c.let(f"icmp sle i64 {c.let(f'add i64 {first}, {PANEL}')}, %n")
    behind = c.let(f"add i64 {c.let(f'sub i64 {first}, %n')}, {PANEL - 1}")
    behind = c.call("i64", "llvm.smin.i64", ("i64", behind), ("i64", str(PANEL - 1)))
    other = c.at(ending, c.let(f"mul i64 {behind}, {shape.width}"))
    return c.let(f"select i1 {inside}, ptr {_row_of(c, shape, first)}, ptr {other}")


def _scale_four(c: Code, shape: Shape, first: str, ending: str) -> None:
    """The powers of two for the rows first … first + 3."""
    source = _four(c, shape, first, ending)
    rows = [[_entries(c, shape, source, t, v) for v in range(shape.vectors)] for t in range(PANEL)]
    a, b, d, e = (_tree(c, [c.absolute(x) for x in row]) for row in rows)
    ab = _larger(c, shuffle(c, a, b, 0, 4, 2, 6), shuffle(c, a, b, 1, 5, 3, 7))
    de = _larger(c, shuffle(c, d, e, 0, 4, 2, 6), shuffle(c, d, e, 1, 5, 3, 7))
    largest = _larger(c, shuffle(c, ab, de, 0, 1, 4, 5), shuffle(c, ab, de, 2, 3, 6, 7))
    c.store(_scales(c, largest), c.at("%scales", first))


def _enter_four(c: Code, shape: Shape, first: str, window: str, ending: str, vectors: range) -> None:
    """Some vectors of the rows first … first + 3, scaled, into the last places of the window, which begins at column
    first − lower."""
    source = _four(c, shape, first, ending)
    for t in range(PANEL):
        scale = vector(c, c.load(c.at(c.at("%scales", first), t), "double"))
        for v in vectors:
            x = _entries(c, shape, source, t, v)
            c.store(c.let(f"fmul {c.real} {x}, {scale}"), c.at(window, (shape.lower + t) * shape.stride + PANEL * v))


def _entries(c: Code, shape: Shape, source: str, t: int, v: int) -> str:
    """Columns 4v … 4v + 3 of the window in the entering row t, whose own first column is column t."""
    first = PANEL * v - t
    pointer = c.at(source, t * shape.width + first)
    within = [0 <= first + i <= shape.trailing for i in range(PANEL)]
    if all(within):
        return c.load(pointer)
    if not any(within):
        return c.constant(0.0)
    return masked(c, pointer, "<" + ", ".join(f"i1 {str(w).lower()}" for w in within) + ">")


def _panel(
    c: Code, shape: Shape, p: str, window: str, old: str, new: str, ending: str, found: list[str], low: str, high: str
) -> None:
    """Store what is known of panel p and update the window; meanwhile, factor the next panel.

    The search for a pivot waits for itself, and the rest waits for nothing: each column of the next panel is followed by
    a part of the work that does not concern it, so that the processor does both at once.
    """
    first = c.let(f"mul i64 {p}, {PANEL}")
    entering = c.let(f"add i64 {first}, {shape.rows}")
    block = c.at("%blocks", c.let(f"mul i64 {p}, {BLOCK}"))
    places = [c.load(slot, "i64") for slot in found]
    below = _common_rows(c, shape, old, places, block)
    holes = _holes(c, shape, places)
    order = c.at("%order", c.let(f"mul i64 {p}, {ORDER}"), "i32")
    for i, x in enumerate([*places, *holes]):
        c.store(c.let(f"trunc i64 {x} to i32"), c.at(order, i, "i32"), "i32")
    full = c.let(f"icmp sle i64 {c.let(f'add i64 {first}, {PANEL}')}, %n")
    kept = c.let(f"select i1 {full}, ptr {_row_of(c, shape, first)}, ptr %tail")
    last = c.slot("last", count=PANEL)
    _move_factors(c, shape, old, holes)
    for v in range(1, min(2, shape.vectors)):
        _keep_upper(c, shape, window, places, below, kept, last, v)
        _fill(c, shape, window, holes, v)
        _update(c, shape, window, old, kept, last, range(v, v + 1), range(shape.lower))
    _enter_four(c, shape, entering, window, ending, range(1))
    _gather(c, shape, window, new)
    work: list[tuple[int, Callable[[], None]]] = []
    for v in range(2, shape.vectors):
        work.append((18, lambda v=v: _keep_upper(c, shape, window, places, below, kept, last, v)))
        work.append((8, lambda v=v: _fill(c, shape, window, holes, v)))
    work.append((20, lambda: _check(c, shape, old, first, low, high)))
    work.append((20 * shape.vectors, lambda: _enter_four(c, shape, entering, window, ending, range(1, shape.vectors))))
    for vectors, rows in _pieces(shape):
        work.append((16 * len(rows), lambda v=vectors, r=rows: _update(c, shape, window, old, kept, last, v, r)))
    work.append((2 * shape.lower, lambda: _keep_lower(c, shape, old, c.at(kept, PANEL * shape.trailing))))
    work.append((16 * shape.vectors, lambda: _scale_four(c, shape, c.let(f"add i64 {entering}, {PANEL}"), ending)))
    total, done = sum(weight for weight, _ in work), 0
    for k in range(PANEL):
        c.store(_call_column(c, k, new, c.at(block, BLOCK)), found[k], "i64")
        while work and done + work[0][0] / 2 <= total * (k + 1) / PANEL:
            weight, act = work.pop(0)
            done += weight
            act()
    assert not work


def _pieces(shape: Shape) -> list[tuple[range, range]]:
    """The update beyond the next panel in pieces: vectors and rows."""
    starts = list(range(2, shape.vectors, CHUNK))
    if len(starts) > 1 and (shape.vectors - 2) % CHUNK:
        starts.pop()
    chunks = [range(v, end) for v, end in zip(starts, [*starts[1:], shape.vectors], strict=False)]
    parts = -(-PANEL // max(len(chunks), 1))
    cuts = [shape.lower * i // parts for i in range(parts + 1)]
    return [(chunk, range(a, b)) for chunk in chunks for a, b in pairwise(cuts) if b > a]


def _gather(c: Code, shape: Shape, window: str, panel: str) -> None:
    """The first four columns of the window, each in a piece: transposes of four by four numbers."""
    for at in range(0, shape.height, PANEL):
        a, b, d, e = (c.load(c.at(window, (at + i) * shape.stride)) for i in range(PANEL))
        even = shuffle(c, a, b, 0, 4, 2, 6), shuffle(c, d, e, 0, 4, 2, 6)
        odd = shuffle(c, a, b, 1, 5, 3, 7), shuffle(c, d, e, 1, 5, 3, 7)
        for half, lanes in ((0, (0, 1, 4, 5)), (2, (2, 3, 6, 7))):
            c.store(shuffle(c, *even, *lanes), c.at(panel, half * shape.height + at))
            c.store(shuffle(c, *odd, *lanes), c.at(panel, (half + 1) * shape.height + at))


def _call_column(c: Code, k: int, panel: str, block: str) -> str:
    return c.let(f"call i64 @column.{k}(ptr {panel}, ptr {block})")


def _column(shape: Shape, k: int) -> Code:
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
        here = c.let(f"icmp eq {c.whole} {own}, {_lanes(at)}")
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

    found = [(size, _lanes(PANEL * g)) for g, size in enumerate(sizes)]
    while len(found) > 1:
        pairs = [better(x, y) for x, y in zip(found[::2], found[1::2], strict=False)]
        found = pairs + found[len(found) - len(found) % 2 :]
    for lanes in ((2, 3, 2, 3), (1, 1, 1, 1)):
        size, place = found[0]
        found = [better(found[0], (shuffle(c, size, size, *lanes), shuffle(c, place, place, *lanes, kind="i64")))]
    return c.let(f"extractelement {c.real} {found[0][0]}, i64 0"), found[0][1]


def _check(c: Code, shape: Shape, panel: str, first: str, low: str, high: str) -> None:
    """Leave if a pivot of a panel has no reciprocal; else note the smallest and the largest reciprocal so far."""
    sizes = c.absolute(c.load(c.at(panel, PANEL * shape.height)))
    positive = c.let(f"fcmp ogt {c.real} {sizes}, {c.constant(0.0)}")
    finite = c.let(f"fcmp olt {c.real} {sizes}, {c.constant(float('inf'))}")
    sound = c.let(f"bitcast {c.truth} {c.let(f'and {c.truth} {positive}, {finite}')} to i{PANEL}")
    go, bad = c.name("sound"), c.name("singular")
    c.fork(c.let(f"icmp eq i{PANEL} {sound}, -1"), go, bad, likely=True)
    c.label(bad)
    faults = c.let(f"zext i{PANEL} {c.let(f'xor i{PANEL} {sound}, -1')} to i64")
    place = c.call("i64", "llvm.cttz.i64", ("i64", faults), ("i1", "true"))
    c.store(c.let(f"add i64 {first}, {place}"), "%singular", "i64")
    c.store("0.0", "%pivots", "double")
    c.line("ret void")
    c.label(go)
    columns = c.let(f"add {c.whole} {c.broadcast(first, 'i64')}, {_lanes(0)}")
    inside = c.let(f"icmp slt {c.whole} {columns}, {c.broadcast('%n', 'i64')}")
    for slot, test in ((low, "olt"), (high, "ogt")):
        old = c.load(slot)
        better = c.let(f"and {c.truth} {inside}, {c.let(f'fcmp {test} {c.real} {sizes}, {old}')}")
        c.store(c.let(f"select {c.truth} {better}, {c.real} {sizes}, {c.real} {old}"), slot)


def _ratio(c: Code, low: str, high: str) -> None:
    """Smallest |pivot| by largest."""
    least = c.call("double", "llvm.vector.reduce.fmin.v4f64", (c.real, c.load(low)))
    most = c.call("double", "llvm.vector.reduce.fmax.v4f64", (c.real, c.load(high)))
    c.store(c.let(f"fdiv double {least}, {most}"), "%pivots", "double")


def _common_rows(c: Code, shape: Shape, panel: str, places: list[str], block: str) -> dict[tuple[int, int], str]:
    """L in the rows of the pivots: the multiplier of pivot row i in column k < i, in all lanes."""
    below = {}
    for i in range(PANEL):
        for k in range(i):
            number = c.load(c.at(c.at(panel, k * shape.height), places[i]), "double")
            c.store(number, c.at(block, i * PANEL + k), "double")
            below[i, k] = vector(c, number)
    return below


def _holes(c: Code, shape: Shape, places: list[str]) -> list[str]:
    """Where the last row, the last but one, … move, one after the other: to the places of the pivots as these then are."""

    def moved(place: str, found: list[str]) -> str:
        """Where the row of a place is after the moves so far."""
        for t, hole in enumerate(found):
            gone = c.let(f"icmp eq i64 {place}, {shape.rows - 1 - t}")
            place = c.let(f"select i1 {gone}, i64 {hole}, i64 {place}")
        return place

    holes: list[str] = []
    for place in places:
        holes.append(moved(place, holes))
    return holes


def _move_factors(c: Code, shape: Shape, panel: str, holes: list[str]) -> None:
    """Multipliers move with their rows."""
    for k in range(PANEL):
        column = c.at(panel, k * shape.height)
        for t, hole in enumerate(holes):
            c.store(c.load(c.at(column, shape.rows - 1 - t), "double"), c.at(column, hole), "double")


def _keep_lower(c: Code, shape: Shape, panel: str, kept: str) -> None:
    """Multipliers of the rows that stay, column by column."""
    for k in range(PANEL):
        for at, width in c.chunks(shape.lower):
            kind = "double" if width == 1 else f"<{width} x double>"
            c.store(c.load(c.at(panel, k * shape.height + at), kind), c.at(kept, k * shape.lower + at), kind)


def _row(c: Code, shape: Shape, window: str, place: str) -> str:
    return c.at(window, c.let(f"mul i64 {place}, {shape.stride}"))


def _keep_upper(c: Code, shape: Shape, window: str, places: list[str], below: dict, kept: str, last: str, v: int) -> None:
    """Vector v of the rows of U, from the rows of the pivots. last: a place for vectors that are not stored whole."""
    above: list[str] = []
    for i, place in enumerate(places):
        total = c.load(c.at(_row(c, shape, window, place), PANEL * v))
        for k in range(i):
            total = minus_product(c, total, above[k], below[i, k])
        above.append(total)
        _store_part(c, shape, total, c.at(kept, i * shape.trailing), v - 1)
        if PANEL * v > shape.trailing:
            c.store(total, c.at(last, PANEL * i))


def _fill(c: Code, shape: Shape, window: str, holes: list[str], v: int) -> None:
    """Vector v of the last rows moves to where pivots were."""
    for t, hole in enumerate(holes):
        x = c.load(c.at(window, (shape.rows - 1 - t) * shape.stride + PANEL * v))
        c.store(x, c.at(_row(c, shape, window, hole), PANEL * v))


def _update(c: Code, shape: Shape, window: str, panel: str, kept: str, last: str, vectors: range, rows: range) -> None:
    """Some vectors of some rows that stay lose the four products, and move one vector left."""
    above = [{v: _load_part(c, shape, kept, last, k, v - 1) for v in vectors} for k in range(PANEL)]
    with c.loop(rows.start, rows.stop) as i:
        place = _row(c, shape, window, i)
        factors = [vector(c, c.load(c.at(c.at(panel, k * shape.height), i), "double")) for k in range(PANEL)]
        for v in vectors:
            total = c.load(c.at(place, PANEL * v))
            for k in range(PANEL):
                total = minus_product(c, total, factors[k], above[k][v])
            c.store(total, c.at(place, PANEL * (v - 1)))
        if vectors[-1] == shape.vectors - 1:
            c.store(c.constant(0.0), c.at(place, PANEL * vectors[-1]))


def _load_part(c: Code, shape: Shape, kept: str, last: str, k: int, v: int) -> str:
    """Vector v of row k of U beside the panel."""
    whole = PANEL * (v + 1) <= shape.trailing
    return c.load(c.at(kept, k * shape.trailing + PANEL * v) if whole else c.at(last, PANEL * k))


def _store_part(c: Code, shape: Shape, value: str, row: str, v: int) -> None:
    """Vector v of a row of U; of the last vector the part that the row has."""
    length = min(PANEL, shape.trailing - PANEL * v)
    start = 0
    while start < length:
        width = next(w for w in (4, 2, 1) if start + w <= length)
        target = c.at(row, PANEL * v + start)
        if width == PANEL:
            c.store(value, target)
        elif width == 1:
            c.store(c.let(f"extractelement {c.real} {value}, i64 {start}"), target, "double")
        else:
            mask = ", ".join(f"i32 {start + i}" for i in range(width))
            part = c.let(f"shufflevector {c.real} {value}, {c.real} poison, <{width} x i32> <{mask}>")
            c.store(part, target, f"<{width} x double>")
        start += width
