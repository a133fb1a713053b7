"""Splines on manifolds: four points on the sphere joined by the Riemannian and by the ambient spline, and a turning body."""

import os
import sys
from pathlib import Path
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import dalembert as da
from dalembert.show import LIGHT

M = da.manifolds
CURVES = (("Riemannian, |Dq̇/dt|²", False), ("ambient, |q̈|²", True))
ATTITUDES = {0.0: (0.0, 0.0, 1.0, 0.0), 1.0: (1.8, 0.0, 0.0, 1.0), 2.0: (2.4, 1.0, 0.0, 0.0), 3.0: (0.6, 0.6, -0.8, 0.0)}
ANGLES = ((0.1, -0.9), (1.1, 0.7), (-0.6, 1.6), (0.5, 3.3))  # latitude and longitude of the points
VIEW = np.array([0.25, 0.86, 0.45]) / np.linalg.norm([0.25, 0.86, 0.45])  # from where the sphere is seen


def points() -> dict[float, np.ndarray]:
    """{t: q} at t = 0, 1, 2, 3."""
    return {float(t): np.array([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)]) for t, (a, b) in enumerate(ANGLES)}


def quaternion(angle: float, *axis: float) -> np.ndarray:
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * np.array(axis))])


def seen(q: np.ndarray) -> np.ndarray:
    """(…, 3): right, up, and towards the eye."""
    right = np.cross([0.0, 0.0, 1.0], VIEW)
    right /= np.linalg.norm(right)
    return q @ np.stack([right, np.cross(VIEW, right), VIEW], axis=-1)


def draw_line(ax, q: np.ndarray, **style) -> None:
    """A curve on the sphere, pale where it is behind."""
    x = seen(q)
    for front in (True, False):
        part = np.where(((x[:, 2] >= 0) == front)[:, None], x, np.nan)
        ax.plot(part[:, 0], part[:, 1], **(style | ({} if front else {"alpha": 0.3, "label": None})))


def draw_sphere(ax, curves: dict) -> None:
    angle = np.linspace(0.0, 2 * np.pi, 200)
    for latitude in np.radians([-60, -30, 0, 30, 60]):
        circle = np.stack(
            [np.cos(latitude) * np.cos(angle), np.cos(latitude) * np.sin(angle), np.sin(latitude) + 0 * angle], 1
        )
        draw_line(ax, circle, color="0.85", linewidth=0.5)
    for longitude in np.radians(np.arange(0, 180, 30)):
        circle = np.stack([np.cos(angle) * np.cos(longitude), np.cos(angle) * np.sin(longitude), np.sin(angle)], 1)
        draw_line(ax, circle, color="0.85", linewidth=0.5)
    ax.plot(np.cos(angle), np.sin(angle), color="0.5", linewidth=0.7)
    for (name, solution), colour in zip(curves.items(), LIGHT.lines, strict=False):
        fine = np.linspace(float(solution.t[0]), float(solution.t[-1]), 600)
        draw_line(ax, np.asarray(M.sphere().project(solution.interpolate(fine))), color=colour, linewidth=1.6, label=name)
    for t, q in points().items():
        x = seen(q)
        ax.plot(*x[:2], "o", color="black", markersize=4, zorder=3)
        ax.annotate(f"t = {t:g}", x[:2], xytext=(6, 5), textcoords="offset points", fontsize=8)
    ax.set(aspect="equal")
    ax.axis("off")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2)


def covariant_acceleration(manifold, solution) -> np.ndarray:
    """Dq̇/dt at the times of the windows."""
    return np.asarray(jax.jit(jax.vmap(lambda jet: manifold.covariant_derivatives(list(jet))[1]))(solution.jets))


def figure(curves: dict, body) -> Figure:
    with mpl.rc_context(LIGHT.style):
        drawn = Figure(figsize=(8.6, 4.4), layout="constrained")
        parts: Any = drawn.subfigures(1, 2)
        left, right = parts
        draw_sphere(left.subplots(), curves)
        top, bottom = right.subplots(2, 1)
        for (name, solution), colour in zip(curves.items(), LIGHT.lines, strict=False):
            size = np.linalg.norm(covariant_acceleration(M.sphere(), solution), axis=1)
            top.plot(solution.t_multipliers, size, color=colour, label=name)
        top.set(ylabel="|Dq̇/dt|", xlabel="t", ylim=(0, None))
        q, v = np.asarray(body.jets)[:, 0], np.asarray(body.jets)[:, 1]
        omega = 2 * (q[:, :1] * v[:, 1:] - v[:, :1] * q[:, 1:] - np.cross(q[:, 1:], v[:, 1:]))
        for i, axis in enumerate("₁₂₃"):
            bottom.plot(body.t_multipliers, omega[:, i], color=LIGHT.lines[i + 2], label=f"ω{axis}")
        for t in ATTITUDES:
            bottom.axvline(t, color="0.85", linewidth=0.7, zorder=0)
        for t in points():
            top.axvline(t, color="0.85", linewidth=0.7, zorder=0)
        bottom.set(ylabel="ω of the body", xlabel="t")
        bottom.legend(ncols=3, loc="upper right")
    return drawn


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    steps = 60 if os.environ.get("DALEMBERT_EXAMPLES_FAST") else 240
    curves = {name: da.spline(M.sphere(), points(), steps=steps, ambient=ambient) for name, ambient in CURVES}
    for name, solution in curves.items():
        print(f"{name}\n{solution.describe()}")
    attitudes = {t: quaternion(*given) for t, given in ATTITUDES.items()}
    rest = (np.zeros(4),)
    body = da.spline(M.rotations(), attitudes, initial=rest, final=rest, steps=steps)
    print(f"attitudes, from rest to rest\n{body.describe()}")
    figure(curves, body).savefig(folder / "splines.png", dpi=200)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/splines"))
