"""How far an argument walks through the house: which modules it is handed to, and how often it climbs back up.

An argument walks where it is passed on under its own name, by position or by keyword, to a function, a method or a class of
the package, and there goes on under the name of that parameter; each function is walked through once, in the order in which
calls stand in the text. Where a function is chosen by the argument's class it goes on in that of a System. It climbs where
the next module that it enters lies in a room of a higher level than the one before.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "dalembert"
TREES = {path.relative_to(SOURCES).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES.rglob("*.py")}

LEVELS = next(
    ast.literal_eval(node.value)
    for node in ast.parse((Path(__file__).parent / "test_imports.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LEVELS"
)
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[str, str]  # file and name


def file_of(module: str) -> str | None:
    """The file of dalembert.a.b."""
    parts = module.split(".")[1:]
    return next((f for f in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])) if f in TREES), None)


def definitions(file: str) -> dict[str, Place]:
    """What names at the top of a file stand for: definitions of its own, and those it imports from the package."""
    found = {}
    for node in TREES[file].body:
        if isinstance(node, Function | ast.ClassDef):
            found[node.name] = file, node.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dalembert"):
            source = file_of(node.module or "")
            for name in node.names if source else ():
                found[name.asname or name.name] = (source, name.name)
    return found


def resolved(place: Place) -> tuple[str, ast.AST] | None:
    """The file and the definition behind a name, through packages that only pass it on."""
    file, name = place
    found = definitions(file).get(name)
    if found is None:
        return None
    if found != place:
        return resolved(found)
    return file, next(n for n in TREES[file].body if isinstance(n, Function | ast.ClassDef) and n.name == name)


METHODS: dict[str, list[tuple[str, Function]]] = {}
for _file, _tree in TREES.items():
    for _kind in (n for n in _tree.body if isinstance(n, ast.ClassDef)):
        for _node in (n for n in _kind.body if isinstance(n, Function)):
            METHODS.setdefault(_node.name, []).append((_file, _node))


def callee(file: str, call: ast.Call) -> tuple[str, ast.AST, int] | None:
    """The file and the definition of what is called, and how many parameters come before the arguments. A method is known
    by its name where only one class has it."""
    if isinstance(call.func, ast.Name):
        found = resolved((file, call.func.id))
        return None if found is None else (*found, 0)
    if isinstance(call.func, ast.Attribute) and len(methods := METHODS.get(call.func.attr, [])) == 1:
        return *methods[0], 1
    return None


def parameter(node: ast.AST, call: ast.Call, name: str, before: int) -> str | None:
    """Under which name the callee has the argument; None where it is not handed over as it is."""
    keyword = next((k.arg for k in call.keywords if isinstance(k.value, ast.Name) and k.value.id == name), None)
    at = next((i for i, x in enumerate(call.args) if isinstance(x, ast.Name) and x.id == name), None)
    if keyword is not None or at is None:
        return keyword
    if not isinstance(node, Function):
        return name
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    return names[at + before] if at + before < len(names) else node.args.vararg and node.args.vararg.arg


def of_system(file: str, node: Function) -> Function | None:
    """The function registered for a System, of one that singledispatch chooses."""
    wanted = f"{node.name}.register(System)"
    definitions = (n for n in TREES[file].body if isinstance(n, Function))
    return next((n for n in definitions if any(ast.unparse(d) == wanted for d in n.decorator_list)), None)


def walk(file: str, node: ast.AST, name: str, seen: set) -> Iterator[str]:
    """The files that the argument enters, in order."""
    if (id(node), name) in seen or not isinstance(node, Function):
        return
    seen.add((id(node), name))
    if (chosen := of_system(file, node)) is not None:
        yield from walk(file, chosen, chosen.args.args[0].arg, seen)
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
    for call in sorted(calls, key=lambda c: (c.lineno, c.col_offset)):
        found = callee(file, call)
        inner = found and parameter(found[1], call, name, found[2])
        if found is not None and inner is not None:
            yield found[0]
            yield from walk(found[0], found[1], inner, seen)


def tour(file: str, function: str, name: str) -> tuple[set[str], int]:
    """The modules entered, and the number of climbs."""
    found = resolved((file, function))
    assert found is not None
    rooms = [file, *walk(*found, name, set())]
    levels = [LEVEL_OF[entered.split("/")[0].removesuffix(".py")] for entered in rooms]
    climbs = sum(after > before for before, after in itertools.pairwise(levels))
    return set(rooms) - {file}, climbs


def test_the_walk_itself():
    """Through a function of its own, down two levels, and up again: read off the text of `roots`."""
    entered, climbs = tour("step/roots.py", "roots", "system")
    assert {"systems/checks.py", "step/start/prepare.py"} <= entered
    assert climbs >= 1
    assert tour("step/roots.py", "roots", "starts") == ({"numbers.py"}, 0)


def test_the_system_of_simulate():
    """It is to enter 10 modules and to climb 4 times; the numbers here may fall and must not grow."""
    entered, climbs = tour("step/simulate.py", "simulate", "system")
    assert len(entered) <= 16, sorted(entered)
    assert climbs <= 10
