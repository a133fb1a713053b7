"""A system and a problem of one file outside of the package, through everything that those of the gallery go through."""

import importlib.util
import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import dalembert as da
from dalembert.cli import app

FILE = """
import dalembert as da
from dalembert.gallery import BoundaryEntry, Entry


def lagrangian(q, v, p):
    return 0.5 * p["m"] * v @ v - 0.5 * p["k"] @ q**2


def rolling(q, v, p):
    return v[2] - q[1] * v[0]


def effort(q, v, u, p):
    return u @ u


numbers = {"m": 2.0, "k": [1.0, 1.0, 0.0]}
system = da.System(lagrangian, da.Nonholonomic(rolling), coordinates=("x", "y", "z"), parameters=numbers)
entry = Entry("swing", "Swing", "L = m v.v/2 - k.q²/2", "a test", system, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), 0.1, 2.0)
free = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, parameters={"m": 1.0})
ends = {"initial": ((0.0,), (0.0,)), "final": ((1.0,), (0.0,)), "T": 1.0}
problem = da.OptimalControl(free, cost=effort, actuated=0)
move = BoundaryEntry("move", "Move", "min u²", "a test", problem, ends, 20, cost=12.0)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("own", tmp_path / "own.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own", module)
    spec.loader.exec_module(module)
    return module


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_it_is_listed_run_and_solved_by_the_command_line(own):
    listed = json.loads(call("list", "own.py", "--json"))
    (swing,), (move,) = listed["systems"], listed["problems"]
    assert (swing["name"], move["name"]) == ("own.py:entry", "own.py:move")
    assert swing["coordinates"] == ["x", "y", "z"]
    assert swing["parameters"] == {"m": 2.0, "k": [1.0, 1.0, 0.0]}
    assert move["formula"] == "min u²"
    assert "k = 1 1 0, m = 2" in call("list", "own.py")
    assert "20 steps of h = 0.1" in call("run", swing["name"])
    assert "success" in call("solve", move["name"])


def test_it_is_simulated_integrated_solved_and_judged(own):
    entry, move = own.entry, own.move
    path = da.simulate(entry.system, entry.q0, entry.v0, h=0.01, steps=200)
    truth = da.reference(entry.system, entry.q0, entry.v0, path.t)
    np.testing.assert_allclose(path.q, truth.q, rtol=0, atol=1e-4)
    assert truth.drift.max() < 1e-14
    found = da.solve(move.problem, steps=move.steps, guess=move.first_guess(move.steps), **move.boundary)
    assert float(found.cost) == pytest.approx(move.cost, rel=5e-3)
    assert da.verdict(entry.system, None, entry.q0, entry.v0, h=0.05, steps=40).holds
