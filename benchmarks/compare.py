"""One trajectory: the library's native back-end against hand-written C of the same scheme, interleaved.

    python benchmarks/compare.py [WORD]     prints the table of benchmarks/README.md, or its rows with WORD in the name

Each C program in benchmarks/c is compiled with gcc -O3 -march=native. Runs alternate, so that other work on the machine
meets both; the table gives medians of times, and the median and the quartiles of their ratios.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from build import built
from cases import CASES, Case
from sides import STEPS, Side, c_side, interleaved, native_side

REPEATS = 31
HEAD = (
    "one trajectory", "C version", "native, ns/step", "C, ns/step", "ratio (quartiles)", "iterations per step, native / C",
    "difference in q, 100 steps",
)  # fmt: skip


def row(name: str, label: str, native: Side, other: Side) -> str:
    """One row of the table."""
    ours, theirs = (side.call() / STEPS for side in (native, other))
    difference = np.max(np.abs(native.q()[:100] - other.q()[:100]))
    times = interleaved([native, other], REPEATS)
    a, b = np.median(times, axis=0)
    low, middle, high = np.quantile(times[:, 0] / times[:, 1], (0.25, 0.5, 0.75))
    cells = (name, label, f"{a:.0f}", f"{b:.0f}", f"**{middle:.2f}** ({low:.2f}–{high:.2f})", f"{ours:.2f} / {theirs:.2f}",
             f"{difference:.0e}")  # fmt: skip
    return f"| {' | '.join(cells)} |"


def rows(name: str, case: Case, folder: Path) -> None:
    """Prints the rows of a case."""
    native, _ = native_side(case)
    library = built(case.source, folder)
    for label, function in case.versions.items():
        print(row(name, label, native, c_side(library, function, case)), flush=True)


def main(word: str) -> int:
    if shutil.which("gcc") is None:
        print("gcc is needed for the comparison")
        return 1
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            if word in name:
                rows(name, case, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
