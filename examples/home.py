"""The moving picture of the documentation's home page: mechanics, control and a spline side by side, light and dark.

python examples/home.py docs/figures
"""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

import dalembert as da
from dalembert.gallery import ENTRIES, PROBLEMS
from dalembert.show import Scenery, Theme, at_times, results_of, scene_for, theme_of

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
FRAMES, FPS = (6, 5) if FAST else (96, 16)
NAMES = {"mechanics": "car_with_trailers", "control": "cart_pole", "splines": "sphere_spline"}
PAGE = {False: "#ffffff", True: "#1e2129"}  # the grounds of the documentation's pages
HELD = 0.12  # part of the time in which the end is shown


def computed(name: str):
    if name in PROBLEMS:
        entry = PROBLEMS[name]
        return da.solve(entry.problem, **entry.boundary, steps=entry.steps, guess=entry.first_guess(entry.steps))
    entry = ENTRIES[name]
    return da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=round(34.0 / entry.h))


def frames(results: dict, theme: Theme) -> list[Image.Image]:
    """All motions in the same number of frames."""
    with mpl.rc_context(theme.style):
        figure = Figure(figsize=(9.0, 3.1), dpi=80)
        canvas = FigureCanvasAgg(figure)
        shows = []
        for i, (title, result) in enumerate(results.items()):
            scene = scene_for(results_of(result, None)[0])
            times = np.interp(np.linspace(0.0, 1.0, FRAMES), [0.0, 1.0 - HELD], [scene.t[0], scene.t[-1]])
            stage = Scenery(figure, 131 + i, [at_times(scene, times)], theme)
            stage.axes.set_axis_off()
            space = scene.dimension == 3
            wide, low = (0.38, -0.08) if space else (0.3, 0.04)
            stage.axes.set_position((i / 3 + (1 / 3 - wide) / 2, low, wide, 0.98 if space else 0.8))
            figure.text((i + 0.5) / 3, 0.93, title, ha="center", fontsize=12, color=theme.text)
            shows.append(stage.show)
        pictures = []
        for frame in range(FRAMES):
            for show in shows:
                show(frame)
            canvas.draw()
            pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    return pictures


def save(pictures: list[Image.Image], file: Path) -> None:
    """One palette for all frames."""
    few = pictures[:: max(1, len(pictures) // 4)]
    strip = Image.new("RGB", (few[0].width, few[0].height * len(few)))
    for i, picture in enumerate(few):
        strip.paste(picture, (0, i * picture.height))
    palette = strip.quantize(32)
    ground, colours = np.array(pictures[0].getpixel((0, 0))), np.array(palette.getpalette()).reshape(-1, 3)
    colours[np.abs(colours - ground).max(axis=1) < 6] = ground  # exactly that of the page
    reduced = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    for picture in reduced:
        picture.putpalette(colours.ravel().tolist())
    first, *rest = reduced
    first.save(file, save_all=True, append_images=rest, duration=round(1000 / FPS), loop=0)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    results = {title: computed(name) for title, name in NAMES.items()}
    for dark in (False, True):
        theme = theme_of(dark)
        theme = Theme(**{**vars(theme), "page": PAGE[dark]})
        file = folder / f"home{'-dark' if dark else ''}.gif"
        save(frames(results, theme), file)
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/home"))
