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
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dalembert.native.llvm.builder import (
    Code,
    Operand,
    intrinsic,
    larger,
    literal,
    module,
    smaller,
    where,
)
from dalembert.native.llvm.packing import Packing

Real: TypeAlias = float
Whole: TypeAlias = int
Truth: TypeAlias = bool
Reals: TypeAlias = Any
Wholes: TypeAlias = Any
Address: TypeAlias = Any

# The types of arguments, attributes and results, and of what stands at an address.
TYPES = {"Real": ("double", ""), "Whole": ("i64", ""), "Truth": ("i1", ""), "Reals": ("ptr", "double"),
         "Wholes": ("ptr", "i64"), "Addresses": ("ptr", "ptr"), "Address": ("ptr", ""), "None": ("void", "")}  # fmt: skip
OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.In: lambda a, b: a in b, ast.USub: operator.neg,
}  # fmt: skip


def local(count: int, kind: str = "Real") -> Any:
    """So many numbers that a function keeps to itself."""
    return np.empty(count, float if kind == "Real" else int)


def atomic(x: Wholes) -> Whole:
    """The first number of an array, which another thread may write."""
    return x[0]


def pointer(x: Whole) -> Address:
    """The address that is the number x."""
    return x


def fetch_add(x: Wholes, amount: Whole) -> Whole:
    """The same, to which the amount is added before another thread can read it."""
    x[0] += amount
    return x[0] - amount


class Outside(NamedTuple):
    """A function of another library, and the type of its result in LLVM."""

    name: str
    kind: str


class Global(NamedTuple):
    """A variable of the module: its definition, and the type of what stands there."""

    name: str
    definition: str
    item: str


def _with_nan(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The larger or smaller of two numbers, NaN where b is."""
    return lambda a, b: where(b == b, choose(a, b), b)


def _in_order(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Of two numbers; where one is a constant it is the first."""
    return lambda a, b: choose(a, b) if isinstance(b, Operand) else choose(b, a)


# What Python's and NumPy's functions are of values, by their names.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: functools.partial(intrinsic, own) for name, own in (
        ("abs", "fabs"), ("sqrt", "sqrt"), ("log", "log"), ("pow", "pow"), ("copysign", "copysign"), ("fmax", "maxnum"),
        ("fmin", "minnum"))},
    "max": _in_order(larger), "min": _in_order(smaller),
    "maximum": _in_order(_with_nan(larger)), "minimum": _in_order(_with_nan(smaller)),
    "where": where, "logical_not": operator.invert,
    "float": lambda x: x.convert("double"), "int": lambda x: x.convert("i64"),
    "atomic": lambda x: x.code.let(f"load atomic i64, ptr {x} seq_cst, align 8", "i64"),
    "fetch_add": lambda x, n: x.code.let(f"atomicrmw add ptr {x}, i64 {literal(n, 'i64')} seq_cst", "i64"),
    "pointer": lambda x: x.cast("inttoptr", "ptr"),
}  # fmt: skip


class Variable(NamedTuple):
    """A number or an address that a function assigns: where it stands, and the type of what stands at the address."""

    place: Operand
    item: str

    @property
    def value(self) -> Operand:
        found = self.place[0]
        found.item = self.item
        return found


class Record:
    """Packed numbers that begin at an address, as attributes; those of a constant one are read once, at first."""

    packing: Packing
    address: Operand
    known: dict[str, Operand] | None

    def __init__(self, packing: Packing, address: Operand, constant: bool = False) -> None:
        vars(self).update(packing=packing, address=address, known={} if constant else None)

    def __getitem__(self, index: Any) -> Operand:
        """Of the packed numbers."""
        return self.address.at(0, "double" if self.packing.kind is np.float64 else "i64")[index]

    def __getattr__(self, name: str) -> Any:
        if self.known is None:
            return self._read(name)
        if name not in self.known:
            with self.address.code.at_start():
                self.known[name] = self._read(name)
        return self.known[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self.address.code.store(value, self._place(name), TYPES[self.packing.kind_of[name]][0])

    def _read(self, name: str) -> Operand:
        kind, item = TYPES[self.packing.kind_of[name]]
        found = self.address.code.load(self._place(name), kind)
        found.item = item
        return found

    def _place(self, name: str) -> Operand:
        return self.address.at(self.packing.offset(name), "double")


@dataclasses.dataclass(frozen=True)
class MachineFunction:
    """A function with what its code needs to know: which arguments are packed numbers, and constant ones; the flags of its
    arithmetic; whether its arrays are apart from each other."""

    function: Any
    records: Mapping[str, Packing]
    constant: Sequence[str]
    flags: str
    apart: bool

    @property
    def name(self) -> str:
        return self.function.__name__


def machine(flags: str = "", apart: bool = False, constant: Sequence[str] = (), **records: Packing) -> Callable[[Any], Any]:
    """Decorator of a function of the subset."""
    return lambda function: MachineFunction(function, records, constant, flags, apart)


def program(functions: Sequence[MachineFunction], **constants: Any) -> str:
    """The module of some functions."""
    writers = [_Writer(f, functions, constants) for f in functions]
    texts = [w.text() for w in writers]
    variables = {x.name: f"@{x.name} = {x.definition}" for w in writers for x in w.variables}
    return module(*variables.values(), *texts, declared=set().union(*(w.c.declared for w in writers)))


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
        self.c, self.target, self.functions, self.constants = Code(flags=target.flags), target, functions, constants
        self.node, self.variables = _definition(target.function), list[Global]()
        self.returns = TYPES[ast.unparse(self.node.returns)][0]

    def text(self) -> str:
        names, heads, target = dict[str, Any](), [], self.target
        for a in [*self.node.args.args, *self.node.args.kwonlyargs]:
            packing = target.records.get(a.arg)
            kind, item = TYPES["Address" if packing else ast.unparse(a.annotation)]
            heads.append(f"{kind}{' noalias' if target.apart and item else ''} %{a.arg}")
            names[a.arg] = self.c.argument(a.arg, kind, item)
            if packing:
                names[a.arg] = Record(packing, names[a.arg], a.arg in target.constant)
        self._run(self.node.body, self._scope(self.node, names, self._outer(target.function)))
        if not self.c.has_ended:
            self.c.line("ret void" if self.returns == "void" else "unreachable")
        return self.c.function(f"define {self.returns} @{target.name}({', '.join(heads)}) nounwind")

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

    def _Constant(self, node: ast.Constant, s: _Scope) -> Any:
        return node.value

    def _Name(self, node: ast.Name, s: _Scope) -> Any:
        found = s.names[node.id]
        if isinstance(found, Global):
            self.variables.append(found)
            return self.c.argument(f"@{found.name}", "ptr", found.item)
        return found.value if isinstance(found, Variable) else found

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
        return getattr(self._value(node.value, s), node.attr)

    def _Subscript(self, node: ast.Subscript, s: _Scope) -> Any:
        return self._value(node.value, s)[self._value(node.slice, s)]

    def _BinOp(self, node: ast.BinOp, s: _Scope) -> Any:
        return OPERATORS[type(node.op)](self._value(node.left, s), self._value(node.right, s))

    def _Compare(self, node: ast.Compare, s: _Scope) -> Any:
        op, a, b = node.ops[0], self._value(node.left, s), self._value(node.comparators[0], s)
        if isinstance(op, ast.Is | ast.IsNot):  # a number is not None
            same = a == b if getattr(a, "kind", "ptr") == "ptr" else False
            return self._not(same) if isinstance(op, ast.IsNot) else same
        return OPERATORS[type(op)](a, b)

    def _not(self, x: Any) -> Any:
        return ~x if isinstance(x, Operand) else not x

    def _UnaryOp(self, node: ast.UnaryOp, s: _Scope) -> Any:
        x = self._value(node.operand, s)
        return -x if isinstance(node.op, ast.USub) else self._not(x)

    def _BoolOp(self, node: ast.BoolOp, s: _Scope) -> Any:
        every, c = isinstance(node.op, ast.And), self.c
        found, *others = node.values
        found = self._value(found, s)
        for part in others:
            if isinstance(found, Operand):
                slot, (more, done) = c.slot("both", "i1"), (c.name(x) for x in ("more", "done"))
                slot[0] = found
                c.fork(found, *((more, done) if every else (done, more)))
                c.label(more)
                slot[0] = self._value(part, s)
                c.label(done)
                found = slot[0]
            elif bool(found) == every:
                found = self._value(part, s)
        return found

    def _IfExp(self, node: ast.IfExp, s: _Scope) -> Any:
        test = self._value(node.test, s)
        if isinstance(test, Operand):
            return where(test, self._value(node.body, s), self._value(node.orelse, s))
        return self._value(node.body if test else node.orelse, s)

    # Calls

    def _Call(self, node: ast.Call, s: _Scope, wanted: bool = True) -> Any:
        callee, given = self._value(node.func, s), self._values(node.args, s)
        named = {k.arg: self._value(k.value, s) for k in node.keywords if k.arg}
        name = getattr(callee, "__name__", "")
        if isinstance(callee, Operand):
            return self._direct("i64" if wanted else "void", callee.name, given)
        if isinstance(callee, MachineFunction) and callee in self.functions:
            return self._direct(TYPES[ast.unparse(_definition(callee.function).returns)][0], f"@{callee.name}", given)
        if isinstance(callee, Outside):
            return self.c.call(callee.kind, callee.name, *map(self._argument, given))
        if callee is local:
            return self._local(*given)
        if name in FUNCTIONS and any(isinstance(x, Operand) for x in given):
            return FUNCTIONS[name](*given)
        if isinstance(callee, MachineFunction | FunctionType | _Lambda):
            return self._in_place(callee, given, named)
        return callee(*given, **named)

    def _direct(self, kind: str, address: str, given: Sequence[Any]) -> Operand | None:
        call = f"call {kind} {address}({', '.join(f'{x.kind} {x}' for x in map(self._argument, given))})"
        return self.c.line(call) if kind == "void" else self.c.let(call, kind)

    def _argument(self, x: Any) -> Operand:
        if isinstance(x, MachineFunction):
            return self.c.argument(f"@{x.name}")
        return x.address if isinstance(x, Record) else x if isinstance(x, Operand) else self.c.number(x)

    def _local(self, count: Any, kind: str = "Real") -> Operand:
        item = TYPES[kind][0]
        if isinstance(count, Operand):
            return self.c.let(f"alloca {item}, i64 {count}, align 64", "ptr", item)
        return self.c.slot("local", f"[{count} x {item}]").at(0, item)

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
        with self.c.using(callee.flags if isinstance(callee, MachineFunction) else self.c.flags):
            return self._result(node, self._scope(node, bound, outer))

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
        return s.result and s.result.value

    # Statements

    def _run(self, body: Sequence[ast.stmt], s: _Scope) -> None:
        for node in body:
            getattr(self, f"_{type(node).__name__}")(node, s)
            if self.c.has_ended:
                break

    def _variable(self, hint: str, value: Any) -> Variable:
        """A new one, of the type of a value."""
        value = value if isinstance(value, Operand) else self.c.number(value)
        return Variable(self.c.slot(hint, value.kind), value.item)

    def _assign(self, name: str, value: Any, s: _Scope) -> None:
        place = s.names.maps[0].get(name)
        if not isinstance(value, Operand | bool | int | float):
            s.names[name] = value
            return
        if not isinstance(place, Variable):
            place = s.names[name] = self._variable(name, value)
        place.place[0] = value

    def _put(self, target: ast.expr, value: Any, s: _Scope, constant: bool = False) -> None:
        """constant: what a turn of a loop stands for."""
        if isinstance(target, ast.Tuple):
            for part, x in zip(target.elts, value, strict=True):
                self._put(part, x, s, constant)
        elif isinstance(target, ast.Subscript):
            self._value(target.value, s)[self._value(target.slice, s)] = value
        elif isinstance(target, ast.Attribute):
            setattr(self._value(target.value, s), target.attr, value)
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
        old = self._value(node.target, s)
        self._put(node.target, OPERATORS[type(node.op)](old, self._value(node.value, s)), s)

    def _Expr(self, node: ast.Expr, s: _Scope) -> None:
        if isinstance(node.value, ast.Call):
            self._Call(node.value, s, wanted=False)

    def _Return(self, node: ast.Return, s: _Scope) -> None:
        value = node.value and self._value(node.value, s)
        if not s.end:
            self.c.line("ret void" if self.returns == "void" else f"ret {self.returns} {literal(value, self.returns)}")
            return
        if value is not None:
            s.result = s.result or self._variable("result", value)
            s.result.place[0] = value
        self.c.go(s.end)

    def _If(self, node: ast.If, s: _Scope) -> None:
        test = self._value(node.test, s)
        if not isinstance(test, Operand):
            self._run(node.body if test else node.orelse, s)
            return
        yes, no, done = (self.c.name(x) for x in ("yes", "no", "done"))
        self.c.fork(test, yes, no)
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
            c.fork(condition, turn, done)
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
        counter = self.c.slot("i", "i64")
        counter[0] = start

        def more() -> Any:
            i = counter[0]
            self._put(node.target, i, s, constant=True)
            return i < stop if step > 0 else i > stop

        def advance() -> None:
            counter[0] = counter[0] + step

        self._turns(node.body, s, more, advance)


@functools.cache
def _stored_names(node: Any) -> frozenset[str]:
    """Names that a function assigns to."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


@functools.cache
def _returns(node: Any) -> int:
    """How many statements of a function return."""
    return sum(isinstance(n, ast.Return) for n in ast.walk(node))
