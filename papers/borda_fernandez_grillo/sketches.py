"""Figures 1 and 4: the two systems with their variables."""

from __future__ import annotations

import numpy as np

from papers.drawing import BLUE, GREEN, GREY, RED, Save, panels


def draw(save: Save) -> None:
    for name, sketch, size in (("figure_1", particle, (5.2, 4.0)), ("figure_4", pendulum, (4.6, 4.6))):
        figure, axes = panels(size=size)
        sketch(axes[0, 0])
        axes[0, 0].set_aspect("equal")
        axes[0, 0].axis("off")
        save(name, figure)


def arrow(axes, start, end, colour: str = "black", width: float = 1.4, style: str = "-|>") -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": style, "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0})


def arc(
    axes, centre, radius: float, begin: float, end: float, label: str, *, colour: str = "black", out: float = 1.25
) -> None:
    """An angle with an arrow head, from `begin` to `end` in radians, and its name."""
    angles = np.linspace(begin, end, 60)
    x, y = centre[0] + radius * np.cos(angles), centre[1] + radius * np.sin(angles)
    axes.plot(x[:-2], y[:-2], color=colour, linewidth=1.1)
    arrow(axes, (x[-4], y[-4]), (x[-1], y[-1]), colour, 1.1)
    middle = 0.5 * (begin + end)
    place = centre[0] + out * radius * np.cos(middle), centre[1] + out * radius * np.sin(middle)
    axes.text(*place, label, ha="center", va="center", color=colour, fontsize=13)


def curve(s):
    """Points of the sketched path, and its velocity and acceleration."""
    s = np.asarray(s, dtype=float)
    point = np.stack([3.6 * s - 0.2, 0.45 + 2.1 * s**2 - 0.35 * np.sin(5 * s)], axis=-1)
    velocity = np.stack([np.full_like(s, 3.6), 4.2 * s - 1.75 * np.cos(5 * s)], axis=-1)
    second = np.stack([np.zeros_like(s), 4.2 + 8.75 * np.sin(5 * s)], axis=-1)
    return point, velocity, second


def particle(axes) -> None:
    """The path, the velocity with its polar angle θ, the line of virtual displacements along it, the force, the radius."""
    path, _, _ = curve(np.linspace(0, 1, 200))
    q, v, a = curve(0.42)
    t = v / np.linalg.norm(v)
    n = np.array([-t[1], t[0]])
    k = (v[0] * a[1] - v[1] * a[0]) / np.linalg.norm(v) ** 3
    arrow(axes, (-0.5, 0), (4.1, 0), width=1)
    arrow(axes, (0, -0.4), (0, 3.2), width=1)
    axes.text(4.15, -0.02, "$x$", fontsize=13, va="center")
    axes.text(-0.03, 3.28, "$y$", fontsize=13, ha="center")
    axes.plot(*path.T, color=BLUE, linewidth=2)
    axes.plot(*np.stack([q - 1.9 * t, q + 2.1 * t]).T, color=GREEN, linestyle="--", linewidth=1.2)
    axes.text(*(q + 2.15 * t + [-0.05, -0.2]), "$C_V = \\langle\\dot q\\rangle$", color=GREEN, fontsize=12)
    angle = np.arctan2(t[1], t[0])
    axes.plot([q[0], q[0] + 1.15], [q[1], q[1]], color=GREY, linewidth=0.9)
    arc(axes, q, 0.85, 0, angle, "$\\theta$", colour=GREY, out=1.2)
    centre = q + n / k
    ring = np.linspace(0, 2 * np.pi, 200)
    axes.plot(centre[0] + np.cos(ring) / k, centre[1] + np.sin(ring) / k, color=GREY, linewidth=0.8, linestyle=":")
    axes.plot(*np.stack([q, centre]).T, color=GREY, linewidth=0.8, linestyle=":")
    axes.text(centre[0] + 0.05, centre[1] + 0.06, "$1/k$", color=GREY, fontsize=11)
    arrow(axes, q, q + 1.25 * t, BLUE, 1.8)
    axes.text(*(q + 1.25 * t + [0.06, -0.2]), "$\\dot q$", color=BLUE, fontsize=13)
    arrow(axes, q, q + 0.75 * n, RED, 1.8)
    axes.text(*(q + 0.75 * n + [-0.42, 0.0]), "force", color=RED, fontsize=11)
    axes.plot(*q, "o", color="black", markersize=7)
    axes.text(q[0] + 0.05, q[1] - 0.3, "$(x, y),\\ m$", fontsize=12)
    axes.set(xlim=(-0.6, 4.4), ylim=(-0.5, 3.5))


def pendulum(axes) -> None:
    """A rod at the angle θ from the upright, and on its end a wheel turned by ψ against the rod."""
    from matplotlib.patches import Circle

    theta, psi, length, radius = -0.5, 0.95, 2.6, 0.8
    along = np.array([-np.sin(theta), np.cos(theta)])
    across = np.array([along[1], -along[0]])
    end, middle = length * along, 0.5 * length * along
    axes.plot([-1, 1], [-0.28, -0.28], color="black", linewidth=1.4)
    for x in np.linspace(-0.9, 1.0, 12):
        axes.plot([x, x - 0.13], [-0.28, -0.42], color="black", linewidth=0.8)
    axes.plot([-0.25, 0, 0.25], [-0.28, 0, -0.28], color="black", linewidth=1.4)
    axes.add_patch(Circle((float(end[0]), float(end[1])), radius, facecolor="#eef2f7", edgecolor=BLUE, linewidth=1.8))
    axes.plot(*np.stack([0 * end, end]).T, color="black", linewidth=4, solid_capstyle="round")
    axes.plot(*np.stack([end, end + 1.55 * along]).T, color=GREY, linewidth=0.9, linestyle="--")
    axes.plot([0, 0], [0, 2.6], color=GREY, linewidth=0.9, linestyle="--")
    start = np.pi / 2
    arc(axes, (0, 0), 1.6, start, start + theta, "$\\theta$", out=1.14)
    mark = np.array([np.cos(start + theta - psi), np.sin(start + theta - psi)])
    axes.plot(*np.stack([end, end + radius * mark]).T, color=BLUE, linewidth=1.6)
    arc(axes, end, 1.12, start + theta, start + theta - psi, "$\\psi$", colour=BLUE, out=1.18)
    axes.plot(*middle, "o", color="black", markersize=8)
    axes.plot(*end, "o", color=BLUE, markersize=8)
    axes.plot(0, 0, "o", color="white", markeredgecolor="black", markersize=7)
    axes.text(*(middle + 0.18 * across + [0.02, -0.12]), "$m_b,\\ I_b$", fontsize=12)
    axes.text(end[0] + 0.12, end[1] - 0.42, "$m_d,\\ I_d$", color=BLUE, fontsize=12)
    for far, gap, offset, label in ((middle, 0.85, 1.05, "$c$"), (end, radius + 0.08, 1.45, "$l$")):
        shift = offset * across
        for foot, begin in ((0 * end, 0.1), (far, gap)):  # extension lines, clear of the labels
            axes.plot(*np.stack([foot + begin * across, foot + shift + 0.08 * across]).T, color=GREY, linewidth=0.5)
        arrow(axes, shift, far + shift, GREY, 0.9, "<|-|>")
        axes.text(*(0.5 * far + shift + 0.17 * across), label, color=GREY, fontsize=13, ha="center", va="center")
    arrow(axes, (-0.9, 2.2), (-0.9, 1.4), RED, 1.6)
    axes.text(-0.78, 1.75, "$g$", color=RED, fontsize=13)
    axes.set(xlim=(-1.3, 3.1), ylim=(-0.8, 4.0))
