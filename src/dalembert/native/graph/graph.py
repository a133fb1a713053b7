"""A hash-consed graph of scalar operations: every node exists once, constants are folded, zeros are structural.

A node is (operation, *operands) with operands as indices of earlier nodes; so the list is in topological order. Kinds:
"f" double, "i" integer of 64 bits that wraps around, "b" truth value. Narrower integers are wrapped by an operation of
their name.

Simplifications keep values to rounding, with four exceptions that are taken on purpose: 0·x = 0, x - x = 0 and
(x·y)/x = y hold also where x is infinite or NaN, and a zero that results from constants has no sign. The zeros come from
derivatives, where they are zeros of the structure; infinite and NaN values are seen in the residual itself.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from dalembert.tracing.evaluation.rules import ELEMENTARY, by_squaring, convert, round_away

Node = tuple


T = TypeVar("T")


def combine_pairs(combine: Callable[[T, T], T], terms: list[T], empty: T) -> T:
    """All terms combined in pairs of pairs, so that a processor can do most of it at the same time."""
    while len(terms) > 1:
        ends = [terms[-1]] if len(terms) % 2 else []
        terms = [combine(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)] + ends
    return terms[0] if terms else empty


def size_of_system(operands: int) -> int:
    """n of a system that is solved, with n² + n operands."""
    return math.isqrt(operands)


def operands(node: Node) -> tuple[int, ...]:
    """Indices a node refers to, both sides of a branch among them."""
    if node[0] in ("const", "var"):
        return ()
    if node[0] == "branch":
        return (node[1], *node[2], *node[3])
    return (node[1],) if node[0] in ("pick", "entry") else node[1:]


# Functions of one number, by the names that JAX and the C library give them; and all functions of that library.
FUNCTIONS = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
             "expm1", "log", "log1p", "cbrt", "erf", "erfc", "lgamma")  # fmt: skip
LIBRARY = frozenset([*FUNCTIONS, "atan2", "pow", "fmod"])
COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
LOGICAL = frozenset(["and", "or", "xor", "not", "finite", "agree"])
NARROW = {
    name: (int(name.strip("uint")), name[0] == "i") for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
}


def kind_of_result(op: str, last_operand: str) -> str:
    """The kind of op's result, given the kind of its last operand."""
    if op in COMPARISONS or op in LOGICAL:
        return "b"
    if op == "float":
        return "f"
    return "i" if op == "int" or op in NARROW else last_operand


def wrap_integer(value: int, bits: int = 64, signed: bool = True) -> int:
    """The integer of so many bits that differs from the value by a multiple of 2^bits."""
    low = value % 2**bits
    return low - 2**bits if signed and low >= 2 ** (bits - 1) else low


def _of_numbers(function: Callable) -> Callable:
    """A function of NumPy's arrays as one of numbers."""

    def fold(*values):
        with np.errstate(all="ignore"):
            return function(*map(np.asarray, values)).item()

    return fold


def _lgamma(a):
    try:
        return math.lgamma(a)
    except (ValueError, OverflowError):  # a pole; beyond the largest number
        return math.inf


_OTHER_NAMES: dict[str, Callable] = {
    "fmod": ELEMENTARY["rem"], "finite": ELEMENTARY["is_finite"], "agree": ELEMENTARY["copy"], "round": round_away,
    "nearest": np.rint, "float": lambda x: x.astype(float), "int": lambda x: convert(x, np.dtype(np.int64)),
}  # fmt: skip
# What an operation gives for constants.
FOLD: dict[str, Callable] = {
    **{name: _of_numbers(function) for name, function in (ELEMENTARY | _OTHER_NAMES).items()},
    **{name: functools.partial(wrap_integer, bits=bits, signed=signed) for name, (bits, signed) in NARROW.items()},
    "select": lambda c, a, b: a if c else b, "erf": math.erf, "erfc": math.erfc, "lgamma": _lgamma,
}  # fmt: skip


class Unsupported(Exception):
    """Error for what cannot be translated, or not within the budget: `what` names the primitive, `why` the reason.

    place: where the user wrote it, if that is known. role: what the function is in which it stands, if a caller knows.
    """

    def __init__(self, what: str, why: str):
        self.what, self.why = what, why
        self.place: Any = None
        self.role = ""
        super().__init__(what, why)

    def __str__(self) -> str:
        if self.place is None:
            return f"{self.what}: {self.why}"
        return f"{self.place}{self.role and f' in {self.role}'}: {self.why}"


class Graph:
    """nodes[i] = (operation, *operands); kind[i] in "f", "i", "b". `limit` bounds the number of nodes.

    powers: of products that were written as one, node → (base, exponent): so they are differentiated.
    """

    def __init__(self, limit: int = 400_000):
        self.nodes: list[Node] = []
        self.kind: list[str] = []
        self.limit = limit
        self._index: dict[tuple, int] = {}
        self.powers: dict[int, tuple[int, float]] = {}
        self.zero = self.constant(0.0)
        self.one = self.constant(1.0)
        self.true = self.constant(True)
        self.false = self.constant(False)

    def copy(self) -> Graph:
        """The same graph, to which other nodes may be added."""
        made = Graph(self.limit)
        made.nodes, made.kind, made._index = self.nodes.copy(), self.kind.copy(), self._index.copy()
        made.powers = self.powers.copy()
        return made

    def _intern(self, key: tuple, node: Node, kind: str = "") -> int:
        found = self._index.get(key)
        if found is None:
            found = len(self.nodes)
            if found >= self.limit:
                raise Unsupported("graph", f"more than {self.limit} scalar operations")
            self.nodes.append(node)
            self.kind.append(kind or kind_of_result(node[0], self.kind[node[-1]]))
            self._index[key] = found
        return found

    def constant(self, value: float | int | bool) -> int:
        """A constant; floats are told apart by their bits, so that -0.0 and NaN are kept."""
        if isinstance(value, bool | np.bool_):
            return self._intern(("b", bool(value)), ("const", bool(value)), "b")
        if isinstance(value, int | np.integer):
            whole = wrap_integer(int(value))
            return self._intern(("i", whole), ("const", whole), "i")
        number = float(value)
        return self._intern(("f", struct.pack("<d", number)), ("const", number), "f")

    def variable(self, name: str, index: int, kind: str = "f") -> int:
        """An input: component `index` of the vector called `name`."""
        return self._intern(("var", name, index), ("var", name, index), kind)

    def vector(self, name: str, size: int, whole: int = 0) -> np.ndarray:
        """The inputs name[0 … size-1] as an array of nodes, the last `whole` of them integers."""
        return np.array([self.variable(name, i, "i" if i >= size - whole else "f") for i in range(size)], dtype=np.int64)

    def value(self, i: int) -> float | int | bool | None:
        """The constant at node i, or None."""
        node = self.nodes[i]
        return node[1] if node[0] == "const" else None

    def apply(self, op: str, *args: int) -> int:
        """The node op(*args), simplified."""
        nodes = self.nodes
        of = [nodes[i][0] for i in args]
        if of.count("const") == len(of):
            folded = FOLD[op](*(nodes[i][1] for i in args))
            return self.zero if folded == 0 and isinstance(folded, float) else self.constant(folded)  # -0 is 0 here
        rule = _RULES.get(op)
        if rule is not None and not (op in _PLAIN and args[0] != args[1] and "const" not in of and "neg" not in of):
            found = rule(self, *args)
            if found is not None:
                return found
        if op in _COMMUTATIVE and args[0] > args[1]:
            args = (args[1], args[0])
        return self.raw(op, *args)

    def raw(self, op: str, *args: int) -> int:
        """The node op(*args) as it is, without simplification."""
        key = (op, *args)
        return self._intern(key, key)

    def number(self, i: int) -> int:
        """The node as a double; a truth value is 0 or 1."""
        return i if self.kind[i] == "f" else self.apply("float", i)

    def choose(self, condition: int, if_true: Sequence[int], if_false: Sequence[int]) -> list[int]:
        """Nodes of a branch of which only one side is evaluated at run time.

        All outputs of a branch share one node ("branch", condition, …both sides), so that the sides are entered once.
        """
        known = self.value(condition)
        if known is not None:
            return list(if_true if known else if_false)
        if all(a == b for a, b in zip(if_true, if_false, strict=True)):
            return list(if_true)
        at = self.branch(condition, if_true, if_false)
        return [a if a == b else self.pick(at, k) for k, (a, b) in enumerate(zip(if_true, if_false, strict=True))]

    def branch(self, condition: int, if_true: Sequence[int], if_false: Sequence[int]) -> int:
        """The node of a branch; `pick` gives its outputs."""
        key = ("branch", condition, tuple(if_true), tuple(if_false))
        return self._intern(key, key, "b")

    def pick(self, branch: int, k: int) -> int:
        """Output k of a branch."""
        key = ("pick", branch, k)
        return self._intern(key, key, self.kind[self.nodes[branch][2][k]])

    def entry(self, system: int, k: int) -> int:
        """Unknown k of ("solve", *A by columns, *b), A x = b: by LAPACK at run time, NaN where A is singular."""
        return self._intern(key := ("entry", system, k), key, "f")

    def power(self, x: int, exponent: float) -> int:
        """x to a power of halves: by repeated squaring, and x^(k+½) = xᵏ √x."""
        result = by_squaring(x, int(abs(exponent)), lambda a, b: self.apply("mul", a, b))
        if exponent % 1:
            root = self.apply("sqrt", x)
            result = root if result is None else self.apply("mul", result, root)
        result = self.one if result is None else result if exponent > 0 else self.apply("div", self.one, result)
        if self.nodes[result][0] in ("mul", "div"):
            self.powers.setdefault(result, (x, exponent))
        return result

    def total(self, terms: Iterable[int]) -> int:
        """The sum, in pairs."""
        return combine_pairs(lambda a, b: self.apply("add", a, b), list(terms), self.zero)


def _operator(op: str, swapped: bool = False) -> Callable[[Expression, Any], Expression]:
    def operate(self: Expression, other: Any) -> Expression:
        other = self.like(other)
        return other.apply(op, self) if swapped else self.apply(op, other)

    return operate


class Expression:
    """A node with the operators of numbers, whose other operand may be a number of Python."""

    __slots__ = ("graph", "node")

    def __init__(self, graph: Graph, node: int):
        self.graph, self.node = graph, int(node)

    def like(self, x: Any) -> Expression:
        """A number of Python as an expression of the same graph."""
        return x if isinstance(x, Expression) else Expression(self.graph, self.graph.constant(x))

    def apply(self, op: str, *others: Any) -> Expression:
        """An operation, by its name."""
        nodes = [self.like(x).node for x in others]
        return Expression(self.graph, self.graph.apply(op, self.node, *nodes))

    __add__, __radd__ = _operator("add"), _operator("add", swapped=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swapped=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", swapped=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", swapped=True)
    __and__, __lt__, __gt__, __ge__ = (_operator(op) for op in ("and", "lt", "gt", "ge"))

    def __neg__(self) -> Expression:
        return self.apply("neg")

    def __abs__(self) -> Expression:
        return self.apply("abs")


def express(g: Graph, nodes: Iterable[int]) -> list[Expression]:
    """Nodes with operators."""
    return [Expression(g, i) for i in nodes]


_COMMUTATIVE = frozenset({"add", "mul", "eq", "ne", "and", "or", "xor"})
_PLAIN = frozenset({"add", "sub", "mul"})  # whose rules are about constants, negatives and equal operands


def _inner_of_neg(g: Graph, i: int) -> int | None:
    return g.nodes[i][1] if g.nodes[i][0] == "neg" else None


def _sum_rule(g: Graph, a: int, b: int) -> int | None:
    if g.value(a) == 0:
        return b
    if g.value(b) == 0:
        return a
    if (inner := _inner_of_neg(g, b)) is not None:
        return g.apply("sub", a, inner)
    if (inner := _inner_of_neg(g, a)) is not None:
        return g.apply("sub", b, inner)
    return None


def _sub(g: Graph, a: int, b: int) -> int | None:
    if g.value(b) == 0:
        return a
    if g.value(a) == 0:
        return g.apply("neg", b)
    if a == b:
        return g.constant(0.0 if g.kind[a] == "f" else 0)
    if (inner := _inner_of_neg(g, b)) is not None:
        return g.apply("add", a, inner)
    return None


def _mul(g: Graph, a: int, b: int) -> int | None:
    for x, y in ((a, b), (b, a)):
        c = g.value(x)
        if c == 0:
            return g.constant(0.0 if g.kind[a] == "f" else 0)
        if c == 1:
            return y
        if c == -1:
            return g.apply("neg", y)
        if (inner := _inner_of_neg(g, x)) is not None:
            return g.apply("neg", g.apply("mul", inner, y))
        if c is not None and g.nodes[y][0] == "mul":
            for p, q in (g.nodes[y][1:], g.nodes[y][:0:-1]):
                if (factor := g.value(p)) is not None:
                    return g.apply("mul", g.constant(c * factor), q)
    return None


def _div(g: Graph, a: int, b: int) -> int | None:
    top, bottom = g.value(a), g.value(b)
    if g.kind[a] != "f":
        return None
    if top == 0 and bottom is None:
        return g.zero
    if bottom == 1:
        return a
    if bottom == -1:
        return g.apply("neg", a)
    if bottom is not None and math.isfinite(bottom) and bottom != 0 and math.frexp(bottom)[0] in (0.5, -0.5):
        return g.apply("mul", a, g.constant(1.0 / bottom))  # a power of two: exact
    if (inner := _inner_of_neg(g, a)) is not None:
        return g.apply("neg", g.apply("div", inner, b))
    if (inner := _inner_of_neg(g, b)) is not None:
        return g.apply("neg", g.apply("div", a, inner))
    if g.nodes[a][0] == "mul" and b in g.nodes[a][1:]:
        return g.nodes[a][2] if g.nodes[a][1] == b else g.nodes[a][1]
    return None


def _neg(g: Graph, a: int) -> int | None:
    if (inner := _inner_of_neg(g, a)) is not None:
        return inner
    return g.apply("sub", g.nodes[a][2], g.nodes[a][1]) if g.nodes[a][0] == "sub" else None


def _pow(g: Graph, a: int, b: int) -> int | None:
    c = g.value(b)
    if c is None:
        return None
    return g.power(a, float(c)) if float(2 * c).is_integer() and abs(c) <= (8 if c % 1 else 64) else None


def _select(g: Graph, c: int, a: int, b: int) -> int | None:
    known = g.value(c)
    if known is not None:
        return a if known else b
    if a == b:
        return a
    return c if (a, b) == (g.true, g.false) else None


def _logical(decisive: bool) -> Callable[[Graph, int, int], int | None]:
    """Of two truth values one of which, if it is this, decides."""

    def rule(g: Graph, a: int, b: int) -> int | None:
        for x, y in ((a, b), (b, a)):
            if (known := g.value(x)) is not None:
                return x if known is decisive else y
        return a if a == b else None

    return rule


def _narrow(op: str) -> Callable[[Graph, int], int | None]:
    """An integer that is narrow already, or was a truth value, is as it was."""

    def rule(g: Graph, a: int) -> int | None:
        before, *operands = g.nodes[a]
        return a if before == op or (before == "int" and g.kind[operands[0]] == "b") else None

    return rule


def _abs(g: Graph, a: int) -> int | None:
    if (inner := _inner_of_neg(g, a)) is not None:
        return g.apply("abs", inner)
    return a if g.nodes[a][0] in ("abs", "sqrt") else None


_RULES = {
    "add": _sum_rule, "sub": _sub, "mul": _mul, "div": _div, "neg": _neg, "pow": _pow, "select": _select,
    "and": _logical(False), "or": _logical(True), "abs": _abs,
    **dict.fromkeys(("max", "min"), lambda g, a, b: a if a == b else None),
    **{name: _narrow(name) for name in NARROW},
}  # fmt: skip
