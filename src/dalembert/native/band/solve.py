"""A x = b and Aᵀ x = b with the factors of band_factor, for some right-hand sides at once, as LLVM assembly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dalembert.native.band.shape import BLOCK, ORDER, PANEL, Shape, minus_product
from dalembert.native.llvm.builder import Code

ARGUMENTS = ", ".join([*(f"ptr noalias %{x}" for x in ("a", "scales", "blocks", "order", "tail", "rhs", "work"))])
ARGUMENTS += ", i64 %n, i64 %step"


def solve(shape: Shape, lanes: int) -> Code:
    """Body of  @solve.lanes(a, scales, blocks, order, tail, rhs, work, n, step): rhs ← A⁻¹ rhs.

    Numbers of the right-hand sides stand side by side, `step` apart from row to row. work: (4·panels + margin, lanes).
    """
    c = Code(lanes)
    read(c, shape, scaled=True)
    state = c.slot("state", count=shape.rows)
    with c.loop(0, shape.rows) as r:
        c.store(c.load(_place(c, "%work", r)), _place(c, state, r))
    with c.loop(0, panels(c)) as p:
        _forward(c, shape, p, state)
    with downwards(c) as p:
        _backward(c, shape, p)
    write(c, scaled=False)
    return c


def solve_transposed(shape: Shape, lanes: int) -> Code:
    """Body of  @transposed.lanes, as `solve`: rhs ← A⁻ᵀ rhs, the transposed operations in the opposite order."""
    c = Code(lanes)
    read(c, shape, scaled=False)
    with c.loop(0, panels(c)) as p:
        _backward_transposed(c, shape, p)
    state = c.slot("state", count=shape.rows)
    with c.loop(0, shape.rows) as r:
        c.store(c.constant(0.0), _place(c, state, r))
    with downwards(c) as p:
        _forward_transposed(c, shape, p, state)
    with c.loop(0, shape.rows) as r:
        c.store(c.load(_place(c, state, r)), _place(c, "%work", r))
    write(c, scaled=True)
    return c


def margin(shape: Shape) -> int:
    """Rows beyond the last panel: right-hand sides are zero there."""
    return shape.trailing + PANEL


def panels(c: Code) -> str:
    return c.let(f"sdiv i64 {c.let('add i64 %n, 3')}, {PANEL}")


@contextlib.contextmanager
def downwards(c: Code) -> Iterator[str]:
    """For all panels, from the last one on."""
    number = panels(c)
    with c.loop(0, number) as i:
        yield c.let(f"sub i64 {c.let(f'sub i64 {number}, 1')}, {i}")


def read(c: Code, shape: Shape, scaled: bool) -> None:
    """work ← rhs, with zeros below the last row."""
    with c.loop(0, "%n") as r:
        x = c.load(c.at("%rhs", c.let(f"mul i64 {r}, %step")))
        c.store(c.let(f"fmul {c.real} {x}, {_number(c, '%scales', r)}") if scaled else x, _place(c, "%work", r))
    end = c.let(f"mul i64 {panels(c)}, {PANEL}")
    with c.loop("%n", c.let(f"add i64 {end}, {margin(shape)}")) as r:
        c.store(c.constant(0.0), _place(c, "%work", r))


def write(c: Code, scaled: bool) -> None:
    """rhs ← work; the end of the function."""
    with c.loop(0, "%n") as r:
        x = c.load(_place(c, "%work", r))
        x = c.let(f"fmul {c.real} {x}, {_number(c, '%scales', r)}") if scaled else x
        c.store(x, c.at("%rhs", c.let(f"mul i64 {r}, %step")))
    c.line("ret void")


def _place(c: Code, array: str, index: int | str) -> str:
    """A number of an array, which holds one for each lane."""
    return c.at(array, index, c.real)


def _number(c: Code, array: str, index: int | str) -> str:
    """A number of the factors, in all lanes."""
    value = c.load(c.at(array, index), "double")
    return value if c.width == 1 else c.broadcast(value, "double")


def kept(c: Code, shape: Shape, p: str) -> tuple[str, str, str]:
    """First row of a panel, its trailing part of U, and its L."""
    first = c.let(f"mul i64 {p}, {PANEL}")
    full = c.let(f"icmp sle i64 {c.let(f'add i64 {first}, {PANEL}')}, %n")
    own = c.at("%a", c.let(f"mul i64 {first}, {shape.width}"))
    upper = c.let(f"select i1 {full}, ptr {own}, ptr %tail")
    return first, upper, c.at(upper, PANEL * shape.trailing)


def block_of(c: Code, p: str) -> str:
    return c.at("%blocks", c.let(f"mul i64 {p}, {BLOCK}"))


def order_of(c: Code, shape: Shape, p: str) -> tuple[list[str], list[tuple[str, int]]]:
    """Places of the pivots of a panel; the moves of rows after them, to and from."""
    order = c.at("%order", c.let(f"mul i64 {p}, {ORDER}"), "i32")
    places = [c.let(f"sext i32 {c.load(c.at(order, i, 'i32'), 'i32')} to i64") for i in range(ORDER)]
    return places[:PANEL], [(hole, shape.rows - 1 - t) for t, hole in enumerate(places[PANEL:])]


def _forward(c: Code, shape: Shape, p: str, state: str) -> None:
    """y = L⁻¹ b for the pivots of a panel, and what it takes from the rows that stay."""
    first, _, lower = kept(c, shape, p)
    block, (places, moves) = block_of(c, p), order_of(c, shape, p)
    y = [c.load(_place(c, state, place)) for place in places]
    for hole, filler in moves:
        c.store(c.load(_place(c, state, filler)), _place(c, state, hole))
    for i in range(PANEL):
        for k in range(i):
            y[i] = minus_product(c, y[i], y[k], _number(c, block, i * PANEL + k))
        c.store(y[i], _place(c, "%work", c.let(f"add i64 {first}, {i}")))
    with c.loop(0, shape.lower) as i:
        place = _place(c, state, i)
        total = c.load(place)
        for k in range(PANEL):
            total = minus_product(c, total, y[k], _number(c, c.at(lower, k * shape.lower), i))
        c.store(total, place)
    for t in range(PANEL):
        x = c.load(_place(c, "%work", c.let(f"add i64 {first}, {shape.rows + t}")))
        c.store(x, _place(c, state, shape.lower + t))


def _backward(c: Code, shape: Shape, p: str) -> None:
    """x = U⁻¹ y for the columns of a panel, those to the right being known."""
    first, upper, _ = kept(c, shape, p)
    block = block_of(c, p)
    x = [c.slot("x") for _ in range(PANEL)]
    for k in range(PANEL):
        c.store(c.load(_place(c, "%work", c.let(f"add i64 {first}, {k}"))), x[k])
    with c.loop(0, shape.trailing) as i:
        known = c.load(_place(c, "%work", c.let(f"add i64 {c.let(f'add i64 {first}, {PANEL}')}, {i}")))
        for k in range(PANEL):
            c.store(minus_product(c, c.load(x[k]), known, _number(c, c.at(upper, k * shape.trailing), i)), x[k])
    found: dict[int, str] = {}
    for k in reversed(range(PANEL)):
        total = c.load(x[k])
        for j in range(k + 1, PANEL):
            total = minus_product(c, total, found[j], _number(c, block, k * PANEL + j))
        found[k] = c.let(f"fmul {c.real} {total}, {_number(c, block, k * PANEL + k)}")
        c.store(found[k], _place(c, "%work", c.let(f"add i64 {first}, {k}")))


def _backward_transposed(c: Code, shape: Shape, p: str) -> None:
    """y = U⁻ᵀ w for the columns of a panel, and what it takes from those to the right."""
    first, upper, _ = kept(c, shape, p)
    block = block_of(c, p)
    y: list[str] = []
    for k in range(PANEL):
        place = _place(c, "%work", c.let(f"add i64 {first}, {k}"))
        total = c.load(place)
        for j in range(k):
            total = minus_product(c, total, y[j], _number(c, block, j * PANEL + k))
        y.append(c.let(f"fmul {c.real} {total}, {_number(c, block, k * PANEL + k)}"))
        c.store(y[k], place)
    with c.loop(0, shape.trailing) as i:
        place = _place(c, "%work", c.let(f"add i64 {c.let(f'add i64 {first}, {PANEL}')}, {i}"))
        total = c.load(place)
        for k in range(PANEL):
            total = minus_product(c, total, y[k], _number(c, c.at(upper, k * shape.trailing), i))
        c.store(total, place)


def _forward_transposed(c: Code, shape: Shape, p: str, state: str) -> None:
    """What the rows that stay take from the pivots of a panel, and L⁻ᵀ for these; rows that entered are done."""
    first, _, lower = kept(c, shape, p)
    block, (places, moves) = block_of(c, p), order_of(c, shape, p)
    sums = [c.slot("sum") for _ in range(PANEL)]
    for k in range(PANEL):
        c.store(c.load(_place(c, "%work", c.let(f"add i64 {first}, {k}"))), sums[k])
    for t in range(PANEL):
        place = _place(c, state, shape.lower + t)
        c.store(c.load(place), _place(c, "%work", c.let(f"add i64 {first}, {shape.rows + t}")))
        c.store(c.constant(0.0), place)
    with c.loop(0, shape.lower) as i:
        known = c.load(_place(c, state, i))
        for k in range(PANEL):
            factor = _number(c, c.at(lower, k * shape.lower), i)
            c.store(minus_product(c, c.load(sums[k]), known, factor), sums[k])
    for hole, filler in reversed(moves):
        moved = c.load(_place(c, state, hole))
        c.store(c.constant(0.0), _place(c, state, hole))
        target = _place(c, state, filler)
        c.store(c.let(f"fadd {c.real} {c.load(target)}, {moved}"), target)
    found: dict[int, str] = {}
    for k in reversed(range(PANEL)):
        total = c.load(sums[k])
        for i in range(k + 1, PANEL):
            total = minus_product(c, total, found[i], _number(c, block, i * PANEL + k))
        found[k] = total
        c.store(total, _place(c, state, places[k]))
