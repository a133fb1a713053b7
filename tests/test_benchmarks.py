"""The benchmarks are no tests and are never timed here; but their modules must find one another and the library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STATEMENT = """
import sys
sys.path[:0] = [".", "benchmarks"]
import batch, cases, chain_cost, compare, compile_time, contact, import_time, round_off, sides
import benchmarks.peers.packages.c_code, benchmarks.peers.problems, benchmarks.peers.report
for case in cases.CASES.values():
    case.build()
assert len(benchmarks.peers.problems.problems()) == 6
"""


def test_the_modules_of_the_benchmarks_fit_together():
    subprocess.run([sys.executable, "-c", STATEMENT], cwd=ROOT, check=True)
