"""P S A = L U of one banded matrix, four columns at a time, as LLVM assembly.

A window of the matrix is kept column by column in aligned vectors: the lower + 4 rows that can hold a pivot of the next
four columns. A panel is these four columns. It is factored first, side by side for all rows; then the other columns of the
window lose the four products at once, each row being loaded and stored once for four columns, and move one vector to the
left as they are stored. Rows that were pivots leave, the last rows take their places, and four new rows enter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dalembert.native.band.column import call_column, column, gather
from dalembert.native.band.enter import ending_rows, enter, enter_four, scale_four, unit_row
from dalembert.native.band.shape import BLOCK, ORDER, PANEL, Shape, fetch, lanes_from, row_of
from dalembert.native.band.update import (
    FactoredPanel,
    common_rows,
    fill,
    holes_of,
    keep_lower,
    keep_upper,
    move_factors,
    pieces,
    update,
)
from dalembert.native.llvm.builder import Code

AHEAD = 3  # panels between the one that is worked on and the one that is asked for


@dataclass(frozen=True)
class _Workspace:
    """Where a factorization works.

    window (height, stride): rows and columns that take part. panels (2, panel): the columns of this panel and of the next.
    places: of the pivots of the panel. low, high: the smallest and the largest reciprocals of pivots, lane by lane.
    last: vectors of U that are not stored whole. ending: as in band_enter.ending_rows.
    """

    window: str
    panels: str
    places: tuple[str, ...]
    low: str
    high: str
    last: str
    ending: str


def factor(shape: Shape) -> tuple[str, set[str]]:
    """@factor(ptr a, ptr scales, ptr blocks, ptr order, ptr tail, ptr singular, ptr pivots, i64 n) and its declarations.

    a (n, width) becomes, panel by panel, the trailing parts of four rows of U and four columns of L without their common
    rows; a last panel of fewer than four rows goes to tail (4·width).
    blocks (panels + 1, 4, 4): L and U in the common rows, with the reciprocals of the pivots on the diagonal.
    order (panels, 8): places in the window of the four pivots, and the places to which the last four rows move, from the
    last on, where they are not pivots themselves.
    scales (4·panels + rows + 4): powers of two by which rows were multiplied. pivots, singular: as in banded.Factors.
    """
    c = Code(PANEL)
    workspace = _workspace(c, shape)
    with c.loop(0, shape.rows) as r:
        enter(c, shape, r, c.at(workspace.window, c.let(f"mul i64 {r}, {shape.stride}")))
    scale_four(c, shape, str(shape.rows), workspace.ending)
    gather(c, shape, workspace.window, workspace.panels)
    for k in range(PANEL):
        c.store(call_column(c, k, workspace.panels, "%blocks"), workspace.places[k], "i64")
    with c.loop(0, c.let(f"sdiv i64 {c.let('add i64 %n, 3')}, {PANEL}")) as p:
        _panel(c, shape, p, workspace)
    _ratio(c, workspace.low, workspace.high)
    c.store("-1", "%singular", "i64")
    c.line("ret void")
    arrays = ", ".join(f"ptr noalias %{x}" for x in ("a", "scales", "blocks", "order", "tail", "singular", "pivots"))
    columns = [column(shape, k) for k in range(PANEL)]
    head = "define internal i64 @column.{}(ptr noalias %panel, ptr noalias %block) nounwind noinline"
    parts = [unit_row(shape), *(code.function(head.format(k)) for k, code in enumerate(columns))]
    parts.append(c.function(f"define void @factor({arrays}, i64 %n) nounwind"))
    return "\n".join(parts), c.declared.union(*(code.declared for code in columns))


def _workspace(c: Code, shape: Shape) -> _Workspace:
    workspace = _Workspace(
        c.slot("window", "double", shape.height * shape.stride),
        c.slot("panels", "double", 2 * shape.panel),
        tuple(c.slot("place", "i64") for _ in range(PANEL)),
        c.slot("low"),
        c.slot("high"),
        c.slot("last", count=PANEL),
        ending_rows(c, shape),
    )
    c.store(c.constant(float("inf")), workspace.low)
    c.store(c.constant(0.0), workspace.high)
    with c.loop(0, shape.height * shape.vectors) as i:
        c.store(c.constant(0.0), c.at(workspace.window, c.let(f"mul i64 {i}, {PANEL}")))
    return workspace


def _panel(c: Code, shape: Shape, p: str, workspace: _Workspace) -> None:
    """Bring the columns of the next panel up to date, and factor it while all else that panel p leaves to do is done.

    The search for a pivot waits for itself, and the rest waits for nothing: each column of the next panel is followed by
    a part of the work that does not concern it, so that the processor does both at once.
    """
    first, odd = c.let(f"mul i64 {p}, {PANEL}"), c.let(f"and i64 {p}, 1")
    old = c.at(workspace.panels, c.let(f"mul i64 {odd}, {shape.panel}"))
    new = c.at(workspace.panels, c.let(f"mul i64 {c.let(f'xor i64 {odd}, 1')}, {shape.panel}"))
    block = c.at("%blocks", c.let(f"mul i64 {p}, {BLOCK}"))
    places = [c.load(slot, "i64") for slot in workspace.places]
    below = common_rows(c, shape, old, places, block)
    holes = holes_of(c, shape, places)
    order = c.at("%order", c.let(f"mul i64 {p}, {ORDER}"), "i32")
    for i, x in enumerate([*places, *holes]):
        c.store(c.let(f"trunc i64 {x} to i32"), c.at(order, i, "i32"), "i32")
    full = c.let(f"icmp sle i64 {c.let(f'add i64 {first}, {PANEL}')}, %n")
    kept = c.let(f"select i1 {full}, ptr {row_of(c, shape, first)}, ptr %tail")
    move_factors(c, shape, old, holes)
    panel = FactoredPanel(c, shape, workspace.window, old, kept, workspace.last)

    def upper(v: int) -> None:
        keep_upper(panel, places, below, v)
        fill(panel, holes, v)

    def others(vectors: range, rows: range) -> None:
        update(panel, vectors, rows)

    if shape.vectors > 1:
        upper(1)
        others(range(1, 2), range(shape.lower))
    entering = c.let(f"add i64 {first}, {shape.rows}")
    enter_four(c, shape, entering, workspace.window, workspace.ending, range(1))
    gather(c, shape, workspace.window, new)
    work: list[tuple[int, Callable[[], None]]] = [(26, partial(upper, v)) for v in range(2, shape.vectors)]
    work.append((20, lambda: _check(c, shape, old, first, workspace)))
    beside = range(1, shape.vectors)
    work.append((20 * shape.vectors, lambda: enter_four(c, shape, entering, workspace.window, workspace.ending, beside)))
    work += [(16 * len(rows), partial(others, vectors, rows)) for vectors, rows in pieces(shape)]
    work.append((2 * shape.lower, lambda: keep_lower(c, shape, old, c.at(kept, PANEL * shape.trailing))))
    work.append((16 * shape.vectors, lambda: scale_four(c, shape, c.let(f"add i64 {entering}, {PANEL}"), workspace.ending)))
    work.append((shape.width // 2, lambda: _ahead(c, shape, p)))
    for k, part in enumerate(_in_parts(work)):
        c.store(call_column(c, k, new, c.at(block, BLOCK)), workspace.places[k], "i64")
        for act in part:
            act()


def _ahead(c: Code, shape: Shape, p: str) -> None:
    """Ask for the rows that enter a few panels later, and for what is written then: stores that wait hold up all others."""
    last = c.let(f"sdiv i64 {c.let('add i64 %n, -1')}, {PANEL}")
    later = c.call("i64", "llvm.smin.i64", ("i64", c.let(f"add i64 {p}, {AHEAD}")), ("i64", last))
    first = c.let(f"mul i64 {later}, {PANEL}")
    row = c.let(f"add i64 {first}, {shape.rows}")
    inside = c.let(f"icmp slt i64 {row}, %n")
    fetch(c, c.let(f"select i1 {inside}, ptr {row_of(c, shape, row)}, ptr %a"), PANEL * shape.width, write=True)
    fetch(c, c.at("%blocks", c.let(f"mul i64 {later}, {BLOCK}")), BLOCK, write=True)
    fetch(c, c.at("%scales", row), PANEL, write=True)
    fetch(c, c.at("%order", c.let(f"mul i64 {later}, {ORDER}"), "i32"), ORDER // 2, write=True)


def _in_parts(work: list[tuple[int, Callable[[], None]]]) -> list[list[Callable[[], None]]]:
    """Pieces of work with their numbers of instructions, in this order, in as many parts as a panel has columns."""
    parts: list[list[Callable[[], None]]] = [[] for _ in range(PANEL)]
    total, done = sum(weight for weight, _ in work), 0
    for weight, act in work:
        parts[(2 * done + weight) * PANEL // (2 * total + 1)].append(act)
        done += weight
    return parts


def _check(c: Code, shape: Shape, panel: str, first: str, workspace: _Workspace) -> None:
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
    columns = c.let(f"add {c.whole} {c.broadcast(first, 'i64')}, {lanes_from(0)}")
    inside = c.let(f"icmp slt {c.whole} {columns}, {c.broadcast('%n', 'i64')}")
    for slot, test in ((workspace.low, "olt"), (workspace.high, "ogt")):
        old = c.load(slot)
        better = c.let(f"and {c.truth} {inside}, {c.let(f'fcmp {test} {c.real} {sizes}, {old}')}")
        c.store(c.let(f"select {c.truth} {better}, {c.real} {sizes}, {c.real} {old}"), slot)


def _ratio(c: Code, low: str, high: str) -> None:
    """Smallest |pivot| by largest."""
    least = c.call("double", "llvm.vector.reduce.fmin.v4f64", (c.real, c.load(low)))
    most = c.call("double", "llvm.vector.reduce.fmax.v4f64", (c.real, c.load(high)))
    c.store(c.let(f"fdiv double {least}, {most}"), "%pivots", "double")
