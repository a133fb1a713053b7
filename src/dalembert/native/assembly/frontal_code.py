"""Machine code of the frontal matrix: the windows are added, a block is eliminated, the right-hand side with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.assembly.symbolic_plan import Pair, Summand, SymbolicPlan
from dalembert.native.assembly.windows import TracedWindow
from dalembert.native.llvm.builder import Code, module


def text(summands: Sequence[Summand], plan: SymbolicPlan) -> tuple[str, list[np.ndarray]]:
    first, constants = _factor(summands, plan)
    forward, backward = _forward(plan), _backward(plan)
    data = ", ".join(f"ptr %range{k}, ptr %rows{k}, ptr %shared{k}" for k in range(len(summands)))
    parts = (
        first.function(
            "define void @first(i64 %count, ptr %z, ptr %free, ptr %fixed_blocks, ptr %diagonal, ptr %stored, ptr %x, "
            f"{data}) nounwind"
        ),
        forward.function("define void @forward(i64 %count, ptr %stored, ptr %free, ptr %fixed_blocks, ptr %x) nounwind"),
        backward.function("define void @backward(i64 %count, ptr %stored, ptr %x) nounwind"),
        _negative(plan).function("define i64 @negative(i64 %count, ptr %stored) nounwind"),
    )
    return module(*parts, declared=first.declared | forward.declared | backward.declared), constants


def _factor(summands: Sequence[Summand], plan: SymbolicPlan) -> tuple[Code, list[np.ndarray]]:
    c = Code()
    updated = {pair: c.slot("updated") for pair in plan.update}
    front = {pair: c.slot("frontal") for pair in plan.entries}
    for slot in updated.values():
        c.store(c.constant(0.0), slot)
    added = [_Added(c, k, s, plan.size) for k, s in enumerate(summands)]
    with c.loop(0, "%count") as i:
        for (p, q), slot in front.items():
            before = updated.get((p, q))
            c.store(c.constant(0.0) if before is None else c.load(before), slot)
        for a in added:
            a.add(i, front)
        _fix(c, i, plan, front)
        stored = c.at("%stored", c.let(f"mul i64 {i}, {plan.stored}"))
        parts = _eliminate(c, plan, {pair: c.load(slot) for pair, slot in front.items()}, updated)
        for k, name in enumerate(x for part in parts for x in (*part.inverse, *part.multipliers)):
            c.store(name, c.at(stored, k))
        _reduce(c, i, plan, parts)
    c.line("ret void")
    return c, [a.traced.captured for a in added]


class _Added:
    """The entries of one summand; what does not change from window to window is read before the loop."""

    def __init__(self, c: Code, k: int, summand: Summand, size: int):
        self.c, self.k, self.summand, self.size = c, k, summand, size
        self.traced = TracedWindow.of(summand.windowed)
        self.common = self.traced.shared_values(c, f"%shared{k}")
        self.start = c.load(f"%range{k}", "i64")
        self.number = c.load(c.at(f"%range{k}", 1, "i64"), "i64")

    def add(self, i: str, front: dict[Pair, str]) -> None:
        """The entries of the window that begins at block i, where there is one."""
        c = self.c
        here, done = c.name("window"), c.name("added")
        j = c.let(f"sub i64 {i}, {self.start}")
        c.fork(c.let(f"icmp ult i64 {j}, {self.number}"), here, done)
        c.label(here)
        base = c.at("%z", c.let(f"mul i64 {i}, {self.size}"))
        results = self.traced.emit(c, self.common, [base], f"%rows{self.k}", j)
        for pair, value in zip(self.summand.entries, results, strict=True):
            c.store(c.let(f"fadd contract double {c.load(front[pair])}, {value}"), front[pair])
        c.go(done)
        c.label(done)


def _fix(c: Code, i: str, plan: SymbolicPlan, front: dict[Pair, str]) -> None:
    """Where a component of the block is fixed, its rows and columns vanish; then the diagonal is added."""
    base = c.let(f"mul i64 {i}, {plan.size}")
    with _where_fixed(c, i):
        free = [c.load(c.at(c.at("%free", base), p)) for p in range(plan.size)]
        for (p, q), slot in front.items():
            if p < plan.size:
                value = c.let(f"fmul double {c.load(slot)}, {free[p]}")
                c.store(c.let(f"fmul double {value}, {free[q]}") if p != q and q < plan.size else value, slot)
    for p in range(plan.size):
        more = c.load(c.at(c.at("%diagonal", base), p))
        c.store(c.let(f"fadd contract double {c.load(front[p, p])}, {more}"), front[p, p])


@contextlib.contextmanager
def _where_fixed(c: Code, i: str) -> Iterator[None]:
    """What is done only in blocks with a fixed component; few have one, and what changes there is kept in slots."""
    some, none = c.name("fixed"), c.name("plain")
    some_fixed = c.load(c.at("%fixed_blocks", i))
    c.fork(c.let(f"fcmp une double {some_fixed}, {c.constant(0.0)}"), some, none, likely=False)
    c.label(some)
    yield
    c.go(none)
    c.label(none)


class _Part(NamedTuple):
    """Names of the values of one group of pivots: the upper half of D⁻¹, and L, for every row below those of the group."""

    inverse: list[str]
    multipliers: list[str]


def _eliminate(c: Code, plan: SymbolicPlan, value: dict[Pair, str], updated: dict[Pair, str]) -> list[_Part]:
    parts = []
    for group, near in zip(plan.pivots, plan.below, strict=True):
        column = {(p, q): value.get((min(p, q), max(p, q))) for p in group for q in (*group, *near)}
        inverse = _inverse(c, [[column[p, q] for q in group] for p in group])
        part = _Part(inverse, [])
        for n, q in enumerate(near):
            entries = [column[p, q] for p in group]
            multipliers = [_combined(c, zip(_row(inverse, k), entries, strict=True)) for k in range(len(group))]
            part.multipliers.extend(multipliers)
            for r in near[n:]:
                held = value.get((q, r))
                for factor, p in zip(multipliers, group, strict=True):
                    other = column[p, r]
                    if other is not None:
                        product = c.let(f"fmul contract double {factor}, {other}")
                        held = c.let(f"fneg double {product}" if held is None else f"fsub contract double {held}, {product}")
                if held is not None:
                    value[q, r] = held
        parts.append(part)
    for p, q in plan.update:
        c.store(value.get((p + plan.size, q + plan.size), c.constant(0.0)), updated[p, q])
    return parts


def _row(inverse: list[str], k: int) -> list[str]:
    """Row k of D⁻¹ from its upper half."""
    return inverse if len(inverse) == 1 else inverse[k : k + 2]


def _inverse(c: Code, block: list[list[str | None]]) -> list[str]:
    """The upper half of the inverse of a pivot of one or two rows."""
    one = c.constant(1.0)
    if len(block) == 1:
        return [c.let(f"fdiv double {one}, {block[0][0]}")]
    a, b, d = block[0][0], block[0][1], block[1][1]
    square = c.let(f"fmul contract double {b}, {b}")
    determinant = c.let(f"fsub contract double {c.let(f'fmul contract double {a}, {d}')}, {square}")
    over = c.let(f"fdiv double {one}, {determinant}")
    between = c.let(f"fneg double {c.let(f'fmul contract double {b}, {over}')}")
    return [c.let(f"fmul contract double {d}, {over}"), between, c.let(f"fmul contract double {a}, {over}")]


def _combined(c: Code, terms: Iterable[tuple[str, str | None]]) -> str:
    """Σ a b, without the terms that are not there."""
    total = None
    for a, b in terms:
        if b is not None:
            product = c.let(f"fmul contract double {a}, {b}")
            total = product if total is None else c.let(f"fadd contract double {total}, {product}")
    return c.constant(0.0) if total is None else total


def _forward(plan: SymbolicPlan) -> Code:
    """D⁻¹L⁻¹x."""
    c = Code()
    with c.loop(0, "%count") as i:
        _reduce(c, i, plan, _stored_factors(c, i, plan))
    c.line("ret void")
    return c


def _negative(plan: SymbolicPlan) -> Code:
    """How many eigenvalues of D are negative, from those of D⁻¹."""
    c = Code()
    total, zero = c.slot("negative", "i64"), c.constant(0.0)
    c.store("0", total, "i64")
    with c.loop(0, "%count") as i:
        stored, at = c.at("%stored", c.let(f"mul i64 {i}, {plan.stored}")), 0
        for group, near in zip(plan.pivots, plan.below, strict=True):
            first = c.load(c.at(stored, at))
            below = c.let(f"fcmp olt double {first}, {zero}")
            number = c.let(f"select i1 {below}, i64 {len(group)}, i64 0")
            if len(group) == 2:
                between, last = (c.load(c.at(stored, at + k)) for k in (1, 2))
                products = [c.let(f"fmul double {a}, {b}") for a, b in ((first, last), (between, between))]
                mixed = c.let(f"fcmp olt double {products[0]}, {products[1]}")
                number = c.let(f"select i1 {mixed}, i64 1, i64 {number}")
            c.store(c.let(f"add i64 {c.load(total, 'i64')}, {number}"), total, "i64")
            at += (1, 3)[len(group) - 1] + len(group) * len(near)
    c.line(f"ret i64 {c.load(total, 'i64')}")
    return c


def _stored_factors(c: Code, i: str, plan: SymbolicPlan) -> list[_Part]:
    stored, at, parts = c.at("%stored", c.let(f"mul i64 {i}, {plan.stored}")), 0, []
    for group, near in zip(plan.pivots, plan.below, strict=True):
        counts = (1, 3)[len(group) - 1], len(group) * len(near)
        names = [c.load(c.at(stored, at + k)) for k in range(sum(counts))]
        parts.append(_Part(names[: counts[0]], names[counts[0] :]))
        at += sum(counts)
    return parts


def _reduce(c: Code, i: str, plan: SymbolicPlan, parts: Sequence[_Part]) -> None:
    """The rows of block i of D⁻¹L⁻¹x, and what they change in those below."""
    base, x = _opened(c, i, plan)
    slots = [c.slot("x") for _ in range(plan.size)]
    for p, slot in enumerate(slots):
        c.store(x[p], slot)
    with _where_fixed(c, i):  # what the blocks before have added to fixed components
        free = c.at("%free", c.let(f"mul i64 {i}, {plan.size}"))
        for p, slot in enumerate(slots):
            c.store(c.let(f"fmul double {x[p]}, {c.load(c.at(free, p))}"), slot)
    x.update((p, c.load(slot)) for p, slot in enumerate(slots))
    for group, near, part in zip(plan.pivots, plan.below, parts, strict=True):
        multipliers = iter(part.multipliers)
        for q in near:
            for p in group:
                product = c.let(f"fmul contract double {next(multipliers)}, {x[p]}")
                x[q] = c.let(f"fsub contract double {x[q]}, {product}")
        old = [x[p] for p in group]
        for k, p in enumerate(group):
            x[p] = _combined(c, zip(_row(part.inverse, k), old, strict=True))
    for q, name in x.items():
        c.store(name, c.at(base, q))


def _backward(plan: SymbolicPlan) -> Code:
    """L⁻ᵀx."""
    c = Code()
    with c.loop(0, "%count") as n:
        i = c.let(f"sub i64 {c.let('sub i64 %count, 1')}, {n}")
        base, x = _opened(c, i, plan)
        parts = _stored_factors(c, i, plan)
        for group, near, part in zip(plan.pivots[::-1], plan.below[::-1], parts[::-1], strict=True):
            multipliers = iter(part.multipliers)
            for q in near:
                for p in group:
                    product = c.let(f"fmul contract double {next(multipliers)}, {x[q]}")
                    x[p] = c.let(f"fsub contract double {x[p]}, {product}")
        for p in range(plan.size):
            c.store(x[p], c.at(base, p))
    c.line("ret void")
    return c


def _opened(c: Code, i: str, plan: SymbolicPlan) -> tuple[str, dict[int, str]]:
    """Where block i of x stands, and its components that the block's elimination touches."""
    base = c.at("%x", c.let(f"mul i64 {i}, {plan.size}"))
    touched = sorted({*range(plan.size), *(q for near in plan.below for q in near)})
    return base, {q: c.load(c.at(base, q)) for q in touched}
