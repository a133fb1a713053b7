"""Figures of a study: a number of each run or solution as a heat map over two swept axes, or as a line over one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dalembert.numbers import described
from dalembert.outcome import Outcome
from dalembert.path import Study
from dalembert.show.style import Canvas, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray

# of the statistics, of runs and of solutions
NAMED = ("steps_done", "residual", "iterations", "max_iterations", "crossings", "failed_time")
SOLVED = ("cost", "action", "iterations", "factorizations", "residual", "violation", "condition", "negative_directions")


def plot_study(study: Study, value: Any, canvas: Canvas) -> Figure:
    """The value over the axes. A run that failed has none: its place has a mark for the outcome, which a legend names."""
    drawn, label = chosen_value(study, value)
    with canvas.diagrams(1, (6.0, 4.2)) as (ax,):
        failed = np.isin(study.data["code"].values, [int(outcome) for outcome in Outcome if outcome.failed])
        values = np.where(failed, np.nan, np.asarray(drawn.values, dtype=float))
        draw = _heat_map if len(study.axes) == 2 else _line
        draw(ax, study, values, label, canvas)
        _outcomes(ax, study, canvas.theme)
        return ax.figure


def chosen_value(study: Study, value: Any) -> tuple[DataArray, str]:
    """One number of each run, and what it is called; ValueError with the choices."""
    axes = study.axes
    if len(axes) > 2:
        raise ValueError(
            f"path: the study has {len(axes)} swept axes, {', '.join(axes)}; draw it over one or two of them, such as "
            f"study.sel({study.swept[axes[-1]].label if axes[-1] in study.swept else axes[-1]}=…)"
        )
    choices = _reducer_values(study)
    known = choices | {name: study.data[name] for name in (NAMED if study.of_runs else SOLVED) if name in study.data}
    if value is None and len(choices) < 2:
        value = next(iter(choices), study.coordinates[0] if study.of_runs else "cost" if "cost" in known else "action")
    if value is not None and hasattr(value, "dims") and set(map(str, value.dims)) == set(axes):
        return value.transpose(*axes), str(value.name or "")
    if isinstance(value, str) and value in known:
        return known[value], value.replace("_", " ")
    if isinstance(value, str) and value in study.coordinates:
        return _last_value(study, value), f"{value} at the end"
    found = "nothing, and there are several" if value is None else described(value)
    raise (ValueError if value is None or isinstance(value, str) else TypeError)(
        f"value: found {found}; give one of {', '.join([*known, *study.coordinates])}, or a DataArray over {', '.join(axes)}"
    )


def _reducer_values(study: Study) -> dict[str, DataArray]:
    """The numbers of a reducer, by their keys."""
    leaves = jax.tree_util.tree_leaves_with_path(study.reduced)
    named = {"_".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path): x for path, x in leaves}
    return {name or "reduced": x for name, x in named.items() if x.dims == study.axes}


def _last_value(study: Study, name: str) -> DataArray:
    """The last saved value of each run."""
    if "last_q" in study.data:
        return study.data["last_q"].sel(coordinate=name)
    return study[name].isel(time=study.data["nodes_kept"] - 1 if study.of_runs else -1)


def _axis_values(study: Study, axis: str) -> tuple[np.ndarray, str]:
    """Values and name of an axis: those of the first name of numbers on it, or of the last number of a vector that differs,
    where the vectors lie on a straight line; the places where there is none."""
    for name, swept in study.swept.items():
        if swept.axis == axis:
            parts = [(study.data[part].values, part) for part in swept.parts]
            differ = [one for one in parts if np.ptp(one[0]) > 0]
            if not parts or (differ and all(_are_proportional(values, differ[-1][0]) for values, _ in differ)):
                values, label = differ[-1] if parts else (study.data[swept.label].values, name)
                return np.asarray(values, dtype=float), label
    return np.arange(study.data.sizes[axis], dtype=float), f"{axis}, by number"


def _are_proportional(values: np.ndarray, others: np.ndarray) -> bool:
    """True if some numbers grow, or fall, as others do: (x - min x)/(max x - min x) is the same."""
    x, y = ((v - v.min()) / (np.ptp(v) or 1.0) for v in (np.asarray(values, float), np.asarray(others, float)))
    return bool(np.allclose(x, y, atol=1e-9) or np.allclose(x, 1.0 - y, atol=1e-9))


def _heat_map(ax: Axes, study: Study, values: np.ndarray, label: str, canvas: Canvas) -> None:
    """The second axis upwards."""
    (x, across), (y, up) = (_axis_values(study, axis) for axis in study.axes)
    i, j = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    look = {"cmap": "viridis", "rasterized": values.size > 10**4, **canvas.style}
    mesh = ax.pcolormesh(_edges(x[i]), _edges(y[j]), values[np.ix_(i, j)].T, **look)
    red, green, blue = canvas.theme.fill(canvas.theme.faint)
    ax.set_facecolor((red, green, blue))
    ax.set(xlabel=across, ylabel=up)
    ax.figure.colorbar(mesh, ax=ax, label=label)


def _edges(x: np.ndarray) -> np.ndarray:
    """Boundaries of cells around rising values; equal values get cells of no width, which are not seen."""
    if len(x) == 1:
        half = 0.5 * abs(x[0]) or 0.5
        return np.array([x[0] - half, x[0] + half])
    middle = 0.5 * (x[1:] + x[:-1])
    return np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])


def _line(ax: Axes, study: Study, values: np.ndarray, label: str, canvas: Canvas) -> None:
    x, name = _axis_values(study, study.axes[0])
    order = np.argsort(x, kind="stable")
    ax.plot(x[order], values[order], **{"color": canvas.theme.lines[0], "marker": "o", "markersize": 3, **canvas.style})
    ax.set(xlabel=name, ylabel=label)


def _outcomes(ax: Axes, study: Study, theme: Theme) -> None:
    """A mark at each run that failed, another for each outcome."""
    codes = study.data["code"].values
    places = np.meshgrid(*(_axis_values(study, axis)[0] for axis in study.axes), indexing="ij")
    marks, size = iter("x+1234|_*.^v"), min(22.0, 6000.0 / codes.size)
    for code in np.unique(codes):
        if Outcome(int(code)).failed:
            at = [x[codes == code] for x in places]
            if len(at) == 1:
                at.append(np.full(len(at[0]), 0.02))
            way = {"transform": ax.get_xaxis_transform()} if len(places) == 1 else {}
            name = Outcome(int(code)).name.lower().replace("_", " ")
            ax.scatter(*at, marker=next(marks), s=size, color=theme.red, label=name, linewidths=0.9, zorder=3, **way)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
