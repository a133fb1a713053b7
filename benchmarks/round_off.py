"""Round-off over ten million steps: the particle with curvature 1 against the closed form of its discrete solution.

    python benchmarks/round_off.py [figure.png] [steps]

Random starts, native back-end. The exact discrete path is a regular polygon (gallery/curvature_particle.py), known to any
number of digits, so that every difference is round-off. RMS over the starts, at numbers of steps equally spaced in their
logarithm: relative change of L_d = ½ m h|v|², which the scheme conserves; position, and of it the part across the circle.
The table's last row gives the exponents of the fitted powers of the number of steps. Takes two minutes.
"""

from __future__ import annotations

import sys
from decimal import Decimal

import numpy as np

import dalembert as da
from dalembert.gallery import curvature_particle

STARTS, POINTS, FIRST = 32, 13, 1000
# With the default of 1e-9 some speeds pass the test after two iterations with an update just below it: the square of the
# update, 10⁻¹⁹ of the speed, is then missing in every step with the same sign, and adds up linearly to 10⁻¹².
TOLERANCE = 1e-10
QUANTITIES = {"L_d": "$L_d$, relative", "position": "position", "across": "position, across the circle"}


def start(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A position near the origin and a velocity of any direction, with a speed from ½ to 2."""
    angle = rng.uniform(0, 2 * np.pi)
    return rng.uniform(-1, 1, 2), rng.uniform(0.5, 2) * np.array([np.cos(angle), np.sin(angle)])


def errors(q0, v0, q, v, steps: int, h: float) -> tuple[float, float, float]:
    """Relative change of L_d, distance from the exact position, and the part of it across the circle."""
    squares = [sum(Decimal(float(x)) ** 2 for x in w) for w in (v0, v)]
    exact, direction = curvature_particle.polygon(steps, q0, v0, h)
    difference = np.array([float(Decimal(float(a)) - b) for a, b in zip(q, exact, strict=True)])
    along = np.array([float(x) for x in direction])
    across = (difference[0] * along[1] - difference[1] * along[0]) / np.linalg.norm(along)
    return float(squares[1] / squares[0] - 1), float(np.linalg.norm(difference)), float(across)


def measure(steps: int, starts: int = STARTS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of steps (points,), and errors (starts, points, 3)."""
    rng, h = np.random.default_rng(seed), curvature_particle.entry.h
    wanted = np.unique(np.round(np.geomspace(FIRST, steps, POINTS) / FIRST).astype(int)) * FIRST
    table = []
    options = {
        "h": h,
        "steps": steps,
        "save": da.Save(every=FIRST),
        "solver": da.Solver(tolerance=TOLERANCE, backend="native"),
    }
    for _ in range(starts):
        q0, v0 = start(rng)
        path = da.simulate(curvature_particle.entry.system, q0, v0, **options)
        q, v = np.asarray(path.q), np.asarray(path.v)
        table.append([errors(q0, v0, q[k // FIRST], v[k // FIRST], int(k), h) for k in wanted])
    return wanted, np.array(table)


def exponents(steps: np.ndarray, rms: np.ndarray) -> np.ndarray:
    """Slopes of the columns of rms (points, 3) against the number of steps, logarithmic scales."""
    return np.polyfit(np.log(steps), np.log(rms), 1)[0]


def draw(file: str, steps: np.ndarray, rms: np.ndarray, slopes: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    styles = zip(QUANTITIES.values(), rms.T, slopes, ("#2b5c8a", "#c0392b", "#2e8b57"), "os^", strict=True)
    for label, values, slope, colour, marker in styles:
        axes.loglog(steps, values, marker + "-", color=colour, markersize=4.5, label=f"{label}: $N^{{{slope:.2f}}}$")
    for power, factor in ((0.5, 0.45), (1.5, 1.8)):
        reference = factor * rms[0, 1 if power > 1 else 0] * (steps / steps[0]) ** power
        axes.loglog(steps, reference, ":", color="#6b7280", linewidth=1)
        axes.annotate(f"$N^{{{power}}}$", (steps[-1], reference[-1]), textcoords="offset points", xytext=(5, -3))
    axes.set(xlabel="number of steps $N$", ylabel=f"round-off, RMS over {STARTS} starts")
    axes.grid(True, color="#e5e7eb")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(file, dpi=130)


def main(file: str | None = None, steps: str = "1e7") -> None:
    numbers, table = measure(int(float(steps)))
    rms = np.sqrt(np.mean(table**2, axis=0))
    slopes = exponents(numbers, rms)
    print("| steps | " + " | ".join(QUANTITIES) + " |\n|---|" + "---|" * len(QUANTITIES))
    for k, row in zip(numbers, rms, strict=True):
        print(f"| {k} | " + " | ".join(f"{x:.1e}" for x in row) + " |")
    print("| exponent | " + " | ".join(f"{x:.2f}" for x in slopes) + " |")
    mean = table[:, -1, 0].mean() / table[:, -1, 0].std() * np.sqrt(len(table))
    print(f"largest |L_d| drift of a start: {np.abs(table[:, -1, 0]).max():.1e}; mean over the starts: {mean:.1f} sigma")
    if file:
        draw(file, numbers, rms, slopes)


if __name__ == "__main__":
    main(*sys.argv[1:])
