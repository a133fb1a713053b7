"""plot: the figure of whatever simulate or solve returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dalembert.numbers import as_flag, as_function, as_text
from dalembert.path import Path, Study
from dalembert.show.figure import plot_path, plot_solution
from dalembert.show.study import plot_study
from dalembert.show.style import theme_of
from dalembert.solution import CriticalPoint
from dalembert.systems.system import names_of

if TYPE_CHECKING:
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
    named = None if coordinates is None else names_of(coordinates)
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
