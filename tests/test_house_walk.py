"""How far an argument walks through the house: which modules it is handed to, and how often it climbs back up.

An argument walks where it is passed on under its own name, by position or by keyword, to a function, a method or a class of
the package, and there goes on under the name of that parameter; each function is walked through once, in the order in which
calls stand in the text. Where a function is chosen by the argument's class it goes on in that of a System. With `made`, what
such a call returns is what has been made of it, and goes on under the name that it is given. It climbs where the next module
that it enters lies in a room of a higher level than the one before.
"""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parents[1] / "src" / "dalembert"
TREES = {path.relative_to(SOURCES).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES.rglob("*.py")}

LEVELS = next(
    ast.literal_eval(node.value)
    for node in ast.parse((Path(__file__).parent / "test_imports.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LEVELS"
)
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """A function or a class in a file. owner: the class that a method belongs to."""

    file: str
    node: ast.AST
    owner: ast.ClassDef | None = None


def file_of(module: str) -> str | None:
    """The file of dalembert.a.b."""
    parts = module.split(".")[1:]
    return next((f for f in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])) if f in TREES), None)


def definitions(file: str) -> dict[str, tuple[str, str]]:
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


def resolved(file: str, name: str) -> Place | None:
    """The definition behind a name, through packages that only pass it on."""
    found = definitions(file).get(name)
    if found is None:
        return None
    if found != (file, name):
        return resolved(*found)
    return Place(file, next(n for n in TREES[file].body if isinstance(n, Function | ast.ClassDef) and n.name == name))


METHODS: dict[str, list[Place]] = {}
for _file, _tree in TREES.items():
    for _kind in (n for n in _tree.body if isinstance(n, ast.ClassDef)):
        for _node in (n for n in _kind.body if isinstance(n, Function)):
            METHODS.setdefault(_node.name, []).append(Place(_file, _node, _kind))


def method(owner: Place | None, name: str, itself: bool = True) -> Place | None:
    """A method of a class or of one of its bases."""
    if owner is None or not isinstance(owner.node, ast.ClassDef):
        return None
    own = [n for n in owner.node.body if isinstance(n, Function) and n.name == name]
    if own and itself:
        return Place(owner.file, own[0], owner.node)
    bases = (method(resolved(owner.file, b.id), name) for b in owner.node.bases if isinstance(b, ast.Name))
    return next((found for found in bases if found), None)


def callee(here: Place, call: ast.Call) -> Place | None:
    """What is called: a function, a class where it has no constructor, or a method: of the same object or its base, or known
    by its name where only one class has it."""
    f = call.func
    if isinstance(f, ast.Name):
        found = resolved(here.file, f.id)
        return method(found, "__init__") or found
    if not isinstance(f, ast.Attribute):
        return None
    own = Place(here.file, here.owner) if here.owner else None
    if isinstance(f.value, ast.Name) and f.value.id == "self":
        return method(own, f.attr)
    if isinstance(f.value, ast.Call) and getattr(f.value.func, "id", "") == "super":
        return method(own, f.attr, itself=False)
    found = METHODS.get(f.attr, [])
    return found[0] if len(found) == 1 else None


def parameters(place: Place, call: ast.Call, mine: list[ast.expr]) -> frozenset[str]:
    """Under which names the callee has these arguments of a call."""
    named = [k.arg for k in call.keywords if k.arg and k.value in mine]
    if not isinstance(place.node, Function):
        return frozenset(named)
    given = place.node.args
    own = [a.arg for a in (*given.posonlyargs, *given.args)][place.owner is not None :]
    rest = given.vararg.arg if given.vararg else None
    at = [own[i] if i < len(own) else rest for i, x in enumerate(call.args) if x in mine]
    return frozenset([*named, *(name for name in at if name)])


def of_system(place: Place) -> Place | None:
    """The function registered for a System, of one that singledispatch chooses."""
    assert isinstance(place.node, Function)
    wanted = f"{place.node.name}.register(System)"
    functions = (n for n in TREES[place.file].body if isinstance(n, Function))
    found = next((n for n in functions if any(ast.unparse(d) == wanted for d in n.decorator_list)), None)
    return found and Place(place.file, found)


class Walk:
    """rooms: the files that an argument enters, in order."""

    def __init__(self, made: bool):
        self.made, self.rooms, self._seen = made, [], set()

    def enter(self, place: Place, names: frozenset[str]) -> None:
        self.rooms.append(place.file)
        if isinstance(place.node, Function) and (id(place.node), names) not in self._seen:
            self._seen.add((id(place.node), names))
            self._through(place, place.node, names)

    def _through(self, place: Place, function: Function, names: frozenset[str]) -> None:
        if (chosen := of_system(place)) is not None:
            assert isinstance(chosen.node, Function)
            self._through(chosen, chosen.node, frozenset([chosen.node.args.args[0].arg]))
        carried = set(names)
        kinds = ast.Call | ast.Assign if self.made else ast.Call
        for node in sorted((n for n in ast.walk(function) if isinstance(n, kinds)), key=lambda n: (n.lineno, n.col_offset)):
            call = node.value if isinstance(node, ast.Assign) else node
            if isinstance(call, ast.Call) and self._goes(place, call, carried) and isinstance(node, ast.Assign):
                carried |= {x.id for target in node.targets for x in ast.walk(target) if isinstance(x, ast.Name)}

    def _goes(self, here: Place, call: ast.Call, carried: set[str]) -> bool:
        """Whether it is handed to something of the package, and walks there."""

        def is_mine(x: ast.expr) -> bool:
            if isinstance(x, ast.Call) and self.made:
                return self._goes(here, x, carried)
            return isinstance(x, ast.Name) and x.id in carried

        mine = [x for x in (*call.args, *(k.value for k in call.keywords)) if is_mine(x)]
        there = callee(here, call) if mine else None
        if there is not None:
            self.enter(there, parameters(there, call, mine))
        return there is not None


def tour(file: str, function: str, name: str, made: bool = False) -> tuple[set[str], int]:
    """The modules entered, and the number of climbs."""
    start, walk = resolved(file, function), Walk(made)
    assert start is not None
    assert isinstance(start.node, Function)
    assert name in [a.arg for a in (*start.node.args.args, *start.node.args.kwonlyargs)]
    walk.enter(start, frozenset([name]))
    levels = [LEVEL_OF[entered.split("/")[0].removesuffix(".py")] for entered in walk.rooms]
    return set(walk.rooms) - {file}, sum(after > before for before, after in itertools.pairwise(levels))


def test_the_walk_itself():
    """Through a function of its own, down two levels, and up again: read off the text of `roots`."""
    entered, climbs = tour("step/step_roots.py", "roots", "system")
    assert {"systems/system.py", "step/start/prepare.py"} <= entered
    assert climbs >= 1
    assert tour("step/step_roots.py", "roots", "starts") == ({"numbers.py"}, 0)


def test_the_system_of_simulate():
    """With what is made of it; the numbers may fall and must not grow."""
    entered, climbs = tour("step/simulation.py", "simulate", "system", made=True)
    assert len(entered) <= 13, sorted(entered)
    assert climbs <= 8


def test_the_step_of_compile_step():
    """With what is made of it: 7 modules at most, its own among them."""
    entered, _ = tour("native/stepper/compiled.py", "compile_step", "step", made=True)
    assert "native/stepper/step_code.py" in entered
    assert len(entered) <= 6, sorted(entered)
