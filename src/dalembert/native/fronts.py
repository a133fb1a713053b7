"""A symmetric matrix that is a sum over windows, factorized block after block without being stored.

    K = Σ_i P_iᵀ K_i P_i = L D Lᵀ,   K_i: second derivatives of window i,   D of blocks of one and of two rows

The window that moves along the path carries what the eliminated blocks leave to those that follow (a front). Pivots are
those of an order chosen beforehand: no search, no exchange, and the whole elimination of a block is written out.
Source: B. M. Irons, A frontal solution program (1970); I. S. Duff, J. K. Reid, The multifrontal solution of indefinite sparse
symmetric linear equations (1983). Here the order is the same for all blocks, so that the solution must be checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dalembert.native.accumulate import Windowed, simplified
from dalembert.native.cache import CACHE, Cache
from dalembert.native.code import Code, module
from dalembert.native.emit import Emitter, Values

Pair = tuple[int, int]


class Summand(NamedTuple):
    """One of the functions of a window. windowed: reads the path at Places, returns the entries of K_i that are not zero.

    entries: their (row, column), row ≤ column, counted from the first component of the window's first block.
    """

    windowed: Windowed
    entries: tuple[Pair, ...]


class Plan(NamedTuple):
    """The elimination of one block.

    pivots: groups of one or two components of the block, in their order. below: for every group the components that are
    coupled to it and eliminated later; carry: the pairs of components of the following blocks that are changed,
    counted from the first of these.
    """

    size: int
    pivots: tuple[tuple[int, ...], ...]
    below: tuple[tuple[int, ...], ...]
    entries: tuple[Pair, ...]
    carry: tuple[Pair, ...]

    @property
    def record(self) -> int:
        """Numbers of a block that are kept: D⁻¹ and L."""
        return sum((1, 3)[len(p) - 1] + len(p) * len(q) for p, q in zip(self.pivots, self.below, strict=True))


def plan(entries: Sequence[Pair], size: int, pivots: Sequence[tuple[int, ...]]) -> Plan:
    """The elimination of every block, once the pattern of the carry does not change any more."""
    carry: set[Pair] = set()
    while True:
        front = set(entries) | carry | {(min(g), max(g)) for g in pivots} | {(i, i) for i in range(size)}
        held = set(front)
        below = []
        for group in pivots:
            near = sorted({q for pair in held for p in group if p in pair for q in pair if q not in group})
            below.append(tuple(near))
            held = {pair for pair in held if not set(pair) & set(group)}
            held |= {(p, q) for p in near for q in near if p <= q}
            front |= held
        left = {(p - size, q - size) for p, q in held}
        if left == carry:
            return Plan(size, tuple(pivots), tuple(below), tuple(sorted(front)), tuple(sorted(carry)))
        carry = left | carry


class Fronts:
    """Factorization and solution for the sum of some summands: machine code, called with addresses."""

    def __init__(self, summands: Sequence[Summand], layout: Plan, cache: Cache = CACHE):
        self.plan, self.summands = layout, summands
        text, self.constants = _text(summands, layout)
        self.loaded = cache.load(text, plain=True)
        pointers = 4 + 3 * len(summands)
        self._factor = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * pointers)(self.loaded.address("factor"))
        self._solve = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(self.loaded.address("solve"))

    def factor(self, z, free, diagonal, ranges: Sequence[np.ndarray], rows: Sequence[np.ndarray], shared) -> np.ndarray:
        """(blocks, record) from a path z (blocks, b). free: (blocks, b), 1.0 where a component is free and 0.0 where it is
        fixed; diagonal: (blocks, b), what is added to the diagonal, 1 where a component is fixed. ranges: first window
        and number of windows of every summand; rows: their data."""
        found = np.empty((len(z), self.plan.record))
        arguments = []
        for summand_range, data, constants in zip(ranges, rows, self.constants, strict=True):
            given = np.concatenate([shared, constants])
            arguments += [summand_range, data, given]
        self._factor(
            len(z), z.ctypes.data, free.ctypes.data, diagonal.ctypes.data, found.ctypes.data,
            *(a.ctypes.data for a in arguments),
        )  # fmt: skip
        return found

    def solve(self, record: np.ndarray, free: np.ndarray, x: np.ndarray) -> None:
        """K⁻¹x in place of x, (blocks + reach, b) with zeros after the last block."""
        self._solve(len(record), record.ctypes.data, free.ctypes.data, x.ctypes.data)

    @property
    def reach(self) -> int:
        """Blocks after a block that are coupled to it."""
        last = max((q for near in self.plan.below for q in near), default=0)
        return last // self.plan.size


def _text(summands: Sequence[Summand], layout: Plan) -> tuple[str, list[np.ndarray]]:
    factor, constants = _factor(summands, layout)
    solve = _solve(layout)
    declared = factor.declared | solve.declared
    arguments = ", ".join(f"ptr %range{k}, ptr %rows{k}, ptr %shared{k}" for k in range(len(summands)))
    head = f"define void @factor(i64 %count, ptr %z, ptr %free, ptr %diagonal, ptr %record, {arguments}) nounwind"
    parts = (factor.function(head), solve.function("define void @solve(i64 %count, ptr %record, ptr %free, ptr %x) nounwind"))
    return module(*parts, declared=declared), constants


def _factor(summands: Sequence[Summand], layout: Plan) -> tuple[Code, list[np.ndarray]]:
    c = Code()
    carried = {pair: c.slot("carried") for pair in layout.carry}
    front = {pair: c.slot("front") for pair in layout.entries}
    for slot in carried.values():
        c.store(c.constant(0.0), slot)
    added = [_Added(c, k, s, layout.size) for k, s in enumerate(summands)]
    with c.loop(0, "%count") as i:
        for (p, q), slot in front.items():
            before = carried.get((p, q))
            c.store(c.constant(0.0) if before is None else c.load(before), slot)
        for a in added:
            a.add(i, front)
        _hold(c, i, layout, front)
        record = c.at("%record", c.let(f"mul i64 {i}, {layout.record}"))
        _eliminate(c, layout, {pair: c.load(slot) for pair, slot in front.items()}, record, carried)
    c.line("ret void")
    return c, [a.constants for a in added]


class _Added:
    """The entries of one summand; what does not change from window to window is read before the loop."""

    def __init__(self, c: Code, k: int, summand: Summand, size: int):
        self.c, self.k, self.summand, self.size = c, k, summand, size
        self.graph, inputs, self.roots, captured = simplified(summand.windowed)
        self.constants = np.asarray(captured, float)
        self.sizes = [x.size for x in inputs]
        self.values: Values = {}
        w = summand.windowed
        self.reads, self.rows = len(w.read), len(w.row)
        at = 0
        for j, number in [*list(enumerate(self.sizes))[self.reads + self.rows :], (-1, len(captured))]:
            for l in range(number):
                name = self.graph.variable("captured" if j < 0 else f"x{j}", l)
                self.values[name] = c.load(c.at(f"%shared{k}", at + l))
            at += number
        self.start = c.load(f"%range{k}", "i64")
        self.number = c.load(c.at(f"%range{k}", 1, "i64"), "i64")

    def add(self, i: str, front: dict[Pair, str]) -> None:
        """The entries of the window that begins at block i, where there is one."""
        c, values = self.c, dict(self.values)
        here, done = c.name("window"), c.name("added")
        j = c.let(f"sub i64 {i}, {self.start}")
        c.fork(c.let(f"icmp ult i64 {j}, {self.number}"), here, done)
        c.label(here)
        base = c.at("%z", c.let(f"mul i64 {i}, {self.size}"))
        for l, word in enumerate(self.summand.windowed.read[0].words):
            values[self.graph.variable("x0", l)] = c.load(c.at(base, word))
        base = c.at(f"%rows{self.k}", c.let(f"mul i64 {j}, {sum(self.sizes[self.reads : self.reads + self.rows])}"))
        at = 0
        for x in range(self.reads, self.reads + self.rows):
            for l in range(self.sizes[x]):
                values[self.graph.variable(f"x{x}", l)] = c.load(c.at(base, at + l))
            at += self.sizes[x]
        results = Emitter(self.graph, c).emit(self.roots, values)
        for pair, value in zip(self.summand.entries, results, strict=True):
            c.store(c.let(f"fadd contract double {c.load(front[pair])}, {value}"), front[pair])
        c.go(done)
        c.label(done)


def _hold(c: Code, i: str, layout: Plan, front: dict[Pair, str]) -> None:
    """Rows and columns of fixed components of the block vanish; then the diagonal is added."""
    base = c.let(f"mul i64 {i}, {layout.size}")
    free = [c.load(c.at(c.at("%free", base), p)) for p in range(layout.size)]
    least = c.intrinsic("minnum", *free[:1], c.constant(1.0))
    for f in free[1:]:
        less = c.let(f"fcmp olt double {f}, {least}")
        least = c.let(f"select i1 {less}, double {f}, double {least}")
    some, none = c.name("held"), c.name("free")
    c.fork(c.let(f"fcmp olt double {least}, {c.constant(1.0)}"), some, none, likely=False)
    c.label(some)
    for (p, q), slot in front.items():
        if p < layout.size:
            value = c.let(f"fmul double {c.load(slot)}, {free[p]}")
            c.store(c.let(f"fmul double {value}, {free[q]}") if p != q and q < layout.size else value, slot)
    c.go(none)
    c.label(none)
    for p in range(layout.size):
        more = c.load(c.at(c.at("%diagonal", base), p))
        c.store(c.let(f"fadd contract double {c.load(front[p, p])}, {more}"), front[p, p])


def _eliminate(c: Code, layout: Plan, value: dict[Pair, str], record: str, carried: dict[Pair, str]) -> None:
    at = 0

    def entry(p: int, q: int) -> str:
        return value[min(p, q), max(p, q)]

    def keep(x: str) -> None:
        nonlocal at
        c.store(x, c.at(record, at))
        at += 1

    for group, near in zip(layout.pivots, layout.below, strict=True):
        inverse = _inverse(c, [[entry(p, q) for q in group] for p in group])
        for x in inverse.values():
            keep(x)
        multipliers = {}
        for q in near:
            column = [value.get((min(p, q), max(p, q))) for p in group]
            for row in range(len(group)):
                terms = [
                    (inverse[min(row, k), max(row, k)], y)
                    for k, y in enumerate(column) if y is not None and (min(row, k), max(row, k)) in inverse
                ]  # fmt: skip
                multipliers[row, q] = _combined(c, terms)
                keep(multipliers[row, q])
        for n, q in enumerate(near):
            for r in near[n:]:
                held = value.get((q, r))
                for row, p in enumerate(group):
                    other = value.get((min(p, r), max(p, r)))
                    if other is None:
                        continue
                    product = c.let(f"fmul contract double {multipliers[row, q]}, {other}")
                    held = c.let(f"fneg double {product}" if held is None else f"fsub contract double {held}, {product}")
                if held is not None:
                    value[q, r] = held
    for p, q in layout.carry:
        c.store(value.get((p + layout.size, q + layout.size), c.constant(0.0)), carried[p, q])


def _inverse(c: Code, block: list[list[str]]) -> dict[Pair, str]:
    """The upper half of the inverse of a pivot of one or two rows."""
    one = c.constant(1.0)
    if len(block) == 1:
        return {(0, 0): c.let(f"fdiv double {one}, {block[0][0]}")}
    a, b, d = block[0][0], block[0][1], block[1][1]
    square = c.let(f"fmul contract double {b}, {b}")
    determinant = c.let(f"fsub contract double {c.let(f'fmul contract double {a}, {d}')}, {square}")
    over = c.let(f"fdiv double {one}, {determinant}")
    return {
        (0, 0): c.let(f"fmul contract double {d}, {over}"),
        (0, 1): c.let(f"fneg double {c.let(f'fmul contract double {b}, {over}')}"),
        (1, 1): c.let(f"fmul contract double {a}, {over}"),
    }


def _combined(c: Code, terms: list[tuple[str, str]]) -> str:
    total = c.constant(0.0)
    for n, (a, b) in enumerate(terms):
        product = c.let(f"fmul contract double {a}, {b}")
        total = product if n == 0 else c.let(f"fadd contract double {total}, {product}")
    return total


def _solve(layout: Plan) -> Code:
    """Lx forward, D⁻¹ on the way, Lᵀx backward."""
    c = Code()
    touched = sorted({*range(layout.size), *(q for near in layout.below for q in near)})
    with c.loop(0, "%count") as i:
        x, record, base = _opened(c, i, layout, touched)
        free = c.at("%free", c.let(f"mul i64 {i}, {layout.size}"))
        for p in range(layout.size):  # what the blocks before have added to fixed components
            x[p] = c.let(f"fmul double {x[p]}, {c.load(c.at(free, p))}")
        at = 0
        for group, near in zip(layout.pivots, layout.below, strict=True):
            inverse = (0, 0), (0, 1), (1, 1)
            count = (1, 3)[len(group) - 1]
            inv = {pair: c.load(c.at(record, at + n)) for n, pair in enumerate(inverse[:count])}
            at += count
            for q in near:
                for p in group:
                    product = c.let(f"fmul contract double {c.load(c.at(record, at))}, {x[p]}")
                    x[q] = c.let(f"fsub contract double {x[q]}, {product}")
                    at += 1
            old = [x[p] for p in group]
            for row, p in enumerate(group):
                x[p] = _combined(c, [(inv[min(row, k), max(row, k)], y) for k, y in enumerate(old)])
        for q in touched:
            c.store(x[q], c.at(base, q))
    with c.loop(0, "%count") as backward:
        i = c.let(f"sub i64 {c.let('sub i64 %count, 1')}, {backward}")
        x, record, base = _opened(c, i, layout, touched)
        ends = np.cumsum(
            [(1, 3)[len(p) - 1] + len(p) * len(q) for p, q in zip(layout.pivots, layout.below, strict=True)]
        ).tolist()
        for group, near, end in zip(layout.pivots[::-1], layout.below[::-1], ends[::-1], strict=True):
            at = end - len(group) * len(near)
            for q in near:
                for p in group:
                    product = c.let(f"fmul contract double {c.load(c.at(record, at))}, {x[q]}")
                    x[p] = c.let(f"fsub contract double {x[p]}, {product}")
                    at += 1
        for p in range(layout.size):
            c.store(x[p], c.at(base, p))
    c.line("ret void")
    return c


def _opened(c: Code, i: str, layout: Plan, touched: list[int]) -> tuple[dict[int, str], str, str]:
    base = c.at("%x", c.let(f"mul i64 {i}, {layout.size}"))
    record = c.at("%record", c.let(f"mul i64 {i}, {layout.record}"))
    return {q: c.load(c.at(base, q)) for q in touched}, record, base
