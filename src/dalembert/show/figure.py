"""Figures of a path: coordinates over time, the curve in configuration space, multipliers and constraint forces.

Figures are made without pyplot: nothing is shown and the user's back-end stays as it is. A long series is drawn by the
first, least, largest and last point of each of many narrow columns, which gives the same picture as all points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.show.curve import draw_curve
from dalembert.show.panels import Line, envelope, panels
from dalembert.systems import is_traced

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_COLUMN, WIDTHS = 8, (6.2, 9.6, 12.6)  # panels in one column of a figure; width of one, two, three columns, inches
RED = "#b5321f"
COLOURS = ("#1f5a99", "#d1701c", "#2c7a4b", "#7a4b9c", "#8a6d1f", "#c23b7c", "#3b8ea5", "#555555")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.labelsize": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "lines.linewidth": 0.9,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 200,
    "figure.dpi": 110,
}


def plot_path(path: Path, *, title: str | None = None, velocities: bool = False, curve: bool | None = None) -> Figure:
    """q over its times; the curve in configuration space for n = 2, 3; multipliers λ and constraint forces Rᵀλ over theirs.

    As `plot`. For a servo-constraint the forces are the control law.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    _check(path)
    n = np.shape(path.q)[1]
    if curve and n not in (2, 3):
        raise ValueError(f"curve: the path has n = {n} coordinates; a curve can be drawn for 2 and 3")
    wanted = n in (2, 3) if curve is None else curve
    content = panels(path, velocities)
    with mpl.rc_context(STYLE):
        columns = min(len(WIDTHS), -(-len(content) // PER_COLUMN))
        rows, width = -(-len(content) // columns), WIDTHS[columns - 1]
        size = (width + 4.4 * wanted, max(1.3 * rows + 0.9, 4.6 if wanted else 2.6))
        figure = Figure(figsize=size, layout="constrained")
        grids: Any = figure.subfigures(1, 2, width_ratios=[width, 4.4]) if wanted else [figure]
        axes = grids[0].subplots(rows, columns, sharex=True, squeeze=False)
        for ax, panel in zip(axes.T.flat, content, strict=False):
            _draw_panel(ax, path, *panel)
        for ax in axes.T.flat[len(content) :]:  # their time axis stays: it belongs to the panels above
            ax.yaxis.set_visible(False)
            ax.spines["left"].set_visible(False)
        for ax in axes[-1]:
            ax.set_xlabel("t")
        if wanted:
            draw_curve(grids[1], path)
        heading = [text for text in (title, _ending(path)) if text]
        if heading:
            figure.suptitle("\n".join(heading), color=RED if not title else "black", fontsize=10)
    return figure


def _check(path: object) -> None:
    if not isinstance(path, Path):
        raise TypeError(f"path: found {type(path).__name__}; give the Path that simulate returned")
    if is_traced(path):
        raise ValueError("path: is traced, it has no values yet; return it from the jitted function, then plot it")
    if np.ndim(path.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(path.code)}; plot one lane, such as path.lane(0)")


def _draw_panel(ax: Axes, path: Path, label: str, t: np.ndarray, lines: list[Line]) -> None:
    for i, (name, values) in enumerate(lines):
        kept = envelope(t, values)
        dense = kept.size < t.size
        ax.plot(t[kept], values[kept], color=COLOURS[i % len(COLOURS)], label=name or None, rasterized=dense,
                linewidth=0.6 if dense else 0.9, marker="." if t.size == 1 else "")  # fmt: skip
    ax.set_ylabel(label)
    ax.ticklabel_format(axis="y", useOffset=False, style="sci", scilimits=(-3, 4))
    ax.margins(x=0.01)
    _widen(ax, np.concatenate([values for _, values in lines]))
    if len(lines) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.2)
    if Outcome(int(path.code)).failed:
        ax.axvline(float(path.statistics.failed_time), color=RED, linewidth=0.9, linestyle=(0, (4, 2)))


def _widen(ax: Axes, values: np.ndarray) -> None:
    """A range that is not made of rounding errors: a constant shall look constant."""
    finite = values[np.isfinite(values)]
    largest = np.max(np.abs(finite), initial=0.0)
    if finite.size and np.ptp(finite) <= 1e-9 * largest:
        middle = float(np.mean(finite))
        half = 0.05 * abs(middle) or 1.0
        ax.set_ylim(middle - half, middle + half)


def _ending(path: Path) -> str:
    """Where and why a run ended before its last step; empty for a complete one."""
    outcome = Outcome(int(path.code))
    reason = outcome.name.lower().replace("_", " ")
    if outcome == Outcome.STOPPED:
        return f"stopped by its condition at t = {float(path.t[-1]):g}"
    if outcome.failed:
        s = path.statistics
        return (
            f"{reason} in step {int(s.failed_step)} at t = {float(s.failed_time):g}, residual {float(s.failed_residual):.1e}"
        )
    return ""
