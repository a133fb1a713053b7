"""Frames of a motion, quickly: what stands still is painted once, what moves over it in every frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.drawing.scene import Scene
from dalembert.show.stage import Scenery
from dalembert.show.style import Theme


def film(size: tuple[float, float], scenes: list[Scene], theme: Theme, title: str) -> tuple[Any, Scenery, Any]:
    """A figure, the stage on it, and the text of its clock. All of it is drawn by `savefig`, which the writers of matplotlib
    call for every frame."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class Film(Figure):
        """A Figure whose pictures of points share their background."""

        background: Any = None
        moving: list[Any] = []  # noqa: RUF012  set once for each figure

        def savefig(self, fname: Any, *, format: str | None = None, dpi: Any = "figure", **options: Any) -> None:
            if format not in ("rgba", "raw", "png") or not self.moving:
                for artist in self.moving:
                    artist.set_animated(False)
                super().savefig(fname, format=format, dpi=dpi, **options)
                return
            canvas = _canvas(self, None if dpi == "figure" else dpi)
            if format == "png":
                canvas.print_png(fname) if self.background is None else _as_png(canvas, fname)
            else:
                fname.write(canvas.buffer_rgba())

    def _canvas(figure: Film, dpi: float | None) -> FigureCanvasAgg:
        if figure.background is None or (dpi is not None and dpi != figure.dpi):
            figure.dpi = dpi or figure.dpi
            for artist in figure.moving:
                artist.set_animated(True)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            figure.background = canvas, canvas.copy_from_bbox(figure.bbox)
        canvas, background = figure.background
        canvas.restore_region(background)
        for artist in sorted(figure.moving, key=lambda x: x.get_zorder()):
            if hasattr(artist, "do_3d_projection") and hasattr(artist, "get_facecolor"):
                artist.do_3d_projection()
            artist.axes.draw_artist(artist)
        return canvas

    figure = Film(figsize=size, layout="constrained")
    stage = Scenery(figure, 111, scenes, theme)
    clock = stage.axes.set_title(" ", loc="left", fontfamily="monospace", fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # once: it takes longer than all the rest of a frame
    figure.moving = [*stage.moving, clock]
    return figure, stage, clock


def _as_png(canvas: Any, target: Any) -> None:
    """With few colours: a drawing has no more."""
    from PIL import Image

    Image.fromarray(_rgb(canvas)).quantize(64).save(target, format="png")


def _rgb(canvas: Any) -> Any:
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def gif_writer(fps: int) -> Any:
    """A writer of GIFs with one palette for all frames: those of Pillow alone are three times as large."""
    import io

    from matplotlib.animation import AbstractMovieWriter
    from PIL import Image

    class GifWriter(AbstractMovieWriter):
        def setup(self, fig: Any, outfile: Any, dpi: float | None = None) -> None:
            self.fig, self.outfile, self.dpi = fig, outfile, dpi or fig.dpi
            self._pictures: list[Any] = []

        def grab_frame(self, **options: Any) -> None:
            buffer = io.BytesIO()
            self.fig.savefig(buffer, format="rgba", dpi=self.dpi)
            picture = Image.frombuffer("RGBA", self.frame_size, buffer.getvalue(), "raw", "RGBA", 0, 1)
            self._pictures.append(picture.convert("RGB"))

        def finish(self) -> None:
            wide, high = self._pictures[0].size
            some = self._pictures[:: max(1, len(self._pictures) // 4)]
            strip = Image.new("RGB", (wide, high * len(some)))
            for i, picture in enumerate(some):
                strip.paste(picture, (0, high * i))
            palette = strip.quantize(48)
            first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in self._pictures)
            first.save(
                self.outfile, save_all=True, append_images=rest, duration=round(1000 / self.fps), loop=0, optimize=False
            )

    return GifWriter(fps=fps)
