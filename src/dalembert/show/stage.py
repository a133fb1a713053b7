"""A drawing on axes of matplotlib: made once, and moved from frame to frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dalembert.drawing import Outline, Scene, common_box
from dalembert.show.style import Theme

TURN = np.linspace(0.0, 2.0 * np.pi, 65)
TAIL = 30  # frames of a trail that are drawn strong
AZIMUTH, ELEVATION = -50.0, 24.0  # degrees, from where drawings in space are seen
STILL = "still"  # what belongs to a moving shape and stays, such as its whole way


class Ink(NamedTuple):
    """Colours of one drawing. line: rods and rims; dots: masses and trails; alpha: of the whole drawing."""

    line: str
    dots: str
    alpha: float = 1.0


def inks(theme: Theme, count: int) -> list[Ink]:
    """Of one drawing rods and masses differ; of several each has its own colour."""
    if count == 1:
        return [Ink(theme.lines[0], theme.lines[1])]
    return [Ink(theme.lines[i % len(theme.lines)], theme.lines[i % len(theme.lines)], 0.85) for i in range(count)]


class Scenery:
    """Drawings side by side on the same axes."""

    def __init__(self, figure: Any, place: Any, scenes: Sequence[Scene], theme: Theme):
        space = scenes[0].dimension == 3
        self.axes = figure.add_subplot(place, projection="3d") if space else figure.add_subplot(place)
        self._space, self._theme, self._moves = space, theme, []
        self._zoom = 1.0
        self.moving: list[Any] = []  # artists that are elsewhere in another frame
        for scene, ink in zip(scenes, inks(theme, len(scenes)), strict=True):
            for outline in scene.outlines:
                self._add_outline(outline, ink)
        low, high, equal = common_box(scenes)
        frame_axes(self.axes, low, high, scenes[0].axes, equal, theme)
        if space:
            self.axes.view_init(elev=ELEVATION, azim=AZIMUTH)
            self.axes.set_proj_type("ortho")
            self.axes.set_box_aspect(self.axes._box_aspect, zoom=self._zoom)
        self.show(0)

    def show(self, frame: int) -> None:
        """Everything as it is in this frame."""
        for draw_frame, outline in self._moves:
            draw_frame(0 if outline.fixed else frame)

    def _add_outline(self, outline: Outline, ink: Ink) -> None:
        still = self._theme.faint if outline.fixed else None
        add = {"dots": self._dots, "rod": self._rod, "body": self._body, "wheel": self._wheel, "ball": self._ball}
        before = list(self.axes.get_children())
        self._moves.append((add[outline.kind](outline, ink, still), outline))
        if not outline.fixed:
            new = [artist for artist in self.axes.get_children() if artist not in before]
            self.moving += [artist for artist in new if artist.get_gid() != STILL]

    def _line(self, **options: Any) -> Any:
        return self.axes.plot(*[[]] * (3 if self._space else 2), **options)[0]

    def _move_line(self, line: Any, at: np.ndarray) -> None:
        line.set_data(at[:, 0], at[:, 1])
        if self._space:
            line.set_3d_properties(at[:, 2])

    def _dots(self, outline: Outline, ink: Ink, still: str | None):
        if outline.trail:
            for way in outline.at.transpose(1, 0, 2):
                self._move_line(self._line(color=ink.dots, linewidth=0.8, alpha=0.35 * ink.alpha, zorder=1, gid=STILL), way)
        tails = [
            self._line(color=ink.dots, linewidth=1.8, alpha=0.8 * ink.alpha, zorder=2)
            for _ in range(outline.at.shape[1] * outline.trail)
        ]
        size = 4.0 if still else 8.0
        line = self._line(color=still or ink.dots, marker="o", markersize=size, linestyle="", zorder=5, alpha=ink.alpha)

        def draw_frame(frame: int) -> None:
            self._move_line(line, outline.at[frame])
            for i, tail in enumerate(tails):
                self._move_line(tail, outline.at[max(0, frame - TAIL) : frame + 1, i])

        return draw_frame

    def _rod(self, outline: Outline, ink: Ink, still: str | None):
        line = self._line(color=still or ink.line, linewidth=1.2 if still else 2.6, solid_capstyle="round", alpha=ink.alpha,
                          solid_joinstyle="round", zorder=1 if still else 3)  # fmt: skip
        return lambda frame: self._move_line(line, outline.at[frame])

    def _body(self, outline: Outline, ink: Ink, still: str | None):
        colour = still or ink.line
        if self._space:
            from mpl_toolkits.mplot3d.art3d import Poly3DCollection

            faces: Any = Poly3DCollection([], facecolor=colour, edgecolor=colour, alpha=0.35, linewidths=1.2)
            faces.set_verts(outline.at[0].reshape(-1, outline.face, 3))
            self.axes.add_collection3d(faces)
        else:
            from matplotlib.collections import PolyCollection

            faces = PolyCollection([], facecolor=self._theme.fill(colour), edgecolor=colour, linewidths=1.6, zorder=2.5)
            self.axes.add_collection(faces)
        return lambda frame: faces.set_verts(outline.at[frame].reshape(-1, outline.face, outline.at.shape[2]))

    def _wheel(self, outline: Outline, ink: Ink, still: str | None):
        rim = self._line(color=still or ink.line, linewidth=2.2, zorder=4, alpha=ink.alpha)
        spoke = self._line(color=still or ink.line, linewidth=1.2, zorder=4, alpha=ink.alpha)

        def draw_frame(frame: int) -> None:
            self._move_line(rim, circle(outline.at[frame]))
            centre, end = outline.at[frame][:2]
            self._move_line(spoke, np.stack([end, 2.0 * centre - end]))

        return draw_frame

    def _ball(self, outline: Outline, ink: Ink, still: str | None):
        """One that stands still is the globe on which something moves; one that moves is a thing, seen from outside."""
        if not outline.fixed:
            return self._rolling(outline, ink)
        centre, radius = _sphere(outline, 0)
        for rows, alpha in [(np.where(side, x - centre, np.nan) + centre, alpha) for x in globe(centre, radius)
                            for side, alpha in ((front(x - centre), 0.8), (~front(x - centre), 0.22))]:  # fmt: skip
            self._move_line(self._line(color=self._theme.faint, linewidth=0.6, alpha=alpha, zorder=0, gid=STILL), rows)
        self._move_line(self._line(color=self._theme.faint, linewidth=0.9, zorder=0, gid=STILL), silhouette(centre, radius))
        self.axes.set_axis_off()
        self._zoom = 1.35  # room that ticks and names have otherwise
        return lambda frame: None

    def _rolling(self, outline: Outline, ink: Ink):
        edge = self._line(color=ink.line, linewidth=2.0, zorder=4, alpha=ink.alpha)
        rings = [self._line(color=ink.line, linewidth=0.6, zorder=4, alpha=0.6 * ink.alpha) for _ in globe(np.zeros(3), 1.0)]

        def draw_frame(frame: int) -> None:
            centre, radius = _sphere(outline, frame)
            self._move_line(edge, silhouette(centre, radius))
            for ring, x in zip(rings, globe(centre, radius), strict=True):
                self._move_line(ring, np.where(front(x - centre), x, np.nan))

        return draw_frame


def _sphere(outline: Outline, frame: int) -> tuple[np.ndarray, float]:
    """Centre and radius of a ball."""
    centre, rim = outline.at[frame]
    return centre, float(np.linalg.norm(rim - centre))


def to_eye() -> np.ndarray:
    """The direction from which a drawing in space is seen."""
    up, around = np.deg2rad(ELEVATION), np.deg2rad(AZIMUTH)
    return np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])


def silhouette(centre: np.ndarray, radius: float) -> np.ndarray:
    """The outline of a sphere as it is seen, (65, 3)."""
    first = np.cross([0.0, 0.0, 1.0], to_eye())
    first /= np.linalg.norm(first)
    return circle(centre + radius * np.stack([np.zeros(3), first, np.cross(to_eye(), first)]))


def front(at: np.ndarray) -> np.ndarray:
    """(K, 1): which points (K, 3) lie before the origin, as axes of matplotlib are seen."""
    return (at @ to_eye() >= 0.0)[:, None]


def circle(points: np.ndarray) -> np.ndarray:
    """c + (a-c) cos s + (b-c) sin s, the rim of a wheel with centre c, (65, d)."""
    c, a, b = points
    return c + np.cos(TURN)[:, None] * (a - c) + np.sin(TURN)[:, None] * (b - c)


def globe(centre: np.ndarray, radius: float) -> list[np.ndarray]:
    """Parallels and meridians of a sphere, (65, 3) each."""
    cos, sin = np.cos(TURN), np.sin(TURN)
    found = []
    for latitude in np.linspace(-np.pi / 3, np.pi / 3, 5):
        c = np.cos(latitude)
        found.append(np.stack([c * cos, c * sin, np.full_like(cos, np.sin(latitude))], axis=1))
    for longitude in np.linspace(0.0, np.pi, 6, endpoint=False):
        found.append(np.stack([np.cos(longitude) * cos, np.sin(longitude) * cos, sin], axis=1))
    return [centre + radius * rows for rows in found]


def frame_axes(axes: Any, low: np.ndarray, high: np.ndarray, names: Sequence[str], equal: bool, theme: Theme) -> None:
    """Limits that nothing leaves, and names. equal: one unit is as long along all axes."""
    width = np.where(high > low, high - low, 1.0)
    margin = 0.06 * (np.full_like(width, np.max(width)) if equal else width)
    for i, axis in enumerate("xyz"[: len(low)]):
        getattr(axes, f"set_{axis}lim")(low[i] - margin[i], high[i] + margin[i])
        getattr(axes, f"set_{axis}label")(names[i])
    if equal and len(low) == 2:
        axes.set_aspect("equal", adjustable="box")
    if len(low) == 3:
        axes.set_box_aspect(width + 2.0 * margin if equal else None, zoom=1.0)
        _draw_walls(axes, width if equal else None, theme)


def _draw_walls(axes: Any, width: np.ndarray | None, theme: Theme) -> None:
    """Walls of axes in space that are clear on every page: those of matplotlib are grey. width: of axes of one scale, of
    which a shorter one has fewer ticks."""
    from matplotlib.ticker import MaxNLocator

    for i, axis in enumerate((axes.xaxis, axes.yaxis, axes.zaxis)):
        axis.pane.set(facecolor="none", edgecolor=theme.faint)
        axis._axinfo["grid"].update(color=theme.faint, linewidth=0.3)
        if width is not None:
            axis.set_major_locator(MaxNLocator(max(2, round(5 * width[i] / np.max(width)))))
