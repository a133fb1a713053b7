"""Pages that promise to be complete are: every outcome has its row, every gallery entry its card, no code is too wide."""

import importlib
import re
from pathlib import Path

import pytest

from dalembert.gallery import ENTRIES, PROBLEMS
from dalembert.outcome import CONTROLLED, SOLVED, Outcome

DOCS = Path(__file__).resolve().parents[1] / "docs"
WIDEST = 88  # columns of code
PAGES = sorted(DOCS.rglob("*.md"))


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def test_every_outcome_has_its_row():
    runs, problems = text_of("outcomes.md").split("## Outcomes of a boundary problem")
    rows = [set(re.findall(r"^\| `([A-Z_]+)` \|", part, re.MULTILINE)) for part in (runs, problems)]
    assert rows[0] | rows[1] == set(Outcome.__members__)
    assert {outcome.name for outcome in SOLVED | CONTROLLED} <= rows[1]


def test_every_entry_of_the_gallery_has_its_card_and_its_pictures():
    page = text_of("gallery.md")
    cards = re.findall(r"!\[[^]]*\]\(figures/gallery/(\w+)\.png#only-light\)", page)
    assert sorted(cards) == sorted([*ENTRIES, *PROBLEMS])
    wanted = {f"{name}{end}.png" for name in cards for end in ("", "-dark")}
    assert {file.name for file in (DOCS / "figures/gallery").iterdir()} == wanted


def test_the_cards_are_those_that_are_generated(monkeypatch):
    """`make pictures` writes them: by title and name, in the order of the alphabet."""
    monkeypatch.syspath_prepend(str(DOCS.parent / "examples"))
    page = text_of("gallery.md")
    assert importlib.import_module("cards").with_cards(page) == page


NARROW = [*PAGES, DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", NARROW, ids=[page.relative_to(DOCS.parent).as_posix() for page in NARROW])
def test_code_is_narrow_enough_for_a_page(page):
    blocks = re.findall(r"^```(?:python|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > WIDEST] == []
