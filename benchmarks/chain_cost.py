"""The cost of a step against the number of coordinates, for the chain of rods: native code, and C reduced by hand.

    python benchmarks/chain_cost.py [FOLDER]     prints the table of benchmarks/README.md; writes FOLDER/chain_cost.png

All sizes and both sides take turns. A cost is the least of all turns, since short and long runs meet other work on the
machine differently, over that of the native step with n = 2.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from build import built
from cases import chain_case
from sides import c_side, interleaved, native_side

from papers.drawing import BLUE, GREY, RED, panels, saving

SIZES = (2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40)
REPEATS = 25


def measured(folder: Path) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """Costs (sizes,) of native code and of C, over the native cost of n = 2; which eliminations are written out."""
    cases = [chain_case(n) for n in SIZES]
    library = built("chain.c", folder)
    native = [native_side(case) for case in cases]
    others = [c_side(library, case.versions["reduced by hand"], case) for case in cases]
    times = np.min(interleaved([*(side for side, _ in native), *others], REPEATS), axis=0)
    ours, theirs = np.split(times / times[0], 2)
    return ours, theirs, [code.written_out for _, code in native]


def table(native: np.ndarray, other: np.ndarray, written_out: list[bool]) -> None:
    """Prints the costs, their ratio, and how the linear systems are solved."""
    print("| n | native | native, per n/2 | C reduced by hand | native / C | elimination |\n|---|---|---|---|---|---|")
    for i, n in enumerate(SIZES):
        a, b = native[i], other[i]
        how = "written out" if written_out[i] else "in loops, pivoted"
        print(f"| {n} | {a:.2f} | {2 * a / n:.2f} | {b:.2f} | {a / b:.2f} | {how} |")


def draw(axes, native: np.ndarray, other: np.ndarray) -> None:
    """Both sides on logarithmic axes, and a line of slope one."""
    axes.plot(SIZES, native, "s-", color=BLUE, markersize=4.5, label="native code, from the Lagrangian and the constraint")
    axes.plot(SIZES, other, "o-", color=RED, markersize=4.5, label="C, reduced by hand to tridiagonal systems")
    axes.legend(loc="upper left")
    ends = np.array([SIZES[0], SIZES[-1]])
    axes.plot(ends, ends / ends[0], "--", color=GREY, linewidth=1)
    near = {"xytext": (4, -14), "textcoords": "offset points"}
    axes.annotate("proportional to $n$", (4, 2), color=GREY, fontsize=8.5, **near)
    axes.set(xscale="log", yscale="log", xlabel="number of coordinates $n$", ylabel="cost of a step, native $n = 2$ is 1")
    labelled = [n for n in SIZES if n not in (32, 36)]  # there would be no room
    axes.set_xticks(labelled, [str(n) for n in labelled])
    axes.minorticks_off()
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100) if tick <= 1.5 * native.max()]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def main(target: Path | None) -> int:
    if shutil.which("gcc") is None:
        print("gcc is needed for the comparison")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        native, other, written_out = measured(Path(folder))
    table(native, other, written_out)
    if target is not None:
        target.mkdir(parents=True, exist_ok=True)
        with saving(target) as save:
            figure, axes = panels(size=(6.4, 4.0))
            draw(axes[0, 0], native, other)
            save("chain_cost", figure)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
