"""A run that survives Ctrl-C and a kill: streamed into a store, ended half way, taken up again, read while it is written.

    python examples/long_run.py out/long_run

The plane pendulum, 10⁷ steps (2·10⁵ with the fast setting). The first part is ended by the program itself, as Ctrl-C
would do it. Prints the largest angle, from the store, part by part: it stays.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import xarray

import dalembert as da
from dalembert.gallery import ENTRIES

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
STEPS = 200_000 if FAST else 10_000_000
PENDULUM = ENTRIES["pendulum"]


def ctrl_c(done, total):
    if done > total // 2:
        signal.raise_signal(signal.SIGINT)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "run.zarr"
    shutil.rmtree(store, ignore_errors=True)
    try:
        da.simulate(
            PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=0.01, steps=STEPS, save=da.Save(store=store), progress=ctrl_c
        )
    except da.Interrupted as end:
        print(f"ended after {end.path.steps} of {STEPS} steps")
    path = da.resume(store, PENDULUM.system)
    print(f"{path.steps} steps, {path.outcome.message}")
    data = xarray.open_zarr(store)
    parts = np.array_split(np.arange(int(data.committed)), 10)
    largest = [float(np.abs(data.q[part[0] : part[-1] + 1]).max()) for part in parts]
    print("largest angle, part by part:", *(f"{x:.12f}" for x in largest))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
