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
MOST_LENGTH = 300  # of a module
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
