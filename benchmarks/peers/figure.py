"""One work-precision figure per system: time against error, a colour for each package, a mark for each method.

Each point is the error of a run, and the least time of the runs of its method that are at least as accurate.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.measure import Result
from benchmarks.peers.problems import Problem

# Okabe and Ito's colours, which stay apart for all kinds of colour vision.
COLOURS = {
    "dalembert": "#000000", "C": "#7f7f7f", "SciPy": "#E69F00", "diffrax": "#0072B2", "SUNDIALS": "#009E73",
    "CasADi": "#CC79A7", "heyoka": "#D55E00",
}  # fmt: skip
MARKS, DASHES = "os^DvP", ("-", "--", ":", "-.", (0, (5, 1, 1, 1)), (0, (1, 1)))
SMALLEST, LARGEST = 1e-11, 1e0
# Left to the table where there are many.
CROWDED = ("under jit", "reference, whole", "no flag", "in (q, v)", "collocation", "BDF")
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": "#e5e7eb", "grid.linewidth": 0.6, "legend.frameon": False,
}  # fmt: skip


def draw(problem: Problem, results: list[Result], agreement: float, folder: Path) -> None:
    """folder/work_precision_<name>.png; errors that the reference cannot tell from zero are left out."""
    import matplotlib.pyplot as plt
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        drawing, axes = plt.subplots(figsize=(8.2, 4.6), layout="constrained")
        seen: dict[str, int] = {}
        for result in results:
            if problem.constraint is not None and any(word in result.method.name for word in CROWDED):
                continue
            place = seen.get(result.method.family, 0)
            seen[result.method.family] = place + 1
            curve(axes, result, place, max(SMALLEST, 3 * agreement))
        at_end = problem.constraint is not None
        label = "error of $(q, v)$ at $T$" if at_end else "largest error of the positions at 100 samples"
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="time, ms")
        axes.set_xlim(1e-2 if at_end else LARGEST, SMALLEST)
        axes.set_title(f"{problem.title}, $T = {problem.time:g}$", loc="left", fontsize=10)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, handlelength=3.2, labelspacing=0.45)
        buffer = io.BytesIO()
        drawing.savefig(buffer, format="png", dpi=130)
        plt.close(drawing)
    # A palette makes line drawings three times smaller, and drops the version of the software from the file.
    Image.open(buffer).convert("RGB").quantize(256).save(folder / f"work_precision_{problem.name}.png", optimize=True)


def fastest(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Errors from coarse to fine, and the least time for each: of that run, or of a faster one that is more accurate."""
    order = np.argsort(-result.errors)
    order = order[result.errors[order] > 0]
    return result.errors[order], np.minimum.accumulate(result.times[order][::-1])[::-1]


def curve(axes, result: Result, place: int, smallest: float) -> None:
    errors, times = fastest(result)
    shown = (errors >= smallest) & (errors <= LARGEST)
    if not np.any(shown):
        return
    ours = result.method.family == "dalembert"
    axes.plot(
        errors[shown], 1e3 * times[shown], linestyle=DASHES[place % len(DASHES)], marker=MARKS[place % len(MARKS)],
        color=COLOURS[result.method.family], label=result.method.name, markersize=4.2 if ours else 3.4,
        linewidth=2.0 if ours else 1.1, markerfacecolor="white" if place % 2 else None, zorder=5 if ours else 3,
    )  # fmt: skip
