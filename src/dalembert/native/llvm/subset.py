"""A subset of Python as LLVM: functions of numbers and arrays with loops, which run as they are written.

    @machine(flags="contract")
    def dot(n: Whole, x: Reals, y: Reals) -> Real:
        total = 0.0
        for i in range(n):
            total += x[i] * y[i]
        return total

Names that the function assigns are variables. All others are constants of its module, or of `program`: what depends on them
alone is done while the code is written, so that a loop over a table is unrolled and a condition on a size chooses. Calls of
other functions are written in place, unless these are functions of the same program. Both sides of `and`, `or` and
`a if c else b` are evaluated. x[i:] is the part of an array that begins there, a call of an address without a value is one
of a function that returns nothing, and max and min are the larger and smaller of two numbers as Python has them.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import inspect
import operator
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dalembert.native.llvm.builder import Code, module, real
from dalembert.native.llvm.packing import Packing

Real: TypeAlias = float
Whole: TypeAlias = int
Truth: TypeAlias = bool
Reals: TypeAlias = Any
Wholes: TypeAlias = Any
Address: TypeAlias = Any

TYPES = {"Real": "double", "Whole": "i64", "Truth": "i1", "None": "void"}  # the others are addresses
ITEMS = {"Reals": "Real", "Wholes": "Whole"}
INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", "log": "log", "pow": "pow", "copysign": "copysign", "fmax": "maxnum",
              "fmin": "minnum"}  # fmt: skip
# Of constants, of real and of whole numbers or addresses, of truth values.
OPERATIONS: dict[type, tuple[Callable, str, str, str]] = {
    ast.Add: (operator.add, "fadd", "add", ""), ast.Sub: (operator.sub, "fsub", "sub", ""),
    ast.Mult: (operator.mul, "fmul", "mul", ""), ast.Div: (operator.truediv, "fdiv", "", ""),
    ast.FloorDiv: (operator.floordiv, "", "sdiv", ""), ast.Mod: (operator.mod, "", "srem", ""),
    ast.Pow: (operator.pow, "", "", ""), ast.In: (lambda a, b: a in b, "", "", ""),
    ast.BitAnd: (operator.and_, "", "and", "and"), ast.BitOr: (operator.or_, "", "or", "or"),
    ast.Lt: (operator.lt, "fcmp olt", "icmp slt", ""), ast.LtE: (operator.le, "fcmp ole", "icmp sle", ""),
    ast.Gt: (operator.gt, "fcmp ogt", "icmp sgt", ""), ast.GtE: (operator.ge, "fcmp oge", "icmp sge", ""),
    ast.Eq: (operator.eq, "fcmp oeq", "icmp eq", "icmp eq"), ast.NotEq: (operator.ne, "fcmp une", "icmp ne", "icmp ne"),
    ast.Is: (operator.is_, "", "icmp eq", ""), ast.IsNot: (operator.is_not, "", "icmp ne", ""),
}  # fmt: skip
KINDS = {"Real": 0, "Whole": 1, "Truth": 2}
CONVERSIONS = {("Whole", "Real"): "sitofp", ("Truth", "Real"): "uitofp", ("Real", "Whole"): "fptosi"}
OTHERS = frozenset(["max", "min", "maximum", "minimum", "where", "logical_not", "float", "int", "atomic"])


def local(count: int) -> Reals:
    """So many numbers that a function keeps to itself."""
    return np.empty(count)


def atomic(x: Wholes) -> Whole:
    """The first number of an array, which another thread may write."""
    return x[0]


class Operand(NamedTuple):
    """A number or an address that the code computes."""

    kind: str
    name: str


class Variable(NamedTuple):
    """Where a number stands."""

    kind: str
    address: str


@dataclasses.dataclass(frozen=True)
class Struct:
    """Packed numbers as attributes. kinds: names of those that are not of the kind `default`, or of the packing's own;
    constant: read once, at first."""

    packing: Packing
    kinds: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    default: str = ""
    constant: bool = False

    @property
    def item(self) -> str:
        """The kind of the packed numbers."""
        return "Real" if self.packing.kind is np.float64 else "Whole"

    def kind(self, name: str) -> str:
        """The kind of an attribute."""
        return next((kind for kind, names in self.kinds.items() if name in names), self.default or self.item)

    def at(self, array: Any) -> Any:
        """The struct that begins where an array does."""
        return Attributes(self, array.name)


class Attributes(NamedTuple):
    """A struct that begins at an address."""

    struct: Struct
    address: str


@dataclasses.dataclass(frozen=True)
class MachineFunction:
    """A function with what its code needs to know: the structs among its arguments, the flags of its arithmetic, and whether
    its arrays are apart from each other."""

    function: Any
    structs: Mapping[str, Struct]
    flags: str
    apart: bool

    @property
    def name(self) -> str:
        return self.function.__name__


def machine(flags: str = "", apart: bool = False, **structs: Struct) -> Callable[[Any], Any]:
    """Decorator of a function of the subset."""
    return lambda function: MachineFunction(function, structs, flags, apart)


def program(functions: Sequence[MachineFunction], **constants: Any) -> str:
    """The module of some functions."""
    writers = [_Writer(f, functions, constants) for f in functions]
    return module(*(w.text() for w in writers), declared=set().union(*(w.c.declared for w in writers)))


@dataclasses.dataclass
class _Scope:
    """names: what they stand for. Where its function, written in place, ends and leaves its result; where its loop goes."""

    names: ChainMap[str, Any]
    end: str = ""
    result: Variable | None = None
    again: str = ""
    done: str = ""


class _Lambda(NamedTuple):
    """A function without a name, and what it sees."""

    node: Any
    names: ChainMap[str, Any]


@functools.cache
def _definitions(name: str) -> dict[str, Any]:
    """The functions of a module, whose text its loader finds and decodes."""
    body = ast.parse(inspect.getsource(sys.modules[name])).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def _definition(function: Any) -> Any:
    return _definitions(function.__module__)[function.__name__]


class _Writer:
    """Writes one function."""

    def __init__(self, target: MachineFunction, functions: Sequence[MachineFunction], constants: Mapping[str, Any]):
        self.c, self.target, self.functions, self.constants = Code(), target, functions, constants
        self.flags = target.flags
        self._known: dict[tuple[str, str], Operand] = {}

    def text(self) -> str:
        node, names, heads = _definition(self.target.function), dict[str, Any](), []
        self.returns = ast.unparse(node.returns)
        for a in [*node.args.args, *node.args.kwonlyargs]:
            kind = "Address" if a.arg in self.target.structs else ast.unparse(a.annotation)
            apart = " noalias" if self.target.apart and kind in ITEMS else ""
            heads.append(f"{TYPES.get(kind, 'ptr')}{apart} %{a.arg}")
            names[a.arg] = Operand(kind, f"%{a.arg}")
            if a.arg in self.target.structs:
                names[a.arg] = Attributes(self.target.structs[a.arg], f"%{a.arg}")
        scope = self._scope(node, names, self._outer(self.target.function))
        self._run(node.body, scope)
        if not self.c.has_ended:
            self.c.line("ret void" if self.returns == "None" else "unreachable")
        return self.c.function(f"define {TYPES[self.returns]} @{self.target.name}({', '.join(heads)}) nounwind")

    def _outer(self, function: Any) -> ChainMap[str, Any]:
        return ChainMap(dict(self.constants), function.__globals__, builtins.__dict__)

    def _scope(self, node: Any, given: dict[str, Any], outer: ChainMap[str, Any]) -> _Scope:
        """Arguments that are assigned to are variables."""
        scope = _Scope(outer.new_child(given))
        for name in _stored_names(node) & given.keys():
            self._assign(name, given.pop(name), scope)
        return scope

    # Values

    def _value(self, node: ast.expr, s: _Scope) -> Any:
        return getattr(self, f"_{type(node).__name__}")(node, s)

    def _load(self, variable: Variable) -> Operand:
        return Operand(variable.kind, self.c.load(variable.address, TYPES.get(variable.kind, "ptr")))

    def _operand(self, x: Any, kind: str) -> str:
        """The text of a value of this kind."""
        if isinstance(x, Operand):
            if x.kind != kind and kind in TYPES:
                raise TypeError(f"{self.target.name}: found {x.kind}, expected {kind}")
            return x.name
        if isinstance(x, Attributes):
            return x.address
        if x is None:
            return "null"
        return real(x) if kind == "Real" else str(x).lower() if kind == "Truth" else str(int(x))

    def _operands(self, *x: Any) -> tuple[str, list[str]]:
        """The kind that values have together, and their texts."""
        kind = next(v.kind for v in x if isinstance(v, Operand))
        return kind, [self._operand(v, kind) for v in x]

    def _Constant(self, node: ast.Constant, s: _Scope) -> Any:
        return node.value

    def _Name(self, node: ast.Name, s: _Scope) -> Any:
        found = s.names[node.id]
        return self._load(found) if isinstance(found, Variable) else found

    def _Tuple(self, node: ast.Tuple | ast.List, s: _Scope) -> tuple:
        return tuple(self._values(node.elts, s))

    _List = _Tuple

    def _values(self, nodes: Sequence[ast.expr], s: _Scope) -> list[Any]:
        found: list[Any] = []
        for x in nodes:
            found += self._value(x.value, s) if isinstance(x, ast.Starred) else [self._value(x, s)]
        return found

    def _Slice(self, node: ast.Slice, s: _Scope) -> slice:
        return slice(*(x and self._value(x, s) for x in (node.lower, node.upper, node.step)))

    def _ListComp(self, node: ast.ListComp, s: _Scope) -> list:
        (part,), found = node.generators, []
        for x in self._value(part.iter, s):
            inner = dataclasses.replace(s, names=s.names.new_child())
            self._put(part.target, x, inner, constant=True)
            found.append(self._value(node.elt, inner))
        return found

    def _Lambda(self, node: ast.Lambda, s: _Scope) -> _Lambda:
        return _Lambda(node, s.names)

    def _Attribute(self, node: ast.Attribute, s: _Scope) -> Any:
        base = self._value(node.value, s)
        if not isinstance(base, Attributes):
            return getattr(base, node.attr)
        if not base.struct.constant:
            return self._load(self._attribute(base, node.attr))
        key = base.address, node.attr
        if key not in self._known:
            self.c.lines, lines = self.c.slots, self.c.lines
            self._known[key] = self._load(self._attribute(base, node.attr))
            self.c.lines = lines
        return self._known[key]

    def _attribute(self, base: Attributes, name: str) -> Variable:
        return Variable(base.struct.kind(name), self.c.at(base.address, base.struct.packing.offset(name)))

    def _Subscript(self, node: ast.Subscript, s: _Scope) -> Any:
        base = self._value(node.value, s)
        if isinstance(base, Attributes):
            base = Operand(f"{base.struct.item}s", base.address)
        if not isinstance(base, Operand):
            return base[self._value(node.slice, s)]
        if isinstance(node.slice, ast.Slice):
            return Operand(base.kind, self._at(base, node.slice.lower, s))
        return self._load(Variable(ITEMS[base.kind], self._at(base, node.slice, s)))

    def _at(self, base: Operand, index: ast.expr | None, s: _Scope) -> str:
        i = 0 if index is None else self._value(index, s)
        return self.c.at(base.name, i if isinstance(i, int) else self._operand(i, "Whole"), TYPES[ITEMS[base.kind]])

    def _BinOp(self, node: ast.BinOp, s: _Scope) -> Any:
        return self._operate(type(node.op), self._value(node.left, s), self._value(node.right, s))

    def _Compare(self, node: ast.Compare, s: _Scope) -> Any:
        return self._operate(type(node.ops[0]), self._value(node.left, s), self._value(node.comparators[0], s))

    def _operate(self, op: type, a: Any, b: Any) -> Any:
        constant, *names = OPERATIONS[op]
        if not isinstance(a, Operand) and not isinstance(b, Operand):
            return constant(a, b)
        if op is ast.Pow:
            return self._apply("pow", (a, b))
        kind, (x, y) = self._operands(a, b)
        if b is None and kind in TYPES:  # a number is not None
            return op is ast.IsNot
        name, *order = names[KINDS.get(kind, 1)].split()
        flags = self.flags.split() if kind == "Real" and op is not ast.Div else []
        text = " ".join([name, *flags, *order, TYPES.get(kind, "ptr")])
        return Operand("Truth" if order else kind, self.c.let(f"{text} {x}, {y}"))

    def _BoolOp(self, node: ast.BoolOp, s: _Scope) -> Any:
        every, c = isinstance(node.op, ast.And), self.c
        found, *others = node.values
        found = self._value(found, s)
        for part in others:
            if isinstance(found, Operand):
                slot, (more, done) = Variable("Truth", c.slot("both", "i1")), (c.name(x) for x in ("more", "done"))
                self._store(found, slot)
                c.fork(found.name, *((more, done) if every else (done, more)))
                c.label(more)
                self._store(self._value(part, s), slot)
                c.label(done)
                found = self._load(slot)
            elif bool(found) == every:
                found = self._value(part, s)
        return found

    def _UnaryOp(self, node: ast.UnaryOp, s: _Scope) -> Any:
        x = self._value(node.operand, s)
        if not isinstance(x, Operand):
            return not x if isinstance(node.op, ast.Not) else -x
        if isinstance(node.op, ast.Not | ast.Invert):
            return Operand("Truth", self.c.let(f"xor i1 {x.name}, true"))
        return Operand(x.kind, self.c.let(f"fneg double {x.name}" if x.kind == "Real" else f"sub i64 0, {x.name}"))

    def _IfExp(self, node: ast.IfExp, s: _Scope) -> Any:
        test = self._value(node.test, s)
        if not isinstance(test, Operand):
            return self._value(node.body if test else node.orelse, s)
        return self._choose(test, self._value(node.body, s), self._value(node.orelse, s))

    def _choose(self, test: Operand, a: Any, b: Any) -> Any:
        if not isinstance(a, Operand) and not isinstance(b, Operand):
            a = self._constant(a)
        kind, (x, y) = self._operands(a, b)
        flags = self.flags if kind == "Real" else ""
        return Operand(kind, self.c.let(f"select {flags} i1 {test.name}, {TYPES[kind]} {x}, {TYPES[kind]} {y}"))

    def _constant(self, x: Any) -> Operand:
        kind = "Truth" if isinstance(x, bool) else "Whole" if isinstance(x, int) else "Real"
        return Operand(kind, self._operand(x, kind))

    # Calls

    def _Call(self, node: ast.Call, s: _Scope, wanted: bool = True) -> Any:
        callee, given = self._value(node.func, s), self._values(node.args, s)
        named = {k.arg: self._value(k.value, s) for k in node.keywords if k.arg}
        name = getattr(callee, "__name__", "")
        if isinstance(callee, Operand):
            return self._direct("i64" if wanted else "void", callee.name, given)
        if isinstance(callee, MachineFunction) and callee in self.functions:
            return self._direct(TYPES[ast.unparse(_definition(callee.function).returns)], f"@{callee.name}", given)
        if callee is local:
            return Operand("Reals", self.c.slot("local", f"[{given[0]} x double]"))
        if (name in OTHERS or name in INTRINSICS) and any(isinstance(x, Operand) for x in given):
            return self._apply(name, given)
        if isinstance(callee, MachineFunction | FunctionType | _Lambda):
            return self._in_place(callee, given, named)
        return callee(*given, **named)

    def _direct(self, result: str, address: str, given: Iterable[Any]) -> Operand | None:
        given = [x if isinstance(x, Operand | Attributes) else self._constant(x) for x in given]
        texts = [
            f"{TYPES.get(getattr(x, 'kind', ''), 'ptr')} {self._operand(x, getattr(x, 'kind', 'Address'))}" for x in given
        ]
        call = f"call {result} {address}({', '.join(texts)})"
        if result == "void":
            return self.c.line(call)
        return Operand({v: k for k, v in TYPES.items()}[result], self.c.let(call))

    def _apply(self, name: str, x: Sequence[Any]) -> Any:
        """An operation that Python and NumPy have as a function."""
        if name in ("max", "min", "maximum", "minimum"):
            a, b = x if isinstance(x[1], Operand) else x[::-1]
            found = self._choose(self._operate(ast.Gt if name.startswith("max") else ast.Lt, b, a), b, a)
            return found if name in ("max", "min") else self._choose(self._operate(ast.Eq, b, b), found, b)
        if name == "where":
            return self._choose(*x)
        if name == "logical_not":
            return Operand("Truth", self.c.let(f"xor i1 {x[0].name}, true"))
        if name in ("float", "int"):
            new = "Real" if name == "float" else "Whole"
            how = CONVERSIONS[x[0].kind, new]
            return Operand(new, self.c.let(f"{how} {TYPES[x[0].kind]} {x[0].name} to {TYPES[new]}"))
        if name == "atomic":
            return Operand("Whole", self.c.let(f"load atomic i64, ptr {x[0].name} monotonic, align 8"))
        return Operand("Real", self.c.intrinsic(INTRINSICS[name], *(self._operand(v, "Real") for v in x)))

    def _in_place(self, callee: MachineFunction | FunctionType | _Lambda, given: list[Any], named: dict[str, Any]) -> Any:
        """The statements of a function with values for its arguments."""
        if isinstance(callee, _Lambda):
            node, outer = callee.node, callee.names
            bound = dict(zip((a.arg for a in node.args.args), given, strict=True))
        else:
            function = callee.function if isinstance(callee, MachineFunction) else callee
            known = inspect.signature(function).bind(*given, **named)
            known.apply_defaults()
            node, outer, bound = _definition(function), self._outer(function), dict(known.arguments)
        before, self.flags = self.flags, callee.flags if isinstance(callee, MachineFunction) else self.flags
        found = self._result(node, self._scope(node, bound, outer))
        self.flags = before
        return found

    def _result(self, node: Any, s: _Scope) -> Any:
        """Of the statements of a function; in a variable where it ends at several places."""
        if isinstance(node, ast.Lambda):
            return self._value(node.body, s)
        last = node.body[-1]
        if _returns(node) == 1 and isinstance(last, ast.Return):
            self._run(node.body[:-1], s)
            return last.value and self._value(last.value, s)
        s.end = self.c.name("end")
        self._run(node.body, s)
        self.c.label(s.end)
        return s.result and self._load(s.result)

    # Statements

    def _run(self, body: Sequence[ast.stmt], s: _Scope) -> None:
        for node in body:
            getattr(self, f"_{type(node).__name__}")(node, s)
            if self.c.has_ended:
                break

    def _assign(self, name: str, value: Any, s: _Scope) -> None:
        if isinstance(value, bool | int | float) and not isinstance(s.names.maps[0].get(name), Variable):
            value = self._constant(value)
        if not isinstance(value, Operand | bool | int | float):
            s.names[name] = value
            return
        place = s.names.maps[0].get(name)
        if not isinstance(place, Variable):
            assert isinstance(value, Operand)
            place = s.names[name] = Variable(value.kind, self.c.slot(name, TYPES.get(value.kind, "ptr")))
        self._store(value, place)

    def _store(self, value: Any, to: Variable) -> None:
        self.c.store(self._operand(value, to.kind), to.address, TYPES.get(to.kind, "ptr"))

    def _put(self, target: ast.expr, value: Any, s: _Scope, constant: bool = False) -> None:
        """constant: what a turn of a loop stands for."""
        if isinstance(target, ast.Tuple):
            for part, x in zip(target.elts, value, strict=True):
                self._put(part, x, s, constant)
        elif isinstance(target, ast.Subscript):
            base = self._value(target.value, s)
            self._store(value, Variable(ITEMS[base.kind], self._at(base, target.slice, s)))
        elif isinstance(target, ast.Attribute):
            self._store(value, self._attribute(self._value(target.value, s), target.attr))
        else:
            assert isinstance(target, ast.Name)
            if constant:
                s.names[target.id] = value
            else:
                self._assign(target.id, value, s)

    def _Assign(self, node: ast.Assign, s: _Scope) -> None:
        value = self._value(node.value, s)
        for target in node.targets:
            self._put(target, value, s)

    def _AnnAssign(self, node: Any, s: _Scope) -> None:
        self._put(node.target, self._value(node.value, s), s)

    def _AugAssign(self, node: ast.AugAssign, s: _Scope) -> None:
        self._put(node.target, self._operate(type(node.op), self._value(node.target, s), self._value(node.value, s)), s)

    def _Expr(self, node: ast.Expr, s: _Scope) -> None:
        if isinstance(node.value, ast.Call):
            self._Call(node.value, s, wanted=False)

    def _Return(self, node: ast.Return, s: _Scope) -> None:
        value = node.value and self._value(node.value, s)
        if not s.end:
            kind = self.returns
            self.c.line("ret void" if kind == "None" else f"ret {TYPES[kind]} {self._operand(value, kind)}")
            return
        if value is not None:
            value = value if isinstance(value, Operand) else self._constant(value)
            s.result = s.result or Variable(value.kind, self.c.slot("result", TYPES.get(value.kind, "ptr")))
            self._store(value, s.result)
        self.c.go(s.end)

    def _If(self, node: ast.If, s: _Scope) -> None:
        test = self._value(node.test, s)
        if not isinstance(test, Operand):
            self._run(node.body if test else node.orelse, s)
            return
        yes, no, done = (self.c.name(x) for x in ("yes", "no", "done"))
        self.c.fork(test.name, yes, no)
        self.c.label(yes)
        self._run(node.body, s)
        self.c.go(done)
        self.c.label(no)
        self._run(node.orelse, s)
        self.c.label(done)

    def _Break(self, node: ast.Break, s: _Scope) -> None:
        self.c.go(s.done)

    def _Continue(self, node: ast.Continue, s: _Scope) -> None:
        self.c.go(s.again)

    def _turns(self, body: Sequence[ast.stmt], s: _Scope, test: Callable[[], Any], after: Callable[[], Any]) -> None:
        c, (head, turn, again, done) = self.c, (self.c.name(x) for x in ("head", "turn", "again", "done"))
        c.label(head)
        condition = test()
        if isinstance(condition, Operand):
            c.fork(condition.name, turn, done)
            c.label(turn)
        before, s.again, s.done = (s.again, s.done), again, done
        self._run(body, s)
        s.again, s.done = before
        c.label(again)
        after()
        c.go(head)
        c.label(done)

    def _While(self, node: ast.While, s: _Scope) -> None:
        self._turns(node.body, s, lambda: self._value(node.test, s), lambda: None)

    def _For(self, node: ast.For, s: _Scope) -> None:
        if not isinstance(node.iter, ast.Call) or s.names.get(getattr(node.iter.func, "id", "")) is not range:
            for x in self._value(node.iter, s):
                self._put(node.target, x, s, constant=True)
                self._run(node.body, s)
            return
        given = self._values(node.iter.args, s)
        start, stop, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
        counter = Variable("Whole", self.c.slot("i", "i64"))
        self._store(start, counter)

        def more() -> Any:
            i = self._load(counter)
            self._put(node.target, i, s, constant=True)
            return self._operate(ast.Lt if step > 0 else ast.Gt, i, stop)

        self._turns(node.body, s, more, lambda: self._store(self._operate(ast.Add, self._load(counter), step), counter))


@functools.cache
def _stored_names(node: Any) -> frozenset[str]:
    """Names that a function assigns to."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


@functools.cache
def _returns(node: Any) -> int:
    """How many statements of a function return."""
    return sum(isinstance(n, ast.Return) for n in ast.walk(node))
