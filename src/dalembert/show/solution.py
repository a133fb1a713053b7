"""The figure of a boundary problem's solution: coordinates and their derivatives, and multipliers, over time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.drawing import Scene
from dalembert.numbers import called, real_numbers
from dalembert.show.panels import names_of, subscript
from dalembert.show.results import results_of, scene_for
from dalembert.show.stage import Scenery
from dalembert.show.style import Theme, new_figure
from dalembert.solution import ActiveBounds, ControlSolution, CriticalPoint, Solution
from dalembert.systems import is_traced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LISTED = ("q", "u")  # panels with a legend: the colours of the others are those of q
DERIVATIVES = ("q", "dq/dt", "d²q/dt²", "d³q/dt³", "d⁴q/dt⁴")


def plot_solution(solution: CriticalPoint, theme: Theme, *, title: str | None = None, exact: Any = None) -> Figure:
    """q at the nodes, its derivatives up to the k-th as the windows see them, and multipliers, each over its own times; of a
    ControlSolution velocities, controls and constraint forces. Bounds are dashed, with a dot at every node that is on one.

    exact(t) → q (…, n), drawn grey behind q. Returns a matplotlib Figure. ValueError where it is traced or a batch.
    """
    import matplotlib as mpl

    if is_traced(solution):
        raise ValueError("path: is traced and has no values yet; return it from the jitted function, then plot it")
    if np.ndim(solution.code):
        raise ValueError(f"path: holds a batch of shape {np.shape(solution.code)}; plot its solutions one by one")
    content = _panels(solution)
    with mpl.rc_context(theme.style):
        globe = _globe(solution)
        figure = new_figure((6.2 + 4.4 * (globe is not None), max(1.5 * len(content) + 0.9, 4.4 * (globe is not None))))
        parts: Any = [figure] if globe is None else figure.subfigures(1, 2, width_ratios=[6.2, 4.4])
        axes = parts[0].subplots(len(content), 1, sharex=True, squeeze=False)[:, 0]
        if globe is not None:
            Scenery(parts[1], 111, [globe], theme)
        if exact is not None:
            fine = np.linspace(float(solution.t[0]), float(solution.t[-1]), 400)
            axes[0].plot(fine, _exact(exact, fine, np.shape(solution.q)[1]), color=theme.faint, linewidth=2.5)
        for ax, (label, t, values) in zip(axes, content, strict=True):
            for i, column in enumerate(values.T):
                ax.plot(t, column, color=theme.lines[i % len(theme.lines)], label=_label(solution, label, i))
            name = {"dq/dt": "v", "g": "inequalities"}.get(label, label)
            if name in solution.bounds:
                _draw_bounds(ax, solution.bounds[name], theme)
            ax.set_ylabel(label)
            ax.margins(x=0.01)
            if label in LISTED and values.shape[1] > 1:
                ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.2)
        axes[-1].set_xlabel("t")
        heading = [title or "", "" if solution.outcome.name == "SUCCESS" else solution.outcome.message]
        figure.suptitle("\n".join(x for x in heading if x), fontsize=10)
    return figure


def _label(solution: CriticalPoint, panel: str, i: int) -> str:
    return names_of(solution)[i] if panel == "q" else f"{panel[0]}{subscript(i)}"


def _globe(solution: CriticalPoint) -> Scene | None:
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


@functools.singledispatch
def _panels(solution: CriticalPoint) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(label, times, values (…, lines)) of every panel."""
    raise TypeError(f"path: found {type(solution).__name__}; give a Path, a Solution or a ControlSolution")


def _inequalities(solution: CriticalPoint) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """g ≤ 0, where there are some."""
    found = solution.bounds.get("inequalities")
    return [] if found is None else [("g", np.asarray(found.t), np.asarray(found.values))]


@_panels.register
def _(solution: ControlSolution) -> list[tuple[str, np.ndarray, np.ndarray]]:
    t = np.asarray(solution.t)
    found = [("q", t, np.asarray(solution.q)), ("dq/dt", t, np.asarray(solution.v)), ("u", t, np.asarray(solution.u))]
    found += _inequalities(solution)
    if solution.multipliers.shape[1]:
        found.append(("force Rᵀν", t, np.asarray(solution.constraint_forces)))
    return found


@_panels.register
def _(solution: Solution) -> list[tuple[str, np.ndarray, np.ndarray]]:
    t, inside = np.asarray(solution.t), np.asarray(solution.t_multipliers)
    jets = np.asarray(solution.jets)
    found = [("q", t, np.asarray(solution.q))]
    found += [(DERIVATIVES[j], inside, jets[:, j]) for j in range(1, jets.shape[1])]
    found += _inequalities(solution)
    if solution.multipliers.shape[1]:
        found.append(("λ", inside, np.asarray(solution.multipliers)))
    if solution.holonomic_multipliers.shape[1]:
        values = np.asarray(solution.holonomic_multipliers)
        found.append(("λ, holonomic", t, np.where(values == 0.0, np.nan, values)))  # none where a position is given
    return found
