"""How far an argument travels: the modules that a walk along the calls enters, read from the sources.

An argument goes on where its name is itself an argument of a call of one of the package's functions or classes, or of a
method of the same object or of its base: it is then that parameter. What such a call returns is what has been made of it,
and goes on under the name that it is given. Attributes of it, and what is done with them, are details and no walk.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src"


class Module:
    """The functions and classes of one file, and what it imports from the package."""

    def __init__(self, name: str):
        self.name = name
        path = SOURCES.joinpath(*name.split("."))
        tree = ast.parse((path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py").read_text())
        self.defined = {x.name: x for x in tree.body if isinstance(x, ast.FunctionDef | ast.ClassDef)}
        self.imported = {
            alias.asname or alias.name: (x.module or "", alias.name)
            for x in tree.body if isinstance(x, ast.ImportFrom) for alias in x.names
        }  # fmt: skip


class Walk:
    """The modules that are entered by a parameter of a function."""

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}
        self.entered: set[str] = set()
        self.seen: set[tuple] = set()

    def module(self, name: str) -> Module:
        if name not in self.modules:
            self.modules[name] = Module(name)
        return self.modules[name]

    def found(self, module: Module, name: str) -> tuple[Module, ast.FunctionDef | ast.ClassDef] | None:
        """Where a function or class of the package stands, through the rooms that hand it on."""
        while name not in module.defined:
            origin, name = module.imported.get(name, ("", ""))
            if not origin.startswith("dalembert"):
                return None
            module = self.module(origin)
        return module, module.defined[name]

    def called(self, module: Module, owner: ast.ClassDef | None, f: ast.expr):
        """(module, class or None, function or None) of what a call calls; None outside the package."""
        if isinstance(f, ast.Name):
            place = self.found(module, f.id)
            if place is not None and isinstance(place[1], ast.ClassDef):
                return self.method(*place, "__init__") or (*place, None)
            return place and (place[0], None, place[1])
        if isinstance(f, ast.Attribute) and owner is not None:
            if isinstance(f.value, ast.Name) and f.value.id == "self":
                return self.method(module, owner, f.attr)
            if isinstance(f.value, ast.Call) and getattr(f.value.func, "id", "") == "super":
                bases = [self.found(module, base.id) for base in owner.bases if isinstance(base, ast.Name)]
                return next((self.method(*base, f.attr) for base in bases if base), None)
        return None

    def method(self, module: Module, owner, name: str):
        own = {x.name: x for x in owner.body if isinstance(x, ast.FunctionDef)}
        if name in own:
            return module, owner, own[name]
        bases = [self.found(module, base.id) for base in owner.bases if isinstance(base, ast.Name)]
        return next((m for base in bases if base and (m := self.method(*base, name))), None)

    def enter(self, module: Module, owner: ast.ClassDef | None, function: ast.FunctionDef | None, names: frozenset[str]):
        """With some of the parameters of a function; of a class without constructor, it is put down there."""
        self.entered.add(module.name)
        if function is None or (module.name, function.lineno, names) in self.seen:
            return
        self.seen.add((module.name, function.lineno, names))
        carried = set(names)
        for node in sorted((x for x in ast.walk(function) if isinstance(x, ast.Call | ast.Assign)), key=by_place):
            call = node.value if isinstance(node, ast.Assign) else node
            if isinstance(call, ast.Call) and self.goes(module, owner, call, carried) and isinstance(node, ast.Assign):
                carried |= {x.id for target in node.targets for x in ast.walk(target) if isinstance(x, ast.Name)}

    def goes(self, module: Module, owner: ast.ClassDef | None, call: ast.Call, carried: set[str]) -> bool:
        """Whether it is handed to a function of the package, by itself or inside another such call; and walks there."""

        def mine(x: ast.expr) -> bool:
            inside = isinstance(x, ast.Call) and self.goes(module, owner, x, carried)
            return inside or (isinstance(x, ast.Name) and x.id in carried)

        places = [i for i, x in enumerate(call.args) if mine(x)]
        words = {x.arg for x in call.keywords if x.arg and mine(x.value)}
        there = self.called(module, owner, call.func)
        if there is None or not (places or words):
            return False
        target, other, function = there
        if function is not None:
            own = [x.arg for x in function.args.posonlyargs + function.args.args]
            own = own[1:] if other is not None and own[:1] == ["self"] else own
            words |= {own[i] for i in places if i < len(own)}
        self.enter(target, other, function, frozenset(words))
        return True


def by_place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def walk(module: str, function: str, parameter: str) -> set[str]:
    found = Walk()
    start = found.module(module)
    node = start.defined[function]
    assert isinstance(node, ast.FunctionDef)
    assert parameter in [x.arg for x in node.args.args + node.args.kwonlyargs]
    found.enter(start, None, node, frozenset({parameter}))
    return found.entered


@pytest.mark.parametrize(
    ("module", "function", "parameter", "most"), [("dalembert.native.stepper.compiled", "compile_step", "step", 7)]
)
def test_an_argument_enters_few_modules(module, function, parameter, most):
    entered = walk(module, function, parameter)
    assert 1 < len(entered) <= most, sorted(entered)
