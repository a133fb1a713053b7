"""Graph nodes as instructions of LLVM.

Integers have the results that XLA gives: sums and products wrap around; a quotient by zero is -1, a remainder by zero is the
dividend, where the processor would stop.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from dalembert.native.graph.dependence import eager
from dalembert.native.graph.graph import COMPARISONS, LIBRARY, NARROW, Graph, operands
from dalembert.native.llvm.builder import PURE, Code, Operand, intrinsic, vector, where, width_of
from dalembert.native.llvm.dense import solution
from dalembert.native.llvm.elementary import sines_and_cosines, vector_function, written_out

KINDS = {"f": "double", "i": "i64", "b": "i1"}
Values = dict[int, Any]  # node → its value; of a branch or a system, the list of its outputs
CIRCULAR = ("sin", "cos")
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "abs": abs, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert,
    "select": where, "agree": lambda x: x, "finite": lambda x: abs(x) < math.inf,
    "max": lambda a, b: where(a != a, a, where(a > b, a, b)),  # NaN if either is, as in JAX
    "min": lambda a, b: where(a != a, a, where(a < b, a, b)),
    "sign": lambda x: where(x > 0.0, 1.0, where(x < 0.0, -1.0, x)),  # x itself where it is zero or NaN
}  # fmt: skip
_ORDER = {name: getattr(operator, name) for name in COMPARISONS}
_INTRINSIC = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "nearest": "rint", "round": "round", "sin": "sin",
              "cos": "cos", "exp": "exp", "exp2": "exp2", "log": "log", "pow": "pow"}  # fmt: skip
FAST = {"max": lambda a, b: where(a > b, a, b), "min": lambda a, b: where(a < b, a, b)}


def _divide(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """The quotient and the remainder; by 0 and -1 without the instruction, which fails for them."""
    by_zero, by_minus = b == 0, b == -1
    safe = where(by_zero | by_minus, 1, b)
    return where(by_zero, -1, where(by_minus, -a, a // safe)), where(by_zero, a, a % safe)


OF_INTEGERS: dict[str, Callable[..., Operand]] = {
    "div": lambda a, b: _divide(a, b)[0], "fmod": lambda a, b: _divide(a, b)[1],
    "max": functools.partial(intrinsic, "smax"), "min": functools.partial(intrinsic, "smin"),
    "abs": lambda x: intrinsic("smax", x, -x), "sign": lambda x: intrinsic("smax", intrinsic("smin", x, 1), -1),
}  # fmt: skip


def _narrow(x: Operand, bits: int, signed: bool) -> Operand:
    """An integer of fewer bits."""
    return (x << (64 - bits)) >> (64 - bits) if signed else x & (2**bits - 1)


class Emitter:
    """Writes graph nodes as instructions.

    fast: maxima without care for NaN, where another test excludes it: never for a function of the user's.
    """

    def __init__(self, graph: Graph, code: Code):
        self.graph, self.code = graph, code

    def emit(self, outputs: Sequence[int], values: Values, fast: bool = False) -> list[Operand]:
        """Values of the outputs; every node that is not in `values` yet is computed here and added."""
        wanted = eager(self.graph, outputs, values)
        circular = self._circular(wanted)
        for i in wanted:
            if i in values:
                continue
            if i in circular:
                self._sines_and_cosines(circular[i], values, fast)
            else:
                values[i] = self._node(i, values, fast)
        return [values[o] for o in outputs]

    def _circular(self, wanted: Sequence[int]) -> dict[int, list[int]]:
        """Of every sine and cosine, those that can be had with it: as many of others stand before them."""
        nodes, depth, groups = self.graph.nodes, dict[int, int](), dict[int, list[int]]()
        if not any(nodes[i][0] in CIRCULAR for i in wanted) or not written_out():
            return {}
        for i in wanted:
            before = (nodes[i][1],) if nodes[i][0] == "branch" else operands(nodes[i])
            depth[i] = max((depth.get(j, 0) for j in before), default=0)
            if nodes[i][0] in CIRCULAR:
                depth[i] += 1
                groups.setdefault(depth[i], []).append(i)
        return {i: group for group in groups.values() for i in group}

    def _sines_and_cosines(self, group: Sequence[int], values: Values, fast: bool) -> None:
        """Of all angles at once."""
        angles = list(dict.fromkeys(self.graph.nodes[i][1] for i in group))
        found = dict(zip(angles, sines_and_cosines(self.code, self.emit(angles, values, fast)), strict=True))
        for i in group:
            op, angle = self.graph.nodes[i]
            values[i] = found[angle][CIRCULAR.index(op)]

    def bind(self, values: Values, name: str, given: Sequence[Operand]) -> None:
        """Give the input vector called `name` its values; an integer is the bits of a double."""
        for i, value in enumerate(given):
            node = self.graph.variable(name, i)
            values[node] = value.cast("bitcast", "i64") if self.graph.kind[node] == "i" else value

    def emit_doubles(self, outputs: Sequence[int], values: Values) -> list[Operand]:
        """Values of the outputs as `emit` gives them, with integers as the bits of doubles."""
        found = zip(outputs, self.emit(outputs, values), strict=True)
        return [x.cast("bitcast", "double") if self.graph.kind[i] == "i" else x for i, x in found]

    def hoist(self, outputs: Sequence[int], values: Values, changes: Callable[[int], int], level: int) -> None:
        """Compute what the outputs need and what `changes` no more often than `level`."""
        nodes = [i for i in eager(self.graph, outputs, values) if changes(i) <= level]
        self.emit([i for i in nodes if self.graph.nodes[i][0] not in ("const", "pick")], values)

    def _node(self, i: int, values: Values, fast: bool) -> Any:
        g, code = self.graph, self.code
        op, *args = g.nodes[i]
        if op == "const":
            return code.number(args[0], *self._kinds([i]))
        if op == "var":
            raise KeyError(f"input {args[0]}[{args[1]}] has no value here")
        if op == "branch":
            return self._branch(args, values, fast) if code.width == 1 else self._sides(args, values, fast)
        if op in ("pick", "entry"):
            return values[args[0]][args[1]]
        x, kind = [values[j] for j in args], g.kind[args[-1]]
        if op == "solve":
            return solution(code, x)
        if op in ("float", "int"):
            return _convert(op, x[0], kind)
        if op in COMPARISONS:
            return self._compare(op, x, kind)
        if op in NARROW:
            return _narrow(x[0], *NARROW[op])
        if kind == "i" and op in OF_INTEGERS:
            return OF_INTEGERS[op](*x)
        return self._other(op, x, fast)

    def _compare(self, op: str, x: list[Operand], kind: str) -> Operand:
        if kind == "b" and op not in ("eq", "ne"):  # false is less than true
            return self.code.let(f"icmp u{op} {x[0].kind} {x[0]}, {x[1]}", x[0].kind)
        return _ORDER[op](*x)

    def _other(self, op: str, x: list[Operand], fast: bool) -> Operand:
        code = self.code
        if op in OPERATORS:
            with code.using("contract" if op in ("add", "sub", "mul") else ""):
                return (FAST if fast and op in FAST else OPERATORS)[op](*x)
        if code.width > 1 and op in LIBRARY:
            return vector_function(code, op, x)
        if op in _INTRINSIC:
            return intrinsic(_INTRINSIC[op], *x)
        if op not in LIBRARY:
            raise KeyError(op)
        return code.call("double", op, *x, attributes=PURE)

    def _branch(self, args: list, values: Values, fast: bool) -> list[Operand]:
        """Both sides of a branch in blocks of their own; its value is the list of its outputs."""
        code = self.code
        condition, *sides = args
        labels = [code.name("yes"), code.name("no")]
        done, results = code.name("joined"), []
        code.fork(values[condition], labels[0], labels[1])
        for label, side in zip(labels, sides, strict=True):
            code.label(label)
            inside = self.emit(side, dict(values), fast)
            results.append([(x, code.block) for x in inside])
            code.go(done)
        code.label(done)
        return [code.join(kind, *ways) for kind, *ways in zip(self._kinds(sides[0]), *results, strict=True)]

    def _sides(self, args: list, values: Values, fast: bool) -> list[Operand]:
        """Outputs of a branch, as `_branch`, in lanes: a side is computed if any lane takes it; each lane picks its own."""
        condition, *sides = args
        taken = values[condition]
        results = [self._where_needed(c, side, values, fast) for c, side in zip((taken, ~taken), sides, strict=True)]
        return [where(taken, a, b) for a, b in zip(*results, strict=True)]

    def _where_needed(self, condition: Operand, side: Sequence[int], values: Values, fast: bool) -> list[Operand]:
        code = self.code
        with code.only_if(code.some(condition)) as before:
            inside = self.emit(side, dict(values), fast)
            after = code.block
        kinds = self._kinds(side)
        return [code.join(kind, (x, after), ("zeroinitializer", before)) for kind, x in zip(kinds, inside, strict=True)]

    def _kinds(self, nodes: Sequence[int]) -> list[str]:
        return [vector(self.code.width, KINDS[self.graph.kind[j]]) for j in nodes]


def _convert(op: str, x: Operand, kind: str) -> Operand:
    """To a number, or to an integer: without the fraction, the nearest integer there is for what is too large, 0 for NaN."""
    if op == "float":
        return x.convert("double")
    if kind == "b":
        return x.convert("i64")
    width = width_of(x.kind)
    suffix = "i64.f64" if width == 1 else f"v{width}i64.v{width}f64"
    return x.code.call(x.like("i64"), f"llvm.fptosi.sat.{suffix}", x)
