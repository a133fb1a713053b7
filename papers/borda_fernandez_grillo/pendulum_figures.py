"""Figures 5 and 6, figure 6 corrected, and V after t = 500."""

from __future__ import annotations

import numpy as np

from papers.borda_fernandez_grillo import pendulum
from papers.borda_fernandez_grillo.pendulum import Pendulum
from papers.convergence import ErrorsByStep
from papers.drawing import BLUE, GREEN, GREY, RED, Save, error_plot, fitted_line, panels


def draw(save: Save, measured: Pendulum) -> None:
    figure_5(save, measured)
    figure_5_zoom(save, measured)
    figure_6(save, measured.long[0].first(len(pendulum.STEPS)))
    figure_6_corrected(save, measured)


def figure_5(save: Save, measured: Pendulum) -> None:
    t, q, v = pendulum.state(measured.path)
    figure, axes = panels(3, 1, size=(7.2, 6.4), sharex=True)
    for panel, values, name in zip(
        axes[:, 0], (q[:, 0], q[:, 1], pendulum.lyapunov(q, v)), ("\\theta", "\\psi", "V"), strict=True
    ):
        panel.plot(t, values, color=BLUE, linewidth=0.5 if name != "V" else 1.4)
        panel.set_ylabel(f"${name}$", fontsize=12)
    axes[2, 0].set_xlabel("$t$")
    axes[2, 0].set_xlim(0, t[-1])
    save("figure_5", figure)


def figure_5_zoom(save: Save, measured: Pendulum) -> None:
    """V of the continuous system on a logarithmic scale; its last 1500 time units; the phase; and how V ends."""
    t, q, v = (np.asarray(x) for x in (measured.reference.t, measured.reference.q, measured.reference.v))
    values, gamma = np.asarray(pendulum.lyapunov(q, v)), pendulum.phase(q) / np.pi
    figure, axes = panels(2, 2, size=(8.8, 6.2))
    whole, zoom, angle, late = axes.ravel()
    whole.semilogy(t, values, color=BLUE)
    whole.set(title="$V$, logarithmic", xlabel="$t$", ylabel="$V$", ylim=(100, None))
    begin = min(500.0, 0.5 * measured.time)
    shown = t >= begin
    zoom.plot(t[shown], values[shown], color=BLUE)
    zoom.set(title=f"$V$ after $t = {begin:g}$", xlabel="$t$", ylabel="$V$")
    for instant in (x for x in pendulum.INSTANTS if x <= measured.time):
        value = pendulum.value_at(t, values, instant)
        zoom.plot(instant, value, "o", color=RED, markersize=4)
        zoom.annotate(f"{value:.2f}", (instant, value), xytext=(6, 4) if instant < measured.time else (0, -13),
                      textcoords="offset points", color=RED, fontsize=9,
                      ha="left" if instant < measured.time else "right")  # fmt: skip
    for panel in (whole, zoom):
        panel.axhline(200, color=GREY, linewidth=0.9, linestyle="--")
    zoom.set_ylim(188, None)
    zoom.text(begin, 200, "$2\\chi = 200$", color=GREY, fontsize=9, va="bottom")
    angle.plot(t[::8], gamma[::8], color=BLUE, linewidth=0.6)
    angle.axhline(27, color=GREY, linewidth=0.9, linestyle="--")
    angle.set(title="$(\\psi - n\\theta)/\\pi$: left near 27, where $V = 2\\chi$", xlabel="$t$", ylim=(26.7, 27.2))
    late_values(late, measured)
    save("figure_5_zoom", figure)


def late_values(axes, measured: Pendulum) -> None:
    """V from the end of the reference on, and the overdamped motion of the phase from where the oscillation has died out."""
    t, q, v = pendulum.state(measured.late)
    values = np.asarray(pendulum.lyapunov(q, v))
    axes.plot(t, values, color=GREEN, linewidth=2.4, label="one step form, $h = 0.1$")
    lasting = pendulum.oscillation_part(q, v) > 1e-4 * 2 * pendulum.P["chi"]
    begin = len(t) - int(np.argmax(np.append(lasting[::-1], True)))
    if begin < len(t):
        crept = pendulum.creeping(t[begin:] - t[begin], values[begin])
        axes.plot(t[begin:], crept, ":", color="black", label="$2\\chi/(1 + c\\,e^{2t/\\tau})$")
    axes.set(
        title=f"how $V$ ends: $\\tau = \\rho(dIJ)^2/\\chi = {pendulum.time_constant():.0f}$", xlabel="$t$", ylabel="$V$"
    )
    axes.legend()


def figure_6(save: Save, printed: ErrorsByStep) -> None:
    """As printed: one line through all points."""
    figure, axes = panels(size=(4.6, 3.6))
    what = f"largest error of $\\theta$ over $[0, {printed.time:g}]$"
    error_plot(axes[0, 0], [printed], {"printed": "printed start"}, what)
    slope = fitted_line(axes[0, 0], printed, GREY)
    axes[0, 0].set_title(f"slope of the line: {slope:.2f} (printed: 1.3)")
    save("figure_6", figure)


def figure_6_corrected(save: Save, measured: Pendulum) -> None:
    """Left the long interval, right [0, 4], with the slopes of the smallest steps, where they no longer change."""
    figure, axes = panels(1, 2, size=(8.8, 3.9))
    left, right = axes[0]
    names = {"printed": "printed start", "exact": "start on the solution", "one_step": "one step form"}
    for panel, results in ((left, measured.long), (right, measured.short)):
        legends = {r.method.name: f"{names[r.method.name]}: {r.asymptotic_slope():.2f}" for r in results}
        error_plot(panel, results, legends, "largest error of $\\theta$")
    left.set_title(f"over $[0, {measured.time:g}]$, with the slopes of small steps")
    right.set_title("over $[0, 4]$, with the slopes of small steps")
    save("figure_6_corrected", figure)
