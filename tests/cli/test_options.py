"""The names that help shows before JAX is there are those of the rooms that they come from; words become numbers."""

import importlib.metadata
import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest

from dalembert.cli import arguments, options
from dalembert.cli.records import gallery_record
from dalembert.discretize import MAPS
from dalembert.gallery import ENTRIES, PROBLEMS, Entry
from dalembert.options import STARTERS


def test_the_names_are_those_of_the_rooms():
    assert list(ENTRIES) == options.SYSTEMS
    assert list(PROBLEMS) == options.PROBLEMS
    assert tuple(MAPS) == options.WINDOWS
    assert tuple(STARTERS) == options.STARTERS


def test_the_list_shows_what_the_gallery_has():
    record = gallery_record()
    for rows, entries in ((record["systems"], ENTRIES), (record["problems"], PROBLEMS)):
        for row, entry in zip(rows, entries.values(), strict=True):
            problem = entry.system if isinstance(entry, Entry) else entry.problem
            assert row == {
                **{name: getattr(entry, name) for name in ("name", "title", "formula", "source")},
                "coordinates": list(problem.coordinates or ()),
                "parameters": {name: np.asarray(x).tolist() for name, x in (problem.parameters or {}).items()},
            }


QUICK = {  # words, exit code, something of what is printed
    "help": (["--help"], 0, "Commands"),
    "help of a command": (["run", "--help"], 0, "--save-every"),
    "version": (["--version"], 0, f"dalembert {importlib.metadata.version('dalembert')} (Python"),
    "no such option": (["run", "pendulum", "--stepps", "3"], 2, "No such option"),
    "no number": (["run", "pendulum", "--steps", "many"], 2, "should be a valid integer"),
    "data": (["run", "pendulum", "--q0", "one"], 2, "--q0: found 'one'"),
    "parameter": (["solve", "elastica", "--set", "g"], 2, "--set g: give name=value"),
    "sweep": (["sweep", "pendulum", "--set", "g_over_l=0:1"], 2, "give from:to:count"),
}
PROGRAM = """
import json, sys
import typer.testing
from dalembert.cli import app
done = [typer.testing.CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[one.exit_code, one.output] for one in done]))
print(*[name for name in ("jax", "numpy", "scipy", "matplotlib") if name in sys.modules])
"""


def test_help_and_words_that_are_no_numbers_are_answered_without_jax():
    """One process for all: what is tested is what it has loaded at the end."""
    wanted = json.dumps([case for case, _, _ in QUICK.values()])
    run = subprocess.run([sys.executable, "-c", PROGRAM, wanted], capture_output=True, text=True, check=True)
    answers, loaded = run.stdout.splitlines()
    for (case, code, part), (found, text) in zip(QUICK.values(), json.loads(answers), strict=True):
        assert (found, part in " ".join(text.replace("│", " ").split())) == (code, True), (case, text)
    assert loaded == ""


def test_the_completion_of_a_shell_knows_the_names(monkeypatch):
    """As bash asks for it, through the variable that its script sets."""
    environment = {"_DALEMBERT_COMPLETE": "complete_bash", "COMP_WORDS": "dalembert run cur", "COMP_CWORD": "2"}
    program = "import sys; sys.argv[0] = 'dalembert'; from dalembert.cli import app; app(prog_name='dalembert')"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["curvature_particle"]


def test_swept_values_are_those_of_the_words():
    """A list is one value of an array, g, and several of a number."""
    settings = [options.setting_of(text) for text in ("m=0.1:0.3:3", "k=1,2,4", "l=2", "z=1:1:1", "g=1,2")]
    fixed, swept = arguments.fixed_and_swept(types.SimpleNamespace(parameters={"g": np.zeros(2), "l": 1.0}), settings)
    assert [(x.name, x.value) for x in fixed] == [("l", 2.0), ("g", [1.0, 2.0])]
    assert swept == {"m": [0.1, 0.1 + 0.5 * (0.3 - 0.1), 0.3], "k": [1.0, 2.0, 4.0], "z": [1.0]}
    for wrong in ("m", "m=1:2:0", "m=1:2:x", "m=1:2:1", "m=1:2:3:4", "m=1,a", "m=1:2:100000000", "=1,2"):
        with pytest.raises(ValueError, match="--set "):
            options.setting_of(wrong)
    with pytest.raises(ValueError, match="k was given before"):
        options.check_apart([options.setting_of("k=1,2"), options.setting_of("k=2,3")])


@pytest.mark.parametrize(("time", "h", "count"), [(0.3, 0.1, 3), (50, 0.05, 1000), (1e5, 1e-3, 10**8), (2, -0.5, 4)])
def test_a_time_that_is_a_multiple_of_h_is_taken_in_spite_of_rounding(time, h, count):
    assert arguments.count_of(time, h) == count


@pytest.mark.parametrize(("time", "h"), [(0.3, 0.2), (0.1, 0.3), (1.0, 0.0999), (1e-9, 1.0)])
def test_another_time_is_refused(time, h):
    with pytest.raises(ValueError, match="no whole number of them; give a multiple of h"):
        arguments.count_of(time, h)
    assert arguments.count_of(time, h, whole=False) == max(1, round(time / h))


EACH = """
import json, sys
from dalembert.cli import main
commands = json.loads(sys.argv[1])
for encoding in sys.argv[2:]:
    sys.stdout.reconfigure(encoding=encoding)
    for words in commands:
        sys.argv = ["dalembert", *words]
        try:
            main()
        except SystemExit as end:
            assert end.code == 0, words
        print("\\f")
"""


def test_output_without_all_letters():
    """A pipe on Windows, or LANG=C: list and check ended with an error at the first ½. One process for all."""
    commands = json.dumps([["list", "--json"], ["list"], ["check", "pendulum", "--steps", "40"]])
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-c", EACH, commands, "ascii", "cp1252"]
    run = subprocess.run(program, capture_output=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    printed = run.stdout.split(b"\f")
    for encoding, (record, *others) in (("ascii", printed[:3]), ("cp1252", printed[3:6])):
        formulas = [row["formula"] for row in json.loads(record.decode(encoding))["systems"]]
        assert any("½" in formula for formula in formulas)
        assert all(text.decode(encoding).strip() for text in others)
    assert len(printed) == 7
