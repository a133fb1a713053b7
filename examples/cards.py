"""The small pictures of the gallery's page: every system and problem, computed and drawn, on light and on dark ground.

    python examples/cards.py docs/figures/gallery [NAME ...]
    python examples/cards.py docs/gallery.md

With its fast setting it draws three of them. A page that is named instead of a folder gets its cards written anew: one for
every entry of the gallery, by its title and name.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import dalembert as da
from dalembert.gallery import ENTRIES, PROBLEMS

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
NAMES = ("pendulum", "curvature_particle", "minimum_jerk") if FAST else (*ENTRIES, *PROBLEMS)
INCHES, DPI = (3.2, 2.0), 160  # sharp on fine screens, where a card is 320 points wide
SHOWN = {  # how much of a motion is shown, in units of its time: enough to see what it is
    "car_with_trailers": 30.0, "contact_oscillator": 40.0, "curvature_particle": 20.0, "nonholonomic_particle": 20.0,
    "pendulum": 1.0, "spherical_pendulum": 6.0, "chain": 0.9, "vertical_rolling_disk": 8.0, "chaplygin_ball": 6.0,
    "underwater_vehicle": 10.0, "sled": 5.0, "heavy_top": 8.0, "veselova": 8.0, "slung_load": 2.5, "satellite": 2.0,
}  # fmt: skip
CLOSE = (  # in space, where axes leave much room
    "rigid_body", "free_rigid_body", "heavy_top", "suslov", "veselova", "rolling_disk", "vertical_rolling_disk",
    "satellite", "slung_load", "cubic_on_rotations",
)  # fmt: skip
FAINT = 0.35  # the way of a point, as animate draws it
MOMENT = {"chain": -1, "rigid_body": 0.55, "two_rods": 0.6, "cart_pole": 0.72, "parked_car": 0.45, "vertical_take_off": 0.3,
          "orbit_transfer": 0.7, "knife_edge": 0.4}  # fmt: skip


def computed(name: str):
    """The path or the solution that is drawn."""
    if name in PROBLEMS:
        entry = PROBLEMS[name]
        return da.solve(entry.problem, **entry.boundary, steps=entry.steps, guess=entry.first_guess(entry.steps))
    entry = ENTRIES[name]
    time = min(SHOWN.get(name, entry.time), entry.time)
    return da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=max(1, round(time / entry.h)))


def card(result, name: str, dark: bool, file: Path) -> None:
    """One frame, without axes, in the size of a card; few colours, and nothing where nothing is drawn."""
    motion = da.animate(result, dark=dark, fps=60)
    moment = MOMENT.get(name, -1)
    figure = motion.figure(moment if moment == -1 else round(moment * (motion.frames - 1)))
    figure.set_size_inches(INCHES)
    figure.suptitle("")
    for ax in figure.axes:
        around = 0.03 if ax.name != "3d" else -0.28 if name in CLOSE else 0.0 if not ax.axison else -0.12
        ax.set_title("", loc="left")
        ax.set_axis_off()
        ax.set_position((around, around, 1.0 - 2.0 * around, 1.0 - 2.0 * around))
        for way in (line for line in ax.lines if line.get_alpha() == FAINT):
            way.set(linewidth=1.6, alpha=0.7)
    figure.savefig(file, format="png", dpi=DPI, transparent=True)
    with Image.open(file) as picture:
        small = picture.convert("RGBA").quantize(48, method=Image.Quantize.FASTOCTREE)
    small.save(file, optimize=True)


def cards(entries) -> str:
    """The cards of systems or of problems, in Markdown. A picture has no text but the title below it."""
    parts = []
    for name, entry in sorted(entries.items()):
        files = {end: f"figures/gallery/{name}{end}.png" for end in ("", "-dark")}
        parts.append(
            f"-   ![]({files['']}#only-light){{loading=lazy}}\n"
            f"    ![]({files['-dark']}#only-dark){{loading=lazy}}\n\n"
            f"    {entry.title}\n\n    `{name}`\n\n"
        )
    return "".join(parts)


def with_cards(page: str) -> str:
    """The page of the gallery, the systems in its first grid and the problems in its second."""
    grids = iter((ENTRIES, PROBLEMS))
    return re.sub(
        r'(<div class="grid cards gallery" markdown>\n\n).*?(</div>)',
        lambda found: found[1] + cards(next(grids)) + found[2],
        page,
        flags=re.DOTALL,
    )


def main(folder: Path, names: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        result = computed(name)
        assert np.isfinite(np.asarray(result.q)).all(), name
        for dark in (False, True):
            card(result, name, dark, folder / f"{name}{'-dark' if dark else ''}.png")
        print(f"{name}: {(folder / f'{name}.png').stat().st_size / 1000:.1f} kB", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].endswith(".md"):
        page = Path(sys.argv[1])
        page.write_text(with_cards(page.read_text(encoding="utf-8")), encoding="utf-8")
        sys.exit()
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/cards"), tuple(sys.argv[2:]) or NAMES)
