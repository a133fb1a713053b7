"""animate: the drawing of a result as a moving picture."""

from __future__ import annotations

import contextlib
import html
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.drawing import Scene, common_box
from dalembert.numbers import as_flag, as_positive, as_text, whole_number
from dalembert.show.html.report import drawing_text
from dalembert.show.results import at_times, results_of, scene_for
from dalembert.show.stage import Scenery
from dalembert.show.style import check_new, theme_of, write_whole

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.figure import Figure


SECONDS = 8.0  # that a motion takes which is longer in real time
MOST_FRAMES = 3000
ENDINGS = (".gif", ".mp4", ".webm", ".html")


class Animation:
    """A motion as a matplotlib animation: what `animate` returns. Notebooks show it; it can be saved as .gif, .mp4,
    .webm or .html.

    Args:
        scenes: the drawings, at the times of the frames.
        speed: units of time per second of the animation.
        fps: frames per second.
        title: title above the picture; "" for none.
        dark: light on dark.

    Example:
        >>> motion = da.animate(path, speed=1.0, fps=10)
        >>> motion.frames, motion.fps
        (20, 10)
    """

    def __init__(self, scenes: list[Scene], speed: float, fps: int, title: str, dark: bool):
        self.scenes, self.speed, self.fps = scenes, speed, fps
        self._title, self._theme = title, theme_of(dark)

    def __repr__(self) -> str:
        t = self.scenes[0].t
        return f"Animation({self.frames} frames, t = {t[0]:g} … {t[-1]:g}, speed={self.speed:g}, fps={self.fps})"

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.scenes[0].t)

    def figure(self, frame: int = -1) -> Figure:
        """One frame as a matplotlib Figure; the last one by default."""
        figure, _, show = self._make_figure()
        show(range(self.frames)[frame])
        return figure

    def func_animation(self) -> FuncAnimation:
        """A matplotlib FuncAnimation. Keep a reference to it: without one it stops."""
        from matplotlib.animation import FuncAnimation

        figure, _, show = self._make_figure()
        return FuncAnimation(figure, lambda frame: (show(frame), ())[1], frames=self.frames, interval=1000.0 / self.fps)

    def save(self, file: str | os.PathLike, *, dpi: float = 110) -> None:
        """Write the motion to a file. A file of that name is replaced once the new one is complete.

        Args:
            file: a name that ends in .gif, .mp4, .webm or .html; videos need the program ffmpeg.
            dpi: dots per inch; the figure is 6 inches wide.

        Raises:
            ValueError: the name has another ending.
            RuntimeError: ffmpeg is not installed.
            OSError: the file cannot be written.
        """
        target = check_new(file, ENDINGS, "a motion is saved as a picture or a video")
        as_positive(dpi, "dpi")
        if target.suffix == ".html":
            write_whole(target, lambda place: place.write_text(self._html(), encoding="utf-8"))
        elif target.suffix == ".gif":
            write_whole(target, lambda place: _write_gif(self._pictures(dpi), place, self.fps))
        elif shutil.which("ffmpeg") is None:
            raise RuntimeError(
                f"file: a {target.suffix} needs the program ffmpeg, which is not installed; install it, or save a .gif or a "
                ".html"
            )
        else:
            write_whole(target, lambda place: _write_video(self._pictures(dpi), place, self.fps))

    def _pictures(self, dpi: float) -> Iterator[np.ndarray]:
        """(height, width, 4), one for each frame. What does not move is painted once: FuncAnimation.save paints everything
        anew."""
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        with mpl.rc_context(self._theme.style):
            figure, moving, show = self._make_figure()
            figure.dpi = float(dpi)
            for artist in moving:
                artist.set_animated(True)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            background = canvas.copy_from_bbox(figure.bbox)
            for frame in range(self.frames):
                show(frame)
                canvas.restore_region(background)
                for artist in sorted(moving, key=lambda x: x.get_zorder()):
                    if hasattr(artist, "do_3d_projection") and hasattr(artist, "get_facecolor"):
                        artist.do_3d_projection()
                    artist.axes.draw_artist(artist)
                yield np.asarray(canvas.buffer_rgba())  # painted over by the next one

    def _repr_html_(self) -> str:
        """The page of the drawing in a frame of its own. Matplotlib's own player asks another host for its buttons."""
        source = html.escape(self._html(), quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:520px;border:0" title="motion"></iframe>'

    def _html(self) -> str:
        return drawing_text(self.scenes, self._title, self.speed)

    def _make_figure(self) -> tuple[Figure, list[Any], Callable[[int], None]]:
        """A figure, the artists that are elsewhere in another frame, and what shows one frame."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        with mpl.rc_context(self._theme.style):
            figure = Figure(figsize=_figure_size(self.scenes), layout="constrained")
            stage = Scenery(figure, 111, self.scenes, self._theme)
            clock = stage.axes.set_title(" ", loc="left", fontfamily="monospace", fontsize=9)
            if self._title:
                figure.suptitle(self._title.replace("$", r"\$"), fontsize=11)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # once: it takes longer than all the rest of a frame
        t = self.scenes[0].t
        digits = max(0, 2 - int(np.floor(np.log10(max(abs(t[-1] - t[0]), 1e-9)))))

        def show(frame: int) -> None:
            stage.show(frame)
            clock.set_text(f"t = {t[frame]:.{digits}f}")

        return figure, [*stage.moving, clock], show


def animate(
    path: Any,
    *,
    speed: float | None = None,
    fps: int = 25,
    title: str | None = None,
    dark: bool = False,
    system: Any = None,
) -> Animation:
    """The motion of a path or a solution, drawn by its system's `draw=`: rods, wheels, bodies, points with their
    trails.

    A system without `draw=` is drawn as a curve of its coordinates: of those named x, y, z, or of the first two, or of
    a single one over time. The frames are equally spaced in time; nodes between them are left out. If a motion is too
    fast to be followed over its whole length, only its first part is shown.

    Args:
        path: a Path, a Solution, an ensemble, a Study, a list of these, or a mapping from names to these; all in one
            picture.
        speed: units of time per second of the animation: 1 is real time if the unit is the second, 0.1 is slow motion.
            By default real time for motions up to 8 units, and faster for longer ones.
        fps: frames per second.
        title: title above the picture.
        dark: light on dark.
        system: the system whose `draw=` is used: for a path that was loaded, or in place of the system that ran.

    Returns:
        An Animation. A notebook shows it as the value of a cell; `.save("run.gif")` writes it to a file.

    Raises:
        TypeError: an argument is of the wrong type; the message names it.
        ValueError: the path is traced, drawings in the plane are mixed with drawings in space, or there are more than
            3000 frames.

    Example:
        >>> da.animate(path, fps=5).save("pendulum.gif", dpi=40)
    """
    as_flag(dark, "dark")
    whole_number(fps, "fps", 1, 120)
    as_text(title, "title")
    if speed is not None:
        as_positive(speed, "speed")
    shown = results_of(path, system)
    scenes = [scene_for(one) for one in shown]
    if len({scene.dimension for scene in scenes}) > 1:
        raise ValueError("path: holds drawings in the plane and drawings in space; animate them one by one")
    ends = [(scene.t[0], scene.t[-1]) for scene in scenes]
    first, last = ends[0][0], max((end for _, end in ends), key=lambda end: abs(end - ends[0][0]))
    length = abs(last - first)
    rate = max(1.0, length / SECONDS) if speed is None else speed
    frames = max(1, round(length / rate * fps))
    if frames > MOST_FRAMES:
        raise ValueError(f"speed, fps: these are {frames} frames; at most {MOST_FRAMES} are made. Give a higher speed")
    times = np.linspace(first, last, frames)
    part = (
        "" if all(len(s.t) < 2 or s.t[-1] == one.t[-1] for s, one in zip(scenes, shown, strict=True)) else "the first part"
    )
    heading = ", ".join(text for text in (title or "", part) if text)
    return Animation([at_times(scene, times) for scene in scenes], rate, fps, heading, dark)


def _write_gif(pictures: Iterator[np.ndarray], place: File, fps: int) -> None:
    """With one palette for all frames: the GIFs of Pillow's own are three times as large."""
    from PIL import Image

    frames = [Image.fromarray(picture).convert("RGB") for picture in pictures]
    some = [np.asarray(frame) for frame in frames[:: max(1, len(frames) // 4)]]
    palette = Image.fromarray(np.concatenate(some)).quantize(48)
    first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    first.save(place, format="gif", save_all=True, append_images=rest, duration=round(1000 / fps), loop=0, optimize=False)


def _write_video(pictures: Iterator[np.ndarray], place: File, fps: int) -> None:
    """By ffmpeg, of an even number of pixels: H.264 wants it."""
    first = next(pictures)
    high, wide = (size // 2 * 2 for size in first.shape[:2])
    form = ["-f", "rawvideo", "-pix_fmt", "rgba", "-framerate", str(fps), "-s", f"{wide}x{high}", "-i", "pipe:"]
    kind = ["-vcodec", "h264", "-pix_fmt", "yuv420p"] if place.suffix == ".mp4" else []
    command = ["ffmpeg", "-loglevel", "error", *form, *kind, "-y", os.fspath(place)]
    with contextlib.suppress(BrokenPipeError), subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for picture in itertools.chain([first], pictures):
            process.stdin.write(picture[:high, :wide].tobytes())
    if process.returncode:
        raise RuntimeError(f"file: ffmpeg ended with {process.returncode}; its message stands above")


def _figure_size(scenes: list[Scene]) -> tuple[float, float]:
    """Inches: as wide as always, as high as the drawing."""
    if scenes[0].dimension == 3:
        return 5.4, 5.2
    low, high, equal = common_box(scenes)
    width, height = np.maximum(high - low, 1e-12)
    ratio = height / width if equal else 0.6
    return 6.0, float(np.clip(5.4 * ratio + 0.9, 2.4, 6.4))
