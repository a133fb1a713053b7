"""`python -m papers`: every paper by its name, and a name that is none."""

from types import SimpleNamespace

import pytest

import papers
from papers.__main__ import main

NAMES = ["borda-fernandez-grillo", "jimenez_scheurle", "colombo-martin-de-diego-zuccalli"]


@pytest.fixture
def asked(monkeypatch):
    """Instead of running, each paper notes how it is called."""
    calls = []
    for paper in list(papers.PAPERS.values()):
        stub = SimpleNamespace(title=paper.title, run=lambda folder, fast: calls.append((folder, fast)))
        monkeypatch.setitem(papers.PAPERS, paper.name, stub)
    return calls


@pytest.mark.parametrize("name", NAMES)
def test_every_paper_is_reached_by_its_name(name, asked, capsys, tmp_path):
    plain = name.replace("_", "-")
    main([name, "--fast", "--out", str(tmp_path)])
    assert papers.PAPERS[plain].title in capsys.readouterr().out
    assert asked == [(tmp_path / plain, True)]


def test_without_a_name_all_papers_are_run(asked, tmp_path):
    main(["--out", str(tmp_path)])
    assert asked == [(tmp_path / name.replace("_", "-"), False) for name in NAMES]


def test_an_unknown_paper_is_refused_before_anything_is_run(asked, capsys):
    with pytest.raises(SystemExit):
        main(["jimenez-scheurle", "principia"])
    assert "principia: no paper of the collection; there are borda-fernandez-grillo" in capsys.readouterr().err
    assert asked == []
