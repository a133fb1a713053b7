"""The examples at the end of every help run as they stand, and what --json prints has the fields that the page names."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dalembert.cli import app
from dalembert.native import CACHE

PAGE = (Path(__file__).resolve().parents[2] / "docs/command_line.md").read_text(encoding="utf-8")
MINE = """
import dalembert as da
falling = da.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], coordinates=("x", "y"))
"""
COMMANDS = {name: command for name, command in get_command(app).commands.items() if not command.hidden}
EXAMPLES = [
    shlex.split(line.strip())[1:]
    for command in COMMANDS.values()
    for line in (command.epilog or "").splitlines()
    if line.strip().startswith("dalembert ")
]


def call(*words, code=0, **options):
    result = CliRunner().invoke(app, [str(word) for word in words], **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def documented(command: str) -> set[str]:
    """The fields in the table of the page below the command's heading."""
    part = PAGE.partition(f"### `{command} --json`")[2].partition("\n### ")[0]
    return set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE))


def test_examples_run_and_print_the_fields_that_the_page_names(tmp_path, monkeypatch):
    """In the order of the help: one goes on with what another has stored."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CACHE, "folder", tmp_path / "cache")
    answers = {" ".join(words): call(*words) for words in EXAMPLES}
    assert {words[0] for words in EXAMPLES} == set(COMMANDS)
    assert {
        "run.nc",
        "run.png",
        "study.nc",
        "study.png",
        "cost.png",
        "run.zarr",
        "beam.png",
        "run.html",
        "pendulum.html",
        "swing.gif",
    } <= {x.name for x in tmp_path.iterdir()}
    assert "400 steps of h = 0.05" in answers["run pendulum --set g_over_l=2 --time 20 --save run.nc --plot run.png"]
    assert "2000 steps" in answers["run pendulum --save run.zarr --resume"]
    assert "12 runs: 4 g_over_l × 3 q0" in next(text for words, text in answers.items() if "q0=0.5,1,1.5" in words)
    assert "16 problems: 4 T × 4 bounds_u" in next(text for words, text in answers.items() if "bounds.u" in words)
    checked = answers["check nonholonomic_particle --steps 70"]
    assert "not integrable" in checked
    assert "the states lie in D" in checked
    found = json.loads(answers["check curvature_particle --steps 70 --scheme borda-fernandez-grillo --json"])
    rows = {row["claim"]: row["finding"] for row in found["claims"]}
    assert rows["constraints[0] (SecondOrder) = 0"] == "holds"
    assert rows["a step is symplectic on T*Q"] == "hypothesis fails"
    refined = answers["solve double_integrator --steps 40 --refine 1e-4"]  # 12 (1 - 2h²) and its limit
    assert "limit of small steps 12.00" in refined or "limit of small steps 11.99" in refined
    assert "estimated error" in refined
    more = {"order": ["check", "pendulum", "--h", "0.2", "--h", "0.1", "--time", "1"], "cache": ["cache"]}
    for command in ("list", "run", "sweep", "solve", "order", "check", "cache"):
        found = [text for text in answers.values() if text.startswith("{") and f'"dalembert.{command}/1"' in text]
        text = found[0] if found else call(*more[command], "--json")
        record = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert record.pop("schema") == f"dalembert.{command}/1"
        assert set(record) == documented(command)


def test_json_of_a_run_that_fails_is_printed_and_says_so(tmp_path, monkeypatch):
    """Exit code 1, and the reason in the record; a run of one coordinate whose force is not defined beyond q = 1."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ends.py").write_text(
        "import jax.numpy as jnp, dalembert as da\nwall = da.System(lambda q, v: 0.5 * v @ v - jnp.sqrt(1 - q[0]))\n"
    )
    words = ["run", "ends.py:wall", "--q0", "0", "--v0", "1", "--h", "0.1", "--steps", "100", "--json"]
    record = json.loads(call(*words, code=1))
    assert record["failed"]
    assert record["outcome"] in ("not_finite", "no_solution", "not_converged")
    assert record["steps"] < 20
    assert record["end"]["t"] == pytest.approx(0.1 * record["steps"])
    assert record["statistics"]["failed_time"] is not None


def test_the_cache_is_emptied_after_a_question(tmp_path, monkeypatch):
    """Only machine code goes: whatever else lies in the folder stays."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(CACHE, "folder", folder)
    (folder / "a.o").write_bytes(b"x" * 2**20)
    (folder / "mine.txt").write_text("precious")
    assert f"{folder}: 1 files of machine code, 1.0 MiB" in call("cache")
    call("cache", "--clear", input="n\n", code=1)
    assert (folder / "a.o").exists()
    assert "1.0 MiB; removed 1" in call("cache", "--clear", input="y\n")
    assert [x.name for x in folder.iterdir()] == ["mine.txt"]
    (folder / "b.o").write_bytes(b"x")
    assert json.loads(call("cache", "--clear", "--force", "--json"))["removed"] == 1
    monkeypatch.setattr(CACHE, "folder", None)
    assert "in memory only" in call("cache")
