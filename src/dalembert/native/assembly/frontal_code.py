"""Machine code of the frontal matrix: the windows are added, a block is eliminated, the right-hand side with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dalembert.native.assembly.substitution_code import (
    EliminatedGroup,
    backward,
    combined,
    forward,
    plus,
    reduce,
    row,
    where_fixed,
    zeros,
)
from dalembert.native.assembly.symbolic_plan import Pair, Summand, SymbolicPlan, into_differences, into_next
from dalembert.native.assembly.windows import TracedWindow
from dalembert.native.llvm.builder import Code, module


def text(summands: Sequence[Summand], plan: SymbolicPlan) -> tuple[str, list[np.ndarray]]:
    first, constants = _factor(summands, plan)
    down, up = forward(plan), backward(plan)
    data = ", ".join(f"ptr %range{k}, ptr %rows{k}, ptr %shared{k}" for k in range(len(summands)))
    parts = (
        first.function(
            "define void @first(i64 %count, ptr %z, ptr %free, ptr %fixed_blocks, ptr %diagonal, ptr %stored, ptr %x, "
            f"{data}) nounwind"
        ),
        down.function("define void @forward(i64 %count, ptr %stored, ptr %free, ptr %fixed_blocks, ptr %x) nounwind"),
        up.function("define void @backward(i64 %count, ptr %stored, ptr %free, ptr %fixed_blocks, ptr %x) nounwind"),
        _negative(plan).function("define i64 @negative(i64 %count, ptr %stored) nounwind"),
    )
    return module(*parts, declared=first.declared | down.declared | up.declared), constants


def _factor(summands: Sequence[Summand], plan: SymbolicPlan) -> tuple[Code, list[np.ndarray]]:
    c = Code()
    updated = zeros(c, "updated", plan.update)
    front = {pair: c.slot("frontal") for pair in plan.entries}
    carried = zeros(c, "carried", plan.carried)
    added = [_Added(c, k, s, plan.size) for k, s in enumerate(summands)]
    with c.loop(0, "%count") as i:
        for slot in front.values():
            c.store(c.constant(0.0), slot)
        for a in added:
            a.add(i, front)
        diagonal = [c.load(c.at(c.at("%diagonal", c.let(f"mul i64 {i}, {plan.size}")), p)) for p in range(plan.size)]
        value = _fixed(c, i, plan, _front(c, plan, front, updated, diagonal), diagonal)
        stored = c.at("%stored", c.let(f"mul i64 {i}, {plan.stored}"))
        parts = _eliminate(c, plan, value, updated)
        for k, name in enumerate(x for part in parts for x in (*part.inverse, *part.multipliers)):
            c.store(name, c.at(stored, k))
        reduce(c, i, plan, parts, carried)
    c.line("ret void")
    return c, [a.traced.captured for a in added]


def _front(
    c: Code, plan: SymbolicPlan, front: dict[Pair, str], updated: dict[Pair, str], diagonal: Sequence[str]
) -> dict[Pair, str]:
    """The frontal matrix: entries of windows and the diagonal, brought into the basis of the update matrix, and this."""
    read = {pair: c.load(slot) for pair, slot in front.items()}
    read |= {(p, p): plus(c, read[p, p], more) for p, more in enumerate(diagonal)}
    value = into_differences(read, plan, lambda a, b: plus(c, a, b), lambda a: c.let(f"fneg double {a}"))
    for pair, slot in updated.items():
        before = c.load(slot)
        value[pair] = plus(c, before, value[pair]) if pair in value else before
    return value


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


def _fixed(c: Code, i: str, plan: SymbolicPlan, value: dict[Pair, str], diagonal: Sequence[str]) -> dict[Pair, str]:
    """Where a component of the block is fixed, its rows and columns vanish but for the diagonal that is added."""
    slots = {pair: c.slot("fixed") for pair in value}
    for pair, name in value.items():
        c.store(name, slots[pair])
    with where_fixed(c, i):
        base = c.at("%free", c.let(f"mul i64 {i}, {plan.size}"))
        for p, own in enumerate(diagonal):
            free = c.load(c.at(base, p))
            _fix(c, plan, p, free, slots)
            kept = c.let(f"fmul double {own}, {free}")
            c.store(plus(c, c.load(slots[p, p]), c.let(f"fsub double {own}, {kept}")), slots[p, p])
    return {pair: c.load(slot) for pair, slot in slots.items()}


def _fix(c: Code, plan: SymbolicPlan, p: int, free: str, slots: dict[Pair, str]) -> None:
    """SᵀKS where S replaces z_p by free·z_p; of a difference, σ by free·σ - (1 - free)·z_{p+b}."""
    near = [(pair, c.load(slot)) for pair, slot in slots.items() if p in pair]
    if p in plan.differences:
        after, held = p + plan.size, c.let(f"fsub double {c.constant(1.0)}, {free}")
        for pair, value in near:
            other = sum(pair) - p
            part = c.let(f"fmul double {value}, {held}")
            to = slots[after, after] if other == p else slots[min(other, after), max(other, after)]
            if other != p:
                part = c.let(f"fneg double {plus(c, part, part) if other == after else part}")
                to = slots[after, after] if other == after else to
            c.store(plus(c, c.load(to), part), to)
    for pair, value in near:
        c.store(c.let(f"fmul double {value}, {free}"), slots[pair])


def _eliminate(c: Code, plan: SymbolicPlan, value: dict[Pair, str], updated: dict[Pair, str]) -> list[EliminatedGroup]:
    parts = []
    for group, near in zip(plan.pivots, plan.below, strict=True):
        column = {(p, q): value.get((min(p, q), max(p, q))) for p in group for q in (*group, *near)}
        inverse = _inverse(c, [[column[p, q] for q in group] for p in group])
        part = EliminatedGroup(inverse, [])
        for n, q in enumerate(near):
            entries = [column[p, q] for p in group]
            multipliers = [combined(c, zip(row(inverse, k), entries, strict=True)) for k in range(len(group))]
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
    left = {pair: x for pair, x in value.items() if pair[0] >= plan.size}
    following = into_next(left, plan, lambda a, b: plus(c, a, b))
    for pair, slot in updated.items():
        c.store(following.get(pair, c.constant(0.0)), slot)
    return parts


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
