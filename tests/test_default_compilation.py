"""The default ways of compiling, XLA's and LLVM's: the tests take quick ones, see conftest.py; these run without them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# One flow and one boundary problem: each compares the JAX back-end with the native one. And functions of vectors.
CHOSEN = [
    "tests/native/test_agreement.py::test_a_thousand_steps[curvature particle-None]",
    "tests/boundary/test_boundary.py::test_portable_sums_agree_with_machine_code",
    "tests/native/test_lanes.py::test_elementary_functions_in_lanes",
]


def test_back_ends_agree_under_xlas_defaults():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"XLA_FLAGS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *CHOSEN]
    found = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout
    assert f"{len(CHOSEN)} passed" in found.stdout
