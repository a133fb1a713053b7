"""Machine code of substitution with the factors of a frontal elimination, block after block and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from dalembert.native.assembly.symbolic_plan import SymbolicPlan
from dalembert.native.llvm.builder import Code

K = TypeVar("K")


class EliminatedGroup(NamedTuple):
    """Names of the values of one group of pivots: the upper half of D⁻¹, and L, for every row below those of the group."""

    inverse: list[str]
    multipliers: list[str]


def forward(plan: SymbolicPlan) -> Code:
    """D⁻¹L⁻¹x."""
    c = Code()
    carried = zeros(c, "carried", plan.carried)
    with c.loop(0, "%count") as i:
        reduce(c, i, plan, _stored_factors(c, i, plan), carried)
    c.line("ret void")
    return c


def reduce(c: Code, i: str, plan: SymbolicPlan, parts: Sequence[EliminatedGroup], carried: dict[int, str]) -> None:
    """The rows of block i of D⁻¹L⁻¹x; carried: what they change in those below, which come to it in later blocks."""
    base = c.at("%x", c.let(f"mul i64 {i}, {plan.size}"))
    x = {q: c.load(slot) for q, slot in carried.items()}
    for p in range(plan.size):
        own = c.load(c.at(base, p))
        if p in plan.differences:
            x[p + plan.size] = plus(c, x[p + plan.size], own)
        x[p] = plus(c, x[p], own) if p in x else own
    _fix_right(c, i, plan, x)
    _substitute(c, plan, parts, x)
    for p in range(plan.size):
        c.store(x[p], c.at(base, p))
    for p in plan.differences:
        x[p + 2 * plan.size] = plus(c, x[p + 2 * plan.size], x[p + plan.size])
    following = {plan.next_place(q): value for q, value in x.items() if q >= plan.size}
    for q, slot in carried.items():
        c.store(following.get(q, c.constant(0.0)), slot)


def _fix_right(c: Code, i: str, plan: SymbolicPlan, x: dict[int, str]) -> None:
    """Sᵀx, see `_fix`: nothing is left of fixed components, also of what the blocks before have added."""
    slots = {q: c.slot("x") for q in (*range(plan.size), *(p + plan.size for p in plan.differences))}
    for q, slot in slots.items():
        c.store(x[q], slot)
    with where_fixed(c, i):
        free = c.at("%free", c.let(f"mul i64 {i}, {plan.size}"))
        for p in range(plan.size):
            kept = c.let(f"fmul double {x[p]}, {c.load(c.at(free, p))}")
            c.store(kept, slots[p])
            if p in plan.differences:
                lost = c.let(f"fsub double {x[p]}, {kept}")
                c.store(c.let(f"fsub double {x[p + plan.size]}, {lost}"), slots[p + plan.size])
    x.update((q, c.load(slot)) for q, slot in slots.items())


def _substitute(c: Code, plan: SymbolicPlan, parts: Sequence[EliminatedGroup], x: dict[int, str]) -> None:
    """D⁻¹L⁻¹x for the components of a block, and x - Lx for those below."""
    for group, near, part in zip(plan.pivots, plan.below, parts, strict=True):
        multipliers = iter(part.multipliers)
        for q in near:
            for p in group:
                product = c.let(f"fmul contract double {next(multipliers)}, {x[p]}")
                x[q] = c.let(f"fsub contract double {x[q]}, {product}" if q in x else f"fneg double {product}")
        old = [x[p] for p in group]
        for k, p in enumerate(group):
            x[p] = combined(c, zip(row(part.inverse, k), old, strict=True))


def backward(plan: SymbolicPlan) -> Code:
    """L⁻ᵀx."""
    c = Code()
    differences = zeros(c, "difference", plan.differences)  # of the block after this one
    with c.loop(0, "%count") as n:
        i = c.let(f"sub i64 {c.let('sub i64 %count, 1')}, {n}")
        base = c.at("%x", c.let(f"mul i64 {i}, {plan.size}"))
        after = [p + plan.size for p in plan.differences]
        touched = sorted({*range(plan.size), *(q for near in plan.below for q in near), *after})
        x = {q: c.load(c.at(base, q)) for q in touched}
        x |= {p + 2 * plan.size: c.load(slot) for p, slot in differences.items()}
        for group, near, part in [*zip(plan.pivots, plan.below, _stored_factors(c, i, plan), strict=True)][::-1]:
            multipliers = iter(part.multipliers)
            for q in near:
                for p in group:
                    product = c.let(f"fmul contract double {next(multipliers)}, {x[q]}")
                    x[p] = c.let(f"fsub contract double {x[p]}, {product}")
        for p, slot in differences.items():
            c.store(x[p], slot)
            x[p] = plus(c, x[p], x[p + plan.size])
        for p in range(plan.size):
            c.store(x[p], c.at(base, p))
        if differences:
            _held(c, i, plan, base, {p: (slot, x[p + plan.size]) for p, slot in differences.items()})
    c.line("ret void")
    return c


def _held(c: Code, i: str, plan: SymbolicPlan, base: str, differences: dict[int, tuple[str, str]]) -> None:
    """Where z_p is fixed it is 0, and its difference is -z_{p+b}."""
    with where_fixed(c, i):
        free = c.at("%free", c.let(f"mul i64 {i}, {plan.size}"))
        for p, (slot, later) in differences.items():
            part = c.load(c.at(free, p))
            held = c.let(f"fmul double {c.let(f'fsub double {part}, {c.constant(1.0)}')}, {later}")
            c.store(plus(c, c.let(f"fmul double {c.load(slot)}, {part}"), held), slot)
            c.store(c.let(f"fmul double {c.load(c.at(base, p))}, {part}"), c.at(base, p))


def _stored_factors(c: Code, i: str, plan: SymbolicPlan) -> list[EliminatedGroup]:
    stored, at, parts = c.at("%stored", c.let(f"mul i64 {i}, {plan.stored}")), 0, []
    for group, near in zip(plan.pivots, plan.below, strict=True):
        counts = (1, 3)[len(group) - 1], len(group) * len(near)
        names = [c.load(c.at(stored, at + k)) for k in range(sum(counts))]
        parts.append(EliminatedGroup(names[: counts[0]], names[counts[0] :]))
        at += sum(counts)
    return parts


@contextlib.contextmanager
def where_fixed(c: Code, i: str) -> Iterator[None]:
    """What is done only in blocks with a fixed component; few have one, and what changes there is kept in slots."""
    some, none = c.name("fixed"), c.name("plain")
    some_fixed = c.load(c.at("%fixed_blocks", i))
    c.fork(c.let(f"fcmp une double {some_fixed}, {c.constant(0.0)}"), some, none, likely=False)
    c.label(some)
    yield
    c.go(none)
    c.label(none)


def row(inverse: list[str], k: int) -> list[str]:
    """Row k of D⁻¹ from its upper half."""
    return inverse if len(inverse) == 1 else inverse[k : k + 2]


def combined(c: Code, terms: Iterable[tuple[str, str | None]]) -> str:
    """Σ a b, without the terms that are not there."""
    total = None
    for a, b in terms:
        if b is not None:
            product = c.let(f"fmul contract double {a}, {b}")
            total = product if total is None else c.let(f"fadd contract double {total}, {product}")
    return c.constant(0.0) if total is None else total


def zeros(c: Code, name: str, keys: Iterable[K]) -> dict[K, str]:
    """Slots that begin as zero."""
    slots = {key: c.slot(name) for key in keys}
    for slot in slots.values():
        c.store(c.constant(0.0), slot)
    return slots


def plus(c: Code, a: str, b: str) -> str:
    return c.let(f"fadd contract double {a}, {b}")
