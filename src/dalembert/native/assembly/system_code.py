"""What a loop on a KKT system is written with: its addresses and numbers, a point's evaluation, how far a step goes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from dalembert.native.assembly.array_code import ArrayCode
from dalembert.native.assembly.function import inlined
from dalembert.native.llvm.builder import Code
from dalembert.native.llvm.packing import Packing

TERM = Packing.words(
    "gradient", "gradient_rows", "gradient_shared", "product", "product_rows", "product_shared", "number", "offset"
)
COUNTS = {
    "blocks", "size", "tail", "fixed_count", "monitored_count", "nonlinear_count", "most", "number", "offset",
    "bound_count", "room", "constraints",
}  # fmt: skip


class Point(NamedTuple):
    """Σf, Σ|c| and |∇L̃| at a path, in their units."""

    objective: Any
    violation: Any
    norm: Any


class SystemLoop(ArrayCode):
    """Addresses and counts are read once, numbers stay in stack slots; coordinates: n. The end of the loop is the label
    `end`, the result its status."""

    slot: dict[str, str]  # where numbers stand

    def __init__(self, words: Packing, terms: int, data: int, coordinates: int):
        self.c = Code()
        c, at = self.c, words.size
        self.word = self._loaded(words, 0)
        self.terms = [self._loaded(TERM, at + t * TERM.size) for t in range(terms)]
        at += terms * TERM.size
        self.data = [c.load(c.at("%job", at + k, "i64"), "ptr") for k in range(data)]
        self.n = c.let(f"mul i64 {self.word['blocks']}, {self.word['size']}")
        self.status = c.slot("status", "i64")
        self.sizes, self.positions = (
            [self._item(name, str(j)) for j in range(coordinates)] for name in ("sizes", "positions")
        )
        self.reach, self.ratio = [c.slot("reach") for _ in self.sizes], c.slot("ratio")

    def _loaded(self, packing: Packing, begin: int) -> dict[str, str]:
        """The words of a packing that begins there."""
        kinds = {name: "i64" if name in COUNTS else "ptr" for name in packing.fields}
        return {n: self.c.load(self.c.at("%job", begin + f.offset, "i64"), kinds[n]) for n, f in packing.fields.items()}

    def _judge(self, rule: Callable, *given: str | Point) -> str:
        """The value of a rule at numbers that have these names."""
        names, shape = jax.tree.flatten(given)
        return inlined(rule, shape, self.c, names)

    @property
    def point(self) -> Point:
        return Point(*(self.get(name) for name in Point._fields))

    def get(self, name: str) -> str:
        return self.c.load(self.slot[name])

    def put(self, name: str, value: str) -> None:
        self.c.store(value, self.slot[name])

    def _until(self, condition: str) -> None:
        """To the end unless the condition holds."""
        on = self.c.name("on")
        self.c.fork(condition, on, "end", likely=True)
        self.c.label(on)

    def _max_norms(self, name: str) -> list[str]:
        """max|v_j| over the positions of every coordinate."""
        c, n = self.c, len(self.sizes)
        largest = [c.slot("largest") for _ in range(n)]
        for slot in largest:
            c.store(c.constant(0.0), slot)
        with c.loop(0, self.word["monitored_count"]) as i:
            first, span = c.at(self.word["monitored"], c.let(f"mul i64 {i}, {n}"), "i64"), self._item("spans", i)
            for j, slot in enumerate(largest):
                value = self._abs(self._item(name, c.load(c.at(first, j, "i64"), "i64")))
                c.store(self._larger(c.load(slot), self._times(span, value)), slot)
        return [c.load(slot) for slot in largest]

    def _change(self, name: str) -> str:
        """max|v_j| / (s_j + max|q_j|), the largest of all coordinates."""
        pairs = zip(self._max_norms(name), self.reach, strict=True)
        ratios = [self.c.let(f"fdiv double {value}, {self.c.load(slot)}") for value, slot in pairs]
        return functools.reduce(self._larger, ratios)

    def _measure(self) -> None:
        """s + max|q| of every coordinate, and the largest of them in typical sizes."""
        found = [self._plus(size, value) for size, value in zip(self.sizes, self._max_norms("z"), strict=True)]
        for slot, value in zip(self.reach, found, strict=True):
            self.c.store(value, slot)
        ratios = [self.c.let(f"fdiv double {x}, {s}") for x, s in zip(found, self.positions, strict=True)]
        self.c.store(functools.reduce(self._larger, ratios), self.ratio)

    def _clear_tail(self, name: str) -> None:
        self._fill(self.c.at(self.word[name], self.n), self.word["tail"])

    def _violation(self) -> str:
        """Σ|c| relative to what it is where positions are as large as those of the path."""
        return self.c.let(f"fdiv double {self.get('violation')}, {self.c.load(self.ratio)}")

    def _gradient(self, z: str, g: str) -> str:
        """The gradient at a path, without what is fixed; the objective, which stands after it."""
        c = self.c
        self._fill(self.word[g], c.let(f"add i64 {self.n}, 1"))
        total = c.at(self.word[g], self.n)
        for t in self.terms:
            read, write = (c.let(f"getelementptr i8, ptr {self.word[p]}, i64 {t['offset']}") for p in (z, g))
            arguments = f"i64 {t['number']}, ptr {read}, ptr {t['gradient_rows']}, ptr {t['gradient_shared']}"
            c.line(f"call void {t['gradient']}({arguments}, ptr {total}, ptr {write})")
        with c.loop(0, self.word["fixed_count"]) as i:
            c.store(c.constant(0.0), c.at(self.word[g], self._index("fixed_places", i)))
        return c.load(total)

    def _product(self, x: str, y: str) -> None:
        """y: the second derivatives at z times x; rows of fixed components are not zero."""
        c = self.c
        self._fill(self.word[y], self.n)
        for t in self.terms:
            at = [c.let(f"getelementptr i8, ptr {self.word[p]}, i64 {t['offset']}") for p in ("z", x, y)]
            arguments = f"i64 {t['number']}, ptr {at[0]}, ptr {at[1]}, ptr {t['product_rows']}, ptr {t['product_shared']}"
            c.line(f"call void {t['product']}({arguments}, ptr {at[2]})")

    def _substitute(self, name: str) -> None:
        """K⁻¹ times the array, by the factors that are stored, in its place."""
        self._clear_tail(name)
        self._call("forward", "blocks", "stored", "free", "fixed_blocks", name)
        self._call("backward", "blocks", "stored", "free", "fixed_blocks", name)
