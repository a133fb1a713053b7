"""Figures that are seen: under plt.show() where the user shows figures, and inline in notebooks."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

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
    """Whether figures of pyplot come up in windows. Inline back-ends would show them twice: with the value of the cell."""
    from matplotlib.backends.registry import BackendFilter, backend_registry

    name = backend.lower()
    return name not in backend_registry.list_builtin(BackendFilter.NON_INTERACTIVE) and "inline" not in name
