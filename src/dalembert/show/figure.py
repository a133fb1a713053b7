"""Figures of a path and of a solution: coordinates over time, multipliers, forces and controls; beside them the curve in
configuration space, or the sphere on which it lies.

A long series is drawn by the first, least, largest and last point of each of many narrow columns, which gives the same
picture as all points.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.drawing import Scene
from dalembert.messages import check_names
from dalembert.numbers import as_flag, as_function, as_text, called, check_class, real_numbers
from dalembert.outcome import Outcome
from dalembert.path import Path, Study
from dalembert.show.measured import kind_of, plot_measurements
from dalembert.show.panels import Panel, draw_panel, names_of, panels_of_path, panels_of_solution, position_panels
from dalembert.show.results import check_values, comparable, named_results, results_of, scene_for
from dalembert.show.stage import Scenery, frame_axes
from dalembert.show.study import plot_study
from dalembert.show.style import Canvas, Theme, new_figure, theme_of
from dalembert.solution import CriticalPoint
from dalembert.systems.system import names_of as coordinates_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot(
    path: Any,
    *,
    title: str | None = None,
    velocities: bool = False,
    curve: bool | None = None,
    exact: Callable | None = None,
    coordinates: Sequence[str] | None = None,
    value: Any = None,
    ax: Axes | None = None,
    dark: bool = False,
    **style: Any,
) -> Figure:
    """Draw a result: a path, a solution, a study, a measurement or a verdict, or several of one kind in one figure.

    Of a path q(t), λ(t) and Rᵀλ(t), each over its own times, with the curve in configuration space for n = 2, 3. A run
    that ended early is marked with its time and the reason. If the coordinates are positions x and y, both axes have the
    same scale; a curve on a sphere is drawn with the sphere. For a solution: q at the nodes, the derivatives up to the
    k-th and the multipliers over their own times; for a ControlSolution: q, v, the controls and the constraint forces.

    For a study: one number of each run, as a heat map over two swept axes or as a line over one; runs that failed are
    marked. For `measure.order` and `consistency`: errors over h on logarithmic scales with their slopes; a dot is empty
    where the fit leaves an error out, and the dashed lines are h^p. For `measure.energy`, `momentum` and
    `momentum_balance`: the change since the first time; for a constraint's residual its value. For a verdict: what was
    measured of each claim, in parts of what is allowed.

    Several results, in a list or by name, share the axes of each quantity. {"energy": {name: …}, "momentum": {name: …}}
    gives invariants a diagram for each outer name.

    In a notebook the figure is shown if it is the value of a cell. In a script that imports matplotlib.pyplot before
    this call, plt.show() shows it in a window.

    Args:
        path: a Path, a Solution, a Study, a measurement or a Verdict; a list of Paths, Solutions, measurements or
            Verdicts, or a mapping from names to them.
        title: title of the figure.
        velocities: also plot v of a path, at its own times.
        curve: whether to draw the curve of a path in configuration space; by default for n = 2 and 3.
        exact: for a solution, t → q (…, n), the exact solution, drawn behind q.
        coordinates: for a path, the names of the coordinates that are drawn; all by default. For two or three names
            their curve is drawn too.
        value: for a study, the number that is drawn: the key of a reduced number, a statistic such as "steps_done", a
            coordinate (its final value), or a DataArray over the axes. By default the reduced number, if there is one.
        ax: axes of matplotlib to draw into, for what is one diagram. Of a path with two coordinates (in axes in space:
            three) they show the curve, of others and with curve=False the coordinates over time.
        dark: light on dark.
        style: keywords of matplotlib's lines, such as color=, linestyle=, linewidth=, marker=, label=, and for a heat map
            those of its mesh, such as cmap=.

    Returns:
        A matplotlib Figure, with ax= the one of these axes: figure.savefig("run.pdf"), or its value in a notebook.

    Raises:
        TypeError: path is none of these, or a keyword is none of matplotlib's.
        ValueError: the path is traced or a batch, or an option does not apply to it.

    Example:
        >>> da.plot(path, velocities=True).savefig("run.png")
        >>> schemes = {"midpoint": da.Scheme(), "order 4": da.Scheme(order=4)}
        >>> paths = {name: da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=50, scheme=s) for name, s in schemes.items()}
        >>> da.plot({name: da.measure.energy(pendulum, path) for name, path in paths.items()}).savefig("energy.pdf")
    """
    as_flag(velocities, "velocities")
    as_flag(dark, "dark")
    named = None if coordinates is None else coordinates_of(coordinates)
    if curve is not None:
        as_flag(curve, "curve")
    if exact is not None:
        as_function(exact, "exact", "of times (K,) that returns q (K, n)")
    as_text(title, "title")
    canvas = _checked_canvas(theme_of(dark), title, ax, style)
    results, of_path, of_study = named_results(path), velocities or curve is not None, isinstance(path, Study)
    measured = not of_study and kind_of(results) is not None
    if (of_study or measured) and (of_path or exact is not None or named is not None):
        what = "Study; give value=" if of_study else "measurement"
        raise ValueError(f"velocities, curve, exact, coordinates: do not belong to the figure of a {what}")
    if of_study:
        return plot_study(path, value, canvas)
    if value is not None:
        raise ValueError("value: belongs to the figure of a Study; leave it out for a Path or a Solution")
    if measured:
        return plot_measurements(results, canvas)
    if not all(isinstance(one, CriticalPoint) for one in results.values()):
        if exact is not None:
            raise ValueError("exact: belongs to the figure of a Solution; draw it over that of a Path yourself")
        return plot_paths(results, canvas, velocities, curve, named)
    if named is not None:
        raise ValueError("coordinates: belong to the figure of a Path; that of a Solution shows all")
    if of_path:
        raise ValueError("velocities, curve: belong to the figure of a Path; that of a Solution always shows velocities")
    return plot_solutions(results, canvas, exact)


def _checked_canvas(theme: Theme, title: str | None, ax: Any, style: Mapping[str, Any]) -> Canvas:
    """What the user wants to be drawn on, with keywords that matplotlib knows."""
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.lines import Line2D

    check_class(ax, Axes | None, "ax", "axes of matplotlib, such as plt.gca() or one of plt.subplots()")
    known = {name[4:] for artist in (Line2D, QuadMesh) for name in dir(artist) if name.startswith("set_")}
    own = inspect.signature(plot).parameters.keys() - {"style"}
    listed = [*sorted(own), "the keywords of matplotlib's lines"]
    check_names("plot", style, known | {"vmin", "vmax"} | own, listed=listed)
    if ax is not None and ax.lines and not {"color", "c"} & style.keys():
        style = {**style, "color": theme.lines[len(ax.lines) % len(theme.lines)]}
    return Canvas(theme, title, ax, style)


CELLS = 1500  # of the range, per axis: points that stay in one cell are drawn once
PIECE = 5000  # points per line: the rasterizer refuses much longer self-crossing ones
LAPS = 60.0  # length of a curve, in widths of its range, beyond which it covers itself and a colour means nothing


def draw_curves(canvas: Canvas, ax: Any, paths: Mapping[str, Path], places: Sequence[int]) -> Any:
    """The curves of the coordinates at these places of q: a single one coloured by time, each of several in its colour. The
    axes, where they are not the user's, get their limits and a legend."""
    theme, own = canvas.theme, canvas.ax is None
    single = own and len(paths) == 1 and not canvas.style
    every = {name: np.asarray(path.q)[:, list(places)] for name, path in paths.items()}
    for run, (name, q) in enumerate(every.items()):
        kept = _cell_changes(q)
        t = np.asarray(paths[name].t)[kept]
        if single and _laps(q[kept]) <= LAPS and t[-1] > t[0]:
            _draw_by_time(ax, q[kept], t, theme)
        else:
            look = {"color": theme.lines[run % len(theme.lines)], "linewidth": 0.5 if single else 0.9, "label": name or None}
            for i in range(0, max(len(kept) - 1, 1), PIECE):
                ax.plot(*q[kept[i : i + PIECE + 1]].T, rasterized=len(kept) > PIECE, **{**look, **canvas.style})
        _mark_ends(ax, paths[name], q, theme, labelled=single)
    points = np.concatenate(list(every.values()))
    good = points[np.all(np.isfinite(points), axis=1)]
    low, high = good.min(axis=0), good.max(axis=0)
    names = [names_of(next(iter(paths.values())))[i] for i in places]
    # positions: one unit of length is as long up as aside, however long and thin the path is
    equal = {"x", "y"} <= set(names) or comparable(np.where(high > low, high - low, 1.0))
    if own:
        frame_axes(ax, low, high, names, equal, theme)
        if len(names) == 3:
            ax.set_box_aspect(ax._box_aspect, zoom=0.85)  # the layout does not see the names of axes in space
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handlelength=1.0)
        return ax.figure
    ax.set(**{f"{axis}label": name for axis, name in zip("xyz", names, strict=False)})
    if equal and len(names) == 2:
        ax.set_aspect("equal", adjustable="datalim")
    return ax.figure


def _draw_by_time(ax: Any, q: np.ndarray, t: np.ndarray, theme: Theme) -> None:
    """A curve whose colour is the time."""
    from matplotlib.collections import LineCollection
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    pieces = [slice(i, i + _length(len(t)) + 1) for i in range(0, max(len(t) - 1, 1), _length(len(t)))]
    collection = Line3DCollection if q.shape[1] == 3 else LineCollection
    lines = collection([q[s] for s in pieces], rasterized=len(t) > PIECE, linewidths=0.9)
    lines.set(
        array=np.array([t[s].mean() for s in pieces]),
        cmap="plasma",
        clim=(float(t[0] - theme.dim * (t[-1] - t[0])), float(t[-1] + 0.15 * (t[-1] - t[0]))),
    )
    ax.add_collection(lines)
    bar = ax.figure.colorbar(lines, ax=ax, location="bottom", label="t", shrink=0.7, pad=0.06, aspect=40)
    bar.ax.set_xlim(float(t[0]), float(t[-1]))


def _mark_ends(ax: Any, path: Path, q: np.ndarray, theme: Theme, labelled: bool) -> None:
    """The start, and the end or the last step that was solved; labelled: with their names in the legend."""
    failed = Outcome(int(path.code)).failed
    start, end = ("start", "last solved step" if failed else "end") if labelled else (None, None)
    ax.plot(*q[:1].T, marker="o", markersize=4, color=theme.text, linestyle="", label=start)
    colour, size, edge = (theme.red, 7, 1.6) if failed else (theme.lines[-1], 4, 1.0)
    ax.plot(
        *q[-1:].T,
        marker="x" if failed else "s",
        markersize=size,
        color=colour,
        markeredgewidth=edge,
        linestyle="",
        label=end,
    )


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


def plot_paths(
    paths: Mapping[str, Path], canvas: Canvas, velocities: bool, curve: bool | None, coordinates: Sequence[str] | None
) -> Figure:
    """q over its times; the curve in configuration space for n = 2, 3; multipliers λ and constraint forces Rᵀλ over theirs.

    As `plot`. For a servo-constraint the forces are the control law.
    """
    first = next(iter(paths.values()))
    for name, path in paths.items():
        if not isinstance(path, Path):
            found = f"item {name} is {type(path).__name__}" if name else f"found {type(path).__name__}"
            raise TypeError(f"path: {found}; give a Path, a Solution, a Study or a measurement, or several of one kind")
        check_values(path, "plot one lane, such as path.lane(0)")
        if names_of(path) != names_of(first):
            raise ValueError(
                f"path: item {name} has the coordinates {', '.join(names_of(path))}, and another one has others"
            )
    places = _wanted_indices(first, coordinates)
    n, own = len(places), canvas.ax is None
    if curve and n not in (2, 3):
        raise ValueError(f"curve: the path has n = {n} coordinates; a curve can be drawn for 2 and 3")
    curved = (n in (2, 3) if own else n == (3 if canvas.ax.name == "3d" else 2)) if curve is None else curve
    if curved and not own:
        return draw_curves(canvas, canvas.ax, paths, places)
    title = canvas.title
    if own and len(paths) == 1:
        canvas = canvas._replace(title="\n".join(text for text in (title, _ending(first)) if text))

    def beside(part: Any) -> None:
        draw_curves(canvas, part.subplots(subplot_kw={"projection": "3d"} if n == 3 else {}), paths, places)

    shown = {
        name: panels_of_path(path, velocities, places) if own else position_panels(path, [places])
        for name, path in paths.items()
    }
    figure, axes = _draw(shown, canvas, 1.3, beside if curved else None, red=not title)
    for time in (float(path.statistics.failed_time) for path in paths.values() if int(path.statistics.failed_step) >= 0):
        for one in axes:
            one.axvline(time, color=canvas.theme.red, linewidth=0.9, linestyle=(0, (4, 2)))
    return figure


def plot_solutions(solutions: Mapping[str, CriticalPoint], canvas: Canvas, exact: Any) -> Figure:
    """q at the nodes, its derivatives up to the k-th as the windows see them, and multipliers, each over its own times; of a
    ControlSolution velocities, controls and constraint forces. Bounds are dashed, with a dot at every node that is on one.

    exact(t) → q (…, n), drawn grey behind q. Returns a matplotlib Figure. ValueError where it is traced or a batch.
    """
    for solution in solutions.values():
        check_values(solution, "plot its solutions one by one")
    first, own = next(iter(solutions.values())), canvas.ax is None
    beside = None
    if own and len(solutions) == 1:
        message = "" if first.outcome.name == "SUCCESS" else first.message
        canvas = canvas._replace(title="\n".join(text for text in (canvas.title, message) if text))
        sphere = _sphere(first)
        beside = None if sphere is None else lambda part: Scenery(part, 111, [sphere], canvas.theme)
    fine = np.linspace(float(first.t[0]), float(first.t[-1]), 400)
    behind = None if exact is None else (fine, _exact(exact, fine, np.shape(first.q)[1]))
    content = {
        name: panels_of_solution(one, range(len(names_of(one))))[: None if own else 1] for name, one in solutions.items()
    }
    return _draw(content, canvas, 1.5, beside, behind=behind)[0]


def _draw(
    content: Mapping[str, list[Panel]], canvas: Canvas, height: float, beside: Callable[[Any], Any] | None, *,
    red: bool = False, behind: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[Figure, list[Any]]:  # fmt: skip
    """A figure of panels below each other, those of several results in the same axes. height: of one, in inches; beside:
    draws into the part beside them; red: whether the title is; behind: times and values, drawn grey behind the first
    panel."""
    import matplotlib as mpl

    theme, alone = canvas.theme, len(content) == 1
    shared: dict[Any, list[tuple[int | None, str, Panel]]] = {}
    for run, (name, own) in enumerate(content.items()):
        for i, panel in enumerate(own):
            shared.setdefault(i if alone else panel.label, []).append((None if alone else run, name, panel))
    with mpl.rc_context(theme.style if canvas.ax is None else {}):
        figure, grid = (
            (canvas.ax.figure, np.array([[canvas.ax]])) if canvas.ax is not None else _grid(len(shared), height, beside)
        )
        axes = list(grid.T.flat)
        if behind is not None:
            axes[0].plot(*behind, color=theme.faint, linewidth=2.5)
        for ax, lines in zip(axes, shared.values(), strict=False):
            for run, name, panel in lines:
                draw_panel(ax, panel, theme, run, name, canvas.style)
        for ax in axes[len(shared) :]:  # their time axis stays: it belongs to the panels above
            ax.yaxis.set_visible(False)
            ax.spines["left"].set_visible(False)
        for ax in grid[-1]:
            ax.set_xlabel("t")
        if canvas.title:
            set_title = figure.suptitle if canvas.ax is None else canvas.ax.set_title
            set_title(canvas.title, color=theme.red if red else theme.text, fontsize=10)
    return figure, axes[: len(shared)]


def _grid(count: int, height: float, beside: Callable[[Any], Any] | None) -> tuple[Figure, np.ndarray]:
    """A new figure, with the axes of its panels."""
    columns = min(len(WIDTHS), -(-count // PER_COLUMN))
    rows, width = -(-count // columns), WIDTHS[columns - 1]
    size = (width + 4.4 * (beside is not None), max(height * rows + 0.9, 2.6 if beside is None else 4.6))
    figure = new_figure(size)
    parts: Any = [figure] if beside is None else figure.subfigures(1, 2, width_ratios=[width, 4.4])
    grid = parts[0].subplots(rows, columns, sharex=True, squeeze=False)
    if beside is not None:
        beside(parts[-1])
    return figure, grid


def _wanted_indices(path: Path, wanted: Sequence[str] | None) -> list[int]:
    """Indices of the wanted coordinates in q."""
    names = names_of(path)
    if wanted is None:
        return list(range(len(names)))
    for name in wanted:
        if name not in names:
            raise ValueError(f"coordinates: found {name!r}; the coordinates are {', '.join(names)}")
    return [names.index(name) for name in wanted]


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


def _exact(exact: Callable, t: np.ndarray, n: int) -> np.ndarray:
    """q at the times, of the user's function."""
    q = real_numbers(called(exact, "exact", "times (K,), and returns q (K, n)", t), "exact: its result")
    if q.shape not in ((len(t), n), (len(t),) if n == 1 else ()):
        raise ValueError(f"exact: returns shape {q.shape}; q of shape {(len(t), n)} is needed")
    return q
