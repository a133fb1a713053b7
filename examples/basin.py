"""The basin of attraction of an upright cart-pole: which pushes a law of energy shaping survives, with and without bounds.

    python examples/basin.py out/basin

The plant without any constraint is simulated under the sampled law from a grid of angles and angular velocities, each in a
lane of its own with its own outcome. The section of the sublevel set of V inside which V falls is drawn as a line.
Prints a summary and writes basin.png into the folder given.
"""

import os
import sys
import time
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dalembert as da
from dalembert.gallery import cart_pole
from dalembert.show import LIGHT

UP, H, TIME, BOUND = np.array([0.0, np.pi]), 0.005, 8.0, 15.0
REACH, KEPT = [3.0, 1.1], 20


def designed() -> da.laws.EnergyShaping:
    weights = {"Q": np.diag([10.0, 10.0, 1.0, 1.0]), "R": [[0.1]]}
    return da.laws.energy_shaping(cart_pole.cart_pole().system, actuated=0, at=UP, reach=REACH, **weights)


def settled(law, q0: np.ndarray, v0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times after which a motion stays near upright, NaN where it does not; and which runs ended early."""
    runs = da.ensemble(
        law.plant, q0, v0, h=H, steps=round(TIME / H), save=da.Save(every=KEPT), feedback=law.sampled(),
        stop=da.Stop(domain=lambda q, v, p: abs(q[1] - np.pi) < 0.5 * np.pi),
    )  # fmt: skip
    q, v = (np.asarray(x) for x in (runs.q, runs.v))
    far = np.maximum(np.abs(q - UP).max(axis=-1), np.abs(v).max(axis=-1)) > 0.05
    failed = np.asarray(runs.code) != da.Outcome.SUCCESS
    last = np.where(far.any(axis=1), far.shape[1] - np.argmax(far[:, ::-1], axis=1), 0)  # from that node on it is near
    times = KEPT * H * np.minimum(last, far.shape[1] - 1)
    return np.where(failed | far[:, -1], np.nan, times), failed


def figure_of(angles, rates, times: dict[str, np.ndarray], inside: np.ndarray) -> Figure:
    with mpl.rc_context(LIGHT.style):
        figure = Figure(figsize=(8.4, 3.8), layout="constrained")
        axes, drawn = figure.subplots(1, len(times), sharex=True, sharey=True), None
        for ax, (name, found) in zip(axes, times.items(), strict=True):
            ax.set_facecolor("0.88")
            drawn = ax.pcolormesh(
                np.degrees(angles), rates, found.reshape(len(rates), -1), vmin=0.0, vmax=6.0, cmap="viridis_r"
            )
            ax.contour(
                np.degrees(angles), rates, inside.astype(float), levels=[0.5], colors=[LIGHT.lines[1]], linewidths=1.5
            )
            ax.set(title=name, xlabel="angle from upright, degrees")
        axes[0].set_ylabel("angular velocity, rad/s")
        assert drawn is not None
        figure.colorbar(drawn, ax=axes, label="time until it stays upright; grey: it falls")
    return figure


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    across, up = (9, 7) if os.environ.get("DALEMBERT_EXAMPLES_FAST") else (61, 41)
    angles, rates = np.linspace(-1.3, 1.3, across), np.linspace(-6.0, 6.0, up)
    lean, rate = (x.ravel() for x in np.meshgrid(angles, rates))
    q0, v0 = UP + np.stack([0.0 * lean, lean], axis=1), np.stack([0.0 * rate, rate], axis=1)
    law = designed()
    print(f"poles {np.round(np.sort_complex(law.poles), 2)}")
    print(f"V < {law.region.level:.3g}: V > {law.region.V.min():.1e}, residual of dV/dt = -F {law.region.residual:.1e}")
    inside = np.asarray(jax.jit(jax.vmap(law.inside))(q0, v0))
    times = {}
    for name, chosen in (("any force", law), (f"|F| ≤ {BOUND:g}", law.saturated(-BOUND, BOUND))):
        began = time.perf_counter()
        times[name], failed = settled(chosen, q0, v0)
        stays = np.isfinite(times[name])
        print(f"{name}: {stays.sum()} of {len(lean)} stay upright, {failed.sum()} ended early; of {inside.sum()} starts in "
              f"the region {np.sum(inside & stays)}; {time.perf_counter() - began:.1f} s")  # fmt: skip
    figure_of(angles, rates, times, inside.reshape(up, across)).savefig(folder / "basin.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/basin"))
