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

Python runs a function to write it: numbers are operands, whose operators write instructions, and what no operator can say,
assignments, conditions, loops and calls, is rewritten beforehand as calls of a `_Scope`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    def operand(self) -> Operand:
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
    variables = {x.name: f"@{x.name} = {x.definition}" for w in writers for x in w.variables.values()}
    return module(*variables.values(), *texts, declared=set().union(*(w.c.declared for w in writers)))


@functools.cache
def _definitions(name: str) -> dict[str, Any]:
    """The functions of a module, whose text its loader finds and decodes."""
    body = ast.parse(inspect.getsource(sys.modules[name])).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def _tell(method: str, *arguments: ast.expr) -> ast.Call:
    """The call of a method of the scope."""
    return ast.Call(ast.Attribute(ast.Name("_s", ast.Load()), method, ast.Load()), list(arguments), [])


def _lambda_of(x: ast.expr) -> ast.Lambda:
    """A function that gives the value of an expression."""
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), x)


class _Rewriter(ast.NodeTransformer):
    """A function as one that Python runs to write it: variables are attributes of `_v`, and `_s`, its scope, is told of all
    that decides. placed: whether it is written in the place of its call, with a result that Python returns if it can."""

    def __init__(self, node: Any, placed: bool):
        inside = list(ast.walk(node))
        stores = [n for n in inside if isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign)]
        targets = [t for n in stores for t in (n.targets if isinstance(n, ast.Assign) else [n.target])]
        names = (n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        self.stored = frozenset(n.id for n in names)
        returns = sum(isinstance(n, ast.Return) for n in inside)
        self.plain = placed and returns <= 1 and (not returns or isinstance(node.body[-1], ast.Return))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        parameters = [ast.arg(x) for x in ("_s", "_v", *(a.arg for a in [*node.args.args, *node.args.kwonlyargs]))]
        arguments = ast.arguments([], parameters, None, [], [], None, [])
        return ast.FunctionDef(node.name, arguments, [self.visit(x) for x in node.body], [])

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("_v", ast.Load()), node.id, node.ctx) if node.id in self.stored else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        found = _tell("call", node.func, *node.args)
        found.keywords = node.keywords
        return found

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call):
            node.value.func = _tell("act").func
        return node

    def visit_AnnAssign(self, node: Any) -> ast.Assign:
        return ast.Assign([self.visit(node.target)], self.visit(node.value))

    def visit_If(self, node: ast.If) -> ast.For:
        """for _side in _s.sides(test): the one or the other, or both."""
        self.generic_visit(node)
        sides, node.test = _tell("sides", node.test), ast.Name("_side", ast.Load())
        return ast.For(ast.Name("_side", ast.Store()), sides, [node], [])

    def visit_While(self, node: ast.While) -> ast.For:
        self.generic_visit(node)
        return ast.For(ast.Name("_", ast.Store()), _tell("turns", _lambda_of(node.test)), node.body, [])

    def visit_For(self, node: ast.For) -> ast.For:
        by_range = isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "range"
        self.generic_visit(node)
        if by_range:
            node.iter = _tell("range", *node.iter.args[1:])  # type: ignore[attr-defined]
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        self.generic_visit(node)
        return node if self.plain else ast.Expr(_tell("leave", node.value or ast.Constant(None)))

    def visit_Break(self, node: ast.Break) -> ast.Expr:
        return ast.Expr(_tell("jump", ast.Constant(1)))

    def visit_Continue(self, node: ast.Continue) -> ast.Expr:
        return ast.Expr(_tell("jump", ast.Constant(0)))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.Call:
        self.generic_visit(node)
        return _tell("every" if isinstance(node.op, ast.And) else "any", *map(_lambda_of, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _tell("negate", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.Call:
        self.generic_visit(node)
        return _tell("choose", node.test, _lambda_of(node.body), _lambda_of(node.orelse))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        same = _tell("same", node.left, node.comparators[0])
        return same if isinstance(node.ops[0], ast.Is) else _tell("negate", same)


@functools.cache
def _rewritten(function: Any, placed: bool) -> tuple[Any, _Rewriter]:
    """Its code, which defines the function that writes it."""
    node = _definitions(function.__module__).pop(function.__name__, None)  # most are rewritten once
    node = node or _definitions.__wrapped__(function.__module__)[function.__name__]
    rewriter = _Rewriter(node, placed)
    tree = ast.fix_missing_locations(ast.Module([rewriter.visit(node)], []))
    return compile(tree, function.__code__.co_filename, "exec"), rewriter


class _Variables:
    """What a function assigns: numbers and addresses to places of their own, all else as it is."""

    def __init__(self, c: Code) -> None:
        vars(self).update(c=c, known={})

    def __getattr__(self, name: str) -> Any:
        found = self.known[name]
        return found.operand if isinstance(found, Variable) else found

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, Operand | bool | int | float):
            self.known[name] = value
            return
        if not isinstance(self.known.get(name), Variable):
            self.known[name] = _place(self.c, name, value)
        self.known[name].place[0] = value


def _place(c: Code, hint: str, value: Any) -> Variable:
    """A new place, for numbers like this one."""
    value = value if isinstance(value, Operand) else c.number(value)
    return Variable(c.slot(hint, value.kind), value.item)


class _Writer:
    """Writes one function."""

    def __init__(self, target: MachineFunction, functions: Sequence[MachineFunction], constants: Mapping[str, Any]):
        self.c, self.target, self.functions, self.constants = Code(flags=target.flags), target, functions, constants
        self.variables, self.returns = dict[str, Global](), TYPES[target.function.__annotations__["return"]][0]

    def text(self) -> str:
        names, heads, target = dict[str, Any](), [], self.target
        for x in inspect.signature(target.function).parameters:
            packing = target.records.get(x)
            kind, item = TYPES["Address" if packing else target.function.__annotations__[x]]
            heads.append(f"{kind}{' noalias' if target.apart and item else ''} %{x}")
            names[x] = self.c.argument(x, kind, item)
            if packing:
                names[x] = Record(packing, names[x], x in target.constant)
        self.run(target.function, names, placed=False)
        if not self.c.has_ended:
            self.c.line("ret void" if self.returns == "void" else "unreachable")
        return self.c.function(f"define {self.returns} @{target.name}({', '.join(heads)}) nounwind")

    def run(self, function: Any, names: dict[str, Any], placed: bool) -> Any:
        """Write the statements of a function with values for its arguments; its result."""
        code, rewriter = _rewritten(function, placed)
        seen = {**function.__globals__, **self.constants}
        used = {x.name: x for x in seen.values() if isinstance(x, Global)}
        self.variables |= used
        seen |= {n: self.c.argument(f"@{x.name}", "ptr", x.item) for n, x in seen.items() if isinstance(x, Global)}
        exec(code, seen)
        scope, variables = _Scope(self, self.c.name("end") if placed and not rewriter.plain else ""), _Variables(self.c)
        for name in rewriter.stored & names.keys():
            setattr(variables, name, names[name])
        found = seen[function.__name__](scope, variables, **names)
        if not scope.end:
            return found
        self.c.label(scope.end)
        return scope.result and scope.result.operand


class _Scope:
    """What a function that is being written does, beside arithmetic. end: the block where it ends, if it is written in the
    place of a call; result: what it leaves there; loops: where those that it is in go on and end."""

    def __init__(self, writer: _Writer, end: str) -> None:
        self.writer, self.c, self.end = writer, writer.c, end
        self.result: Variable | None = None
        self.loops: list[tuple[str, str]] = []

    def sides(self, test: Any) -> Iterator[bool]:
        """The sides of a condition that are written."""
        if not isinstance(test, Operand):
            yield bool(test)
            return
        yes, no, done = (self.c.name(x) for x in ("yes", "no", "done"))
        self.c.fork(test, yes, no)
        for label, side in ((yes, True), (no, False)):
            self.c.label(label)
            yield side
            self.c.go(done)
        self.c.label(done)

    def turns(self, test: Callable[[], Any], after: Callable[[], None] = lambda: None) -> Iterator[None]:
        """A loop, whose turn is written once."""
        c, (head, turn, again, done) = self.c, (self.c.name(x) for x in ("head", "turn", "again", "done"))
        c.label(head)
        condition = test()
        if isinstance(condition, Operand):
            c.fork(condition, turn, done)
            c.label(turn)
        self.loops.append((again, done))
        yield
        self.loops.pop()
        c.label(again)
        after()
        c.go(head)
        c.label(done)

    def range(self, *given: Any) -> Iterator[Operand]:
        """The numbers of a range."""
        start, stop, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
        counter, now = self.c.slot("i", "i64"), list[Operand]()
        counter[0] = start

        def more() -> Any:
            now.append(counter[0])
            return now[0] < stop if step > 0 else now[0] > stop

        for _ in self.turns(more, lambda: self.c.store(counter[0] + step, counter)):
            yield now[0]

    def jump(self, which: int) -> None:
        """To where the loop goes on, or ends; what follows is never reached."""
        self.c.go(self.loops[-1][which])
        self.c.label(self.c.name("never"))

    def leave(self, value: Any) -> None:
        kind = self.writer.returns
        if not self.end:
            self.c.line("ret void" if kind == "void" else f"ret {kind} {literal(value, kind)}")
        elif value is not None:
            self.result = self.result or _place(self.c, "result", value)
            self.result.place[0] = value
        self.c.go(self.end)
        self.c.label(self.c.name("never"))

    def every(self, *parts: Callable[[], Any]) -> Any:
        return self._together(True, *parts)

    def any(self, *parts: Callable[[], Any]) -> Any:
        return self._together(False, *parts)

    def _together(self, every: bool, first: Callable[[], Any], *others: Callable[[], Any]) -> Any:
        c, found = self.c, first()
        for part in others:
            if isinstance(found, Operand):
                slot, (more, done) = c.slot("both", "i1"), (c.name(x) for x in ("more", "done"))
                slot[0] = found
                c.fork(found, *((more, done) if every else (done, more)))
                c.label(more)
                slot[0] = part()
                c.label(done)
                found = slot[0]
            elif bool(found) == every:
                found = part()
        return found

    def negate(self, x: Any) -> Any:
        return ~x if isinstance(x, Operand) else not x

    def same(self, a: Any, b: Any) -> Any:
        """a is b: a number is not None."""
        return a == b if getattr(a, "kind", "ptr") == "ptr" else False

    def choose(self, test: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        return where(test, a(), b()) if isinstance(test, Operand) else a() if test else b()

    def call(self, callee: Any, *given: Any, **named: Any) -> Any:
        """The value of a call."""
        return self._call("i64", callee, given, named)

    def act(self, callee: Any, *given: Any, **named: Any) -> None:
        """A call without a value."""
        self._call("void", callee, given, named)

    def _call(self, kind: str, callee: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        name, writer = getattr(callee, "__name__", ""), self.writer
        if isinstance(callee, Operand):
            return self._direct(kind, callee.name, given)
        if isinstance(callee, MachineFunction) and callee in writer.functions:
            return self._direct(TYPES[callee.function.__annotations__["return"]][0], f"@{callee.name}", given)
        if isinstance(callee, Outside):
            return self.c.call(callee.kind, callee.name, *map(self._argument, given))
        if callee is local:
            return self._local(*given)
        if name in FUNCTIONS and any(isinstance(x, Operand) for x in given):
            return FUNCTIONS[name](*given)
        function = callee.function if isinstance(callee, MachineFunction) else callee
        if name == "<lambda>" or not isinstance(function, FunctionType):
            return function(*given, **named)
        known = inspect.signature(function).bind(*given, **named)
        known.apply_defaults()
        with self.c.using(callee.flags if isinstance(callee, MachineFunction) else self.c.flags):
            return writer.run(function, dict(known.arguments), placed=True)

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
