"""Rows of a banded matrix enter the window of its factorization, scaled by powers of two, as LLVM assembly."""

from __future__ import annotations

from dalembert.native.band.shape import PANEL, Shape, lanes_from, larger, masked, row_of, shuffle, vector
from dalembert.native.llvm.builder import Code


def unit_row(shape: Shape) -> str:
    """@unit, a row of the identity: what stands below the last row."""
    entries = ", ".join(f"double {float(i == shape.lower)}" for i in range(shape.width))
    return f"@unit = internal constant [{shape.width} x double] [{entries}]"


def ending_rows(c: Code, shape: Shape) -> str:
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


def enter(c: Code, shape: Shape, row: str, place: str) -> None:
    """One of the first rows, scaled, into its place of the window, whose first column is that of the matrix."""
    source = c.let(f"select i1 {c.let(f'icmp slt i64 {row}, %n')}, ptr {row_of(c, shape, row)}, ptr @unit")
    shift = c.let(f"sub i64 {shape.lower}, {row}")
    entries = []
    for v in range(shape.vectors):
        first = c.let(f"add i64 {shift}, {PANEL * v}")
        places = c.let(f"add {c.whole} {c.broadcast(first, 'i64')}, {lanes_from(0)}")
        mask = c.let(f"icmp ult {c.whole} {places}, splat (i64 {shape.trailing + 1})")
        entries.append(masked(c, c.at(source, first), mask))
    largest = c.call("double", "llvm.vector.reduce.fmax.v4f64", (c.real, _tree(c, [c.absolute(x) for x in entries])))
    scale = _scales(c, vector(c, largest))
    c.store(c.let(f"extractelement {c.real} {scale}, i64 0"), c.at("%scales", row), "double")
    for v, x in enumerate(entries):
        c.store(c.let(f"fmul {c.real} {x}, {scale}"), c.at(place, PANEL * v))


def scale_four(c: Code, shape: Shape, first: str, ending: str) -> None:
    """The powers of two for the rows first … first + 3."""
    source = _four(c, shape, first, ending)
    rows = [[_entries(c, shape, source, t, v) for v in range(shape.vectors)] for t in range(PANEL)]
    a, b, d, e = (_tree(c, [c.absolute(x) for x in row]) for row in rows)
    ab = larger(c, shuffle(c, a, b, 0, 4, 2, 6), shuffle(c, a, b, 1, 5, 3, 7))
    de = larger(c, shuffle(c, d, e, 0, 4, 2, 6), shuffle(c, d, e, 1, 5, 3, 7))
    largest = larger(c, shuffle(c, ab, de, 0, 1, 4, 5), shuffle(c, ab, de, 2, 3, 6, 7))
    c.store(_scales(c, largest), c.at("%scales", first))


def enter_four(c: Code, shape: Shape, first: str, window: str, ending: str, vectors: range) -> None:
    """Some vectors of the rows first … first + 3, scaled, into the last places of the window, which begins at column
    first − lower."""
    source = _four(c, shape, first, ending)
    for t in range(PANEL):
        scale = vector(c, c.load(c.at(c.at("%scales", first), t), "double"))
        for v in vectors:
            x = _entries(c, shape, source, t, v)
            c.store(c.let(f"fmul {c.real} {x}, {scale}"), c.at(window, (shape.lower + t) * shape.stride + PANEL * v))


def _four(c: Code, shape: Shape, first: str, ending: str) -> str:
    """Where the rows first … first + 3 stand."""
    inside = c.let(f"icmp sle i64 {c.let(f'add i64 {first}, {PANEL}')}, %n")
    behind = c.let(f"add i64 {c.let(f'sub i64 {first}, %n')}, {PANEL - 1}")
    behind = c.call("i64", "llvm.smin.i64", ("i64", behind), ("i64", str(PANEL - 1)))
    other = c.at(ending, c.let(f"mul i64 {behind}, {shape.width}"))
    return c.let(f"select i1 {inside}, ptr {row_of(c, shape, first)}, ptr {other}")


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


def _scales(c: Code, largest: str) -> str:
    """The powers of two that bring numbers into [1, 2); finite ones for zero, infinity and what is not a number."""
    bits = c.let(f"bitcast {c.real} {largest} to {c.whole}")
    opposite = c.let(f"sub {c.whole} splat (i64 2046), {c.let(f'lshr {c.whole} {bits}, splat (i64 52)')}")
    small = c.let(f"icmp slt {c.whole} {opposite}, splat (i64 1)")
    kept = c.let(f"select {c.truth} {small}, {c.whole} splat (i64 1), {c.whole} {opposite}")
    return c.let(f"bitcast {c.whole} {c.let(f'shl {c.whole} {kept}, splat (i64 52)')} to {c.real}")


def _tree(c: Code, values: list[str]) -> str:
    while len(values) > 1:
        pairs = [larger(c, x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]
