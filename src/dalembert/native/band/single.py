"""A x = b with the factors of `factor`, four rows side by side, as LLVM assembly."""

from __future__ import annotations

from dalembert.native.band.shape import PANEL, Shape, fetch, masked, minus_product, row_of, shuffle, vector
from dalembert.native.band.solve import block_of, downwards, kept, order_of, panels, read, write
from dalembert.native.llvm.builder import Code

AHEAD = 4  # panels between the one that is used and the one that is asked for


def solve(shape: Shape) -> Code:
    """Body of  @solve(a, scales, blocks, order, tail, rhs, work, n, step): rhs ← A⁻¹ rhs.

    Numbers of the right-hand side stand `step` apart. work: 4·panels + margin numbers.
    """
    c, plain = Code(PANEL), Code()
    plain.lines, plain.slots, plain.declared = c.lines, c.slots, c.declared
    plain.name = c.name  # type: ignore[method-assign]  both write one function
    read(plain, shape, scaled=True)
    # Entering rows are stored as one vector, and the rows that stay are read in vectors that meet it as a whole.
    state = c.at(c.slot("state", count=shape.height // PANEL + 1), -shape.lower % PANEL)
    with plain.loop(0, shape.rows) as r:
        plain.store(plain.load(c.at("%work", r)), c.at(state, r))
    with c.loop(0, panels(c)) as p:
        _forward(c, plain, shape, p, state)
    newest = c.slot("newest")
    c.store(c.constant(0.0), newest)
    with downwards(c) as p:
        _backward(c, plain, shape, p, newest)
    write(plain, scaled=False)
    return c


def _ahead(c: Code, shape: Shape, p: str, step: int, start: int, count: int) -> None:
    """Ask for a part of the factors of the panel `step` further; of the first one if there is none, which does no harm."""
    other = c.let(f"add i64 {p}, {step}")
    inside = c.let(f"icmp ult i64 {other}, {panels(c)}")
    row = c.let(f"mul i64 {c.let(f'select i1 {inside}, i64 {other}, i64 0')}, {PANEL}")
    fetch(c, c.at(row_of(c, shape, row), start), count, write=False)


def _forward(c: Code, plain: Code, shape: Shape, p: str, state: str) -> None:
    _ahead(c, shape, p, AHEAD, PANEL * shape.trailing, PANEL * shape.lower)
    first, _, lower = kept(c, shape, p)
    block, (places, moves) = block_of(c, p), order_of(c, shape, p)
    y = [plain.load(c.at(state, place)) for place in places]
    for hole, filler in moves:
        plain.store(plain.load(c.at(state, filler)), c.at(state, hole))
    for i in range(PANEL):
        for k in range(i):
            y[i] = minus_product(plain, y[i], y[k], plain.load(c.at(block, i * PANEL + k)))
        plain.store(y[i], c.at("%work", c.let(f"add i64 {first}, {i}")))
    all_of = [vector(c, x) for x in y]
    for at in range(shape.lower % PANEL):
        place = c.at(state, at)
        total = plain.load(place)
        for k in range(PANEL):
            total = minus_product(plain, total, plain.load(c.at(lower, k * shape.lower + at)), y[k])
        plain.store(total, place)
    for at in range(shape.lower % PANEL, shape.lower, PANEL):
        place = c.at(state, at)
        total = c.load(place)
        for k in range(PANEL):
            total = minus_product(c, total, c.load(c.at(lower, k * shape.lower + at)), all_of[k])
        c.store(total, place)
    c.store(c.load(c.at("%work", c.let(f"add i64 {first}, {shape.rows}"))), c.at(state, shape.lower))


def _backward(c: Code, plain: Code, shape: Shape, p: str, newest: str) -> None:
    _ahead(c, shape, p, -AHEAD, 0, PANEL * shape.trailing)
    first, upper, _ = kept(c, shape, p)
    block = block_of(c, p)
    known = c.at("%work", c.let(f"add i64 {first}, {PANEL}"))
    sums = [c.constant(0.0) for _ in range(PANEL)]
    for at in reversed(range(0, shape.trailing, PANEL)):
        x = c.load(c.at(known, at)) if at else c.load(newest)
        for k in range(PANEL):
            place, left = c.at(upper, k * shape.trailing + at), shape.trailing - at
            mask = "<" + ", ".join(f"i1 {str(i < left).lower()}" for i in range(PANEL)) + ">"
            factor = c.load(place) if left >= PANEL else masked(c, place, mask)
            sums[k] = c.intrinsic("fmuladd", factor, x, sums[k])
    halves = []
    for a, b in ((0, 1), (2, 3)):
        even, odd = shuffle(c, sums[a], sums[b], 0, 4, 2, 6), shuffle(c, sums[a], sums[b], 1, 5, 3, 7)
        halves.append(c.let(f"fadd {c.real} {even}, {odd}"))
    total = c.let(f"fadd {c.real} {shuffle(c, *halves, 0, 1, 4, 5)}, {shuffle(c, *halves, 2, 3, 6, 7)}")
    right = c.let(f"fsub {c.real} {c.load(c.at('%work', first))}, {total}")
    found: dict[int, str] = {}
    whole = "poison"
    for k in reversed(range(PANEL)):
        value = c.let(f"extractelement {c.real} {right}, i64 {k}")
        for j in reversed(range(k + 1, PANEL)):
            value = minus_product(plain, value, found[j], plain.load(c.at(block, k * PANEL + j)))
        found[k] = plain.let(f"fmul double {value}, {plain.load(c.at(block, k * PANEL + k))}")
        whole = c.let(f"insertelement {c.real} {whole}, double {found[k]}, i64 {k}")
    c.store(whole, newest)
    c.store(whole, c.at("%work", first))
