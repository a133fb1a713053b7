"""One look for all figures of the papers, and the few drawings they share. matplotlib loads with the first figure."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from papers.convergence import ErrorsByStep

BLUE, RED, GREEN, GOLD, GREY = "#2b5c8a", "#c0392b", "#2e8b57", "#b8860b", "#6b7280"
COLOURS = {"printed": RED, "exact": BLUE, "one_step": GREEN}
MARKERS = {"printed": "o", "exact": "s", "one_step": "^"}
STYLE: dict[Any, Any] = {
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "savefig.dpi": 130,
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "mathtext.fontset": "cm",
}
Save = Callable[[str, object], None]


@contextlib.contextmanager
def saving(folder: Path) -> Iterator[Save]:
    """A function save(name, figure) that writes folder/name.png and closes the figure, within the common style."""
    import matplotlib.pyplot as plt
    from PIL import Image

    def save(name: str, figure) -> None:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        plt.close(figure)
        # A palette makes line drawings three times smaller, and drops the version of the software from the file.
        Image.open(buffer).convert("RGB").quantize(256).save(folder / f"{name}.png", optimize=True)

    with plt.rc_context(STYLE):
        yield save


def panels(rows: int = 1, columns: int = 1, *, size: tuple[float, float], **options):
    """Figure and array of axes (rows, columns)."""
    import matplotlib.pyplot as plt

    return plt.subplots(rows, columns, figsize=size, squeeze=False, **options)


def error_plot(axes, results: list[ErrorsByStep], legends: dict[str, str], what: str) -> None:
    """Errors against h, logarithmic scales; legends by the method's name."""
    axes.set(xscale="log", yscale="log")
    for result in results:
        name = result.method.name
        axes.plot(result.h, result.error, MARKERS[name] + "-", color=COLOURS[name], label=legends[name], markersize=5)
    axes.set_xlabel("$h$")
    axes.set_ylabel(what)
    axes.grid(True, which="major")
    axes.legend(loc="lower right", fontsize=8.5)
    step_ticks(axes, np.asarray(results[0].h))


def step_ticks(axes, h) -> None:
    """The steps themselves as ticks, every second one named where they are many, without the minor ones of the axis."""
    from matplotlib.ticker import NullLocator

    every = 1 if len(h) < 7 else 2
    axes.set_xticks(h, ["" if i % every else f"{x:g}" for i, x in enumerate(h)], fontsize=8.5)
    axes.xaxis.set_minor_locator(NullLocator())


def fitted_line(axes, result: ErrorsByStep, colour: str, last: int | None = None) -> float:
    """The least squares line through the points; returns its slope."""
    slope = result.slope(last)
    h, error = np.log(result.h)[-last:] if last else np.log(result.h), np.log(result.error)
    error = error[-last:] if last else error
    ends = np.array([h.min(), h.max()])
    axes.plot(np.exp(ends), np.exp(error.mean() + slope * (ends - h.mean())), "--", color=colour, linewidth=1)
    return slope
