"""Panels of a figure: which lines share one, which points of a long series are drawn, and how."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.groups import space_of_columns
from dalembert.path import ClosedLoop, Path
from dalembert.show.style import Theme
from dalembert.solution import ActiveBounds, ControlSolution, CriticalPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 2000  # of a time axis: more than a printed figure has dots
MOST = 24  # panels of coordinates; more coordinates share panels
SEEN = 150  # turning points that can be told apart; curves with more would hide each other in one panel

DASHES = ("-", "--", ":", "-.")

Line = tuple[str, np.ndarray]  # name, values
DERIVATIVES = ("q", "dq/dt", "d²q/dt²", "d³q/dt³", "d⁴q/dt⁴")


class Panel(NamedTuple):
    """Lines over one series of times. label: of the axis, or of the whole; bounds: of what they are; log: of |values|;
    named: whether a legend names the lines, which otherwise have the colours of those of q; noise: what is smaller is
    rounding."""

    label: str
    t: np.ndarray
    lines: list[Line]
    bounds: ActiveBounds | None = None
    log: bool = False
    note: str = ""
    named: bool = True
    noise: float = 0.0


def panels_of_path(path: Path, velocities: bool, places: Sequence[int]) -> list[Panel]:
    """One panel per coordinate, then velocities, multipliers and constraint forces, each over its own times. places: of the
    coordinates in q."""
    shared = -(-len(places) // MOST)
    found = position_panels(path, [places[i : i + shared] for i in range(0, len(places), shared)])
    if velocities:
        found += _split_fast(velocity_panel(path, places))
    found += panels_of_loop(path, places)
    return found + [part for panel in force_panels(path, places) for part in _split_fast(panel)]


def position_panels(result: Path | CriticalPoint, groups: Sequence[Sequence[int]]) -> list[Panel]:
    """A panel for each group of coordinates, with their bounds, and their plan that a closed loop follows."""
    names, t, q = names_of(result), np.asarray(result.t), np.asarray(result.q)
    bounds, planned = getattr(result, "bounds", {}).get("q"), getattr(result, "planned", None)
    found, noise = [], np.finfo(float).eps * float(np.max(np.abs(q[np.isfinite(q)]), initial=0.0))
    for places in groups:
        lines = [(names[i], q[:, i]) for i in places]
        lines += [] if planned is None else [(f"{names[i]}, plan", planned[:, i]) for i in places]
        found.append(Panel(" ".join(names[i] for i in places), t, lines, _bounds_on(bounds, list(places)), noise=noise))
    return found


def _bounds_on(bounds: ActiveBounds | None, places: list[int]) -> ActiveBounds | None:
    """Those of some components, if there are any."""
    if bounds is None:
        return None
    names = ("lower", "upper", "multipliers", "active", "values")
    found = dataclasses.replace(bounds, **{name: np.asarray(getattr(bounds, name))[:, places] for name in names})
    return found if np.isfinite(found.lower).any() or np.isfinite(found.upper).any() else None


def velocity_names(path: Path | CriticalPoint, places: Sequence[int]) -> tuple[list[str], Sequence[int]]:
    """The names of velocities and forces, and which of them are shown: those of the coordinates, on a group of all axes."""
    space = space_of_columns(names := names_of(path))
    return (names, places) if space is None else (list(space.axes), range(space.n))


def velocity_panel(path: Path, places: Sequence[int]) -> Panel:
    """dx/dt of the coordinates, on a group the velocities about and along its axes."""
    axes, shown = velocity_names(path, places)
    rate = "d{}/dt" if space_of_columns(names_of(path)) is None else "ξ {}"
    lines = [(rate.format(axes[i]), np.asarray(path.v)[:, i]) for i in shown]
    return Panel("velocities", np.asarray(path.t_velocity), lines)


def panels_of_loop(path: Path, places: Sequence[int]) -> list[Panel]:
    """The controls, the disturbance and the noise of a closed loop; nothing of another path."""
    if not isinstance(path, ClosedLoop) or not len(path.u):
        return []
    names, places = velocity_names(path, places)
    states = [names[i] for i in places] + [f"d{names[i]}/dt" for i in places]
    columns = [*places, *(i + len(names) for i in places)]
    t, u = path.held(path.t_u, path.u)
    found = [Panel("control u", t, component_lines("u", u))]
    if path.disturbance is not None:
        t, values = path.held(np.asarray(path.t)[:-1], path.disturbance)
        found.append(Panel("disturbance", t, [(f"on {names[i]}", values[:, i]) for i in places]))
    if path.noise is not None:
        found.append(Panel("noise", path.t_u, list(zip(states, path.noise[:, columns].T, strict=True))))
    return found


def _split_fast(panel: Panel) -> list[Panel]:
    """The panel, or one for each line where they oscillate too fast to be seen behind each other."""
    turns = max((np.count_nonzero(np.diff(np.sign(np.diff(y)))) for _, y in panel.lines), default=0)
    if len(panel.lines) == 1 or turns <= SEEN:
        return [panel] if panel.lines else []
    return [Panel(name, panel.t, [(name, y)]) for name, y in panel.lines]


def force_panels(path: Path, places: Sequence[int], law: str = "") -> list[Panel]:
    """Multipliers and constraint forces; one panel where a single multiplier is, up to sign, the only force. law: what the
    multipliers are, where they are the control law of a servo-constraint."""
    names, places = velocity_names(path, places)
    t, forces, multipliers = map(np.asarray, (path.t_multipliers, path.constraint_forces, path.multipliers))
    if not multipliers.size:
        return []
    lines, acting = component_lines("λ", multipliers), [i for i in places if np.any(forces[:, i] != 0)]
    if len(lines) == 1 == len(acting) and np.array_equal(np.abs(forces[:, acting[0]]), np.abs(multipliers[:, 0])):
        return [Panel(f"{law or 'force'} on {names[acting[0]]} (λ)", t, lines)]
    label = "λ" if len(lines) == 1 and not law else f"{law or 'multipliers'} λ"
    return [Panel(label, t, lines), Panel("force Rᵀλ", t, [(f"force on {names[i]}", forces[:, i]) for i in acting])]


def component_lines(letter: str, values: np.ndarray) -> list[Line]:
    """Each column by its number."""
    count = values.shape[1]
    return [(letter if count == 1 else f"{letter}{subscript(i + 1)}", values[:, i]) for i in range(count)]


def panels_of_solution(solution: CriticalPoint, places: Sequence[int]) -> list[Panel]:
    """q, its derivatives, controls, inequalities g ≤ 0, multipliers and forces. places: of the coordinates in q."""
    s: Any = solution
    controlled, names = isinstance(solution, ControlSolution), names_of(solution)

    def panel_of(label: str, t: Any, lines: list[Line], kind: str = "", named: bool = False) -> Panel:
        return Panel(label, np.asarray(t), lines, solution.bounds.get(kind), named=named)

    def lines_of(values: Any, which: tuple[list[str], Sequence[int]] = (names, places)) -> list[Line]:
        return [(which[0][i], np.asarray(values)[:, i]) for i in which[1]]

    moving = velocity_names(solution, places)
    derivatives = DERIVATIVES if space_of_columns(names) is None else ("q", "ξ", "dξ/dt")

    found = [panel_of("q", s.t, lines_of(s.q), "q", named=True)]
    if controlled:
        found.append(panel_of(derivatives[1], s.t, lines_of(s.v, moving), "v"))
        found.append(panel_of("control u", s.t, component_lines("u", np.asarray(s.u)), "u", named=True))
    for j in range(1, 0 if controlled else s.jets.shape[1]):
        found.append(panel_of(derivatives[j], s.t_multipliers, lines_of(s.jets[:, j], moving), "v" if j == 1 else ""))
    if (limits := s.bounds.get("inequalities")) is not None:
        found.append(panel_of("g", limits.t, component_lines("g", np.asarray(limits.values)), "inequalities"))
    if not controlled:
        found.append(panel_of("λ", s.t_multipliers, component_lines("λ", np.asarray(s.multipliers))))
        held = np.asarray(s.holonomic_multipliers)
        held = np.where(held == 0.0, np.nan, held)  # none where a position is given
        found.append(panel_of("λ, holonomic", s.t, component_lines("μ", held)))
    elif s.multipliers.shape[1]:
        found.append(panel_of("force Rᵀν", s.t, lines_of(s.constraint_forces, moving)))
    return [panel for panel in found if panel.lines]


def envelope(t: np.ndarray, y: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
    """Indices of the first, least, largest and last point in each of `columns` equal intervals of t, all if few.

    t: (K,) increasing, y: (K,). Points that are not finite are kept, as they break the line.
    """
    if t.size <= 8 * columns:
        return np.arange(t.size)
    column = np.minimum((columns * (t - t[0]) / (t[-1] - t[0])).astype(int), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(starts[1:], t.size)
    by_value = np.lexsort((y, column))  # sorted by column, then by value; not finite values come last
    finite = np.add.reduceat(np.isfinite(y).astype(int), starts)
    largest = by_value[np.minimum(starts + np.maximum(finite - 1, 0), ends - 1)]
    return np.unique(np.concatenate([starts, by_value[starts], largest, ends - 1, np.flatnonzero(~np.isfinite(y))]))


def names_of(path: Path | CriticalPoint) -> list[str]:
    """The names of q given with the system, or q₀, q₁, …"""
    return list(path.coordinates) or [f"q{subscript(i)}" for i in range(np.shape(path.q)[1])]


def subscript(i: int) -> str:
    return "".join(chr(ord("₀") + int(digit)) for digit in str(i))


def draw_panel(
    ax: Axes,
    panel: Panel,
    theme: Theme,
    run: int | None,
    name: str,
    style: Mapping[str, Any],
) -> None:
    """The lines of a panel. run: the number of a result among several in these axes, called `name`: then its lines have
    one colour, and differ by their dashes. style: keywords of matplotlib's lines, which decide."""
    t = panel.t
    for i, (part, values) in enumerate(panel.lines):
        kept = envelope(t, values)
        dense = kept.size < t.size
        own = part if panel.named and (len(panel.lines) > 1 or not name) else ""
        words = ": ".join(word for word in (name, own) if word)
        look = {
            "color": theme.lines[(i if run is None else run) % len(theme.lines)],
            "linestyle": "-" if run is None else DASHES[i % len(DASHES)],
            "linewidth": 0.6 if dense else 0.9, "marker": "." if t.size == 1 else "", "label": words or None,
        }  # fmt: skip
        ax.plot(t[kept], values[kept], rasterized=dense, **{**look, **style})
    ax.set_ylabel(panel.label)
    ax.ticklabel_format(axis="y", useOffset=False, style="sci", scilimits=(-3, 4))
    ax.margins(x=0.01)
    _widen(ax, np.concatenate([line.get_ydata() for line in ax.lines]), panel.noise)
    if panel.bounds is not None:
        _draw_bounds(ax, panel.bounds, theme, run)
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.2 if run is None else 2.0)


def _widen(ax: Axes, values: np.ndarray, noise: float) -> None:
    """A range that is not made of rounding errors: a constant shall look constant."""
    finite = values[np.isfinite(values)]
    largest = np.max(np.abs(finite), initial=0.0)
    if finite.size and np.ptp(finite) <= max(1e-9 * largest, noise):
        middle = float(np.mean(finite)) if largest > noise else 0.0
        half = 0.05 * abs(middle) or 1.0
        ax.set_ylim(middle - half, middle + half)


def _draw_bounds(ax: Axes, bounds: ActiveBounds, theme: Theme, run: int | None) -> None:
    """Dashed lines, and dots where they are active."""
    t = bounds.t
    for i, column in enumerate(bounds.values.T):
        colour = theme.lines[(i if run is None else run) % len(theme.lines)]
        for side in (bounds.lower[:, i], bounds.upper[:, i]):
            if np.isfinite(side).any():
                ax.plot(t, np.where(np.isfinite(side), side, np.nan), color=colour, linewidth=0.8, linestyle="--")
        at = bounds.active[:, i] != 0
        ax.plot(t[at], column[at], ".", color=colour, markersize=3.0)
