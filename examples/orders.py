"""The contact oscillator over a thousand time units with orders 2, 4, 6 and 8: error, constraint and energy.

    python examples/orders.py out/orders

L = ½|v|² - ½|q|², ẋ + y ż = 0. All schemes get the same number of stages, about 160 per period, so that a run costs the
same whatever its order. The truth is the gallery's solution, good to round-off. Writes orders.png.
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES

ENTRY, STAGES, TIME = ENTRIES["contact_oscillator"], 25_000, 1000.0
COLOURS = {2: "#6b7280", 4: "#c0392b", 6: "#2e8b57", 8: "#2b5c8a"}


def run(order: int) -> tuple[da.Path, np.ndarray]:
    """The path, and the distance of q from the truth at every hundredth part of it."""
    scheme = da.Scheme(order=order)
    steps = 100 * round(STAGES / len(scheme.weights) / 100)
    path = da.simulate(
        ENTRY.system, ENTRY.q0, ENTRY.v0, h=TIME / steps, steps=steps, scheme=scheme, save=da.Save(every=steps // 100)
    )
    return path, np.linalg.norm(path.q - ENTRY.exact(np.asarray(path.t))[0], axis=1)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
    print("order  stages/step     h     error at T   |φ|/|v|    energy band")
    for order, colour in COLOURS.items():
        path, error = run(order)
        residual = path.v[:, 0] + path.q[:, 1] * path.v[:, 2]
        kept = jnp.max(jnp.abs(residual)) / jnp.max(jnp.abs(path.v))
        energy = da.measure.energy(ENTRY.system, path).values
        weights = da.Scheme(order=order).weights
        band = float(jnp.max(energy) - jnp.min(energy))
        print(f"{order:3}{len(weights):12}{path.h:12.4f}{error[-1]:12.1e}{kept:12.1e}{band:12.1e}")
        axes.semilogy(path.t[1:], error[1:], color=colour, label=f"order {order}, h = {path.h:.3g}")
    axes.set(xlabel="t", ylabel="|q - exact|", title="Contact oscillator: 25 000 stages in every run")
    axes.grid(color="#e5e7eb", linewidth=0.6)
    figure.legend(frameon=False, loc="outside right center")
    figure.savefig(folder / "orders.png", dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/orders"))
