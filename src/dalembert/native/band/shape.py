"""Sizes of a banded factorization, and what its parts do with vectors of four numbers."""

from __future__ import annotations

from dataclasses import dataclass

from dalembert.native.llvm.builder import Code

PANEL = 4  # columns of a panel, and doubles in a vector
LINE = 8  # numbers in a line of the cache
ORDER = 2 * PANEL  # numbers kept of the interchanges of a panel
BLOCK = PANEL * PANEL  # numbers kept of L and U of its four rows


@dataclass(frozen=True)
class Shape:
    """Sizes that follow from the bandwidths.

    width: stored entries of a row; trailing: columns of the window beside the panel; vectors, stride: of a row of the
    window; rows: of the window; height: rows rounded up to whole vectors.
    """

    lower: int
    upper: int

    @property
    def width(self) -> int:
        return 2 * self.lower + self.upper + 1

    @property
    def trailing(self) -> int:
        return self.lower + self.upper

    @property
    def vectors(self) -> int:
        return 1 + -(-self.trailing // PANEL)

    @property
    def stride(self) -> int:
        return PANEL * self.vectors

    @property
    def rows(self) -> int:
        return self.lower + PANEL

    @property
    def panel(self) -> int:
        """Doubles of a panel: its columns, then the reciprocals of its pivots."""
        return PANEL * self.height + PANEL

    @property
    def height(self) -> int:
        return -(-self.rows // PANEL) * PANEL


def vector(c: Code, value: str) -> str:
    return c.broadcast(value, "double")


def minus_product(c: Code, total: str, x: str, y: str) -> str:
    """total − x y."""
    return c.intrinsic("fmuladd", c.let(f"fneg {c.real} {x}"), y, total)


def lanes_from(start: int) -> str:
    return "<" + ", ".join(f"i64 {start + i}" for i in range(PANEL)) + ">"


def shuffle(c: Code, x: str, y: str, *lanes: int, kind: str = "double") -> str:
    mask = ", ".join(f"i32 {i}" for i in lanes)
    whole = f"<{PANEL} x {kind}>"
    return c.let(f"shufflevector {whole} {x}, {whole} {y}, <{len(lanes)} x i32> <{mask}>")


def larger(c: Code, x: str, y: str) -> str:
    """max(x, y), and y where one of them is not a number."""
    return c.let(f"select {c.truth} {c.let(f'fcmp ogt {c.real} {x}, {y}')}, {c.real} {x}, {c.real} {y}")


def masked(c: Code, pointer: str, mask: str) -> str:
    """A vector, with zeros where the mask is false; memory is not touched there."""
    arguments = (("ptr", pointer), ("i32", "8"), (c.truth, mask), (c.real, c.constant(0.0)))
    return c.call(c.real, "llvm.masked.load.v4f64.p0", *arguments)


def fetch(c: Code, pointer: str, count: int, write: bool) -> None:
    """Ask for numbers that are needed soon: a matrix does not fit the cache, and is not read or written line by line."""
    for at in range(0, count, LINE):
        c.act("llvm.prefetch.p0", ("ptr", c.at(pointer, at)), ("i32", str(int(write))), ("i32", "3"), ("i32", "1"))


def row_of(c: Code, shape: Shape, row: str) -> str:
    return c.at("%a", c.let(f"mul i64 {row}, {shape.width}"))


def row(c: Code, shape: Shape, window: str, place: str) -> str:
    return c.at(window, c.let(f"mul i64 {place}, {shape.stride}"))
