"""Figures of a path and of a solution: coordinates over time, multipliers, forces and controls; beside them the curve in
configuration space, or the sphere on which it lies.

A long series is drawn by the first, least, largest and last point of each of many narrow columns, which gives the same
picture as all points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.drawing import Scene
from dalembert.numbers import as_flag, as_function, as_text, called, real_numbers
from dalembert.outcome import Outcome
from dalembert.path import Path, Study
from dalembert.show.panels import Panel, envelope, names_of, panels, panels_of_solution
from dalembert.show.results import comparable, results_of, scene_for
from dalembert.show.stage import Scenery, frame_axes
from dalembert.show.study import plot_study
from dalembert.show.style import Theme, new_figure, theme_of
from dalembert.solution import ActiveBounds, CriticalPoint
from dalembert.systems import is_traced
from dalembert.systems.system import names_of as coordinates_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot(
    path: Path | CriticalPoint | Study,
    *,
    title: str | None = None,
    velocities: bool = False,
    curve: bool | None = None,
    exact: Callable | None = None,
    coordinates: Sequence[str] | None = None,
    value: Any = None,
    dark: bool = False,
) -> Figure:
    """q(t), λ(t) and Rᵀλ(t) of a path, each over its own times, with the curve in configuration space for n = 2, 3; or
    the plot of a solution or a study.

    A run that ended early is marked with its time and the reason. For a solution: q at the nodes, the derivatives up to
    the k-th and the multipliers over their own times; for a ControlSolution: q, v, the controls and the constraint
    forces. If the coordinates are positions x and y, both axes have the same scale; a curve on a sphere is drawn with
    the sphere.

    For a study: one number of each run, as a heat map over two swept axes or as a line over one; runs that failed are
    marked.

    In a notebook the figure is shown if it is the value of a cell. In a script that imports matplotlib.pyplot before
    this call, plt.show() shows it in a window.

    Args:
        path: a Path, a Solution or a Study.
        title: title of the figure.
        velocities: also plot v of a path, at its own times.
        curve: whether to draw the curve of a path in configuration space; by default for n = 2 and 3.
        exact: for a solution, t → q (…, n), the exact solution, drawn behind q.
        coordinates: for a path, the names of the coordinates that are drawn; all by default. For two or three names
            their curve is drawn too.
        value: for a study, the number that is drawn: the key of a reduced number, a statistic such as "steps_done", a
            coordinate (its final value), or a DataArray over the axes. By default the reduced number, if there is one.
        dark: light on dark.

    Returns:
        A matplotlib Figure: figure.savefig("run.pdf"), or its value in a notebook.

    Raises:
        TypeError: path is none of these.
        ValueError: the path is traced or a batch, or an option does not apply to it.

    Example:
        >>> da.plot(path, velocities=True).savefig("run.png")
    """
    as_flag(velocities, "velocities")
    as_flag(dark, "dark")
    named = None if coordinates is None else coordinates_of(coordinates)
    if curve is not None:
        as_flag(curve, "curve")
    if exact is not None:
        as_function(exact, "exact", "of times (K,) that returns q (K, n)")
    as_text(title, "title")
    if isinstance(path, Study):
        if velocities or curve is not None or exact is not None or named is not None:
            raise ValueError("velocities, curve, exact, coordinates: do not belong to the figure of a Study; give value=")
        return plot_study(path, value, theme_of(dark), title)
    if value is not None:
        raise ValueError("value: belongs to the figure of a Study; leave it out for a Path or a Solution")
    if not isinstance(path, CriticalPoint):
        if exact is not None:
            raise ValueError("exact: belongs to the figure of a Solution; draw it over that of a Path yourself")
        return plot_path(path, theme_of(dark), title=title, velocities=velocities, curve=curve, coordinates=named)
    if named is not None:
        raise ValueError("coordinates: belong to the figure of a Path; that of a Solution shows all")
    if velocities or curve is not None:
        raise ValueError("velocities, curve: belong to the figure of a Path; that of a Solution always shows velocities")
    return plot_solution(path, theme_of(dark), title=title, exact=exact)


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
    good = q[np.all(np.isfinite(q), axis=1)]
    low, high = good.min(axis=0), good.max(axis=0)
    # positions: one unit of length is as long up as aside, however long and thin the path is
    equal = {"x", "y"} <= set(names) or comparable(np.where(high > low, high - low, 1.0))
    frame_axes(ax, low, high, names, equal, theme)
    if q.shape[1] == 3:
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


PER_COLUMN, WIDTHS = 8, (6.2, 9.6, 12.6)  # panels in one column of a figure; width of one, two, three columns, inches


def plot_path(
    path: Path, theme: Theme, *, title: str | None, velocities: bool, curve: bool | None, coordinates: Sequence[str] | None
) -> Figure:
    """q over its times; the curve in configuration space for n = 2, 3; multipliers λ and constraint forces Rᵀλ over theirs.

    As `plot`. For a servo-constraint the forces are the control law.
    """
    if not isinstance(path, Path):
        raise TypeError(f"path: found {type(path).__name__}; give the Path that simulate returned")
    _check_values(path, "plot one lane, such as path.lane(0)")
    places = _wanted_indices(path, coordinates)
    n = len(places)
    if curve and n not in (2, 3):
        raise ValueError(f"curve: the path has n = {n} coordinates; a curve can be drawn for 2 and 3")
    curved = n in (2, 3) if curve is None else curve
    beside = (lambda part: draw_curve(part, path, places, theme)) if curved else None
    heading = [text for text in (title, _ending(path)) if text]
    figure, axes = _draw(panels(path, velocities, places), theme, 1.3, beside, heading, red=not title)
    if int(path.statistics.failed_step) >= 0:
        for ax in axes:
            ax.axvline(float(path.statistics.failed_time), color=theme.red, linewidth=0.9, linestyle=(0, (4, 2)))
    return figure


def plot_solution(solution: CriticalPoint, theme: Theme, *, title: str | None = None, exact: Any = None) -> Figure:
    """q at the nodes, its derivatives up to the k-th as the windows see them, and multipliers, each over its own times; of a
    ControlSolution velocities, controls and constraint forces. Bounds are dashed, with a dot at every node that is on one.

    exact(t) → q (…, n), drawn grey behind q. Returns a matplotlib Figure. ValueError where it is traced or a batch.
    """
    _check_values(solution, "plot its solutions one by one")
    sphere = _sphere(solution)
    beside = None if sphere is None else lambda part: Scenery(part, 111, [sphere], theme)
    heading = [text for text in (title, "" if solution.outcome.name == "SUCCESS" else solution.message) if text]
    fine = np.linspace(float(solution.t[0]), float(solution.t[-1]), 400)
    behind = None if exact is None else (fine, _exact(exact, fine, np.shape(solution.q)[1]))
    return _draw(panels_of_solution(solution), theme, 1.5, beside, heading, behind=behind)[0]


def _draw(
    content: Sequence[Panel], theme: Theme, height: float, beside: Callable[[Any], Any] | None, heading: Sequence[str], *,
    red: bool = False, behind: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """A figure of panels below each other. height: of one, in inches; beside: draws into the part beside them; red: whether
    the heading is; behind: times and values, drawn grey behind the first panel."""
    import matplotlib as mpl

    with mpl.rc_context(theme.style):
        columns = min(len(WIDTHS), -(-len(content) // PER_COLUMN))
        rows, width = -(-len(content) // columns), WIDTHS[columns - 1]
        size = (width + 4.4 * (beside is not None), max(height * rows + 0.9, 2.6 if beside is None else 4.6))
        figure = new_figure(size)
        parts: Any = [figure] if beside is None else figure.subfigures(1, 2, width_ratios=[width, 4.4])
        grid = parts[0].subplots(rows, columns, sharex=True, squeeze=False)
        axes = list(grid.T.flat)
        if behind is not None:
            axes[0].plot(*behind, color=theme.faint, linewidth=2.5)
        for ax, panel in zip(axes, content, strict=False):
            _draw_panel(ax, panel, theme)
        for ax in axes[len(content) :]:  # their time axis stays: it belongs to the panels above
            ax.yaxis.set_visible(False)
            ax.spines["left"].set_visible(False)
        for ax in grid[-1]:
            ax.set_xlabel("t")
        if beside is not None:
            beside(parts[-1])
        if heading:
            figure.suptitle("\n".join(heading), color=theme.red if red else theme.text, fontsize=10)
    return figure, axes[: len(content)]


def _wanted_indices(path: Path, wanted: Sequence[str] | None) -> list[int]:
    """Indices of the wanted coordinates in q."""
    names = names_of(path)
    if wanted is None:
        return list(range(len(names)))
    for name in wanted:
        if name not in names:
            raise ValueError(f"coordinates: found {name!r}; the coordinates are {', '.join(names)}")
    return [names.index(name) for name in wanted]


def _check_values(result: Path | CriticalPoint, remedy: str) -> None:
    """ValueError for a result that is traced, or a batch, for which there is a remedy."""
    if is_traced(result):
        raise ValueError("path: is traced and has no values yet; return it from the jitted function, then plot it")
    if np.ndim(result.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(result.code)}; {remedy}")


def _draw_panel(ax: Axes, panel: Panel, theme: Theme) -> None:
    t = panel.t
    for i, (name, values) in enumerate(panel.lines):
        kept = envelope(t, values)
        dense = kept.size < t.size
        ax.plot(t[kept], values[kept], color=theme.lines[i % len(theme.lines)], label=name or None, rasterized=dense,
                linewidth=0.6 if dense else 0.9, marker="." if t.size == 1 else "")  # fmt: skip
    ax.set_ylabel(panel.label)
    ax.ticklabel_format(axis="y", useOffset=False, style="sci", scilimits=(-3, 4))
    ax.margins(x=0.01)
    _widen(ax, np.concatenate([values for _, values in panel.lines]))
    if panel.bounds is not None:
        _draw_bounds(ax, panel.bounds, theme)
    if sum(bool(name) for name, _ in panel.lines) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.2)


def _widen(ax: Axes, values: np.ndarray) -> None:
    """A range that is not made of rounding errors: a constant shall look constant."""
    finite = values[np.isfinite(values)]
    largest = np.max(np.abs(finite), initial=0.0)
    if finite.size and np.ptp(finite) <= 1e-9 * largest:
        middle = float(np.mean(finite))
        half = 0.05 * abs(middle) or 1.0
        ax.set_ylim(middle - half, middle + half)


def _ending(path: Path) -> str:
    """Time and reason at which a run ended before its last step; empty for a complete one."""
    outcome = Outcome(int(path.code))
    reason = outcome.name.lower().replace("_", " ")
    if outcome == Outcome.STOPPED:
        return f"stopped by its condition at t = {float(path.t[-1]):g}"
    if outcome is Outcome.INTERRUPTED:
        return f"interrupted at t = {float(path.t[-1]):g}"
    if outcome.failed:
        s = path.statistics
        return (
            f"{reason} in step {int(s.failed_step)} at t = {float(s.failed_time):g}, residual {float(s.failed_residual):.1e}"
        )
    return ""


def _sphere(solution: CriticalPoint) -> Scene | None:
    """The drawing of a curve on a sphere."""
    (shown,) = results_of(solution)
    drawn = shown.subject.scene is not None or getattr(shown.problem, "draw", None) is not None
    scene = scene_for(shown) if drawn else None
    return scene if scene is not None and any(outline.kind == "ball" for outline in scene.outlines) else None


def _draw_bounds(ax: Any, bounds: ActiveBounds, theme: Theme) -> None:
    """Dashed lines, and dots where they are active."""
    t = bounds.t
    for i, column in enumerate(bounds.values.T):
        style = {"color": theme.lines[i % len(theme.lines)], "linewidth": 0.8, "linestyle": "--"}
        for side in (bounds.lower[:, i], bounds.upper[:, i]):
            if np.isfinite(side).any():
                ax.plot(t, np.where(np.isfinite(side), side, np.nan), **style)
        at = bounds.active[:, i] != 0
        ax.plot(t[at], column[at], ".", color=style["color"], markersize=3.0)


def _exact(exact: Callable, t: np.ndarray, n: int) -> np.ndarray:
    """q at the times, of the user's function."""
    q = real_numbers(called(exact, "exact", "times (K,), and returns q (K, n)", t), "exact: its result")
    if q.shape not in ((len(t), n), (len(t),) if n == 1 else ()):
        raise ValueError(f"exact: returns shape {q.shape}; q of shape {(len(t), n)} is needed")
    return q
