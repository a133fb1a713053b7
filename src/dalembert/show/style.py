"""Colours and lines of figures, light and dark; figures where the user sees them; files that are written whole.

The colours are told apart by colour-blind readers, and stand out by 3:1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as File
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from dalembert.numbers import as_new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure. pyplot knows it where the user has imported pyplot for a window, so that plt.show() shows it.

    It is made without pyplot everywhere else: there the user's back-end stays as it is, and a thousand figures that are
    saved need no closing. A notebook shows it as the value of a cell, with or without pyplot.
    """
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A Figure that a notebook can show by itself."""

        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=110)
            return content.getvalue()

    plt: Any = sys.modules.get("matplotlib.pyplot")
    if plt is not None and _has_windows(plt.get_backend()):
        return plt.figure(FigureClass=Picture, figsize=size, layout="constrained")
    return Picture(figsize=size, layout="constrained")


def _has_windows(backend: str) -> bool:
    """True if figures of pyplot come up in windows. Inline back-ends would show them twice: with the value of the cell."""
    from matplotlib.backends.registry import BackendFilter, backend_registry

    name = backend.lower()
    return name not in backend_registry.list_builtin(BackendFilter.NON_INTERACTIVE) and "inline" not in name


def check_new(file: Any, endings: tuple[str, ...], what: str) -> File:
    """The file, if its ending and its folder are right."""
    target = as_new_file(file, "file", endings, what)
    if target.is_dir():
        raise IsADirectoryError(f"file: {target} is a folder; give the name of a file")
    return target


def write_whole(target: File, writing: Callable[[File], Any]) -> None:
    """The file that `writing` makes at another place of the same folder, put where it belongs when it is complete."""
    with tempfile.TemporaryDirectory(prefix=".dalembert-", dir=target.parent) as folder:
        place = File(folder) / target.name
        writing(place)
        os.replace(place, target)


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


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours that differ between light and dark: page and text, what stays in the background, colours of lines; dim: the
    part of a range of colours at its dark end that would not be seen."""

    page: str
    text: str
    faint: str
    red: str
    lines: tuple[str, ...]
    dim: float = 0.0

    @property
    def style(self) -> dict[Any, Any]:
        """Settings of matplotlib."""
        coloured = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
        filled = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        return STYLE | dict.fromkeys(coloured, self.text) | dict.fromkeys(filled, self.page)

    def fill(self, colour: str) -> tuple[float, ...]:
        """A colour thinned with the page, for areas: nothing shines through."""
        from matplotlib.colors import to_rgb

        return tuple(0.3 * c + 0.7 * p for c, p in zip(to_rgb(colour), to_rgb(self.page), strict=True))


LIGHT = Theme("#ffffff", "#000000", "#8d9199", "#b5321f",
              ("#1f5a99", "#d1701c", "#2c7a4b", "#7a4b9c", "#8a6d1f", "#c23b7c", "#3b8ea5", "#555555"))  # fmt: skip
DARK = Theme("#14171c", "#e8e6e1", "#6c737d", "#ff7a66",
             ("#6cb0f5", "#f0a04b", "#63c48a", "#c49af0", "#d8bd5c", "#f28bbd", "#6fcbe0", "#b4b9c0"), 0.5)  # fmt: skip


def theme_of(dark: bool) -> Theme:
    return DARK if dark else LIGHT


class Canvas(NamedTuple):
    """Where a figure is drawn, and how: in a figure of its own or in the user's axes; style: keywords of the user's for
    matplotlib's lines."""

    theme: Theme
    title: str | None = None
    ax: Any = None
    style: Mapping[str, Any] = MappingProxyType({})

    @contextlib.contextmanager
    def diagrams(self, count: int, size: tuple[float, float], beside: bool = False) -> Iterator[list[Any]]:
        """The axes of `count` diagrams, each of this size in inches, below or beside each other."""
        import matplotlib as mpl

        if self.ax is not None:
            if count > 1:
                raise ValueError(f"ax: these are {count} diagrams, which need a figure of their own; choose one quantity")
            self.ax.set_title(self.title or self.ax.get_title())
            yield [self.ax]
            return
        with mpl.rc_context(self.theme.style):
            rows, columns = (1, count) if beside else (count, 1)
            figure = new_figure((size[0] * columns, size[1] * rows))
            axes = figure.subplots(rows, columns, squeeze=False)
            if self.title:
                figure.suptitle(self.title, fontsize=10)
            yield list(axes.flat)
