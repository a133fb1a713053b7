"""Aᵀ x = b with the factors of `factor`, and what solutions of both kinds begin and end with, as LLVM assembly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dalembert.native.band.shape import BLOCK, ORDER, PANEL, Shape, minus_product
from dalembert.native.llvm.builder import Code

ARGUMENTS = ", ".join([*(f"ptr noalias %{x}" for x in ("a", "scales", "blocks", "order", "tail", "rhs", "work"))])
ARGUMENTS += ", i64 %n, i64 %step"


def solve_transposed(shape: Shape) -> Code:
    """Body of  @transposed, as `single.solve`: rhs ← A⁻ᵀ rhs, the transposed operations in the opposite order."""
    c = Code()
    read(c, shape, scaled=False)
    with c.loop(0, panels(c)) as p:
        _backward_transposed(c, shape, p)
    state = c.slot("state", count=shape.rows)
    with c.loop(0, shape.rows) as r:
        c.store(c.constant(0.0), c.at(state, r))
    with downwards(c) as p:
        _forward_transposed(c, shape, p, state)
    with c.loop(0, shape.rows) as r:
        c.store(c.load(c.at(state, r)), c.at("%work", r))
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
        c.store(c.let(f"fmul {c.real} {x}, {c.load(c.at('%scales', r))}") if scaled else x, c.at("%work", r))
    end = c.let(f"mul i64 {panels(c)}, {PANEL}")
    with c.loop("%n", c.let(f"add i64 {end}, {margin(shape)}")) as r:
        c.store(c.constant(0.0), c.at("%work", r))


def write(c: Code, scaled: bool) -> None:
    """rhs ← work; the end of the function."""
    with c.loop(0, "%n") as r:
        x = c.load(c.at("%work", r))
        x = c.let(f"fmul {c.real} {x}, {c.load(c.at('%scales', r))}") if scaled else x
        c.store(x, c.at("%rhs", c.let(f"mul i64 {r}, %step")))
    c.line("ret void")


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


def _backward_transposed(c: Code, shape: Shape, p: str) -> None:
    """y = U⁻ᵀ w for the columns of a panel, and what it takes from those to the right."""
    first, upper, _ = kept(c, shape, p)
    block = block_of(c, p)
    y: list[str] = []
    for k in range(PANEL):
        place = c.at("%work", c.let(f"add i64 {first}, {k}"))
        total = c.load(place)
        for j in range(k):
            total = minus_product(c, total, y[j], c.load(c.at(block, j * PANEL + k)))
        y.append(c.let(f"fmul {c.real} {total}, {c.load(c.at(block, k * PANEL + k))}"))
        c.store(y[k], place)
    with c.loop(0, shape.trailing) as i:
        place = c.at("%work", c.let(f"add i64 {c.let(f'add i64 {first}, {PANEL}')}, {i}"))
        total = c.load(place)
        for k in range(PANEL):
            total = minus_product(c, total, y[k], c.load(c.at(c.at(upper, k * shape.trailing), i)))
        c.store(total, place)


def _forward_transposed(c: Code, shape: Shape, p: str, state: str) -> None:
    """What the rows that stay take from the pivots of a panel, and L⁻ᵀ for these; rows that entered are done."""
    first, _, lower = kept(c, shape, p)
    block, (places, moves) = block_of(c, p), order_of(c, shape, p)
    sums = [c.slot("sum") for _ in range(PANEL)]
    for k in range(PANEL):
        c.store(c.load(c.at("%work", c.let(f"add i64 {first}, {k}"))), sums[k])
    for t in range(PANEL):
        place = c.at(state, shape.lower + t)
        c.store(c.load(place), c.at("%work", c.let(f"add i64 {first}, {shape.rows + t}")))
        c.store(c.constant(0.0), place)
    with c.loop(0, shape.lower) as i:
        known = c.load(c.at(state, i))
        for k in range(PANEL):
            factor = c.load(c.at(c.at(lower, k * shape.lower), i))
            c.store(minus_product(c, c.load(sums[k]), known, factor), sums[k])
    for hole, filler in reversed(moves):
        moved = c.load(c.at(state, hole))
        c.store(c.constant(0.0), c.at(state, hole))
        target = c.at(state, filler)
        c.store(c.let(f"fadd {c.real} {c.load(target)}, {moved}"), target)
    found: dict[int, str] = {}
    for k in reversed(range(PANEL)):
        total = c.load(sums[k])
        for i in range(k + 1, PANEL):
            total = minus_product(c, total, found[i], c.load(c.at(block, i * PANEL + k)))
        found[k] = total
        c.store(total, c.at(state, places[k]))
