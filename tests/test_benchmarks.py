"""The benchmarks are no tests and are never timed here; but their modules must find one another and the library."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STATEMENT = """
import sys
sys.path[:0] = [".", "benchmarks"]
import banded, batch, call_cost, cases, chain_cost, compare, compile_time, contact, import_time, long_run, round_off, sides
import orders, stage_cost, sweeps
import benchmarks.peers.packages.c_code, benchmarks.peers.problems, benchmarks.peers.report
import benchmarks.peers.packages.heyoka_ode
import benchmarks.control.race, benchmarks.control.robots_race
from benchmarks.boundary import race
assert race.ours(12, 1e-8)[0]().iterations > 0
for case in cases.CASES.values():
    case.build()
assert len(benchmarks.peers.problems.problems()) == 6
"""


def test_the_modules_of_the_benchmarks_fit_together():
    subprocess.run([sys.executable, "-c", STATEMENT], cwd=ROOT, check=True)


def test_a_short_long_run(monkeypatch, capsys):
    """200 steps of the particle in its potential: the constraint at the states, its orders at the nodes, the way back."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    long_run = importlib.import_module("long_run")
    long_run.main(["--steps", "200", "--problems", "particle", "--schemes", "mid-point"])
    constraint, energy, back = (line.split("|")[3:-1] for line in capsys.readouterr().out.splitlines() if "c = 1" in line)
    assert float(constraint[0]) < 1e-14
    assert "(h^1.0" in constraint[1]
    assert "(h^2.0" in constraint[2]
    assert 1e-6 < float(energy[1]) < 1e-3
    assert float(back[-1]) < 1e-13
    with pytest.raises(SystemExit):
        long_run.main(["--steps", "inf"])
    assert "found inf; give a number of steps" in capsys.readouterr().err


def test_what_a_benchmark_leaves_behind_is_gone(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)
    with importlib.import_module("benchmarks.scratch").scratch() as folder:
        Path("debug_fatrop_actual.mtx").write_text("1")
        assert (folder / "debug_fatrop_actual.mtx").exists()
    assert not folder.exists()
    assert Path.cwd() == tmp_path
    assert list(tmp_path.iterdir()) == []
