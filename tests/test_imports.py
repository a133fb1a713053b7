"""The way through the house goes one way: which module of dalembert may import which, read from the sources.

A module may import from its own room and from the rooms of strictly lower levels. The package's ``__init__``
may import all of them, also with the first use of a name, and nothing may import from it. An import under
``if TYPE_CHECKING`` counts like any other.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import importlib.util
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "dalembert"
SOURCES = Path(__file__).resolve().parents[1] / "src" / PACKAGE

LEVELS = (
    ("numbers", "outcome", "lazy", "interrupts", "notebook", "messages", "terminal", "precision"),
    ("options", "path", "solution", "tracing"),
    ("algebra", "drawing"),
    ("native",),
    ("groups",),
    ("systems",),
    ("discretize", "symbolic"),
    ("step", "boundary"),
    ("control", "measure"),
    ("guidance", "laws", "claims", "symmetry"),
    ("store", "show", "gallery"),
    ("studies",),
    ("cli",),
)
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

HEAVY = (
    "diffrax",
    "optimistix",
    "lineax",
    "scipy",
    "matplotlib",
    "xarray",
    "pandas",
    "h5netcdf",
    "typer",
    "rich",
    "llvmlite",
    "sympy",
    "zarr",
)


@dataclass(frozen=True)
class Import:
    importer: str
    line: int
    target: str
    deferred: bool = False
    dynamic: bool = False


def module_name(file: str) -> str:
    """``algebra/dense.py`` is dalembert.algebra.dense, ``algebra/__init__.py`` is dalembert.algebra."""
    parts = [part for part in Path(file).with_suffix("").parts if part != "__init__"]
    return ".".join([PACKAGE, *parts])


def room(module: str) -> str:
    """The first name below the package; the empty string for the package's own ``__init__``."""
    return module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]


def base_of(node: ast.ImportFrom, importer: str, is_package: bool) -> str:
    """The absolute name of what stands between ``from`` and ``import``."""
    if node.level == 0:
        return node.module or ""
    parts = importer.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def dynamic_target(node: ast.Call, importer: str) -> str | None:
    """What ``import_module(x)`` or ``__import__(x)`` may load: the name, or the package if x is computed.

    None in the gallery where x begins with its own name: it imports the files of its folder.
    """
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in ("import_module", "__import__") or not node.args:
        return None
    name = node.args[0]
    if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
        return name.value
    if importer == f"{PACKAGE}.gallery" and ast.unparse(name).startswith("f'{__name__}."):
        return None
    return PACKAGE


def targets_of(node: ast.AST, importer: str, is_package: bool, known: frozenset[str]) -> Iterator[str]:
    """Absolute names of the modules a statement imports, foreign ones among them."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = base_of(node, importer, is_package)
        for alias in node.names:
            full = f"{base}.{alias.name}"
            yield full if full in known or (base == PACKAGE and alias.name in LEVEL_OF) else base


@functools.cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@functools.cache
def imports_of(file: str, source: str, known: frozenset[str]) -> list[Import]:
    """Every import of a dalembert module in one source file."""
    importer, is_package, found = module_name(file), Path(file).name == "__init__.py", []

    def visit(node: ast.AST, deferred: bool) -> None:
        for target in targets_of(node, importer, is_package, known):
            found.append(Import(importer, node.lineno, target, deferred))
        if isinstance(node, ast.Call) and (name := dynamic_target(node, importer)):
            found.append(Import(importer, node.lineno, name, dynamic=True))
        inside = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(parsed(source), deferred=False)
    return [entry for entry in found if entry.target.split(".")[0] == PACKAGE]


def fault(entry: Import) -> str | None:
    """Why an import is forbidden, or None."""
    here, there = room(entry.importer), room(entry.target)
    if here == "":
        return None
    if entry.dynamic:
        return "is a dynamic import; write an import statement at the top of the module"
    if entry.deferred and here not in LEVELS[-1]:
        return "stands inside a function; dalembert modules are imported at the top of the module"
    if there == "":
        return "imports from the package itself; name the room the object lives in"
    if there not in LEVEL_OF:
        return f"imports from '{there}', which is no room of the house"
    if here == there or LEVEL_OF[there] < LEVEL_OF[here]:
        return None
    if LEVEL_OF[there] == LEVEL_OF[here]:
        return f"imports its sibling '{there}'; rooms of one level do not know each other"
    return f"imports upwards: '{there}' is on level {LEVEL_OF[there]}, '{here}' on level {LEVEL_OF[here]}"


def violations(files: Mapping[str, str]) -> list[str]:
    """All breaches of the order in a package given as {path below the package: source}."""
    known = frozenset(map(module_name, files))
    strangers = sorted({room(name) for name in known} - LEVEL_OF.keys() - {""})
    found = [
        f"{PACKAGE}.{name} is no room of the house: give it a level in LEVELS or put it into a room" for name in strangers
    ]
    for file, source in sorted(files.items()):
        if room(module_name(file)) in strangers:
            continue
        for entry in imports_of(file, source, known):
            if reason := fault(entry):
                found.append(f"{file}:{entry.line}: {entry.target}: {reason}")
    return found


def cycle(files: Mapping[str, str]) -> list[str]:
    """One loop of modules that import each other, or an empty list."""
    known = frozenset(map(module_name, files))
    graph = {name: set() for name in known}
    for file, source in files.items():
        graph[module_name(file)] |= {entry.target for entry in imports_of(file, source, known) if not entry.dynamic}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


@functools.cache
def package_sources() -> dict[str, str]:
    return {path.relative_to(SOURCES).as_posix(): path.read_text(encoding="utf-8") for path in sorted(SOURCES.rglob("*.py"))}


def test_there_are_sources_to_check():
    assert "path/path.py" in package_sources()


def test_imports_go_one_way():
    found = violations(package_sources())
    assert not found, "\n".join(["forbidden imports:", *found])


def test_the_way_through_the_house_has_the_same_levels():
    text = (SOURCES.parents[1] / "docs/house.md").read_text(encoding="utf-8")
    table = [(int(level), name) for level, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)]
    assert table == [(level, name) for level, names in enumerate(LEVELS) for name in names]


def test_the_page_of_the_house_names_what_stands():
    text = (SOURCES.parents[1] / "docs/house.md").read_text(encoding="utf-8")
    places = [name for name in re.findall(r"`([\w/]+(?:\.py)?)`", text) if "/" in name and not name.startswith("tests/")]
    assert len(places) > 15
    assert [name for name in places if not (SOURCES / name).exists()] == []


def test_every_room_of_the_levels_stands():
    assert {room(module_name(file)) for file in package_sources()} - {""} == LEVEL_OF.keys()


def test_no_modules_import_each_other_in_a_loop():
    assert cycle(package_sources()) == []


def test_examples_and_benchmarks_import_what_there_is():
    root = SOURCES.parents[1]
    files = [path for folder in ("examples", "benchmarks", "docs") for path in sorted((root / folder).rglob("*.py"))]
    nodes = [(path, node) for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    wanted = [
        (path.name, node.module, alias.name)
        for path, node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE
        for alias in node.names
    ]
    assert len(wanted) > 50
    missing = [(file, module, name) for file, module, name in wanted if not _has(module, name)]
    assert missing == []


def test_what_a_door_offers_is_imported_from_there():
    root, found = SOURCES.parents[1], []
    files = [path for folder in ("src", "tests", "benchmarks", "examples") for path in (root / folder).rglob("*.py")]
    for path in sorted(files):
        own = path.relative_to(SOURCES).parts[0] if SOURCES in path.parents else ""
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(parsed(source)) if re.search(rf"{PACKAGE}\.\w+\.", source) else ():
            if isinstance(node, ast.ImportFrom) and re.match(rf"{PACKAGE}\.\w+\.", node.module or ""):
                door = importlib.import_module(".".join(node.module.split(".")[:2]))
                names = [alias.name for alias in node.names if _is_offered(door, node.module, alias.name)]
                if names and room(node.module) != own:
                    found.append(f"{path.relative_to(root)}:{node.lineno}: {door.__name__} offers {', '.join(names)}")
    assert found == []


def _is_offered(door, module: str, name: str) -> bool:
    return hasattr(door, name) and getattr(door, name) is getattr(importlib.import_module(module), name, None)


def _has(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}") is not None


def submodules_of(source: str) -> set[tuple[str, str]]:
    """Modules `a.b` that a source reaches as an attribute of the `a` that it imports, without an `import a.b`."""
    nodes = list(ast.walk(ast.parse(source)))
    aliases = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names = {alias.asname or alias.name.partition(".")[0]: alias for alias in aliases}
    modules = {name: alias.name if alias.asname else name for name, alias in names.items()}
    used = {
        (modules[node.value.id], node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    }
    known = {alias.name for alias in aliases}
    return {(module, name) for module, name in used if f"{module}.{name}" not in known and _is_module(module, name)}


def _is_module(package: str, name: str) -> bool:
    within = getattr(importlib.import_module(package), "__path__", None)
    return within is not None and importlib.util.find_spec(f"{package}.{name}") is not None


def test_examples_do_not_need_what_another_has_imported():
    """`make examples` runs several in one process."""
    assert submodules_of("import xml as x, jax.numpy as jnp, os\nx.dom\njnp.linalg\nos.path") == {
        ("xml", "dom"),
        ("jax.numpy", "linalg"),
    }
    files = runpy.run_path(str(SOURCES.parents[1] / "examples" / "_run.py"))["examples"]()
    used = sorted(set().union(*(submodules_of(path.read_text(encoding="utf-8")) for path in files)))
    assert len(files) > 15
    assert len(used) > 3
    program = "import importlib; print(*[pair for pair in {} if not hasattr(importlib.import_module(pair[0]), pair[1])])"
    assert printed(program.format([*used, ("xml", "dom")])) == ["('xml',", "'dom')"]


def printed(program: str) -> list[str]:
    """The words that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_the_package_loads_no_room_but_the_precision_and_no_jax():
    program = (
        f"import sys, {PACKAGE}; print(*[name for name in sys.modules if name == 'jax' or name.startswith('{PACKAGE}.')])"
    )
    assert printed(program) == [f"{PACKAGE}.precision"]


@pytest.mark.parametrize(
    "first",
    [
        "import jax; import dalembert",
        "import importlib.util, dalembert; importlib.util.find_spec('jax'); importlib.reload(dalembert)",
    ],
)
def test_jax_computes_in_double_precision_from_its_first_moment(first):
    """Whoever imports it, or only asks where it is, and when; and its own source stays what others find."""
    program = (
        f"{first}; import inspect, jax, jax.numpy as jnp; print(jnp.zeros(1).dtype, 'Copyright' in inspect.getsource(jax))"
    )
    assert printed(program) == ["float64", "True"]


def test_all_public_names_together_load_no_heavy_library():
    """Integrators, plots, tables, storage, the command line and the compiler load with their first call, not before.

    Under a trace, where a room that made an array while it loads would keep a tracer.
    """
    program = f"""
import sys, jax, {PACKAGE} as da
jax.jit(lambda x: (x, [getattr(da, name) for name in da.__all__])[0])(1.0)
print(*[name for name in {HEAVY!r} if name in sys.modules])
arrays = [(m, n) for m, module in list(sys.modules.items()) if m.startswith("{PACKAGE}")
          for n, value in vars(module).items() if isinstance(value, jax.core.Tracer)]
print(*arrays)
"""
    assert printed(program) == []


def test_a_public_name_is_the_object_that_the_type_checker_sees():
    """The first room from below that has a name is the one under ``if TYPE_CHECKING``; others are no names at all."""
    package, tree = importlib.import_module(PACKAGE), ast.parse((SOURCES / "__init__.py").read_text(encoding="utf-8"))
    imports = [
        (alias.name, node.module or "")
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    starred = [module for name, module in imports if name == "*"]
    offered = [(name, module) for module in starred for name in importlib.import_module(module).__all__]
    shown = {name: module for name, module in imports if name != "*"}
    shown |= {name: module for name, module in offered if name in package.__all__}
    rooms = {name for name, module in shown.items() if module == PACKAGE}
    assert rooms <= set(package.ROOMS)
    assert sorted(shown.keys() - rooms | {"measure"}) == sorted(package.__all__)
    assert all(sum(name == other for other, _ in offered) == 1 for name, _ in offered if name in package.__all__)
    for name, module in shown.items():
        found = importlib.import_module(f"{PACKAGE}.{name}") if module == PACKAGE else None
        assert getattr(package, name) is (found or getattr(importlib.import_module(module), name)), name
    assert set(shown) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'simulation'"):
        _ = package.simulation


def test_a_name_that_moved_into_a_room_says_so():
    package = importlib.import_module(PACKAGE)
    for room, names in package.MOVED.items():
        for name in names:
            with pytest.warns(DeprecationWarning, match=f"dalembert.{name} is now dalembert.{room}.{name}$"):
                assert getattr(package, name) is getattr(importlib.import_module(f"{PACKAGE}.{room}"), name)


ALLOWED = {
    "its own room": {"algebra/roots.py": "from .rank import rank", "algebra/dense.py": ""},
    "its own room, absolutely": {
        "algebra/roots.py": f"from {PACKAGE}.algebra import rank",
        "algebra/dense.py": "",
    },
    "a lower level": {"systems/system.py": f"from {PACKAGE}.algebra.dense import rank"},
    "a lower level, relatively": {"systems/system.py": "from ..path import Path"},
    "a lower level, by the room's name": {"cli.py": "from . import gallery, measure"},
    "the package may import all": {"__init__.py": "from .step import simulate\nfrom .show import plot"},
    "the package may wait for a name's first use": {
        "__init__.py": "import importlib\ndef __getattr__(name):\n    return importlib.import_module(name)"
    },
    "the uppermost room may wait for a command": {"cli/run.py": "def run():\n    from dalembert.step import simulate"},
    "a lazy heavy library": {"show.py": "def plot(path):\n    import matplotlib.pyplot as plt"},
    "a dynamic import of a library": {"show.py": "import importlib\nplotly = importlib.import_module('plotly')"},
}

FORBIDDEN = {
    "upwards": ({"systems/system.py": f"import {PACKAGE}.step.run"}, "upwards"),
    "upwards, relatively": ({"algebra/dense.py": "from ..systems import System"}, "upwards"),
    "upwards, from a module file": ({"path.py": "from .store import save"}, "upwards"),
    "upwards, in a class body": ({"path.py": "class Path:\n    from .store import save"}, "upwards"),
    "for the type checker only": (
        {"path.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .systems import System"},
        "upwards",
    ),
    "a sibling": ({"boundary/window.py": "from ..step import start"}, "sibling 'step'"),
    "a sibling, by its name": ({"store.py": f"from {PACKAGE} import show"}, "sibling 'show'"),
    "a sibling, by import": ({"gallery/chain.py": f"import {PACKAGE}.show"}, "sibling 'show'"),
    "in a function": ({"store.py": "def save(path):\n    from .path import Path"}, "inside a function"),
    "in a method": (
        {"store.py": "class A:\n    async def f(self):\n        import dalembert.path"},
        "inside a function",
    ),
    "in a function of a room's own package": (
        {"studies/__init__.py": "def __getattr__(name):\n    from dalembert import step\n    return step"},
        "inside a function",
    ),
    "the package itself": ({"store.py": f"from {PACKAGE} import simulate"}, "the package itself"),
    "the package itself, by import": ({"store.py": f"import {PACKAGE}"}, "the package itself"),
    "the package itself, relatively": ({"step/run.py": "from .. import simulate"}, "the package itself"),
    "a dynamic import": (
        {"cli.py": "from importlib import import_module\nimport_module('dalembert.step')"},
        "dynamic import",
    ),
    "a computed import": (
        {"cli.py": "import importlib\ndef load(name):\n    return importlib.import_module(name)"},
        "dynamic import",
    ),
    "an unknown module": ({"helpers.py": ""}, "dalembert.helpers is no room"),
    "an unknown folder": ({"extra/__init__.py": ""}, "dalembert.extra is no room"),
    "from an unknown module": ({"path.py": "from .helpers import clip"}, "'helpers', which is no room"),
}


@pytest.mark.parametrize("files", ALLOWED.values(), ids=ALLOWED.keys())
def test_an_allowed_import_passes(files):
    assert violations(files) == []


@pytest.mark.parametrize(("files", "message"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_forbidden_import_is_found(files, message):
    found = violations(files)
    assert len(found) == 1
    assert message in found[0]


def test_a_finding_names_file_and_line():
    files = {"path.py": "import numpy\n\nfrom .systems import System"}
    assert violations(files)[0].startswith("path.py:3: dalembert.systems")


def test_a_loop_inside_a_room_is_found():
    loop = {"step/run.py": "from .start import first", "step/start.py": "from .run import advance"}
    assert set(cycle(loop)) == {"dalembert.step.run", "dalembert.step.start"}


def test_a_module_that_imports_its_own_room_from_the_inside_is_a_loop():
    loop = {"step/__init__.py": "from .run import run", "step/run.py": f"from {PACKAGE}.step import start"}
    assert cycle(loop) != []
