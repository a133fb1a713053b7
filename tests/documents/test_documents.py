"""The Python code of every page and of the README runs as it is printed, in the order in which it is printed."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


# Pages whose results are looked at, each by a test below; the code of the others has to run.
LOOKED_AT = (
    "README.md",
    "docs/tutorial.md",
    "docs/nonholonomic.md",
    "docs/storing.md",
    "docs/gallery.md",
    "docs/not_converging.md",
)


def pages() -> list[str]:
    """Every document that is read as a page and has Python code; the reference's is in the docstrings."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [page.relative_to(ROOT).as_posix() for page in found if "```python" in page.read_text(encoding="utf-8")]
    return [name for name in names if not name.startswith("docs/reference/")]


def run(file: str, names: dict, at_least: int = 4) -> dict:
    blocks = BLOCK.findall((ROOT / file).read_text(encoding="utf-8"))
    assert len(blocks) >= at_least
    for block in blocks:
        exec(compile(block, f"<{file}>", "exec"), names)
    return names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_readme(folder):
    names = run("README.md", {})
    assert (folder / "run.nc").exists()
    assert (folder / "run.png").exists()
    theta, torque = np.asarray(names["path"].q[:, 0]), np.asarray(names["torque"])
    assert abs(theta[-1] - 1.0) < 1e-3  # the servo reaches its target
    omega, g = 2.0, 9.81
    holding = -(omega**2) * np.sin(1.0) * np.cos(1.0) + g * np.sin(1.0)
    assert abs(torque[-1] - holding) < 1e-2  # and then holds it against gravity and the centrifugal force


def test_tutorial(folder):
    names = run("docs/tutorial.md", {})
    assert names["start"].moved_q == pytest.approx(np.hypot(0.9, 0.5) - 1)  # the nearest point lies on the same ray
    assert names["tight"].constraints[0].order == 2


def test_the_page_on_constraints_on_velocities_prints_what_it_shows(capsys):
    names = run("docs/nonholonomic.md", {}, at_least=3)
    prose = re.sub(r"```.*?```", "", (ROOT / "docs/nonholonomic.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    coin, _, rest = capsys.readouterr().out.partition("[0.25]\n")
    assert rest.splitlines() == re.findall(r"^    (.*)$", prose, re.MULTILINE)
    assert float(coin.splitlines()[0]) < 1e-14  # m·a of the coin's centre is the force of the table
    assert "energy does not drift" in coin
    assert "does not hold" not in coin
    assert names["chart"].dependent == (2,)


def test_the_page_on_files_and_processes(folder):
    module = sys.modules["study_of_the_page"] = types.ModuleType("study_of_the_page")  # where its functions have names
    try:
        names = run("docs/storing.md", vars(module), at_least=2)
    finally:
        del sys.modules["study_of_the_page"]
    assert names["again"].provenance == names["path"].provenance
    np.testing.assert_array_equal(names["again"].q, names["path"].q)
    assert (folder / "run.nc").exists()


def test_gallery_page(folder):
    names = run("docs/gallery.md", {}, at_least=2)
    assert np.abs(names["path"].v ** 2 @ np.ones(2) - 2.0).max() < 1e-12


def test_the_page_on_problems_that_do_not_converge(folder):
    names = run("docs/not_converging.md", {})
    assert names["failed"].outcome.name == "INFEASIBLE"
    assert abs(names["shortest"].t[-1] - 4.05) < 0.01
    assert names["through"].outcome.failed
    for solved in ("over", "eased", "fine"):
        assert (names[solved].outcome.name, names[solved].kind) == ("SUCCESS", "minimum")
    assert np.abs(names["eased"].u).max() <= 60.0 + 1e-9
    assert names["found"].solutions[0].cost <= names["over"].cost + 1e-6


@pytest.mark.parametrize("page", [page for page in pages() if page not in LOOKED_AT])
def test_the_code_of_every_other_page_runs(page, folder):
    run(page, {}, at_least=1)


def test_every_page_that_is_looked_at_has_code():
    assert set(LOOKED_AT) <= set(pages())


def test_every_block_of_code_says_its_language():
    """A block without one would be no Python to the tests above."""
    for name in pages():
        fences = re.findall(r"^```(.*)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert all(fences[::2]), name
        assert not any(fences[1::2]), name
