"""A car with two trailers, seen to move: a GIF and a page."""

import os
import sys
from pathlib import Path

import dalembert as da
from dalembert.gallery import ENTRIES

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))


def main(folder: Path) -> None:
    entry = ENTRIES["car_with_trailers"]
    path = da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=300 if FAST else 1500)
    motion = da.animate(path, fps=10 if FAST else 25, title=entry.title)
    motion.save(folder / "car.gif", dpi=60 if FAST else 110)
    print(motion)
    da.page(path, folder / "car.html", title=entry.title)
    for file in ("car.gif", "car.html"):
        print(f"{file}: {(folder / file).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "out/motion")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
