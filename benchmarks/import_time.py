"""The time to import the package, alone and until runs can be made, against the two libraries it stands on.

    python benchmarks/import_time.py     prints the table of benchmarks/README.md

Each import runs in a fresh interpreter; they take turns, so that other work on the machine meets all of them. The
interpreter's own start is measured with them and taken off. Bytecode and the files of the libraries are in the cache.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

REPEATS = 15
STATEMENTS = {
    "nothing": "pass",
    "jax, equinox": "import jax, equinox",
    "dalembert": "import dalembert",
    "dalembert, simulate": "from dalembert import System, simulate",
    "dalembert, every name": "from dalembert import *",
}


def seconds(statement: str) -> float:
    """Of one fresh interpreter that runs the statement."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    for statement in STATEMENTS.values():  # what is read once is in memory afterwards
        seconds(statement)
    times = np.array([[seconds(statement) for statement in STATEMENTS.values()] for _ in range(REPEATS)])
    times = times[:, 1:] - times[:, :1]
    print("| import | s | ratio (quartiles) |\n|---|---|---|")
    for name, column in zip(list(STATEMENTS)[1:], times.T, strict=True):
        low, middle, high = np.quantile(column / times[:, 0], (0.25, 0.5, 0.75))
        print(f"| {name} | {np.median(column):.2f} | **{middle:.2f}** ({low:.2f}–{high:.2f}) |")


if __name__ == "__main__":
    main()
