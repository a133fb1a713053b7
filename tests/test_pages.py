"""Pages that promise to be complete are: every outcome has its row, every gallery entry its card, no code is too wide."""

import importlib
import json
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


def test_the_notebooks_have_the_cells_of_their_sources(monkeypatch):
    """`make notebooks NOTEBOOKS=docs/notebooks` writes them; their results are of the day on which they were run."""
    folder = DOCS.parent / "examples/notebooks"
    monkeypatch.syspath_prepend(str(folder))
    cells_of = importlib.import_module("_build").cells_of
    sources = {file.stem: cells_of(file.read_text(encoding="utf-8")) for file in folder.glob("[!_]*.py")}
    books = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in (DOCS / "notebooks").glob("*.ipynb")}
    found = {name: [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]] for name, book in books.items()}
    assert found == sources
    for name, book in books.items():
        runs = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in runs] == list(range(1, len(runs) + 1)), name
        results = [result for cell in runs for result in cell["outputs"]]
        assert any("data" in result for result in results), name
        assert not any(result["output_type"] == "error" for result in results), name
        assert (DOCS / "notebooks" / f"{name}.ipynb").stat().st_size < 200_000, name


NARROW = [*PAGES, DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", NARROW, ids=[page.relative_to(DOCS.parent).as_posix() for page in NARROW])
def test_code_is_narrow_enough_for_a_page(page):
    blocks = re.findall(r"^```(?:python|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > WIDEST] == []
