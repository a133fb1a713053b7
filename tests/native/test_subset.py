"""Loops in the subset of Python: what depends on the machine that reads them."""

import os
import subprocess
import sys

from dalembert.native.llvm import dense

PRINTED = "from dalembert.native.llvm import dense; print(dense.pivoted_solver() + dense.iteration(), end='')"


def test_the_text_does_not_depend_on_the_locale():
    """The sources are UTF-8, whatever files of the user are."""
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    run = subprocess.run([sys.executable, "-c", PRINTED], env=environment, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout == dense.pivoted_solver() + dense.iteration()
