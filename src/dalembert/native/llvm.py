"""LLVM assembly as text: a small builder, and the emission of graph nodes into it."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

from dalembert.native.arithmetic import COMPARISONS, LIBRARY
from dalembert.native.depend import eager
from dalembert.native.graph import Graph, paired

Values = dict[int, str]  # node → name of its value
_BINARY = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}
_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INTRINSIC = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "nearest": "rint", "round": "round",
              "int": "trunc", "sin": "sin", "cos": "cos", "exp": "exp", "exp2": "exp2", "log": "log",
              "pow": "pow"}  # fmt: skip


def real(value: float) -> str:
    """A double as LLVM writes it, bit by bit."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


class Code:
    """The body of one function. Variables are stack slots; LLVM turns those whose address is not taken into registers."""

    def __init__(self) -> None:
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

    def slot(self, hint: str, kind: str = "double", count: int = 1) -> str:
        """A stack slot."""
        value = "%" + self.name(hint)
        self.slots.append(f"  {value} = alloca {kind}, i64 {count}, align 8")
        return value

    def load(self, pointer: str, kind: str = "double") -> str:
        return self.let(f"load {kind}, ptr {pointer}, align 8")

    def store(self, value: str, pointer: str, kind: str = "double") -> None:
        self.line(f"store {kind} {value}, ptr {pointer}, align 8")

    def at(self, pointer: str, index: int | str, kind: str = "double") -> str:
        """The address of an element."""
        return pointer if index == 0 else self.let(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {index}")

    def chunks(self, count: int) -> Iterator[tuple[int, int]]:
        """(start, width) of vectors of 8, 4, 2 or 1 numbers that together hold `count`."""
        at = 0
        while at < count:
            width = next(w for w in (8, 4, 2, 1) if at + w <= count)
            yield at, width
            at += width

    def spread(self, value: str, width: int) -> str:
        """A vector with the value in each place."""
        kind = f"<{width} x double>"
        first = self.let(f"insertelement {kind} poison, double {value}, i64 0")
        return self.let(f"shufflevector {kind} {first}, {kind} poison, <{width} x i32> zeroinitializer")

    def maximum(self, values: Sequence[str]) -> str:
        """The largest of some numbers that are not NaN."""

        def larger(a: str, b: str) -> str:
            return self.let(f"select i1 {self.let(f'fcmp ogt double {a}, {b}')}, double {a}, double {b}")

        return paired(larger, list(values), "0.0")

    def vanishing(self, values: Sequence[str]) -> str:
        """0 if all numbers are finite, NaN if one is not."""
        terms = [self.let(f"fmul contract double {x}, 0.0") for x in values]
        return paired(lambda a, b: self.let(f"fadd contract double {a}, {b}"), terms, "0.0")

    def label(self, name: str) -> None:
        """Begin a block, from the end of the one before if that did not leave."""
        if self.lines and not self.lines[-1].startswith(("  br", "  ret", "  switch")):
            self.line(f"br label %{name}")
        self.lines.append(f"{name}:")
        self.block = name

    def go(self, name: str) -> None:
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


class Emitter:
    """Writes graph nodes as instructions; `fast` takes maxima without care for NaN, where NaN has been excluded before."""

    def __init__(self, graph: Graph, code: Code):
        self.graph, self.code = graph, code

    def emit(self, roots: Sequence[int], values: Values, fast: bool = False) -> list[str]:
        """Names of the roots' values; every node that is not in `values` yet is computed here and added."""
        for i in eager(self.graph, roots, values):
            values[i] = self._node(i, values, fast)
        return [values[r] for r in roots]

    def _node(self, i: int, values: Values, fast: bool) -> str:
        g, code = self.graph, self.code
        op, *args = g.nodes[i]
        if op == "const":
            return real(args[0]) if g.kind[i] != "b" else str(args[0]).lower()
        if op == "var":
            raise KeyError(f"input {args[0]}[{args[1]}] has no value here")
        if op == "branch":
            return self._branch(args, values, fast)
        if op == "pick":
            return values[args[0]].split()[args[1]]
        x = [values[j] for j in args]
        if op in _BINARY:
            whole = op == "div" and g.kind[i] == "i"
            quotient = code.let(f"{_BINARY[op]} double {x[0]}, {x[1]}")
            return self._intrinsic("trunc", [quotient]) if whole else quotient
        if op in COMPARISONS:
            kind = g.kind[args[0]]
            compare = f"icmp {op} i1" if kind == "b" else f"fcmp {_COMPARE[op]} double"
            return code.let(f"{compare} {x[0]}, {x[1]}")
        return self._other(op, x, g.kind[args[-1]], fast)

    def _other(self, op: str, x: list[str], kind: str, fast: bool) -> str:
        code = self.code
        if op == "neg":
            return code.let(f"fneg double {x[0]}")
        if op == "select":
            t = "i1" if kind == "b" else "double"
            return code.let(f"select i1 {x[0]}, {t} {x[1]}, {t} {x[2]}")
        if op in ("and", "or", "xor"):
            return code.let(f"{op} i1 {x[0]}, {x[1]}")
        if op == "not":
            return code.let(f"xor i1 {x[0]}, true")
        if op in ("max", "min"):
            return self._extreme(op, x, fast)
        if op in ("float", "int") and kind == "b":
            return code.let(f"uitofp i1 {x[0]} to double")
        if op == "float":
            return x[0]
        if op == "finite":
            return code.let(f"fcmp olt double {self._intrinsic('fabs', x)}, {real(float('inf'))}")
        if op == "sign":
            up, down = code.let(f"fcmp ogt double {x[0]}, 0.0"), code.let(f"fcmp olt double {x[0]}, 0.0")
            low = code.let(f"select i1 {down}, double -1.0, double {x[0]}")
            return code.let(f"select i1 {up}, double 1.0, double {low}")
        if op in _INTRINSIC:
            return self._intrinsic(_INTRINSIC[op], x)
        if op not in LIBRARY:
            raise KeyError(op)
        args = [("double", v) for v in x]
        return code.call("double", op, *args, attributes="nounwind willreturn memory(none)")

    def _intrinsic(self, name: str, x: list[str]) -> str:
        return self.code.call("double", f"llvm.{name}.f64", *(("double", v) for v in x))

    def _extreme(self, op: str, x: list[str], fast: bool) -> str:
        """max or min; NaN if either is, as in JAX."""
        code = self.code
        better = code.let(f"fcmp {'ogt' if op == 'max' else 'olt'} double {x[0]}, {x[1]}")
        best = code.let(f"select i1 {better}, double {x[0]}, double {x[1]}")
        if fast:
            return best
        invalid = code.let(f"fcmp uno double {x[0]}, {x[0]}")
        return code.let(f"select i1 {invalid}, double {x[0]}, double {best}")

    def _branch(self, args: list, values: Values, fast: bool) -> str:
        """Both sides of a branch in blocks of their own; its value is the list of its outputs."""
        code, g = self.code, self.graph
        condition, *sides = args
        labels = [code.name("yes"), code.name("no")]
        done, results = code.name("joined"), []
        code.fork(values[condition], labels[0], labels[1])
        for label, side in zip(labels, sides, strict=True):
            code.label(label)
            inside = self.emit(side, dict(values), fast)
            results.append((inside, code.block))
            code.go(done)
        code.label(done)
        (yes, from_yes), (no, from_no) = results
        kinds = ["i1" if g.kind[j] == "b" else "double" for j in sides[0]]
        return " ".join(
            code.let(f"phi {kind} [ {a}, %{from_yes} ], [ {b}, %{from_no} ]")
            for kind, a, b in zip(kinds, yes, no, strict=True)
        )
