"""Every public name has a docstring that lists its arguments, and its example runs and shows what it prints."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

PREAMBLE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "index.md"
ROOMS = ("dalembert", *(f"dalembert.{room}" for room in (
    "systems", "systems.manifolds", "discretize", "step", "boundary", "measure", "store", "show", "gallery", "papers", "algebra",
)))  # fmt: skip
FLAGS = doctest.NORMALIZE_WHITESPACE
LISTS = re.compile(r"^(Args|Attributes|Members):$", re.MULTILINE)


def public(*rooms: str) -> dict[str, object]:
    """Functions and classes by the place of their definition, each once, whatever rooms export them."""
    found = {}
    for room in rooms:
        module = importlib.import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


PUBLIC = public(*ROOMS)


def listed(doc: str) -> set[str]:
    """The names at the beginning of the items of the sections that list arguments and attributes."""
    names: set[str] = set()
    for section in LISTS.split(doc)[2::2]:
        names |= set(re.findall(r"^    \*{0,2}(\w+):", section.partition("\n\n")[0], re.MULTILINE))
    return names


def wanted(thing) -> set[str]:
    """What a caller gives: the arguments of a function or of a class's own __init__; else the fields of the class."""
    if inspect.isfunction(thing):
        return set(inspect.signature(thing).parameters)
    for base in thing.__mro__:
        if base.__module__.startswith("dalembert") and re.search(r"^    def __init__\(", inspect.getsource(base), re.MULTILINE):
            return set(inspect.signature(base.__init__).parameters) - {"self"}
    return {f.name for f in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set(getattr(thing, "_fields", ()))


def examples(doc: str) -> str:
    return "\n".join(re.findall(r"^Example:\n((?:    .*\n?|\n)*)", doc, re.MULTILINE))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_docstring_lists_what_is_given_and_what_comes_back(name):
    thing, doc = PUBLIC[name], inspect.getdoc(PUBLIC[name]) or ""
    assert doc
    assert wanted(thing) - listed(doc) == set()
    if inspect.isfunction(thing):
        returns = inspect.signature(thing).return_annotation
        assert returns in ("None", None) or re.search(r"^Returns:\n    \S", doc, re.MULTILINE)


def test_functions_and_what_a_user_makes_have_examples():
    main = {name: thing for name, thing in PUBLIC.items() if inspect.isfunction(thing) or "\nArgs:\n" in inspect.getdoc(thing)}
    without = {name for name, thing in main.items() if ">>>" not in examples(inspect.getdoc(thing))}
    assert without <= INTERNAL


# Steps of algorithms that other rooms call; a user meets them through what they serve.
INTERNAL = {f"dalembert.{name}" for name in (
    "algebra.jumps.agree", "algebra.newton.root", "numbers.is_traced", "systems.checks.check_initial_data",
    "systems.checks.check_x64",
)}  # fmt: skip


@pytest.fixture(scope="module")
def names():
    """What the examples begin with, as the first page of the reference prints it."""
    (block,) = re.findall(r"^```python\n(.*?)^```", PREAMBLE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    made: dict = {}
    exec(compile(block, PREAMBLE.name, "exec"), made)
    return made


@pytest.mark.parametrize("room", sorted({".".join(name.split(".")[:2]) for name in PUBLIC}))
def test_examples_print_what_they_show(room, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    for name, thing in PUBLIC.items():
        if name.startswith(f"{room}."):
            text = examples(inspect.getdoc(thing))
            test = doctest.DocTestParser().get_doctest(text, dict(names), name, inspect.getsourcefile(thing), 0)
            doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=report.append)
    assert not report, "".join(report)
