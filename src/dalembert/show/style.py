"""Colours and lines of figures, light and dark. The colours are told apart by colour-blind readers, and stand out by 3:1."""

from __future__ import annotations

import dataclasses
from typing import Any

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
    """What differs between light and dark: page and text, what stays in the background, colours of lines; dim: the part of
    a range of colours at its dark end that would not be seen."""

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
