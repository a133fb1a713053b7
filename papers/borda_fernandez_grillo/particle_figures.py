"""Figures 2 and 3, figure 3 corrected, and two curves with a curvature that varies in the plane."""

from __future__ import annotations

import numpy as np

from dalembert.gallery.curvature_particle import exact
from papers.borda_fernandez_grillo.particle import Particle, predicted_error
from papers.convergence import ErrorsByStep
from papers.drawing import BLUE, GREY, RED, Save, error_plot, fitted_line, panels


def draw(save: Save, measured: Particle) -> None:
    figure_2(save, measured)
    figure_3(save, measured.long[0])
    figure_3_corrected(save, measured)
    varying_curvature(save, measured)


def figure_2(save: Save, measured: Particle) -> None:
    """Left the trajectory, right x and y against the closed form over the first and the last ten time units."""
    import matplotlib.pyplot as plt

    t, q = np.asarray(measured.path.t), np.asarray(measured.path.q)
    figure = plt.figure(figsize=(8.4, 4.2))
    axes = figure.subplot_mosaic([["plane", "x0", "x1"], ["plane", "y0", "y1"]], width_ratios=(1.7, 1, 1))
    axes["plane"].plot(*q.T, ".", color=BLUE, markersize=2)
    axes["plane"].axline((0, 0), slope=1, color=GREY, linewidth=0.9, linestyle="--")
    axes["plane"].plot(0, 0, "o", color=RED, markersize=5)
    axes["plane"].set(xlabel="$x$", ylabel="$y$", aspect="equal", title=f"trajectory, $t \\leq {t[-1]:g}$")
    for place, (begin, end) in enumerate(((0.0, 10.0), (t[-1] - 10.0, t[-1]))):
        inside = (t >= begin) & (t <= end)
        fine = np.linspace(begin, end, 400)
        for i, name in enumerate("xy"):
            panel = axes[f"{name}{place}"]
            panel.plot(fine, exact(fine)[0][:, i], color=GREY, linewidth=1, label="exact")
            panel.plot(t[inside], q[inside, i], ".", color=BLUE, markersize=3, label="$h = 0.1$")
            ticks = [begin, begin + 5, end]
            panel.set(xlabel="$t$" if i else "", ylabel=f"${name}$", xlim=(begin, end), xticks=ticks)
    figure.legend(*axes["x0"].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8.5)
    save("figure_2", figure)


def figure_3(save: Save, printed: ErrorsByStep) -> None:
    """As printed: one line through all points."""
    figure, axes = panels(size=(4.6, 3.6))
    error_plot(axes[0, 0], [printed], {"printed": "printed start"}, "largest error of $x$ over $[0, 500]$")
    slope = fitted_line(axes[0, 0], printed, GREY)
    axes[0, 0].set_title(f"slope of the line: {slope:.2f} (printed: 1.6)")
    save("figure_3", figure)


def figure_3_corrected(save: Save, measured: Particle) -> None:
    """Left the long interval with the leading terms and the saturation, right [0, 5] with the fitted orders."""
    figure, axes = panels(1, 2, size=(8.8, 3.9))
    left, right = axes[0]
    names = {"printed": "printed start", "exact": "start on the solution", "one_step": "one step form"}
    error_plot(left, measured.long, names, "largest error of $x$")
    fine = np.geomspace(measured.long[0].h.min(), 0.09, 60)
    terms = "$\\frac{1+\\sqrt{2}}{2}\\,h + \\frac{5\\sqrt{2}}{12}\\,500\\,h^2$"
    left.plot(fine, predicted_error(fine, 500.0), ":", color="black", linewidth=1.2, label=terms)
    left.legend(loc="lower right", fontsize=8.5)
    left.axhline(2, color=GREY, linewidth=0.8)
    left.text(
        measured.long[0].h.min(),
        2.1,
        "diameter of the circle: the lag is half a turn",
        color=GREY,
        fontsize=8.5,
        va="bottom",
    )
    left.set(title="over $[0, 500]$", ylim=(None, 6))
    orders = {c.method.name: f"{names[c.method.name]}: {c.slope():.2f}" for c in measured.short}
    error_plot(right, measured.short, orders, "largest error of $x$")
    right.set_title("over $[0, 5]$, with fitted slopes")
    save("figure_3_corrected", figure)


def varying_curvature(save: Save, measured: Particle) -> None:
    """k = 1 + 0.3xy, and k = x, an elastica, with its first integral sin φ - x²/2."""
    from matplotlib.collections import LineCollection

    figure, axes = panels(1, 2, size=(8.4, 3.9), width_ratios=(1.9, 1))
    cases = (
        (measured.product, lambda q: 1 + 0.3 * q[:, 0] * q[:, 1], "$k = 1 + 0.3\\,xy$"),
        (measured.linear, lambda q: q[:, 0], "$k = x$: an elastica"),
    )
    for panel, (path, curvature, title) in zip(axes[0], cases, strict=True):
        q = np.asarray(path.q)
        pieces = LineCollection(list(np.stack([q[:-1], q[1:]], axis=1)), cmap="viridis", linewidths=1.5)
        pieces.set_array(curvature(q)[:-1])
        panel.add_collection(pieces)
        panel.plot(*q[0], "o", color=RED, markersize=5)
        panel.autoscale()
        panel.set(xlabel="$x$", ylabel="$y$", aspect="equal", title=title)
        figure.colorbar(pieces, ax=panel, label="$k$", shrink=0.8)
    save("curvature", figure)


def elastica_defect(measured: Particle) -> float:
    """Largest change of sin φ - x²/2 along the curve with k = x, where φ is the direction of the velocity."""
    q, v = np.asarray(measured.linear.q), np.asarray(measured.linear.v)
    value = v[:, 1] / np.linalg.norm(v, axis=1) - 0.5 * q[:, 0] ** 2
    return float(np.ptp(value))
