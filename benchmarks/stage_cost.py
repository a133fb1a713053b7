"""What a stage of a composition costs beside a step of order 2 of the first stage's length, in machine code.

    python benchmarks/stage_cost.py [WORD]      prints the table of benchmarks/README.md, or its rows with WORD in the name

Both run the same number of base steps, store every step, and take turns; medians of the thread's own time. A composition
finds the multipliers of each of its rows anew, from as many linear equations as there are coordinates and constraints.
"""

from __future__ import annotations

import sys

import numpy as np
from cases import CASES, Case, by_velocities, chain_case, pendulum_case
from sides import STEPS, interleaved, native_side

import dalembert as da

SIZES = (2, 8, 12, 14, 16, 24, 32, 40)
REPEATS, ORDER = 15, 4
HEAD = "one trajectory", "order 2, ns/step", "order 4, ns/stage", "ratio (quartiles)", "iterations, order 2 / 4"


def cases() -> dict[str, Case]:
    """Constraints of every kind, sparse and dense systems up to n = 40."""
    found = {name: CASES[name] for name in ("curvature particle", "nonholonomic particle", "inertia wheel pendulum")}
    found |= {f"chain n = {n}": chain_case(n) for n in SIZES}
    return found | {f"{n} rods in angles": pendulum_case(by_velocities, n) for n in (8, 12, 20)}


def row(name: str, case: Case, order: int) -> str:
    """One row of the table."""
    base, _ = native_side(case)
    composed, _ = native_side(case, order, case.h / da.Scheme(order=order).weights[0])
    iterations = [side.call() / STEPS for side in (base, composed)]
    times = interleaved([base, composed], REPEATS)
    low, middle, high = np.quantile(times[:, 1] / times[:, 0], (0.25, 0.5, 0.75))
    a, b = np.median(times, axis=0)
    cells = (name, f"{a:.0f}", f"{b:.0f}", f"**{middle:.2f}** ({low:.2f}–{high:.2f})",
             f"{iterations[0]:.2f} / {iterations[1]:.2f}")  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main(word: str) -> None:
    print("| " + " | ".join(HEAD) + " |\n|---|---|---|---|---|")
    for name, case in cases().items():
        if word in name:
            print(row(name, case, ORDER), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
