"""Figures of a path: coordinates over time, the curve in configuration space, multipliers and constraint forces.

A long series is drawn by the
first, least, largest and last point of each of many narrow columns, which gives the same picture as all points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.show.curve import draw_curve
from dalembert.show.inline import new_figure
from dalembert.show.panels import Panel, envelope, names_of, panels
from dalembert.show.style import Theme
from dalembert.systems import is_traced

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
PER_COLUMN, WIDTHS = 8, (6.2, 9.6, 12.6)  # panels in one column of a figure; width of one, two, three columns, inches


class Wanted(NamedTuple):
    """What a figure of a path shows. curve: the curve in configuration space, None: if there are two or three coordinates to
    draw it of; coordinates: their names, None for all."""

    title: str | None = None
    velocities: bool = False
    curve: bool | None = None
    coordinates: tuple[str, ...] | None = None


def plot_path(path: Path, wanted: Wanted, theme: Theme) -> Figure:
    """q over its times; the curve in configuration space for n = 2, 3; multipliers λ and constraint forces Rᵀλ over theirs.

    As `plot`. For a servo-constraint the forces are the control law.
    """
    import matplotlib as mpl

    _check(path)
    places = _places(path, wanted.coordinates)
    n = len(places)
    if wanted.curve and n not in (2, 3):
        raise ValueError(f"curve: the path has n = {n} coordinates; a curve can be drawn for 2 and 3")
    curved = n in (2, 3) if wanted.curve is None else wanted.curve
    content = panels(path, wanted.velocities, places)
    with mpl.rc_context(theme.style):
        columns = min(len(WIDTHS), -(-len(content) // PER_COLUMN))
        rows, width = -(-len(content) // columns), WIDTHS[columns - 1]
        size = (width + 4.4 * curved, max(1.3 * rows + 0.9, 4.6 if curved else 2.6))
        figure = new_figure(size)
        grids: Any = figure.subfigures(1, 2, width_ratios=[width, 4.4]) if curved else [figure]
        axes = grids[0].subplots(rows, columns, sharex=True, squeeze=False)
        for ax, panel in zip(axes.T.flat, content, strict=False):
            _draw_panel(ax, path, panel, theme)
        for ax in axes.T.flat[len(content) :]:  # their time axis stays: it belongs to the panels above
            ax.yaxis.set_visible(False)
            ax.spines["left"].set_visible(False)
        for ax in axes[-1]:
            ax.set_xlabel("t")
        if curved:
            draw_curve(grids[1], path, places, theme)
        heading = [text for text in (wanted.title, _ending(path)) if text]
        if heading:
            figure.suptitle("\n".join(heading), color=theme.text if wanted.title else theme.red, fontsize=10)
    return figure


def _places(path: Path, wanted: tuple[str, ...] | None) -> list[int]:
    """Where the wanted coordinates stand in q."""
    names = names_of(path)
    if wanted is None:
        return list(range(len(names)))
    for name in wanted:
        if name not in names:
            raise ValueError(f"coordinates: found {name!r}; the coordinates are {', '.join(names)}")
    return [names.index(name) for name in wanted]


def _check(path: object) -> None:
    if not isinstance(path, Path):
        raise TypeError(f"path: found {type(path).__name__}; give the Path that simulate returned")
    if is_traced(path):
        raise ValueError("path: is traced and has no values yet; return it from the jitted function, then plot it")
    if np.ndim(path.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(path.code)}; plot one lane, such as path.lane(0)")


def _draw_panel(ax: Axes, path: Path, panel: Panel, theme: Theme) -> None:
    label, t, lines = panel
    for i, (name, values) in enumerate(lines):
        kept = envelope(t, values)
        dense = kept.size < t.size
        ax.plot(t[kept], values[kept], color=theme.lines[i % len(theme.lines)], label=name or None, rasterized=dense,
                linewidth=0.6 if dense else 0.9, marker="." if t.size == 1 else "")  # fmt: skip
    ax.set_ylabel(label)
    ax.ticklabel_format(axis="y", useOffset=False, style="sci", scilimits=(-3, 4))
    ax.margins(x=0.01)
    _widen(ax, np.concatenate([values for _, values in lines]))
    if len(lines) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.2)
    if Outcome(int(path.code)).failed:
        ax.axvline(float(path.statistics.failed_time), color=theme.red, linewidth=0.9, linestyle=(0, (4, 2)))


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
