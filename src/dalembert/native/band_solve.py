"""A x = b and Aᵀ x = b with the factors of band_factor, for one right-hand side or four at once, as LLVM assembly."""

from __future__ import annotations

from collections.abc import Callable

from dalembert.native.band_factor import BLOCK, ORDER, PANEL, Shape, minus_product
from dalembert.native.code import Code

ARGUMENTS = "ptr %a, i64 %n, ptr %scales, ptr %blocks, ptr %order, ptr %tail, ptr %rhs, i64 %step, ptr %work"


def solve(shape: Shape, lanes: int) -> Code:
    """Body of  @solve.one(a, n, scales, blocks, order, tail, rhs, step, work): rhs ← A⁻¹ rhs.

    Numbers of right-hand sides stand side by side, `step` apart from row to row. work: (4·panels + trailing, lanes).
    """
    c = Code(lanes)
    state = c.slot("state", count=shape.rows)
    with c.loop(0, shape.rows) as r:
        c.store(_given(c, r), _place(c, state, r))
    panels = _panels(c)
    with c.loop(0, panels) as p:
        _forward(c, shape, p, state)
    end = c.let(f"mul i64 {panels}, {PANEL}")
    with c.loop(0, shape.trailing) as i:
        c.store(c.constant(0.0), _place(c, "%work", c.let(f"add i64 {end}, {i}")))
    with c.loop(0, panels) as i:
        _backward(c, shape, c.let(f"sub i64 {c.let(f'sub i64 {panels}, 1')}, {i}"))
    with c.loop(0, "%n") as r:
        c.store(c.load(_place(c, "%work", r)), c.at("%rhs", c.let(f"mul i64 {r}, %step")))
    c.line("ret void")
    return c


def solve_transposed(shape: Shape, lanes: int) -> Code:
    """Body of  @transposed.one, as `solve`: rhs ← A⁻ᵀ rhs, the transposed operations in the opposite order."""
    c = Code(lanes)
    state = c.slot("state", count=shape.rows)
    panels = _panels(c)
    end = c.let(f"mul i64 {panels}, {PANEL}")
    with c.loop(0, "%n") as r:
        c.store(c.load(c.at("%rhs", c.let(f"mul i64 {r}, %step"))), _place(c, "%work", r))
    with c.loop("%n", c.let(f"add i64 {end}, {shape.trailing}")) as r:
        c.store(c.constant(0.0), _place(c, "%work", r))
    with c.loop(0, panels) as p:
        _backward_transposed(c, shape, p)
    with c.loop(0, shape.rows) as r:
        c.store(c.constant(0.0), _place(c, state, r))
    with c.loop(0, panels) as i:
        _forward_transposed(c, shape, c.let(f"sub i64 {c.let(f'sub i64 {panels}, 1')}, {i}"), state)
    with c.loop(0, shape.rows) as r:
        _take(c, r, c.load(_place(c, state, r)))
    c.line("ret void")
    return c


def _panels(c: Code) -> str:
    return c.let(f"sdiv i64 {c.let('add i64 %n, 3')}, {PANEL}")


def _place(c: Code, array: str, index: int | str) -> str:
    """A number of an array, which holds one for each lane."""
    return c.at(array, index, c.real)


def _number(c: Code, array: str, index: int | str) -> str:
    """A number of the factors, in all lanes."""
    value = c.load(c.at(array, index), "double")
    return value if c.width == 1 else c.broadcast(value, "double")


def _if_inside(c: Code, row: str, action: Callable[[], None]) -> None:
    yes, done = c.name("inside"), c.name("done")
    c.fork(c.let(f"icmp slt i64 {row}, %n"), yes, done, likely=True)
    c.label(yes)
    action()
    c.label(done)


def _given(c: Code, row: str) -> str:
    """The scaled right-hand side of a row; zero below the last one."""
    slot = c.slot("given")
    c.store(c.constant(0.0), slot)

    def read() -> None:
        value = c.load(c.at("%rhs", c.let(f"mul i64 {row}, %step")))
        c.store(c.let(f"fmul {c.real} {value}, {_number(c, '%scales', row)}"), slot)

    _if_inside(c, row, read)
    return c.load(slot)


def _take(c: Code, row: str, value: str) -> None:
    """An entry of the solution of the transposed system, scaled."""

    def write() -> None:
        scaled = c.let(f"fmul {c.real} {value}, {_number(c, '%scales', row)}")
        c.store(scaled, c.at("%rhs", c.let(f"mul i64 {row}, %step")))

    _if_inside(c, row, write)


def _kept(c: Code, shape: Shape, p: str) -> tuple[str, str, str]:
    """First row of a panel, its trailing part of U, and its L."""
    first = c.let(f"mul i64 {p}, {PANEL}")
    full = c.let(f"icmp sle i64 {c.let(f'add i64 {first}, {PANEL}')}, %n")
    own = c.at("%a", c.let(f"mul i64 {first}, {shape.width}"))
    upper = c.let(f"select i1 {full}, ptr {own}, ptr %tail")
    return first, upper, c.at(upper, PANEL * shape.trailing)


def _block(c: Code, p: str) -> str:
    return c.at("%blocks", c.let(f"mul i64 {p}, {BLOCK}"))


def _order(c: Code, p: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Places of the pivots of a panel; places that are filled again and those they are filled from."""
    order = c.at("%order", c.let(f"mul i64 {p}, {ORDER}"), "i32")
    places = [c.let(f"sext i32 {c.load(c.at(order, i, 'i32'), 'i32')} to i64") for i in range(ORDER)]
    return places[:PANEL], list(zip(places[PANEL : 2 * PANEL], places[2 * PANEL :], strict=True))


def _forward(c: Code, shape: Shape, p: str, state: str) -> None:
    """y = L⁻¹ b for the pivots of a panel, and what it takes from the rows that stay."""
    first, _, lower = _kept(c, shape, p)
    block, (places, moves) = _block(c, p), _order(c, p)
    y = [c.load(_place(c, state, place)) for place in places]
    for i in range(PANEL):
        for k in range(i):
            y[i] = minus_product(c, y[i], y[k], _number(c, block, i * PANEL + k))
        c.store(y[i], _place(c, "%work", c.let(f"add i64 {first}, {i}")))
    for hole, filler in moves:
        c.store(c.load(_place(c, state, filler)), _place(c, state, hole))
    with c.loop(0, shape.lower) as i:
        place = _place(c, state, i)
        total = c.load(place)
        for k in range(PANEL):
            total = minus_product(c, total, y[k], _number(c, c.at(lower, k * shape.lower), i))
        c.store(total, place)
    for t in range(PANEL):
        row = c.let(f"add i64 {first}, {shape.rows + t}")
        c.store(_given(c, row), _place(c, state, shape.lower + t))


def _backward(c: Code, shape: Shape, p: str) -> None:
    """x = U⁻¹ y for the columns of a panel, those to the right being known."""
    first, upper, _ = _kept(c, shape, p)
    block = _block(c, p)
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
    first, upper, _ = _kept(c, shape, p)
    block = _block(c, p)
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
    first, _, lower = _kept(c, shape, p)
    block, (places, moves) = _block(c, p), _order(c, p)
    for t in range(PANEL):
        place = _place(c, state, shape.lower + t)
        _take(c, c.let(f"add i64 {first}, {shape.rows + t}"), c.load(place))
        c.store(c.constant(0.0), place)
    sums = [c.slot("sum") for _ in range(PANEL)]
    for k in range(PANEL):
        c.store(c.load(_place(c, "%work", c.let(f"add i64 {first}, {k}"))), sums[k])
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
