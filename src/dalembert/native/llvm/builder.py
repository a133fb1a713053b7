"""LLVM assembly as text: a small builder of functions."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator, Sequence

from dalembert.native.graph.graph import combine_pairs

SHORT = 4  # numbers of a vector amid scalar code: while a longer one is under way a processor does half as much else
PURE = "nounwind willreturn memory(none)"  # of a function whose value depends on its arguments alone


def module(*parts: str, declared: Iterable[str]) -> str:
    """A module of functions and variables, with what it takes from outside and the weights that `Code.fork` refers to."""
    weights = ('!0 = !{!"branch_weights", i32 100000, i32 1}', '!1 = !{!"branch_weights", i32 1, i32 100000}')
    return "\n".join([*parts, *sorted(declared), *weights])


def real(value: float) -> str:
    """A double as LLVM writes it, bit by bit."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


class Code:
    """The body of one function. Variables are stack slots; LLVM turns those whose address is not taken into registers.

    width: how many runs are computed side by side. A number is a double, or a vector of `width` doubles: `real`; a truth
    value is `truth`.
    """

    def __init__(self, width: int = 1) -> None:
        self.width = width
        self.real = "double" if width == 1 else f"<{width} x double>"
        self.truth = "i1" if width == 1 else f"<{width} x i1>"
        self.whole = "i64" if width == 1 else f"<{width} x i64>"
        self.align = 8 if width == 1 else 64
        self.slots: list[str] = []
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.block = "start"
        self._names = 0

    def name(self, hint: str = "x") -> str:
        self._names += 1
        return f"{hint}.{self._names}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def let(self, text: str) -> str:
        """A new value."""
        value = "%" + self.name()
        self.lines.append(f"  {value} = {text}")
        return value

    def constant(self, value: float | bool, kind: str = "double") -> str:
        """A number or truth value, the same in all lanes; kind: "i64" for an integer."""
        text = str(value).lower() if isinstance(value, bool) else real(value) if kind == "double" else str(value)
        kind = "i1" if isinstance(value, bool) else kind
        return text if self.width == 1 else f"splat ({kind} {text})"

    def slot(self, hint: str, kind: str | None = None, count: int = 1) -> str:
        """A stack slot."""
        value = "%" + self.name(hint)
        self.slots.append(f"  {value} = alloca {kind or self.real}, i64 {count}, align {self.align}")
        return value

    def load(self, pointer: str, kind: str | None = None) -> str:
        return self.let(f"load {kind or self.real}, ptr {pointer}, align 8")

    def store(self, value: str, pointer: str, kind: str | None = None) -> None:
        self.line(f"store {kind or self.real} {value}, ptr {pointer}, align 8")

    def broadcast(self, value: str, kind: str, width: int | None = None) -> str:
        """A number in every place of a vector, as long as there are lanes if no width is given."""
        width = width or self.width
        whole = f"<{width} x {kind}>"
        first = self.let(f"insertelement {whole} poison, {kind} {value}, i64 0")
        return self.let(f"shufflevector {whole} {first}, {whole} poison, <{width} x i32> zeroinitializer")

    def splat(self, value: str, kind: str = "double") -> str:
        """A number that all lanes share, as one of each."""
        return value if self.width == 1 else self.broadcast(value, kind)

    def plus(self, a: str, b: str) -> str:
        return self.let(f"fadd {self.real} {a}, {b}")

    def minus(self, a: str, b: str) -> str:
        return self.let(f"fsub {self.real} {a}, {b}")

    def times(self, a: str, b: str) -> str:
        return self.let(f"fmul {self.real} {a}, {b}")

    def compare(self, order: str, a: str, b: str) -> str:
        """A truth value from two numbers; order: LLVM's word, which says what becomes of NaN."""
        return self.let(f"fcmp {order} {self.real} {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.let(f"and {self.truth} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.let(f"or {self.truth} {a}, {b}")

    def negate(self, a: str) -> str:
        return self.let(f"xor {self.truth} {a}, {self.constant(True)}")

    def select(self, condition: str, a: str, b: str, kind: str | None = None) -> str:
        """a where the condition holds, b elsewhere; kind: "i1" of a condition that all lanes share."""
        return self.let(f"select {kind or self.truth} {condition}, {self.real} {a}, {self.real} {b}")

    def as_count(self, a: str) -> str:
        """1 where a truth value holds, 0 elsewhere."""
        return self.let(f"zext {self.truth} {a} to {self.whole}")

    def act(self, function: str, *args: tuple[str, str]) -> None:
        """A call of an outside function that returns nothing."""
        self.declared.add(f"declare void @{function}({', '.join(k for k, _ in args)})")
        self.line(f"call void @{function}({', '.join(f'{k} {v}' for k, v in args)})")

    def at(self, pointer: str, index: int | str, kind: str = "double") -> str:
        """The address of an element."""
        return pointer if index == 0 else self.let(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {index}")

    @property
    def lanes(self) -> str:
        """0, 1, 2, …: the number of each lane."""
        return "<" + ", ".join(f"i64 {i}" for i in range(self.width)) + ">"

    def addresses(self, array: str, stride: str, kind: str) -> str:
        """Of each lane's part of an array."""
        steps = self.let(f"mul {self.whole} {self.lanes}, {self.broadcast(stride, 'i64')}")
        return self.let(f"getelementptr {kind}, ptr %{array}, {self.whole} {steps}")

    def gather(self, bases: str, offset: int, kind: str, mask: str) -> str:
        """A number from each lane's part, where the mask holds."""
        w, short = self.width, "f64" if kind == "double" else "i64"
        at = self.let(f"getelementptr {kind}, <{w} x ptr> {bases}, i64 {offset}")
        return self.call(f"<{w} x {kind}>", f"llvm.masked.gather.v{w}{short}.v{w}p0", (f"<{w} x ptr>", at),
                         ("i32", "8"), (self.truth, mask), (f"<{w} x {kind}>", "zeroinitializer"))  # fmt: skip

    def scatter(self, value: str, bases: str, offset: int, kind: str, mask: str) -> None:
        """A number into each lane's part, where the mask holds."""
        w, short = self.width, "f64" if kind == "double" else "i64"
        at = self.let(f"getelementptr {kind}, <{w} x ptr> {bases}, i64 {offset}")
        self.act(f"llvm.masked.scatter.v{w}{short}.v{w}p0", (f"<{w} x {kind}>", value), (f"<{w} x ptr>", at),
                 ("i32", "8"), (self.truth, mask))  # fmt: skip

    def chunks(self, count: int, widest: int = SHORT) -> Iterator[tuple[int, int]]:
        """(start, width) of vectors of `widest`, … 4, 2 or 1 numbers that together hold `count`."""
        at = 0
        while at < count:
            width = next(w for w in (8, 4, 2, 1) if w <= widest and at + w <= count)
            yield at, width
            at += width

    def maximum(self, values: Sequence[str]) -> str:
        """The largest of some numbers that are not NaN."""

        def larger(a: str, b: str) -> str:
            more = self.let(f"fcmp ogt {self.real} {a}, {b}")
            return self.let(f"select {self.truth} {more}, {self.real} {a}, {self.real} {b}")

        return combine_pairs(larger, list(values), self.constant(0.0))

    def vanishing(self, values: Sequence[str]) -> str:
        """0 if all numbers are finite, NaN if one is not."""
        zero = self.constant(0.0)
        terms = [self.let(f"fmul contract {self.real} {x}, {zero}") for x in values]
        return combine_pairs(lambda a, b: self.let(f"fadd contract {self.real} {a}, {b}"), terms, zero)

    def absolute(self, x: str) -> str:
        return self.intrinsic("fabs", x)

    def intrinsic(self, name: str, *x: str) -> str:
        """One of LLVM's own functions of numbers."""
        suffix = "f64" if self.width == 1 else f"v{self.width}f64"
        return self.call(self.real, f"llvm.{name}.{suffix}", *((self.real, v) for v in x))

    def whole_intrinsic(self, name: str, *x: str) -> str:
        """One of LLVM's own functions of integers."""
        suffix = "i64" if self.width == 1 else f"v{self.width}i64"
        return self.call(self.whole, f"llvm.{name}.{suffix}", *((self.whole, v) for v in x))

    def some(self, condition: str) -> str:
        """Condition that a truth value holds in any lane."""
        if self.width == 1:
            return condition
        return self.call("i1", f"llvm.vector.reduce.or.v{self.width}i1", (self.truth, condition))

    @property
    def has_ended(self) -> bool:
        """True if the block has been left."""
        return bool(self.lines) and self.lines[-1].startswith(("  br", "  ret", "  switch"))

    def label(self, name: str) -> None:
        """Begin a block, from the end of the one before if that did not leave."""
        if self.lines:
            self.go(name)
        self.lines.append(f"{name}:")
        self.block = name

    def go(self, name: str) -> None:
        """To a block, if this one has not been left."""
        if not self.has_ended:
            self.line(f"br label %{name}")

    def fork(self, condition: str, yes: str, no: str, likely: bool | None = None) -> None:
        """Two ways; `likely` tells which is usual, so that the other is laid out of the way."""
        weight = "" if likely is None else ", !prof !0" if likely else ", !prof !1"
        self.line(f"br i1 {condition}, label %{yes}, label %{no}{weight}")

    def call(self, kind: str, function: str, *args: tuple[str, str], attributes: str = "") -> str:
        """The value of a call of an outside function."""
        self.declared.add(f"declare {kind} @{function}({', '.join(k for k, _ in args)}) {attributes}".rstrip())
        return self.let(f"call {kind} @{function}({', '.join(f'{k} {v}' for k, v in args)})")

    @contextlib.contextmanager
    def loop(self, start: int | str, end: int | str) -> Iterator[str]:
        """for i in range(start, end)."""
        counter, head, body, done = self.slot("i", "i64"), self.name("head"), self.name("body"), self.name("done")
        self.store(str(start), counter, "i64")
        self.label(head)
        i = self.load(counter, "i64")
        self.fork(self.let(f"icmp slt i64 {i}, {end}"), body, done)
        self.label(body)
        yield i
        self.store(self.let(f"add i64 {i}, 1"), counter, "i64")
        self.go(head)
        self.label(done)

    def function(self, head: str) -> str:
        """The text of the function."""
        return "\n".join([head + " {", "start:", *self.slots, *self.lines, "}"])
