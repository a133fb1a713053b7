"""What a swing-up costs, over the time that it has and the force that there is: a sweep of optimal controls.

    python examples/sweep_costs.py out/sweep_costs

min ∫ u² dt of the gallery's cart-pole, |u| ≤ F, from hanging to standing one metre further in the time T. Every pair (T, F)
is one problem of a sweep; blocks of them go into a store as they are solved, and the same command goes on after a kill. It
prints how many are solved, and how long it took, and writes sweep_costs.png and study.nc into the folder given.

Each problem begins at its own smooth path and comes to one minimum of several: where the cost jumps, neighbours belong to
different families of motions.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.gallery import PROBLEMS


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entry, count = PROBLEMS["cart_pole"], 4 if os.environ.get("DALEMBERT_EXAMPLES_FAST") else 32
    values = {"T": np.linspace(1.3, 2.5, count), "bounds.u": np.linspace(6.0, 30.0, count)}
    began = time.perf_counter()
    study = da.sweep(
        entry.problem,
        values,
        {"initial": entry.boundary["initial"], "final": entry.boundary["final"], "steps": 80},
        store=folder / f"{count}.zarr",
        progress=True,
    )
    print(study.describe())
    print(f"{len(study)} problems in {time.perf_counter() - began:.1f} s, compilation included")
    da.save(study, folder / "study.nc")
    figure = da.plot(study, title="Least ∫ u² dt of a swing-up")
    figure.savefig(folder / "sweep_costs.png", dpi=120)
    print(f"wrote {folder / 'sweep_costs.png'} and {folder / 'study.nc'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/sweep_costs"))
