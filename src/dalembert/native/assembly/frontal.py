"""A symmetric matrix that is a sum over windows, factorized block after block without being stored.

    K = Σ_i P_iᵀ K_i P_i = L D Lᵀ,   K_i: second derivatives of window i,   D of blocks of one and of two rows

The window that moves along the path carries the update matrix that the eliminated blocks leave to those that follow. Pivots
are those of an order chosen beforehand: no search, no exchange, and the whole elimination of a block is written out.
Multipliers of successive blocks go by their differences, see `SymbolicPlan`.
Source: B. M. Irons, A frontal solution program (1970); I. S. Duff, J. K. Reid, The multifrontal solution of indefinite
sparse symmetric linear equations (1983). Here the order is the same for all blocks, so that solutions must be checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dalembert.native.assembly.windows import TracedWindow, Windowed
from dalembert.native.llvm.builder import Code, Operand, module, where
from dalembert.native.llvm.cache import CACHE

Pair = tuple[int, int]
T = TypeVar("T")
Entries = dict[Pair, Operand]


class Summand(NamedTuple):
    """One of the functions of a window. windowed: reads the path at Places, returns the entries of K_i that are not zero.

    entries: their (row, column), row ≤ column, counted from the first component of the window's first block.
    """

    windowed: Windowed
    entries: tuple[Pair, ...]


class SymbolicPlan(NamedTuple):
    """The elimination of one block, after a change of basis.

        z_c = σ_c + z_{c+b},   z_{c+2b} = z_{c+b} - σ_{c+2b}   for the components c in `differences`, b being the size

    A component of which two successive blocks are coupled to what is eliminated has entries of 1/h² there, and those of size
    1 are what they differ by. In σ these are entries, and nothing of them is lost.

    pivots: groups of one or two components of the block, in their order. below: for every group the components that are
    coupled to it and eliminated later; entries: those of the windows; update: the pattern of the update matrix, pairs of
    components counted from the first of the next block, in the basis of that block. All but `entries` are in the new basis.
    """

    size: int
    pivots: tuple[tuple[int, ...], ...]
    below: tuple[tuple[int, ...], ...]
    entries: tuple[Pair, ...]
    update: tuple[Pair, ...]
    differences: tuple[int, ...] = ()

    @property
    def stored(self) -> int:
        """Numbers of a block that are kept: D⁻¹ and L."""
        return sum((1, 3)[len(p) - 1] + len(p) * len(q) for p, q in zip(self.pivots, self.below, strict=True))

    @property
    def carried(self) -> tuple[int, ...]:
        """Components after those of a block, counted from its first, that its elimination changes; with those that these
        become in the blocks that follow."""
        found, b = {q - self.size for near in self.below for q in near if q >= self.size}, self.size
        while not {q - b for q in found if q >= b} <= found:
            found |= {q - b for q in found if q >= b}
        return tuple(sorted(found))

    def next_place(self, q: int) -> int:
        """Place in the next block, which takes σ_{c+2b} as its own, of a component after those of this block."""
        c = q % self.size
        return (c, c + self.size)[q < 2 * self.size] if c in self.differences else q - self.size


def symbolic_plan(
    entries: Sequence[Pair], size: int, pivots: Sequence[tuple[int, ...]], wanted: Sequence[int] = ()
) -> SymbolicPlan:
    """The elimination of every block, once the pattern of the update matrix does not change any more.

    wanted: components that become differences where two successive blocks of them, and not three, are coupled to what is
    eliminated.
    """
    plain = _close_pattern(entries, size, pivots, ())
    left = {q for pair in plain.update for q in pair}
    differences = tuple(c for c in wanted if c in left and c + size in left and c + 2 * size not in left)
    return _close_pattern(entries, size, pivots, differences) if differences else plain


def _close_pattern(
    entries: Sequence[Pair], size: int, pivots: Sequence[tuple[int, ...]], differences: tuple[int, ...]
) -> SymbolicPlan:
    of_windows = set(entries) | {(i, i) for i in range(size)}
    plan = SymbolicPlan(size, tuple(pivots), (), tuple(sorted(of_windows)), (), differences)
    once = dict.fromkeys(of_windows, True)
    own = {(min(g), max(g)) for g in pivots} | set(into_differences(once, plan, _and, bool))
    update: set[Pair] = set()
    while True:
        left_over, below = own | update, []
        for group in pivots:
            near = sorted({q for pair in left_over for p in group if p in pair for q in pair if q not in group})
            below.append(tuple(near))
            left_over = {pair for pair in left_over if not set(pair) & set(group)}
            left_over |= {(p, q) for p in near for q in near if p <= q}
        left = set(into_next(dict.fromkeys(left_over, True), plan, _and))
        for c in differences:  # where z_c is fixed, σ_c is -z_{c+b}
            coupled = {q for pair in left if c in pair for q in pair} - {c}
            left |= {(min(q, c + size), max(q, c + size)) for q in coupled}
        if left == update:
            return plan._replace(below=tuple(below), update=tuple(sorted(update)))
        update |= left


def _and(a: bool, b: bool) -> bool:
    return a or b


def into_differences(
    value: Mapping[Pair, T], plan: SymbolicPlan, plus: Callable[[T, T], T], minus: Callable[[T], T]
) -> dict[Pair, T]:
    """The entries of windows in the basis of the elimination."""
    found = dict(value)
    for c in plan.differences:
        first, second = c + plan.size, c + 2 * plan.size
        found = add_row(add_row(found, c, first, plus), second, first, plus)
        found = {pair: minus(x) if second in pair and pair[0] != pair[1] else x for pair, x in found.items()}
    return found


def into_next(value: Mapping[Pair, T], plan: SymbolicPlan, plus: Callable[[T, T], T]) -> dict[Pair, T]:
    """Update matrix that the elimination leaves, in the basis of the next block and with its places."""
    found = dict(value)
    for c in plan.differences:
        found = add_row(found, c + plan.size, c + 2 * plan.size, plus)
    places = ((plan.next_place(p), plan.next_place(q), x) for (p, q), x in found.items())
    return {(min(p, q), max(p, q)): x for p, q, x in places}


def add_row(value: Mapping[Pair, T], a: int, into: int, plus: Callable[[T, T], T]) -> dict[Pair, T]:
    """The entries of SᵀKS where S replaces z_a by z_a + z_into: row and column a are added to those of `into`."""
    found = dict(value)

    def add_entry(p: int, q: int, x: T) -> None:
        pair = min(p, q), max(p, q)
        found[pair] = plus(found[pair], x) if pair in found else x

    for (p, q), x in value.items():
        if a not in (p, q):
            continue
        other = q if p == a else p
        add_entry(other if other != a else into, into, plus(x, x) if other == into else x)
        if other == a:
            add_entry(a, into, x)
    return found


K = TypeVar("K")


class EliminatedGroup(NamedTuple):
    """The values of one group of pivots: the upper half of D⁻¹, and L, for every row below those of the group."""

    inverse: list[Operand]
    multipliers: list[Operand]


def _new_code() -> tuple[Code, Operand, Operand, Operand]:
    """The code of a function, with the arguments that all have."""
    c = Code(flags="contract")
    return c, c.argument("count", "i64"), c.argument("stored"), c.argument("x")


def forward(plan: SymbolicPlan) -> Code:
    """D⁻¹L⁻¹x."""
    c, count, *_ = _new_code()
    carried = zeros(c, "carried", plan.carried)
    with c.loop(0, count) as i:
        substitute_forward(i, plan, _stored_factors(i, plan), carried)
    c.line("ret void")
    return c


def substitute_forward(
    i: Operand, plan: SymbolicPlan, parts: Sequence[EliminatedGroup], carried: dict[int, Operand]
) -> None:
    """The rows of block i of D⁻¹L⁻¹x; carried: what they change in those below, which come to it in later blocks."""
    base = i.code.argument("x")[i * plan.size :]
    x = {q: slot[0] for q, slot in carried.items()}
    for p in range(plan.size):
        own = base[p]
        if p in plan.differences:
            x[p + plan.size] = x[p + plan.size] + own
        x[p] = x[p] + own if p in x else own
    _fix_right(i, plan, x)
    _substitute(plan, parts, x)
    for p in range(plan.size):
        base[p] = x[p]
    for p in plan.differences:
        x[p + 2 * plan.size] = x[p + 2 * plan.size] + x[p + plan.size]
    following = {plan.next_place(q): value for q, value in x.items() if q >= plan.size}
    for q, slot in carried.items():
        slot[0] = following.get(q, 0.0)


def _fix_right(i: Operand, plan: SymbolicPlan, x: dict[int, Operand]) -> None:
    """Sᵀx, see `_fix`: nothing is left of fixed components, also of what the blocks before have added."""
    slots = {q: i.code.slot("x") for q in (*range(plan.size), *(p + plan.size for p in plan.differences))}
    for q, slot in slots.items():
        slot[0] = x[q]
    with where_fixed(i):
        free = i.code.argument("free")[i * plan.size :]
        for p in range(plan.size):
            kept = x[p] * free[p]
            slots[p][0] = kept
            if p in plan.differences:
                slots[p + plan.size][0] = x[p + plan.size] - (x[p] - kept)
    x.update((q, slot[0]) for q, slot in slots.items())


def _substitute(plan: SymbolicPlan, parts: Sequence[EliminatedGroup], x: dict[int, Operand]) -> None:
    """D⁻¹L⁻¹x for the components of a block, and x - Lx for those below."""
    for group, near, part in zip(plan.pivots, plan.below, parts, strict=True):
        multipliers = iter(part.multipliers)
        for q in near:
            for p in group:
                product = next(multipliers) * x[p]
                x[q] = x[q] - product if q in x else -product
        old = [x[p] for p in group]
        for k, p in enumerate(group):
            x[p] = sum_of_products(zip(inverse_row(part.inverse, k), old, strict=True))


def backward(plan: SymbolicPlan) -> Code:
    """L⁻ᵀx. Of a sum what is known last is added last: a block waits for the one after it no longer than it has to."""
    c, count, _, x_ = _new_code()
    size = plan.size
    reached = max((q for near in plan.below for q in near), default=0)
    order = [p for group in plan.pivots for p in group]
    later = zeros(c, "later", range(size, max(reached + 1, 2 * size if plan.differences else 0)))
    differences = zeros(c, "difference", plan.differences)  # of the block after this one
    with c.loop(0, count) as n:
        i = count - 1 - n
        base = x_[i * size :]
        x = {p: base[p] for p in range(size)} | {q: slot[0] for q, slot in later.items()}
        x |= {p + 2 * size: slot[0] for p, slot in differences.items()}
        for group, near, part in [*zip(plan.pivots, plan.below, _stored_factors(i, plan), strict=True)][::-1]:
            multipliers = dict(zip(itertools.product(near, group), part.multipliers, strict=True))
            for q in sorted(near, key=lambda q: (q // size, order.index(q % size)), reverse=True):
                for p in group:
                    x[p] = x[p] - multipliers[q, p] * x[q]
        for p, slot in differences.items():
            slot[0] = x[p]
            x[p] = x[p] + x[p + size]
        if differences:
            _hold_fixed(i, plan, x, differences)
        for p in range(size):
            base[p] = x[p]
        after = {q: slot[0] for q, slot in later.items()}
        for q, slot in later.items():
            slot[0] = x[q - size] if q < 2 * size else after[q - size]
    c.line("ret void")
    return c


def _hold_fixed(i: Operand, plan: SymbolicPlan, x: dict[int, Operand], differences: dict[int, Operand]) -> None:
    """Set every fixed z_p to 0, and its difference to -z_{p+b}."""
    held = {p: i.code.slot("held") for p in differences}
    for p, slot in held.items():
        slot[0] = x[p]
    with where_fixed(i):
        free = i.code.argument("free")[i * plan.size :]
        for p, slot in differences.items():
            part = free[p]
            slot[0] = slot[0] * part + (part - 1.0) * x[p + plan.size]
            held[p][0] = x[p] * part
    x.update((p, slot[0]) for p, slot in held.items())


def _stored_factors(i: Operand, plan: SymbolicPlan) -> list[EliminatedGroup]:
    names, parts = iter([i.code.argument("stored")[i * plan.stored :][k] for k in range(plan.stored)]), []
    for group, near in zip(plan.pivots, plan.below, strict=True):
        inverse = [next(names) for _ in range((1, 3)[len(group) - 1])]
        parts.append(EliminatedGroup(inverse, [next(names) for _ in range(len(group) * len(near))]))
    return parts


def where_fixed(i: Operand) -> contextlib.AbstractContextManager:
    """Branch for blocks with a fixed component; few have one, and what changes there is kept in slots."""
    return i.code.only_if(i.code.argument("fixed_blocks")[i] != 0.0, likely=False)


def inverse_row(inverse: list[Operand], k: int) -> list[Operand]:
    """Row k of D⁻¹ from its upper half."""
    return inverse if len(inverse) == 1 else inverse[k : k + 2]


def sum_of_products(terms: Iterable[tuple[Operand, Operand | None]]) -> Any:
    """Σ a b, without the terms that are not there."""
    products = [a * b for a, b in terms if b is not None]
    return functools.reduce(operator.add, products) if products else 0.0


def zeros(c: Code, name: str, keys: Iterable[K]) -> dict[K, Operand]:
    """Slots that begin as zero."""
    slots = {key: c.slot(name) for key in keys}
    for slot in slots.values():
        slot[0] = 0.0
    return slots


def text(summands: Sequence[Summand], plan: SymbolicPlan) -> tuple[str, list[np.ndarray]]:
    first, constants = _factor_code(summands, plan)
    down, up = forward(plan), backward(plan)
    parts = (
        first.function(
            "define void @first(i64 %count, ptr %z, ptr %free, ptr %fixed_blocks, ptr %diagonal, ptr %stored, ptr %x, "
            "ptr %data) nounwind"
        ),
        down.function("define void @forward(i64 %count, ptr %stored, ptr %free, ptr %fixed_blocks, ptr %x) nounwind"),
        up.function("define void @backward(i64 %count, ptr %stored, ptr %free, ptr %fixed_blocks, ptr %x) nounwind"),
        _negative(plan).function("define i64 @negative(i64 %count, ptr %stored) nounwind"),
    )
    return module(*parts, declared=first.declared | down.declared | up.declared), constants


def _factor_code(summands: Sequence[Summand], plan: SymbolicPlan) -> tuple[Code, list[np.ndarray]]:
    c, count, stored, _ = _new_code()
    updated = zeros(c, "updated", plan.update)
    front = {pair: c.slot("frontal") for pair in plan.entries}
    carried = zeros(c, "carried", plan.carried)
    added = [_Added(c, k, s, plan.size) for k, s in enumerate(summands)]
    with c.loop(0, count) as i:
        for slot in front.values():
            slot[0] = 0.0
        for a in added:
            a.add(i, front)
        diagonal = [c.argument("diagonal")[i * plan.size :][p] for p in range(plan.size)]
        value = _fix_components(i, plan, _front(plan, front, updated, diagonal), diagonal)
        parts, kept = _eliminate(plan, value, updated), stored[i * plan.stored :]
        for k, x in enumerate(x for part in parts for x in (*part.inverse, *part.multipliers)):
            kept[k] = x
        substitute_forward(i, plan, parts, carried)
    c.line("ret void")
    return c, [a.traced.captured for a in added]


def _front(plan: SymbolicPlan, front: Entries, updated: Entries, diagonal: Sequence[Operand]) -> Entries:
    """The frontal matrix: entries of windows and the diagonal, brought into the basis of the update matrix, and this."""
    read = {pair: slot[0] for pair, slot in front.items()}
    read |= {(p, p): read[p, p] + more for p, more in enumerate(diagonal)}
    value = into_differences(read, plan, operator.add, operator.neg)
    for pair, slot in updated.items():
        value[pair] = slot[0] + value[pair] if pair in value else slot[0]
    return value


class _Added:
    """The entries of one summand; what does not change from window to window is read before the loop."""

    def __init__(self, c: Code, k: int, summand: Summand, size: int):
        items = ("i64", "double", "double")
        span, self.rows, shared = (c.argument("data", item="ptr")[3 * k + j].at(0, x) for j, x in enumerate(items))
        self.summand, self.size, self.traced = summand, size, TracedWindow.of(summand.windowed)
        self.common, self.start, self.number = self.traced.shared_values(shared), span[0], span[1]

    def add(self, i: Operand, front: Entries) -> None:
        """The entries of the window that begins at block i, where there is one."""
        j = i - self.start
        with i.code.only_if((j >= 0) & (j < self.number)):
            results = self.traced.emit(self.common, [i.code.argument("z")[i * self.size :]], self.rows, j)
            for pair, value in zip(self.summand.entries, results, strict=True):
                front[pair][0] = front[pair][0] + value


def _fix_components(i: Operand, plan: SymbolicPlan, value: Entries, diagonal: Sequence[Operand]) -> Entries:
    """Entries in which the rows and columns of the block's fixed components vanish but for the diagonal that is added."""
    slots = {pair: i.code.slot("fixed") for pair in value}
    for pair, x in value.items():
        slots[pair][0] = x
    with where_fixed(i):
        free = i.code.argument("free")[i * plan.size :]
        for p, own in enumerate(diagonal):
            part = free[p]
            _fix(plan, p, part, slots)
            slots[p, p][0] = slots[p, p][0] + (own - own * part)
    return {pair: slot[0] for pair, slot in slots.items()}


def _fix(plan: SymbolicPlan, p: int, free: Operand, slots: Entries) -> None:
    """SᵀKS where S replaces z_p by free·z_p; of a difference, σ by free·σ - (1 - free)·z_{p+b}."""
    near = [(pair, slot[0]) for pair, slot in slots.items() if p in pair]
    if p in plan.differences:
        after, held = p + plan.size, 1.0 - free
        for pair, value in near:
            other = sum(pair) - p
            part = value * held
            to = slots[after, after] if other == p else slots[min(other, after), max(other, after)]
            if other != p:
                part = -(part + part) if other == after else -part
                to = slots[after, after] if other == after else to
            to[0] = to[0] + part
    for pair, value in near:
        slots[pair][0] = value * free


def _eliminate(plan: SymbolicPlan, value: Entries, updated: Entries) -> list[EliminatedGroup]:
    parts = []
    for group, near in zip(plan.pivots, plan.below, strict=True):
        column = {(p, q): value.get((min(p, q), max(p, q))) for p in group for q in (*group, *near)}
        part = EliminatedGroup(_inverse([[column[p, q] for q in group] for p in group]), [])
        for n, q in enumerate(near):
            entries = [column[p, q] for p in group]
            rows = (inverse_row(part.inverse, k) for k in range(len(group)))
            multipliers = [sum_of_products(zip(row, entries, strict=True)) for row in rows]
            part.multipliers.extend(multipliers)
            for r in near[n:]:
                for factor, p in zip(multipliers, group, strict=True):
                    other = column[p, r]
                    if other is not None:
                        value[q, r] = value[q, r] - factor * other if (q, r) in value else -(factor * other)
        parts.append(part)
    following = into_next({pair: x for pair, x in value.items() if pair[0] >= plan.size}, plan, operator.add)
    for pair, slot in updated.items():
        slot[0] = following.get(pair, 0.0)
    return parts


def _inverse(block: list[list[Any]]) -> list[Operand]:
    """The upper half of the inverse of a pivot of one or two rows."""
    if len(block) == 1:
        return [1.0 / block[0][0]]
    a, b, d = block[0][0], block[0][1], block[1][1]
    over = 1.0 / (a * d - b * b)
    return [d * over, -(b * over), a * over]


def _negative(plan: SymbolicPlan) -> Code:
    """Code that counts the negative eigenvalues of D, from those of D⁻¹."""
    c, count, *_ = _new_code()
    total = c.slot("negative", "i64")
    total[0] = 0
    with c.loop(0, count) as i:
        for group, part in zip(plan.pivots, _stored_factors(i, plan), strict=True):
            first, *others = part.inverse
            number = where(first < 0.0, len(group), 0)
            if others:
                between, last = others
                number = where(first * last < between * between, 1, number)
            total[0] = total[0] + number
    c.line(f"ret i64 {total[0]}")
    return c


class FrontalFactorization:
    """Factorization and solution for the sum of some summands: machine code, called with addresses. stored: numbers of a
    block that are kept."""

    def __init__(self, summands: Sequence[Summand], plan: SymbolicPlan):
        self.plan, self.stored = plan, plan.stored
        code, self.constants = CACHE.result(text, tuple(summands), plan)
        self.loaded = CACHE.load(code, plain=True)
        number = {"first": 7, "forward": 4, "backward": 4}
        self.addresses = {name: self.loaded.address(name) for name in number}
        self.first, self.forward, self.backward = (
            ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * count)(self.addresses[name])
            for name, count in number.items()
        )
        count = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        self.negative = count(self.loaded.address("negative"))

    def bind(
        self, free: np.ndarray, ranges: Sequence[np.ndarray], rows: Sequence[np.ndarray], shared: np.ndarray
    ) -> BoundFactorization:
        """For one matrix. free: (blocks, b), 1.0 where a component is free and 0.0 where it is fixed. ranges: first window
        and number of windows of every summand; rows: their data; shared: the data of all."""
        given = [np.concatenate([shared, constants]) for constants in self.constants]
        arguments = [a for triple in zip(ranges, rows, given, strict=True) for a in triple]
        return BoundFactorization(self, free, arguments)


class BoundFactorization:
    """The factorizations of one matrix. fixed_blocks: (blocks,), not zero where a component is fixed; data: addresses of the
    range, the rows and the shared data of every summand."""

    def __init__(self, factorization: FrontalFactorization, free: np.ndarray, arguments: Sequence[np.ndarray]):
        self.factorization, self.free, self._arguments = factorization, free, arguments
        self.unit, self.fixed_blocks = 1.0 - free, (1.0 - free).max(axis=1)
        self.data = np.array([a.ctypes.data for a in arguments], np.int64)
        self._free, self._unit, self._fixed_blocks = (a.ctypes.data for a in (self.free, self.unit, self.fixed_blocks))

    def factor(self, z: np.ndarray, diagonal: np.ndarray | None, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(stored, x): L and D of every block, and K⁻¹ right, at a path z (blocks, b). diagonal: (blocks, b), what is added
        to the diagonal, 1 where a component is fixed; None: nothing elsewhere."""
        found, x = np.empty((len(z), self.factorization.stored)), np.array(right, order="C")
        into, workspace, added = found.ctypes.data, x.ctypes.data, self._unit if diagonal is None else diagonal.ctypes.data
        data = self.data.ctypes.data
        self.factorization.first(len(z), z.ctypes.data, self._free, self._fixed_blocks, added, into, workspace, data)
        self.factorization.backward(len(z), into, self._free, self._fixed_blocks, workspace)
        return found, x

    def solve(self, stored: np.ndarray, right: np.ndarray) -> np.ndarray:
        """K⁻¹ right, (blocks, b)."""
        x = np.array(right, order="C")
        kept, workspace = stored.ctypes.data, x.ctypes.data
        self.factorization.forward(len(right), kept, self._free, self._fixed_blocks, workspace)
        self.factorization.backward(len(right), kept, self._free, self._fixed_blocks, workspace)
        return x

    def negative(self, stored: np.ndarray) -> int:
        """Number of negative eigenvalues of D: as many as those of K."""
        return int(self.factorization.negative(len(stored), stored.ctypes.data))
