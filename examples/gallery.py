"""Every system of the gallery: run it, compare it with its closed form if there is one, save and draw the path."""

import os
import sys
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    fast = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
    for entry in ENTRIES.values():
        time = min(entry.time, 10.0 if fast else 200.0)
        path = da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=round(time / entry.h))
        error = ""
        if entry.exact is not None:
            error = f", largest error of q {np.abs(path.q - entry.exact(path.t)[0]).max():.2e}"
        print(f"{entry.name}: {path.steps} steps of {entry.h:g}, {path.outcome.name.lower()}{error}")
        da.save(path, folder / f"{entry.name}.nc")
        da.plot(path, title=entry.title).savefig(folder / f"{entry.name}.png", dpi=100)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/gallery"))
