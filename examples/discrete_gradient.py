"""The energy of a transmission in a magnetic field: the default scheme beside the form that keeps it.

    python examples/discrete_gradient.py out/discrete_gradient

A pendulum sets the ratio of two shafts. Without the field the motion is reversible, and a symmetric scheme keeps its energy
within a band; with it only the form "discrete_gradient" does. Writes energy.png.
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES

STEPS = 10_000 if os.environ.get("DALEMBERT_EXAMPLES_FAST") else 1_000_000
SCHEMES = {
    "default": da.Scheme(),
    "default, order 4": da.Scheme(order=4),
    "discrete gradient": da.Scheme("discrete_gradient"),
    "discrete gradient, order 4": da.Scheme("discrete_gradient", order=4),
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.6), sharey=True, layout="constrained")
    entry = ENTRIES["pendulum_transmission"]
    for ax, b in zip(axes, (0.0, 0.3), strict=True):
        system = entry.system.replace(b=b)
        for name, scheme in SCHEMES.items():
            save = da.Save(every=STEPS // 1000)
            path = da.simulate(system, entry.q0, entry.v0, h=0.1, steps=STEPS, scheme=scheme, save=save)
            found = da.measure.energy(system, path)
            error = np.maximum.accumulate(np.abs(found.values - found.values[0]))
            print(f"b = {b}: {name:27} largest error of the energy {error[-1]:.1e}")
            ax.loglog(found.t[1:], np.maximum(error[1:], 1e-17), label=name)
        ax.set(xlabel="t", title=f"b = {b}: {'not ' if b else ''}reversible")
        ax.grid(color="#e5e7eb", linewidth=0.6)
    axes[0].set(ylabel="largest |E - E(0)| so far")
    axes[1].legend(frameon=False)
    figure.savefig(folder / "energy.png", dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/discrete_gradient"))
