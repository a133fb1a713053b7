"""What can be counted of the house, from the sources, so that it stays one that can be seen.

`test_imports.py` holds that imports go one way, `test_repository.py` what stands at the root and what is depended on.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "dalembert"
TREES = {
    path.relative_to(SOURCES).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(SOURCES.rglob("*.py"))
}

MOST_MODULES = 14  # of one folder; the gallery is a collection and may grow
MOST_LINES = 40  # of a function, its docstring not counted; one in a hundred may have more
MOST_LENGTH = 600  # of a module
MOST_POSITIONAL = 6  # parameters of a function; five functions may have more

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function]]:
    """Every function and method, with the place where it stands."""
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{file}:{node.lineno} {node.name}", node


def lines(node: Function) -> int:
    """Of a function from its def on, without its docstring."""
    first = node.body[0]
    documented = ast.get_docstring(node, clean=False) is not None
    return last(node) - node.lineno + 1 - (last(first) - first.lineno + 1 if documented else 0)


def last(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def test_a_folder_can_be_seen_at_a_glance():
    count = Counter(str(Path(file).parent) for file in TREES if not file.endswith("__init__.py"))
    assert {folder: n for folder, n in count.items() if n > MOST_MODULES and folder != "gallery"} == {}


def test_functions_are_short():
    found = {place: lines(node) for place, node in functions()}
    long = [place for place, n in found.items() if n > MOST_LINES]
    assert len(long) <= len(found) // 100, long


def test_modules_are_short():
    found = {file: len((SOURCES / file).read_text(encoding="utf-8").splitlines()) for file in TREES}
    assert {file: n for file, n in found.items() if n > MOST_LENGTH} == {}


def test_arguments_have_names():
    """Where a function takes many, those that could be confused are given by name."""
    found = {place: positional(node) for place, node in functions()}
    wide = [place for place, n in found.items() if n > MOST_POSITIONAL]
    assert len(wide) <= 5, wide


def positional(node: Function) -> int:
    own = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return len(own) - (own[:1] in (["self"], ["cls"]))


def test_a_class_name_is_one_class():
    places: dict[str, list[str]] = {}
    for file, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(file)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_classes_are_abstract_or_final():
    """A method that a subclass has to write is an abstract one: what lacks it cannot be made, and need not be run."""
    found = [
        file
        for file, tree in TREES.items()
        if any(isinstance(node, ast.Name) and node.id == "NotImplementedError" for node in ast.walk(tree))
    ]
    assert found == []
