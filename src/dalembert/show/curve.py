"""The curve of a path in configuration space, for two and three coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.show.panels import names_of
from dalembert.show.stage import bare_panes, few_ticks
from dalembert.show.style import Theme

CELLS = 1500  # of the range, per axis: points that stay in one cell are drawn once
PIECE = 5000  # points per line: the rasterizer refuses much longer self-crossing ones
LAPS = 60.0  # length of a curve, in widths of its range, beyond which it covers itself and a colour means nothing


def draw_curve(figure: Any, path: Path, places: Sequence[int], theme: Theme) -> None:
    """The curve of the coordinates at these places of q, coloured by time."""
    from matplotlib.collections import LineCollection

    every = names_of(path)
    q, names = np.asarray(path.q)[:, list(places)], [every[i] for i in places]
    t = np.asarray(path.t)
    kept = _cell_changes(q)
    q, t = q[kept], t[kept]
    if q.shape[1] == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection

        ax, collection = figure.subplots(subplot_kw={"projection": "3d"}), Line3DCollection
    else:
        ax, collection = figure.subplots(), LineCollection
    pieces = [slice(i, i + _length(len(t)) + 1) for i in range(0, max(len(t) - 1, 1), _length(len(t)))]
    lines = collection([q[s] for s in pieces], rasterized=len(t) > PIECE, linewidths=0.9)
    ax.add_collection(lines)
    if _laps(q) <= LAPS and t[-1] > t[0]:
        lines.set(
            array=np.array([t[s].mean() for s in pieces]),
            cmap="plasma",
            clim=(float(t[0] - theme.dim * (t[-1] - t[0])), float(t[-1] + 0.15 * (t[-1] - t[0]))),
        )
        bar = figure.colorbar(lines, ax=ax, location="bottom", label="t", shrink=0.7, pad=0.06, aspect=40)
        bar.ax.set_xlim(float(t[0]), float(t[-1]))
    else:
        lines.set(linewidths=0.5, color=theme.lines[0])
    ax.plot(*q[:1].T, marker="o", markersize=4, color=theme.text, linestyle="", label="start")
    failed = Outcome(int(path.code)).failed
    colour = theme.red if failed else theme.lines[-1]
    ax.plot(*q[-1:].T, marker="x" if failed else "s", markersize=7 if failed else 4, color=colour,
            markeredgewidth=1.6 if failed else 1.0, linestyle="", label="last solved step" if failed else "end")  # fmt: skip
    _frame(ax, q, names)
    if q.shape[1] == 3:
        bare_panes(ax, theme)
        ax.set_box_aspect(ax._box_aspect, zoom=0.85)  # the layout does not see the names of axes in space
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handlelength=1.0)


def _laps(q: np.ndarray) -> float:
    """Length of the curve in units of its range."""
    good = q[np.all(np.isfinite(q), axis=1)]
    extent = np.ptp(good, axis=0)
    return float(np.sum(np.linalg.norm(np.diff(good, axis=0) / np.where(extent > 0, extent, 1.0), axis=1)))


def _length(count: int) -> int:
    """Points per piece of a curve, so that its colour changes in at least 250 steps and no piece is too long."""
    return max(1, min(PIECE, count // 250))


def _cell_changes(q: np.ndarray) -> np.ndarray:
    """Indices at which the curve enters another cell of a fine grid over its range, all if they are few."""
    if q.shape[0] <= 4 * PIECE:
        return np.arange(q.shape[0])
    extent = np.ptp(q[np.all(np.isfinite(q), axis=1)], axis=0)
    cell = np.rint(CELLS * np.nan_to_num(q - q[0]) / np.where(extent > 0, extent, 1.0))
    changed = np.any(np.diff(cell, axis=0) != 0, axis=1)
    return np.flatnonzero(np.concatenate([[True], changed[:-1], [True]]))


def _frame(ax: Any, q: np.ndarray, names: list[str]) -> None:
    """Limits, labels, and one unit of length on both axes where the ranges are comparable."""
    good = q[np.all(np.isfinite(q), axis=1)]
    low, high = good.min(axis=0), good.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    for i, axis in enumerate("xyz"[: q.shape[1]]):
        getattr(ax, f"set_{axis}lim")(low[i] - 0.05 * width[i], high[i] + 0.05 * width[i])
        getattr(ax, f"set_{axis}label")(names[i])
    positions = {"x", "y"} <= set(names)  # one unit of length is as long up as aside, however long and thin the path is
    if positions or np.max(width) < 5 * np.min(width):
        ax.set_aspect("equal", adjustable="box")
        if len(width) == 3:
            few_ticks(ax, width)
