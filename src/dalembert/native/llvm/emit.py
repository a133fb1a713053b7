"""Graph nodes as instructions of LLVM.

Integers have the results that XLA gives: sums and products wrap around; a quotient by zero is -1, a remainder by zero is the
dividend, where the processor would stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dalembert.native.graph.dependence import eager
from dalembert.native.graph.graph import COMPARISONS, LIBRARY, NARROW, Graph, operands
from dalembert.native.llvm.builder import PURE, Code
from dalembert.native.llvm.dense import solution
from dalembert.native.llvm.elementary import sines_and_cosines, vector_function, written_out

_OF_INTEGERS = {"add": "add", "sub": "sub", "mul": "mul"}
_ORDER = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def _compare_integers(code: Code, op: str, x: list[str]) -> str:
    """A truth value."""
    return code.let(f"icmp {_ORDER[op]} {code.whole} {x[0]}, {x[1]}")


def _integer(code: Code, x: str) -> str:
    """Without the fraction, the nearest integer there is for what is too large, 0 for NaN."""
    suffix = "i64.f64" if code.width == 1 else f"v{code.width}i64.v{code.width}f64"
    return code.call(code.whole, f"llvm.fptosi.sat.{suffix}", (code.real, x))


def _operate_on_integers(code: Code, op: str, x: list[str]) -> str:
    """An integer from integers."""
    if op in _OF_INTEGERS:
        return code.let(f"{_OF_INTEGERS[op]} {code.whole} {x[0]}, {x[1]}")
    if op in ("div", "fmod"):
        return _divide_integers(code, op, *x)
    if op in ("max", "min"):
        return code.whole_intrinsic("s" + op, *x)
    if op == "neg":
        return code.let(f"sub {code.whole} {_i64(code, 0)}, {x[0]}")
    if op == "abs":
        return code.whole_intrinsic("smax", x[0], _operate_on_integers(code, "neg", x))
    if op == "sign":
        return code.whole_intrinsic("smax", code.whole_intrinsic("smin", x[0], _i64(code, 1)), _i64(code, -1))
    bits, signed = NARROW[op]
    if not signed:
        return code.let(f"and {code.whole} {x[0]}, {_i64(code, 2**bits - 1)}")
    high = code.let(f"shl {code.whole} {x[0]}, {_i64(code, 64 - bits)}")
    return code.let(f"ashr {code.whole} {high}, {_i64(code, 64 - bits)}")


def _i64(code: Code, value: int) -> str:
    return code.constant(value, "i64")


def _divide_integers(code: Code, op: str, a: str, b: str) -> str:
    """The quotient or the remainder; by 0 and -1 without the instruction, which fails for them."""
    zero, none = _i64(code, 0), _i64(code, -1)
    by_zero, by_minus = (code.let(f"icmp eq {code.whole} {b}, {x}") for x in (zero, none))
    unsafe = code.let(f"or {code.truth} {by_zero}, {by_minus}")
    safe = _select(code, unsafe, _i64(code, 1), b)
    if op == "fmod":
        return _select(code, by_zero, a, code.let(f"srem {code.whole} {a}, {safe}"))
    quotient = _select(code, by_minus, _operate_on_integers(code, "neg", [a]), code.let(f"sdiv {code.whole} {a}, {safe}"))
    return _select(code, by_zero, none, quotient)


def _select(code: Code, condition: str, yes: str, no: str) -> str:
    return code.let(f"select {code.truth} {condition}, {code.whole} {yes}, {code.whole} {no}")


Values = dict[int, str]  # node → name of its value
CIRCULAR = ("sin", "cos")
_BINARY = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}
_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_COMPARE_TRUTH = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_INTRINSIC = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "nearest": "rint", "round": "round",
              "sin": "sin", "cos": "cos", "exp": "exp", "exp2": "exp2", "log": "log",
              "pow": "pow"}  # fmt: skip


class Emitter:
    """Writes graph nodes as instructions.

    fast: maxima without care for NaN, where another test excludes it: never for a function of the user's.
    """

    def __init__(self, graph: Graph, code: Code):
        self.graph, self.code = graph, code

    def emit(self, outputs: Sequence[int], values: Values, fast: bool = False) -> list[str]:
        """Names of the outputs' values; every node that is not in `values` yet is computed here and added."""
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

    def bind(self, values: Values, name: str, given: Sequence[str]) -> None:
        """Give the input vector called `name` its values; an integer is the bits of a double."""
        for i, value in enumerate(given):
            node = self.graph.variable(name, i)
            whole = self.graph.kind[node] == "i"
            values[node] = self.code.let(f"bitcast {self.code.real} {value} to {self.code.whole}") if whole else value

    def emit_doubles(self, outputs: Sequence[int], values: Values) -> list[str]:
        """Values of the outputs as `emit` gives them, with integers as the bits of doubles."""
        found = zip(outputs, self.emit(outputs, values), strict=True)
        return [self.code.let(f"bitcast {self.code.whole} {x} to {self.code.real}") if self.graph.kind[i] == "i" else x
                for i, x in found]  # fmt: skip

    def hoist(self, outputs: Sequence[int], values: Values, changes: Callable[[int], int], level: int) -> None:
        """Compute what the outputs need and what `changes` no more often than `level`."""
        nodes = [i for i in eager(self.graph, outputs, values) if changes(i) <= level]
        self.emit([i for i in nodes if self.graph.nodes[i][0] not in ("const", "pick")], values)

    def _node(self, i: int, values: Values, fast: bool) -> str:
        g, code = self.graph, self.code
        op, *args = g.nodes[i]
        if op == "const":
            return code.constant(args[0], "i64" if g.kind[i] == "i" else "double")
        if op == "var":
            raise KeyError(f"input {args[0]}[{args[1]}] has no value here")
        if op == "branch":
            return self._branch(args, values, fast) if code.width == 1 else self._sides(args, values, fast)
        if op in ("pick", "entry"):
            return values[args[0]].split()[args[1]]
        x, kind = [values[j] for j in args], g.kind[args[-1]]
        if op == "solve":
            return " ".join(solution(code, x))
        if op == "select":
            return code.let(f"select {code.truth} {x[0]}, {self._type(kind)} {x[1]}, {self._type(kind)} {x[2]}")
        if op in ("float", "int"):
            return self._convert(op, x[0], kind)
        if op in COMPARISONS:
            return self._compare(op, x, kind)
        if kind == "i":
            return _operate_on_integers(code, op, x)
        if op in _BINARY:
            return code.let(f"{_BINARY[op]} {code.real} {x[0]}, {x[1]}")
        return self._other(op, x, fast)

    def _compare(self, op: str, x: list[str], kind: str) -> str:
        if kind == "i":
            return _compare_integers(self.code, op, x)
        compare = f"icmp {_COMPARE_TRUTH[op]} {self.code.truth}" if kind == "b" else f"fcmp {_COMPARE[op]} {self.code.real}"
        return self.code.let(f"{compare} {x[0]}, {x[1]}")

    def _convert(self, op: str, x: str, kind: str) -> str:
        code, wanted = self.code, self.code.real if op == "float" else self.code.whole
        if kind == "b":
            return code.let(f"{'uitofp' if op == 'float' else 'zext'} {code.truth} {x} to {wanted}")
        return code.let(f"sitofp {code.whole} {x} to {wanted}") if op == "float" else _integer(code, x)

    def _other(self, op: str, x: list[str], fast: bool) -> str:
        code, real_, truth = self.code, self.code.real, self.code.truth
        if op == "neg":
            return code.let(f"fneg {real_} {x[0]}")
        if op in ("and", "or", "xor"):
            return code.let(f"{op} {truth} {x[0]}, {x[1]}")
        if op == "not":
            return code.let(f"xor {truth} {x[0]}, {code.constant(True)}")
        if op == "agree":
            return x[0]
        if op in ("max", "min"):
            return self._extreme(op, x, fast)
        if op == "finite":
            return code.let(f"fcmp olt {real_} {code.absolute(x[0])}, {code.constant(float('inf'))}")
        if op == "sign":
            return self.sign(x[0])
        if code.width > 1 and op in LIBRARY:
            return vector_function(code, op, x)
        if op in _INTRINSIC:
            return code.intrinsic(_INTRINSIC[op], *x)
        if op not in LIBRARY:
            raise KeyError(op)
        return code.call("double", op, *(("double", v) for v in x), attributes=PURE)

    def sign(self, x: str) -> str:
        """1, -1, or x itself where it is zero or NaN."""
        code, kind = self.code, self.code.real
        up, down = (code.let(f"fcmp {c} {kind} {x}, {code.constant(0.0)}") for c in ("ogt", "olt"))
        low = code.let(f"select {code.truth} {down}, {kind} {code.constant(-1.0)}, {kind} {x}")
        return code.let(f"select {code.truth} {up}, {kind} {code.constant(1.0)}, {kind} {low}")

    def _extreme(self, op: str, x: list[str], fast: bool) -> str:
        """max or min; NaN if either is, as in JAX."""
        code, kind = self.code, self.code.real
        better = code.let(f"fcmp {'ogt' if op == 'max' else 'olt'} {kind} {x[0]}, {x[1]}")
        best = code.let(f"select {code.truth} {better}, {kind} {x[0]}, {kind} {x[1]}")
        if fast:
            return best
        invalid = code.let(f"fcmp uno {kind} {x[0]}, {x[0]}")
        return code.let(f"select {code.truth} {invalid}, {kind} {x[0]}, {kind} {best}")

    def _branch(self, args: list, values: Values, fast: bool) -> str:
        """Both sides of a branch in blocks of their own; its value is the list of its outputs."""
        code = self.code
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
        return " ".join(
            code.let(f"phi {kind} [ {a}, %{from_yes} ], [ {b}, %{from_no} ]")
            for kind, a, b in zip(self._kinds(sides[0]), yes, no, strict=True)
        )

    def _sides(self, args: list, values: Values, fast: bool) -> str:
        """Outputs of a branch, as `_branch`, in lanes: a side is computed if any lane takes it; each lane picks its own."""
        code = self.code
        condition, *sides = args
        kinds, taken = self._kinds(sides[0]), values[condition]
        other = code.let(f"xor {code.truth} {taken}, {code.constant(True)}")
        results = [self._where_needed(c, side, kinds, values, fast) for c, side in zip((taken, other), sides, strict=True)]
        return " ".join(
            code.let(f"select {code.truth} {taken}, {kind} {a}, {kind} {b}")
            for kind, a, b in zip(kinds, *results, strict=True)
        )

    def _where_needed(self, condition: str, side: Sequence[int], kinds: list[str], values: Values, fast: bool) -> list[str]:
        code = self.code
        before, needed, done = code.block, code.name("needed"), code.name("joined")
        code.fork(code.some(condition), needed, done)
        code.label(needed)
        inside = self.emit(side, dict(values), fast)
        after = code.block
        code.go(done)
        code.label(done)
        return [
            code.let(f"phi {kind} [ {x}, %{after} ], [ zeroinitializer, %{before} ]")
            for kind, x in zip(kinds, inside, strict=True)
        ]

    def _kinds(self, nodes: Sequence[int]) -> list[str]:
        return [self._type(self.graph.kind[j]) for j in nodes]

    def _type(self, kind: str) -> str:
        return {"f": self.code.real, "i": self.code.whole, "b": self.code.truth}[kind]
