"""What a factored panel means for the columns beside it: rows of U, moves of rows, the rows that stay; as LLVM assembly."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dalembert.native.band.shape import PANEL, Shape, minus_product, row, vector
from dalembert.native.llvm.builder import Code

CHUNK = 2  # vectors of a row that are updated at once: those of the pivots' rows stay in registers
TOGETHER = 4  # rows that are written out in a loop over many


@dataclass(frozen=True)
class FactoredPanel:
    """Where the parts of a panel are. window: rows and columns that take part; columns: those of the panel; kept: rows of U;
    last: vectors of U that are not stored whole."""

    c: Code
    shape: Shape
    window: str
    columns: str
    kept: str
    last: str


def common_rows(c: Code, shape: Shape, panel: str, places: list[str], block: str) -> dict[tuple[int, int], str]:
    """L in the rows of the pivots: the multiplier of pivot row i in column k < i, in all lanes."""
    below = {}
    for i in range(PANEL):
        for k in range(i):
            number = c.load(c.at(c.at(panel, k * shape.height), places[i]), "double")
            c.store(number, c.at(block, i * PANEL + k), "double")
            below[i, k] = vector(c, number)
    return below


def holes_of(c: Code, shape: Shape, places: list[str]) -> list[str]:
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


def move_factors(c: Code, shape: Shape, panel: str, holes: list[str]) -> None:
    """Multipliers move with their rows."""
    for k in range(PANEL):
        column = c.at(panel, k * shape.height)
        for t, hole in enumerate(holes):
            c.store(c.load(c.at(column, shape.rows - 1 - t), "double"), c.at(column, hole), "double")


def keep_lower(c: Code, shape: Shape, panel: str, kept: str) -> None:
    """Multipliers of the rows that stay, column by column."""
    for k in range(PANEL):
        for at, width in c.chunks(shape.lower, 8):
            kind = "double" if width == 1 else f"<{width} x double>"
            c.store(c.load(c.at(panel, k * shape.height + at), kind), c.at(kept, k * shape.lower + at), kind)


def keep_upper(panel: FactoredPanel, places: list[str], below: dict[tuple[int, int], str], v: int) -> None:
    """Vector v of the rows of U, from the rows of the pivots."""
    c, shape = panel.c, panel.shape
    above: list[str] = []
    for i, place in enumerate(places):
        total = c.load(c.at(row(c, shape, panel.window, place), PANEL * v))
        for k in range(i):
            total = minus_product(c, total, above[k], below[i, k])
        above.append(total)
        _store_part(c, shape, total, c.at(panel.kept, i * shape.trailing), v - 1)
        if PANEL * v > shape.trailing:
            c.store(total, c.at(panel.last, PANEL * i))


def fill(panel: FactoredPanel, holes: list[str], v: int) -> None:
    """Vector v of the last rows moves to where pivots were."""
    c, shape, window = panel.c, panel.shape, panel.window
    for t, hole in enumerate(holes):
        x = c.load(c.at(window, (shape.rows - 1 - t) * shape.stride + PANEL * v))
        c.store(x, c.at(row(c, shape, window, hole), PANEL * v))


def update(panel: FactoredPanel, vectors: range, rows: range) -> None:
    """Some vectors of some rows that stay lose the four products, and move one vector left."""
    c, shape, window = panel.c, panel.shape, panel.window
    above = [{v: _load_part(panel, k, v - 1) for v in vectors} for k in range(PANEL)]
    groups = len(rows) // TOGETHER if len(rows) >= 2 * TOGETHER else 0
    if groups:
        with c.loop(0, groups) as i:
            first = c.let(f"add i64 {c.let(f'mul i64 {i}, {TOGETHER}')}, {rows.start}")
            place, factors = row(c, shape, window, first), c.at(panel.columns, first)
            for t in range(TOGETHER):
                _update_row(c, shape, c.at(place, t * shape.stride), c.at(factors, t), above, vectors)
    for i in rows[groups * TOGETHER :]:
        _update_row(c, shape, c.at(window, i * shape.stride), c.at(panel.columns, i), above, vectors)


def _update_row(c: Code, shape: Shape, place: str, factors: str, above: list[dict[int, str]], vectors: range) -> None:
    factor = [vector(c, c.load(c.at(factors, k * shape.height), "double")) for k in range(PANEL)]
    for v in vectors:
        total = c.load(c.at(place, PANEL * v))
        for k in range(PANEL):
            total = minus_product(c, total, factor[k], above[k][v])
        c.store(total, c.at(place, PANEL * (v - 1)))
    if vectors[-1] == shape.vectors - 1:
        c.store(c.constant(0.0), c.at(place, PANEL * vectors[-1]))


def pieces(shape: Shape) -> list[tuple[range, range]]:
    """The update beyond the next panel in pieces: vectors and rows."""
    starts = list(range(2, shape.vectors, CHUNK))
    if len(starts) > 1 and (shape.vectors - 2) % CHUNK:
        starts.pop()
    chunks = [range(v, end) for v, end in zip(starts, [*starts[1:], shape.vectors], strict=False)]
    parts = -(-PANEL // max(len(chunks), 1))
    cuts = [shape.lower * i // parts for i in range(parts + 1)]
    return [(chunk, range(a, b)) for chunk in chunks for a, b in pairwise(cuts) if b > a]


def _load_part(panel: FactoredPanel, k: int, v: int) -> str:
    """Vector v of row k of U beside the panel."""
    c, trailing = panel.c, panel.shape.trailing
    whole = PANEL * (v + 1) <= trailing
    return c.load(c.at(panel.kept, k * trailing + PANEL * v) if whole else c.at(panel.last, PANEL * k))


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
