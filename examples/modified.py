"""The modified equation of the default scheme: which equation its nodes follow, and how far they are from the motion.

    python examples/modified.py out/modified

The pendulum from 2.5 rad at rest, h = 0.2. Writes modified.png: left the motion, the nodes and the flows of f + h²f₂ and
f + h²f₂ + h⁴f₄; in the middle their distances to the nodes; right the error, its estimate and its bound.
"""

import os
import sys
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.gallery.pendulum import pendulum
from dalembert.measure import error_bound, modified

BLUE, RED, GREEN, GREY = "#2b5c8a", "#c0392b", "#2e8b57", "#6b7280"
H, START = 0.2, ([2.5], [0.0])


def main(folder: str) -> None:
    from matplotlib.figure import Figure

    system, steps = pendulum(), 40 if os.environ.get("DALEMBERT_EXAMPLES_FAST") else 120
    run = da.simulate(system, *START, h=H, steps=steps)
    times = np.asarray(run.t)
    made = modified(system, *START, h=H)
    print(made)
    flows = {order: made.flow(H, *START, times, order=order)[0][:, 0] for order in (0, 2, 4)}
    found, nodes = error_bound(made, run), np.asarray(run.q)[:, 0]
    print(found)
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    path, distance, error = figure.subplots(1, 3)
    names = {0: "the motion", 2: "f + h²f₂", 4: "f + h²f₂ + h⁴f₄"}
    for (order, flow), colour in zip(flows.items(), (GREY, GREEN, BLUE), strict=True):
        path.plot(times, flow, color=colour, label=names[order])
        distance.semilogy(times[1:], np.abs(flow - nodes)[1:], color=colour, label=names[order])
        print(f"{names[order]}: at most {np.max(np.abs(flow - nodes)):.2e} from the nodes")
    path.plot(times, nodes, ".", color=RED, label="nodes")
    error.semilogy(times[1:], np.abs(flows[0] - nodes)[1:], color=RED, label="error")
    error.semilogy(times[1:], np.abs(found.q_error)[1:, 0], "--", color=GREY, label="estimate")
    inside = (found.t <= found.until) & (found.t > 0)
    error.semilogy(times[inside], found.q[inside], color=BLUE, label="bound")
    for axes, title in ((path, "path"), (distance, "distance to the nodes"), (error, "error of the nodes")):
        axes.set(title=title, xlabel="t")
        axes.legend(fontsize=8)
    Path(folder).mkdir(parents=True, exist_ok=True)
    figure.savefig(Path(folder) / "modified.png", dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "out/modified")
