"""Every public name has a docstring that lists its arguments, and its example runs and shows what it prints."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PREAMBLE = DOCS / "reference" / "index.md"
sys.path.insert(0, str(DOCS / "hooks"))
formulas, whole = importlib.import_module("formulas"), importlib.import_module("whole")
PUBLIC: dict[str, object] = whole.PUBLIC
FLAGS = doctest.NORMALIZE_WHITESPACE
LISTS = re.compile(r"^(Args|Attributes|Members):$", re.MULTILINE)


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
        own = base.__module__.startswith("dalembert") and "\n    def __init__(" in inspect.getsource(base)
        if own:
            return set(inspect.signature(base.__init__).parameters) - {"self"}
    return {f.name for f in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set(fields_of(thing))


def fields_of(thing) -> tuple[str, ...]:
    """Of a NamedTuple."""
    return getattr(thing, "_fields", ())


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
    docs = {name: inspect.getdoc(thing) for name, thing in PUBLIC.items()}
    main = {name for name, doc in docs.items() if inspect.isfunction(PUBLIC[name]) or "\nArgs:\n" in doc}
    assert {name for name in main if ">>>" not in examples(docs[name])} <= INTERNAL


# Steps of algorithms that other rooms call; a user meets them through what they serve.
INTERNAL = {f"dalembert.{name}" for name in (
    "algebra.roots.agree", "algebra.roots.root", "numbers.is_traced", "systems.checks.check_initial_data",
    "numbers.check_x64",
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


@pytest.mark.parametrize(
    ("written", "markdown"),
    [
        ("D₁L_d(q_k,q_{k+1}) = 0", "D₁L<sub>d</sub>(q<sub>k</sub>,q<sub>k+1</sub>) = 0"),
        ("ε^(p+1) v^a ∈ ℝ^{km}", "ε<sup>(p+1)</sup> v<sup>a</sup> ∈ ℝ<sup>km</sup>"),
        ("F*Ω - Ω = dξ, {t: q}, u[t_0]", r"F\*Ω - Ω = dξ, \{t: q\}, u\[t<sub>0</sub>\]"),
        ("max_iterations of `a_b*c*{d}`, |x| < 1", r"max\_iterations of `a_b*c*{d}`, |x| &lt; 1"),
        ("    max_iterations: of q_k", "    max_iterations: of q<sub>k</sub>"),
        ("Example:\n    >>> a_b * c_d", "Examples:\n    >>> a_b * c_d"),
    ],
)
def test_formulas_reach_markdown_as_they_are_written(written, markdown):
    assert formulas.as_markdown(written) == markdown


HEADING = '<h2 id="dalembert.step.simulation.simulate" class="doc doc-heading">simulate</h2>'
SENTENCE, EQUATION = formulas.as_markdown(inspect.getdoc(PUBLIC["dalembert.step.simulation.simulate"])).split("\n\n")[:2]


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (f"{HEADING}<p>{SENTENCE}</p><p>{EQUATION}</p>", None),
        (
            f"{HEADING}<p>{SENTENCE}</p><p>{EQUATION.replace('<sub>k</sub>,q', '<em>k,q')}</p>",
            None,
        ),  # tags are not seen: what is read is
        (f"{HEADING}<p>{SENTENCE}</p><p>{EQUATION.replace('R<sub>d', 'R<sub>')}</p>", "does not show the first paragraph"),
        (HEADING, "does not show the first paragraph"),
        ("<h1>show</h1>", "it is empty"),
    ],
)
def test_a_page_that_is_empty_or_garbled_is_found(page, fault):
    found = whole.faults(page)
    assert (not found) if fault is None else fault in found[0]


def test_a_public_docstring_begins_with_a_sentence():
    firsts = {name: (inspect.getdoc(thing) or "").split("\n\n")[0] for name, thing in PUBLIC.items()}
    inner = ("dalembert.algebra.", "dalembert.discretize.window_maps.W", "dalembert.discretize.window_maps.w")
    equations = [
        name
        for name, words in firsts.items()
        if not name.startswith(inner) and re.match(r"\S+ = |[∫∂δΣ|]|d/dt|min |dV|rank ", words)
    ]
    assert equations == []


def test_every_public_name_is_on_a_page_of_the_reference():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    assert sorted(shown) == sorted(PUBLIC)
