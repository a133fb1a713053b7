"""LLVM assembly as text: values with the operators of numbers, and a small builder of functions.

c = Code()
x, n = c.argument("x", "ptr", "double"), c.argument("n", "i64")
with c.loop(0, n) as i:
    x[i] = 2.0 * x[i] + 1.0
c.line("ret void")
c.function("define void @f(ptr %x, i64 %n)")
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dalembert.native.graph.graph import combine_pairs

SHORT = 4  # numbers of a vector amid scalar code: while a longer one is under way a processor does half as much else
PURE = "nounwind willreturn memory(none)"  # of a function whose value depends on its arguments alone
CONVERSIONS = {("i64", "double"): "sitofp", ("i1", "double"): "uitofp", ("double", "i64"): "fptosi", ("i1", "i64"): "zext"}


def module(*parts: str, declared: Iterable[str]) -> str:
    """A module of functions and variables, with what it takes from outside and the weights that `Code.fork` refers to."""
    weights = ('!0 = !{!"branch_weights", i32 100000, i32 1}', '!1 = !{!"branch_weights", i32 1, i32 100000}')
    return "\n".join([*parts, *sorted(declared), *weights])


def real(value: float) -> str:
    """A double as LLVM writes it, bit by bit."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


def vector(width: int, element: str) -> str:
    """The type of so many numbers side by side."""
    return element if width == 1 else f"<{width} x {element}>"


def width_of(kind: str) -> int:
    """How many numbers a type has side by side."""
    return int(kind[1:].split(" x ")[0]) if kind.startswith("<") else 1


def element_of(kind: str) -> str:
    """The type of one of them."""
    return kind.strip("<>").split(" x ")[-1]


def literal(x: Any, kind: str) -> str:
    """A value, or a number of Python, as text of a type: in all lanes the same. TypeError for a value of another type."""
    if isinstance(x, Operand):
        if x.kind != kind:
            raise TypeError(f"found {x.kind}, expected {kind}")
        return x.name
    if x is None or isinstance(x, str):
        return x or "null"
    element = element_of(kind)
    text = real(x) if element == "double" else str(bool(x)).lower() if element == "i1" else str(int(x))
    return text if element == kind else f"splat ({element} {text})"


def _arithmetic(real_: str, whole: str, swapped: bool = False) -> Callable[[Operand, Any], Operand]:
    """An operator of numbers; of integers and truth values `whole`."""

    def operate(self: Operand, other: Any) -> Operand:
        name, operands = real_ if self.is_real else whole, [self.name, literal(other, self.kind)]
        if not name:
            raise TypeError(f"no {real_ or whole} of {self.kind}")
        flags = self.code.flags if self.is_real and name != "fdiv" else ""
        return self.code.let(f"{name} {flags} {self.kind} {', '.join(operands[:: -1 if swapped else 1])}", self.kind)

    return operate


def _comparison(real_: str, whole: str) -> Callable[[Operand, Any], Operand]:
    """A comparison of numbers, false where one is NaN."""

    def compare(self: Operand, other: Any) -> Operand:
        order = f"fcmp {self.code.flags} {real_}" if self.is_real else f"icmp {whole}"
        return self.code.let(f"{order} {self.kind} {self.name}, {literal(other, self.kind)}", self.like("i1"))

    return compare


class Operand:
    """A number, a truth value or an address that the code computes; with operators, whose other operand may be a number of
    Python. x[i] is what stands in an array, x[i:] the part of it that begins there.

    kind: its type in LLVM, of one number or of several side by side; item: the type of what stands at an address.
    """

    __slots__ = ("code", "item", "kind", "name")

    def __init__(self, code: Code, kind: str, name: str, item: str = "") -> None:
        self.code, self.kind, self.name, self.item = code, kind, name, item

    def __str__(self) -> str:
        return self.name

    @property
    def is_real(self) -> bool:
        return self.kind.endswith(("double", "double>"))

    def like(self, element: str) -> str:
        """The type of as many numbers, of another type each."""
        return vector(width_of(self.kind), element)

    def convert(self, element: str) -> Operand:
        """The same number, of another type."""
        return self.cast(CONVERSIONS[element_of(self.kind), element], element)

    def cast(self, how: str, element: str) -> Operand:
        kind = self.like(element)
        return self.code.let(f"{how} {self.kind} {self.name} to {kind}", kind)

    __add__, __radd__ = _arithmetic("fadd", "add"), _arithmetic("fadd", "add", swapped=True)
    __sub__, __rsub__ = _arithmetic("fsub", "sub"), _arithmetic("fsub", "sub", swapped=True)
    __mul__, __rmul__ = _arithmetic("fmul", "mul"), _arithmetic("fmul", "mul", swapped=True)
    __truediv__, __rtruediv__ = _arithmetic("fdiv", ""), _arithmetic("fdiv", "", swapped=True)
    __floordiv__, __mod__ = _arithmetic("", "sdiv"), _arithmetic("", "srem")
    __and__ = __rand__ = _arithmetic("", "and")
    __or__ = __ror__ = _arithmetic("", "or")
    __xor__, __lshift__, __rshift__ = _arithmetic("", "xor"), _arithmetic("", "shl"), _arithmetic("", "ashr")
    __lt__, __le__ = _comparison("olt", "slt"), _comparison("ole", "sle")
    __gt__, __ge__ = _comparison("ogt", "sgt"), _comparison("oge", "sge")
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Operand:  # type: ignore[override]
        return _comparison("oeq", "eq")(self, other)

    def __ne__(self, other: object) -> Operand:  # type: ignore[override]
        return _comparison("une", "ne")(self, other)

    def __neg__(self) -> Operand:
        return self.code.let(f"fneg {self.kind} {self.name}", self.kind) if self.is_real else 0 - self

    def __invert__(self) -> Operand:
        return self ^ True

    def __abs__(self) -> Operand:
        return intrinsic("fabs", self)

    def __pow__(self, exponent: Any) -> Operand:
        return intrinsic("pow", self, exponent)

    def __rpow__(self, base: Any) -> Operand:
        return intrinsic("pow", base, self)

    def at(self, index: Any, item: str = "") -> Operand:
        """The address of an element."""
        item = item or self.item
        if isinstance(index, int) and index == 0:
            return Operand(self.code, "ptr", self.name, item)
        text = f"getelementptr inbounds {item}, ptr {self.name}, i64 {literal(index, 'i64')}"
        return self.code.let(text, "ptr", item)

    def __getitem__(self, index: Any) -> Operand:
        return self.at(index.start or 0) if isinstance(index, slice) else self.code.load(self.at(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.code.store(value, self.at(index))


def _first(x: Sequence[Any]) -> Operand:
    return next(v for v in x if isinstance(v, Operand))


def intrinsic(name: str, *x: Any) -> Operand:
    """One of LLVM's own functions of numbers or integers."""
    kind = _first(x).kind
    width, element = width_of(kind), {"double": "f64"}.get(element_of(kind), element_of(kind))
    suffix = element if width == 1 else f"v{width}{element}"
    return _first(x).code.call(kind, f"llvm.{name}.{suffix}", *((kind, literal(v, kind)) for v in x))


def where(test: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, b elsewhere: a condition for all lanes, or one of each."""
    if not isinstance(test, Operand):
        return a if test else b
    kind = next((v.kind for v in (a, b) if isinstance(v, Operand)), natural_kind(a))
    flags = test.code.flags if kind.endswith(("double", "double>")) else ""
    return test.code.let(
        f"select {flags} {test.kind} {test.name}, {kind} {literal(a, kind)}, {kind} {literal(b, kind)}", kind
    )


def natural_kind(x: Any) -> str:
    """The type of a number of Python."""
    return "ptr" if x is None else "i1" if isinstance(x, bool) else "i64" if isinstance(x, int) else "double"


def larger(a: Any, b: Any) -> Any:
    """b where it is larger than a, else a."""
    return where(b > a, b, a)


def smaller(a: Any, b: Any) -> Any:
    """b where it is smaller than a, else a."""
    return where(b < a, b, a)


class Code:
    """The body of one function. Variables are stack slots; LLVM turns those whose address is not taken into registers.

    width: how many runs are computed side by side. A number is a double, or a vector of `width` doubles: `real`; a truth
    value is `truth`. flags: what LLVM may do with arithmetic of doubles, as "contract".
    """

    def __init__(self, width: int = 1, flags: str = "") -> None:
        self.width, self.flags = width, flags
        self.real, self.truth, self.whole = (vector(width, x) for x in ("double", "i1", "i64"))
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

    def argument(self, name: str, kind: str = "ptr", item: str = "double") -> Operand:
        """An argument of the function, or with an @ a variable of the module."""
        return Operand(self, kind, name if name.startswith("@") else f"%{name}", item)

    def number(self, x: Any, kind: str = "") -> Operand:
        """A number of Python, of a type; in all lanes if none is given."""
        kind = kind or vector(self.width, natural_kind(x))
        return Operand(self, kind, literal(x, kind))

    def let(self, text: str, kind: str = "", item: str = "") -> Operand:
        """A new value, of type `real` if none is given."""
        value = "%" + self.name()
        self.lines.append(f"  {value} = {text}")
        return Operand(self, kind or self.real, value, item)

    def slot(self, hint: str, kind: str | None = None, count: int = 1) -> Operand:
        """A stack slot."""
        value = "%" + self.name(hint)
        self.slots.append(f"  {value} = alloca {kind or self.real}, i64 {count}, align {self.align}")
        return Operand(self, "ptr", value, kind or self.real)

    @contextlib.contextmanager
    def at_start(self) -> Iterator[None]:
        """Where the function begins, whatever has been written so far."""
        self.lines, lines = self.slots, self.lines
        yield
        self.lines = lines

    def load(self, pointer: Operand, kind: str = "") -> Operand:
        kind = kind or pointer.item
        return self.let(f"load {kind}, ptr {pointer}, align 8", kind)

    def store(self, value: Any, pointer: Operand, kind: str = "") -> None:
        kind = kind or pointer.item
        self.line(f"store {kind} {literal(value, kind)}, ptr {pointer}, align 8")

    @contextlib.contextmanager
    def using(self, flags: str) -> Iterator[None]:
        """Arithmetic with these flags."""
        before, self.flags = self.flags, flags
        yield
        self.flags = before

    def broadcast(self, value: Operand, width: int | None = None) -> Operand:
        """A number in every place of a vector, as long as there are lanes if no width is given."""
        width = width or self.width
        if width == 1:
            return value
        whole = vector(width, value.kind)
        first = self.let(f"insertelement {whole} poison, {value.kind} {value}, i64 0", whole)
        return self.let(f"shufflevector {whole} {first}, {whole} poison, <{width} x i32> zeroinitializer", whole)

    def put_together(self, parts: Sequence[Operand]) -> Operand:
        """One vector of numbers, or of shorter vectors."""
        small, each = parts[0].kind, width_of(parts[0].kind)
        kind = vector(each * len(parts), element_of(small))
        whole = Operand(self, kind, "poison")
        for i, part in enumerate(parts):
            if each == 1:
                whole = self.let(f"insertelement {kind} {whole}, {small} {part}, i64 {i}", kind)
            else:
                places = range(each * len(parts))
                spread = self._shuffle(part, part, [k if k < each else None for k in places])
                inside = range(each * i, each * (i + 1))
                whole = self._shuffle(whole, spread, [len(places) + k - each * i if k in inside else k for k in places])
        return whole

    def part(self, x: Operand, start: int, count: int = 1) -> Operand:
        """So many numbers of a vector."""
        if count == 1:
            return self.let(f"extractelement {x.kind} {x}, i64 {start}", element_of(x.kind))
        return self._shuffle(x, x, range(start, start + count))

    def _shuffle(self, a: Operand, b: Operand, places: Sequence[int | None]) -> Operand:
        """The numbers of two vectors at these places, counted on from one to the other."""
        mask = ", ".join(f"i32 {'poison' if k is None else k}" for k in places)
        kind = vector(len(places), element_of(a.kind))
        return self.let(f"shufflevector {a.kind} {a}, {b.kind} {b}, <{len(places)} x i32> <{mask}>", kind)

    @property
    def lanes(self) -> Operand:
        """0, 1, 2, …: the number of each lane."""
        return Operand(self, self.whole, "<" + ", ".join(f"i64 {i}" for i in range(self.width)) + ">")

    def addresses(self, array: Operand, stride: Operand) -> Operand:
        """Of each lane's part of an array."""
        steps = self.lanes * self.broadcast(stride)
        text = f"getelementptr {array.item}, ptr {array}, {self.whole} {steps}"
        return self.let(text, vector(self.width, "ptr"), array.item)

    def moved(self, bases: Operand, offset: Any) -> Operand:
        """Addresses so many elements on."""
        text = f"getelementptr {bases.item}, {bases.kind} {bases}, i64 {literal(offset, 'i64')}"
        return self.let(text, bases.kind, bases.item)

    def _masked(self, bases: Operand) -> tuple[str, str]:
        """What LLVM writes after the names of its functions of addresses; the type of the numbers there."""
        short = "f64" if bases.item == "double" else bases.item
        return f"v{self.width}{short}.v{self.width}p0", vector(self.width, bases.item)

    def gather(self, bases: Operand, offset: int, mask: Operand) -> Operand:
        """A number from each lane's part, where the mask holds."""
        at, (suffix, kind) = self.moved(bases, offset), self._masked(bases)
        return self.call(kind, f"llvm.masked.gather.{suffix}", at, ("i32", 8), mask, (kind, "zeroinitializer"))

    def scatter(self, value: Operand, bases: Operand, offset: int, mask: Operand) -> None:
        """A number into each lane's part, where the mask holds."""
        at, (suffix, _) = self.moved(bases, offset), self._masked(bases)
        self.call("void", f"llvm.masked.scatter.{suffix}", value, at, ("i32", 8), mask)

    def chunks(self, count: int, widest: int = SHORT) -> Iterator[tuple[int, int]]:
        """(start, width) of vectors of `widest`, … 4, 2 or 1 numbers that together hold `count`."""
        at = 0
        while at < count:
            width = next(w for w in (8, 4, 2, 1) if w <= widest and at + w <= count)
            yield at, width
            at += width

    def maximum(self, values: Iterable[Operand]) -> Operand:
        """The largest of some numbers that are not NaN."""
        return combine_pairs(lambda a, b: where(a > b, a, b), list(values), self.number(0.0))

    def vanishing(self, values: Iterable[Operand]) -> Operand:
        """0 if all numbers are finite, NaN if one is not."""
        with self.using("contract"):
            return combine_pairs(lambda a, b: a + b, [x * 0.0 for x in values], self.number(0.0))

    def some(self, condition: Operand) -> Operand:
        """Condition that a truth value holds in any lane."""
        if condition.kind == "i1":
            return condition
        return self.call("i1", f"llvm.vector.reduce.or.v{width_of(condition.kind)}i1", condition)

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

    def fork(self, condition: Operand, yes: str, no: str, likely: bool | None = None) -> None:
        """Two ways; `likely` tells which is usual, so that the other is laid out of the way."""
        weight = "" if likely is None else ", !prof !0" if likely else ", !prof !1"
        self.line(f"br i1 {literal(condition, 'i1')}, label %{yes}, label %{no}{weight}")

    @contextlib.contextmanager
    def only_if(self, condition: Operand, likely: bool | None = None) -> Iterator[str]:
        """What is done where a condition holds; the block from which it is passed by otherwise."""
        before, here, done = self.block, self.name("here"), self.name("done")
        self.fork(condition, here, done, likely)
        self.label(here)
        yield before
        self.label(done)

    def call(self, kind: str, function: str, *args: Operand | tuple[str, Any], attributes: str = "") -> Any:
        """The value of a call of an outside function; the arguments are values, or types with numbers of Python."""
        pairs = [(x.kind, x.name) if isinstance(x, Operand) else (x[0], literal(x[1], x[0])) for x in args]
        self.declared.add(f"declare {kind} @{function}({', '.join(k for k, _ in pairs)}) {attributes}".rstrip())
        text = f"call {kind} @{function}({', '.join(f'{k} {v}' for k, v in pairs)})"
        return self.line(text) if kind == "void" else self.let(text, kind)

    def join(self, kind: str, *ways: tuple[Any, str]) -> Operand:
        """The value that came here; ways: values, and the blocks from which they come."""
        return self.let(f"phi {kind} {', '.join(f'[ {literal(x, kind)}, %{block} ]' for x, block in ways)}", kind)

    @contextlib.contextmanager
    def loop(self, start: Any, end: Any) -> Iterator[Operand]:
        """for i in range(start, end)."""
        counter, head, body, done = self.slot("i", "i64"), self.name("head"), self.name("body"), self.name("done")
        self.store(start, counter)
        self.label(head)
        i = self.load(counter)
        self.fork(i < end, body, done)
        self.label(body)
        yield i
        self.store(i + 1, counter)
        self.go(head)
        self.label(done)

    def function(self, head: str) -> str:
        """The text of the function."""
        return "\n".join([head + " {", "start:", *self.slots, *self.lines, "}"])
