"""P S A = L U of one banded matrix, four columns at a time, as LLVM assembly.

A window of the matrix is kept column by column in aligned vectors: the lower + 4 rows that can hold a pivot of the next
four columns. A panel is these four columns. It is factored first, side by side for all rows; then the other columns of the
window lose the four products at once, each row being loaded and stored once for four columns, and move one vector to the
left as they are stored. Rows that were pivots leave, the last rows take their places, and four new rows enter.
"""

from __future__ import annotations

from dataclasses import dataclass

from dalembert.native.code import Code, real

PANEL = 4  # columns of a panel, and doubles in a vector
FAST = 2  # vectors of a row that are updated at once: their pivot rows stay in registers
SMALLEST = 2.0**-1022  # a pivot below it has no finite reciprocal
ORDER = 3 * PANEL  # numbers kept of the interchanges of a panel
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
    def height(self) -> int:
        return -(-self.rows // PANEL) * PANEL


def factor(shape: Shape) -> Code:
    """Body of  @factor.one(ptr a, i64 n, ptr scales, ptr blocks, ptr order, ptr tail, ptr singular, ptr pivots).

    a (n, width) becomes, panel by panel, the trailing parts of four rows of U and four columns of L without their common
    rows; a last panel of fewer than four rows goes to tail (4·width).
    blocks (panels, 4, 4): L and U in the common rows, with the reciprocals of the pivots on the diagonal.
    order (panels, 12): places in the window of the four pivots, places that are filled again and those they are filled from.
    scales (n): powers of two by which rows were multiplied. pivots, singular: numbers as in banded.Factors.
    """
    c = Code(PANEL)
    window = c.slot("window", "double", shape.height * shape.stride)
    panel = c.slot("panel", "double", PANEL * shape.height)
    low, high = c.slot("low", "double"), c.slot("high", "double")
    unused = c.slot("unused", "double")
    c.store(real(float("inf")), low, "double")
    c.store("0.0", high, "double")
    with c.loop(0, shape.height * shape.vectors) as i:
        c.store(c.constant(0.0), c.at(window, c.let(f"mul i64 {i}, {PANEL}")))
    with c.loop(0, shape.lower) as r:
        shift = c.let(f"sub i64 {shape.lower}, {r}")
        _enter(c, shape, r, shift, c.at(window, c.let(f"mul i64 {r}, {shape.stride}")), unused)
    _enter_four(c, shape, str(shape.lower), window, unused)
    panels = c.let(f"sdiv i64 {c.let('add i64 %n, 3')}, {PANEL}")
    with c.loop(0, panels) as p:
        _panel(c, shape, p, window, panel, low, high, unused)
    ratio = c.let(f"fdiv double {c.load(low, 'double')}, {c.load(high, 'double')}")
    c.store(ratio, "%pivots", "double")
    c.store("-1", "%singular", "i64")
    c.line("ret void")
    return c


def unit_row(shape: Shape) -> str:
    """@unit, a row of the identity: what stands below the last row."""
    entries = ", ".join(f"double {float(i == shape.lower)}" for i in range(shape.width))
    return f"@unit = internal constant [{shape.width} x double] [{entries}]"


def vector(c: Code, value: str, width: int = PANEL) -> str:
    return c.broadcast(value, "double", width)


def minus_product(c: Code, total: str, x: str, y: str) -> str:
    """total − x y."""
    return c.intrinsic("fmuladd", c.let(f"fneg {c.real} {x}"), y, total)


def _larger(c: Code, kind: str, x: str, y: str) -> str:
    """max(x, y), and y where one of them is not a number."""
    truth = "i1" if kind == "double" else kind.replace("double", "i1")
    more = c.let(f"fcmp ogt {kind} {x}, {y}")
    return c.let(f"select {truth} {more}, {kind} {x}, {kind} {y}")


def _largest(c: Code, sizes: list[str]) -> str:
    """The largest of all entries of some vectors."""
    while len(sizes) > 1:
        pairs = [_larger(c, c.real, x, y) for x, y in zip(sizes[::2], sizes[1::2], strict=False)]
        sizes = pairs + sizes[len(sizes) - len(sizes) % 2 :]
    half = "<2 x double>"
    ends = [c.let(f"shufflevector {c.real} {sizes[0]}, {c.real} poison, <2 x i32> <i32 {i}, i32 {i + 1}>") for i in (0, 2)]
    both = _larger(c, half, *ends)
    x, y = (c.let(f"extractelement {half} {both}, i64 {i}") for i in range(2))
    return _larger(c, "double", x, y)


def _enter_four(c: Code, shape: Shape, first: str, window: str, unused: str) -> None:
    """The rows first … first + 3 take the last places of the window, in which the panel begins at column first − lower."""
    for t in range(PANEL):
        row = c.let(f"add i64 {first}, {t}")
        _enter(c, shape, row, -t, c.at(window, (shape.lower + t) * shape.stride), unused)


def _enter(c: Code, shape: Shape, row: str, shift: int | str, place: str, unused: str) -> None:
    """A row of the matrix, from its entry `shift` on, scaled, into a place of the window; below the last one, a unit row."""
    inside = c.let(f"icmp slt i64 {row}, %n")
    own = c.at("%a", c.let(f"mul i64 {row}, {shape.width}"))
    source = c.let(f"select i1 {inside}, ptr {own}, ptr @unit")
    entries = [_entries(c, shape, source, shift, v) for v in range(shape.vectors)]
    scale = _scale(c, _largest(c, [c.absolute(x) for x in entries]))
    c.store(scale, c.let(f"select i1 {inside}, ptr {c.at('%scales', row)}, ptr {unused}"), "double")
    by = vector(c, scale)
    for v, x in enumerate(entries):
        c.store(c.let(f"fmul {c.real} {x}, {by}"), c.at(place, PANEL * v))


def _entries(c: Code, shape: Shape, source: str, shift: int | str, v: int) -> str:
    """Entries shift + 4v … of a row, with zeros for those outside 0 … lower + upper."""
    end = shape.lower + shape.upper + 1
    if isinstance(shift, int):
        places = [shift + PANEL * v + i for i in range(PANEL)]
        within = [0 <= i < end for i in places]
        pointer = c.at(source, places[0])
        if all(within):
            return c.load(pointer)
        if not any(within):
            return c.constant(0.0)
        mask = "<" + ", ".join(f"i1 {str(w).lower()}" for w in within) + ">"
    else:
        first = c.let(f"add i64 {shift}, {PANEL * v}")
        pointer = c.at(source, first)
        lanes = "<" + ", ".join(f"i64 {i}" for i in range(PANEL)) + ">"
        places = c.let(f"add {c.whole} {c.broadcast(first, 'i64')}, {lanes}")
        mask = c.let(f"icmp ult {c.whole} {places}, splat (i64 {end})")
    return c.call(
        c.real, "llvm.masked.load.v4f64.p0", ("ptr", pointer), ("i32", "8"), (c.truth, mask), (c.real, c.constant(0.0))
    )


def _scale(c: Code, largest: str) -> str:
    """The power of two that brings a number into [1, 2); a finite one for zero, infinity and what is not a number."""
    bits = c.let(f"bitcast double {largest} to i64")
    exponent = c.let(f"lshr i64 {bits}, 52")
    opposite = c.let(f"sub i64 2046, {exponent}")
    kept = c.call("i64", "llvm.smax.i64", ("i64", opposite), ("i64", "1"))
    return c.let(f"bitcast i64 {c.let(f'shl i64 {kept}, 52')} to double")


def _panel(c: Code, shape: Shape, p: str, window: str, panel: str, low: str, high: str, unused: str) -> None:
    first = c.let(f"mul i64 {p}, {PANEL}")
    _gather(c, shape, window, panel)
    block = c.at("%blocks", c.let(f"mul i64 {p}, {BLOCK}"))
    places = []
    for k in range(PANEL):
        places.append(_eliminate(c, shape, panel, k, c.let(f"add i64 {first}, {k}"), low, high, block))
    below = _common_rows(c, shape, panel, places, block)
    holes, fillers = _refill(c, shape, places)
    order = c.at("%order", c.let(f"mul i64 {p}, {ORDER}"), "i32")
    for i, x in enumerate([*places, *holes, *fillers]):
        c.store(c.let(f"trunc i64 {x} to i32"), c.at(order, i, "i32"), "i32")
    full = c.let(f"icmp sle i64 {c.let(f'add i64 {first}, {PANEL}')}, %n")
    own = c.at("%a", c.let(f"mul i64 {first}, {shape.width}"))
    kept = c.let(f"select i1 {full}, ptr {own}, ptr %tail")
    for k in range(PANEL):
        column = c.at(panel, k * shape.height)
        for hole, filler in zip(holes, fillers, strict=True):
            c.store(c.load(c.at(column, filler), "double"), c.at(column, hole), "double")
        for at, width in c.chunks(shape.lower):
            kind = "double" if width == 1 else f"<{width} x double>"
            target = c.at(kept, PANEL * shape.trailing + k * shape.lower + at)
            c.store(c.load(c.at(column, at), kind), target, kind)
    for at in range(1, shape.vectors, FAST):
        _update(c, shape, window, panel, places, holes, fillers, below, kept, range(at, min(at + FAST, shape.vectors)))
    _enter_four(c, shape, c.let(f"add i64 {first}, {shape.rows}"), window, unused)


def _gather(c: Code, shape: Shape, window: str, panel: str) -> None:
    """The first four columns of the window, each in a piece: transposes of four by four numbers."""

    def join(x: str, y: str, *lanes: int) -> str:
        mask = ", ".join(f"i32 {i}" for i in lanes)
        return c.let(f"shufflevector {c.real} {x}, {c.real} {y}, <4 x i32> <{mask}>")

    for at in range(0, shape.height, PANEL):
        a, b, d, e = (c.load(c.at(window, (at + i) * shape.stride)) for i in range(PANEL))
        even, odd = (join(a, b, 0, 4, 2, 6), join(d, e, 0, 4, 2, 6)), (join(a, b, 1, 5, 3, 7), join(d, e, 1, 5, 3, 7))
        columns = (join(*even, 0, 1, 4, 5), join(*odd, 0, 1, 4, 5), join(*even, 2, 3, 6, 7), join(*odd, 2, 3, 6, 7))
        for k, column in enumerate(columns):
            c.store(column, c.at(panel, k * shape.height + at))


def _eliminate(c: Code, shape: Shape, panel: str, k: int, column: str, low: str, high: str, block: str) -> str:
    """Find the pivot of column k of the panel and eliminate below; returns its place.

    The pivot's own multiplier is put to 1: its row becomes exactly zero in the columns that follow, and is not found again.
    """
    groups = range(0, shape.height, PANEL)
    entries = [c.load(c.at(panel, k * shape.height + at)) for at in groups]
    sizes = [c.absolute(x) for x in entries]
    largest = _largest(c, sizes)
    sound, bad = c.name("sound"), c.name("singular")
    small = c.let(f"fcmp oge double {largest}, {real(SMALLEST)}")
    finite = c.let(f"fcmp olt double {largest}, {real(float('inf'))}")
    c.fork(c.let(f"and i1 {small}, {finite}"), sound, bad, likely=True)
    c.label(bad)
    c.store(column, "%singular", "i64")
    c.store("0.0", "%pivots", "double")
    c.line("ret void")
    c.label(sound)
    _note(c, largest, column, low, high)
    place = _place(c, shape, sizes, largest)
    pivot = c.load(c.at(c.at(panel, k * shape.height), place), "double")
    size = c.let(f"fdiv double 1.0, {largest}")
    inverse = c.call("double", "llvm.copysign.f64", ("double", size), ("double", pivot))
    c.store(inverse, c.at(block, k * PANEL + k), "double")
    above = {}
    for j in range(k + 1, PANEL):
        number = c.load(c.at(c.at(panel, j * shape.height), place), "double")
        c.store(number, c.at(block, k * PANEL + j), "double")
        above[j] = vector(c, number)
    by, own = vector(c, inverse), c.broadcast(place, "i64")
    for at, entry in zip(groups, entries, strict=True):
        lanes = "<" + ", ".join(f"i64 {at + i}" for i in range(PANEL)) + ">"
        here = c.let(f"icmp eq {c.whole} {own}, {lanes}")
        factor = c.let(f"fmul {c.real} {entry}, {by}")
        factor = c.let(f"select {c.truth} {here}, {c.real} {c.constant(1.0)}, {c.real} {factor}")
        c.store(factor, c.at(panel, k * shape.height + at))
        for j, number in above.items():
            target = c.at(panel, j * shape.height + at)
            c.store(minus_product(c, c.load(target), factor, number), target)
    return place


def _place(c: Code, shape: Shape, sizes: list[str], largest: str) -> str:
    """Where among the rows the largest number stands."""
    found, kind = "0", f"i{shape.height}"
    equal = vector(c, largest)
    for g, size in enumerate(sizes):
        bits = c.let(f"bitcast {c.truth} {c.let(f'fcmp oeq {c.real} {size}, {equal}')} to i{PANEL}")
        long = bits if shape.height == PANEL else c.let(f"zext i{PANEL} {bits} to {kind}")
        found = c.let(f"or {kind} {found}, {c.let(f'shl {kind} {long}, {g * PANEL}')}")
    place = c.call(kind, f"llvm.cttz.{kind}", (kind, found), ("i1", "true"))
    return place if shape.height == 64 else c.let(f"{'zext' if shape.height < 64 else 'trunc'} {kind} {place} to i64")


def _note(c: Code, size: str, column: str, low: str, high: str) -> None:
    """The smallest and largest pivot so far, without those below the last row."""
    inside = c.let(f"icmp slt i64 {column}, %n")
    for slot, test in ((low, "olt"), (high, "ogt")):
        old = c.load(slot, "double")
        better = c.let(f"and i1 {inside}, {c.let(f'fcmp {test} double {size}, {old}')}")
        c.store(c.let(f"select i1 {better}, double {size}, double {old}"), slot, "double")


def _common_rows(c: Code, shape: Shape, panel: str, places: list[str], block: str) -> dict[tuple[int, int], str]:
    """L in the rows of the pivots: the multiplier of pivot row i in column k < i, in all lanes."""
    below = {}
    for i in range(PANEL):
        for k in range(i):
            number = c.load(c.at(c.at(panel, k * shape.height), places[i]), "double")
            c.store(number, c.at(block, i * PANEL + k), "double")
            below[i, k] = vector(c, number)
    return below


def _refill(c: Code, shape: Shape, places: list[str]) -> tuple[list[str], list[str]]:
    """The places of the pivots, from the largest on, and the place of the row that moves to each: the last one left.

    A pivot among the last four rows leaves nothing to fill: what is said of it does no harm.
    """
    holes = list(places)
    for i, j in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        pair = (("i64", holes[i]), ("i64", holes[j]))
        holes[i], holes[j] = c.call("i64", "llvm.smax.i64", *pair), c.call("i64", "llvm.smin.i64", *pair)
    fillers: list[str] = []
    for t in range(PANEL):
        last = str(shape.rows - 1 - t)
        filler = last
        for hole, moved in reversed(list(zip(holes, fillers, strict=False))):
            gone = c.let(f"icmp eq i64 {hole}, {last}")
            filler = c.let(f"select i1 {gone}, i64 {moved}, i64 {filler}")
        fillers.append(filler)
    return holes, fillers


def _update(
    c: Code, shape: Shape, window: str, panel: str, places, holes, fillers, below, kept: str, vectors: range
) -> None:
    """Some vectors of all rows: those of U from the pivots' rows, then the rows that stay, which move one vector left."""

    def row(place: str) -> str:
        return c.at(window, c.let(f"mul i64 {place}, {shape.stride}"))

    above = [{v: c.load(c.at(row(place), PANEL * v)) for v in vectors} for place in places]
    for i in range(PANEL):
        for v in vectors:
            for k in range(i):
                above[i][v] = minus_product(c, above[i][v], above[k][v], below[i, k])
            _store_part(c, shape, above[i][v], c.at(kept, i * shape.trailing), v - 1)
    for hole, filler in zip(holes, fillers, strict=True):
        source, target = row(filler), row(hole)
        for v in vectors:
            c.store(c.load(c.at(source, PANEL * v)), c.at(target, PANEL * v))
    with c.loop(0, shape.lower) as i:
        place = row(i)
        factors = [vector(c, c.load(c.at(c.at(panel, k * shape.height), i), "double")) for k in range(PANEL)]
        for v in vectors:
            total = c.load(c.at(place, PANEL * v))
            for k in range(PANEL):
                total = minus_product(c, total, above[k][v], factors[k])
            c.store(total, c.at(place, PANEL * (v - 1)))
        if vectors[-1] == shape.vectors - 1:
            c.store(c.constant(0.0), c.at(place, PANEL * vectors[-1]))


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
