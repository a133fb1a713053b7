"""Integrators of the nonholonomic particle as perturbed flows: how large the perturbation is, and what it looks like.

    python examples/perturbation.py out/perturbation

L = ½|v|², ż = y ẋ. A one step map Φ on D is the time-ε map of ż = f(z) + ε^p g(ε, t/ε, z). Four maps: the default scheme;
the linearly explicit one; the mid-point scheme as its equations are printed, with the drift q̃' = q̃ + εv' that makes it of
first order; the exact flow itself, in closed form, which shows the floor. Prints the tables and writes perturbation.png.
"""

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

import dalembert as da
from dalembert.gallery import nonholonomic_particle
from dalembert.measure import Embedding, consistency, embedding

BLUE, RED, GREEN, GREY = "#2b5c8a", "#c0392b", "#2e8b57", "#6b7280"
PARTICLE = nonholonomic_particle.nonholonomic_particle()


def explicit(h, q, v):
    """(1,0), Jiménez and Scheurle (92): λ = v_x v_y/(1 + y y'), v' = v + hλμ(q), q' = q + hv', with μ(q')v' = 0."""
    multiplier = v[0] * v[1] / (1 + q[1] * (q[1] + h * v[1]))
    v = v + h * multiplier * jnp.stack([-q[1], 0.0, 1.0])
    return q + h * v, v


def as_printed(h, q, v):
    """The mid-point scheme with q̃' = q̃ + hv' as in (95, 96): v' = v + Λμ(q̃ + ½hv), μ(q̃')v' = 0."""
    middle, y = q[1] + 0.5 * h * v[1], q[1] + h * v[1]
    v = v + (y * v[0] - v[2]) / (1 + y * middle) * jnp.stack([-middle, 0.0, 1.0])
    return q + h * v, v


def exact(h, q, v):
    """Closed form: v_y and v_x √(1 + y²) are constant."""
    c, y = v[0] * jnp.sqrt(1 + q[1] ** 2), q[1] + h * v[1]
    x = q[0] + c / v[1] * (jnp.arcsinh(y) - jnp.arcsinh(q[1]))
    z = q[2] + c / v[1] * (jnp.sqrt(1 + y**2) - jnp.sqrt(1 + q[1] ** 2))
    vx = c / jnp.sqrt(1 + y**2)
    return jnp.stack([x, y, z]), jnp.stack([vx, v[1], y * vx])


MAPS = {
    "mid-point, redefined nodes: (2,0)": ({}, BLUE, "o"),
    "linearly explicit: (1,0)": ({"step": explicit}, GREEN, "s"),
    "mid-point with the drift as printed": ({"step": as_printed}, RED, "^"),
    "the exact flow: the floor": ({"step": exact}, GREY, "x"),
}


def starts(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Random points of D with |q_i|, |v_i| ≤ 1 and v_y away from 0, where the closed form has a removable singularity."""
    q, v = np.random.default_rng(0).uniform(-1, 1, (2, number, 3))
    v[:, 1] = np.sign(v[:, 1]) * (0.2 + 0.8 * np.abs(v[:, 1]))
    v[:, 2] = q[:, 1] * v[:, 0]
    return q, v


def distances(found: Embedding, steps, q, v, tolerance: float) -> dict[str, np.ndarray]:
    """|x(ε) - Φ(ε, x₀)| for the flow of the exact, the perturbed, and the equation that m = μᵀC⁻¹μ would lead to."""
    made = found.perturbation

    @jax.jit
    def field(h, t, x, simplified):
        """f + ε^p g in (q, v), or f with the part of the constraint force in g that g_q alone asks for."""
        q, v = x[:3], x[3:]
        terms = da.systems.reduction(PARTICLE, q, v)
        g_q, g_v = made.pushed(h, t / h, q, v)
        only = terms.reactions.T @ jnp.linalg.solve(terms.coupling, v[:1] * g_q[1])  # ∂_q(μv) ĝ_q = -v_x ĝ_y, m = 1
        return jnp.concatenate([v + g_q, terms.a + jnp.where(simplified, only, g_v)])

    def end(h, simplified: bool) -> np.ndarray:
        rate = lambda t, x: np.asarray(field(h, t, x, simplified))  # noqa: E731
        return scipy.integrate.solve_ivp(rate, (0.0, h), start, "DOP853", rtol=tolerance, atol=tolerance).y[:, -1]

    start, mapped = np.concatenate([q, v]), [np.concatenate(made.step(h, jnp.asarray(q), jnp.asarray(v))) for h in steps]
    ends = {
        "the exact equation": [np.concatenate(exact(h, q, v)) for h in steps],
        "the perturbed equation (51-59)": [end(h, False) for h in steps],
        "simplified as in (62-65)": [end(h, True) for h in steps],
    }
    return {name: np.linalg.norm(np.array(found) - mapped, axis=1) for name, found in ends.items()}


def figure(results: dict[str, Embedding], ends: dict[str, np.ndarray], steps):
    """Left: sizes over ε. Middle: the profile over one period. Right: how well each equation gives Φ back."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for name, (_, colour, mark) in MAPS.items():
        found = results[name]
        slope = "" if np.isnan(found.exponent) else f", slope {found.exponent:.2f}"
        left.loglog(found.h, found.size.error, mark + "-", color=colour, markersize=5, label=name + slope)
    left.loglog(found.h, found.size.floor, "--", color=GREY, linewidth=1, label="bound for the floor")
    left.set(xlabel="ε", ylabel="sup |∂G/∂t - f(G)|", ylim=(1e-15, 1e6))
    left.set_title("Size of the perturbation", loc="left")

    second = results[next(iter(MAPS))]
    for k, style in ((0, ":"), (1, "--"), (-1, "-")):
        label = f"ε = {second.h[k]:g}"
        middle.plot(second.tau, second.profile[k] / second.h[k] ** 2, style, color=BLUE, label=label)
    tau = np.linspace(0, 1, 201)[1:-1]
    bump = np.pi / 2 / (np.cosh(1 / np.tan(np.pi * tau)) * np.sin(np.pi * tau)) ** 2
    middle.plot(tau, bump * second.limit[-1] / (np.pi / 2), color=RED, linewidth=0.8, label="limit: |χ₀′| |Φ - F| / ε³")
    middle.set(xlabel="τ = t/ε", ylabel="sup |g(ε, τ, ·)|", ylim=(0, None))
    middle.set_title("(2,0): over one period", loc="left")

    for (name, values), colour, mark in zip(ends.items(), (GREY, BLUE, RED), ("x", "o", "^"), strict=True):
        right.loglog(steps, values, mark + "-", color=colour, markersize=5, label=name)
    right.set(xlabel="ε", ylabel="distance to Φ after one period", ylim=(1e-15, 1e1))
    right.set_title("(2,0): the map recovered", loc="left")
    right.set_xticks(steps, [f"{x:g}" for x in steps])
    right.set_xticks([], minor=True)
    for axes in (left, middle, right):
        axes.legend(fontsize=8, loc="upper left" if axes is not middle else "lower center")
        axes.grid(alpha=0.3)
    return figure


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    points, refinements, tolerance = (2, 4, 1e-8) if os.environ.get("DALEMBERT_EXAMPLES_FAST") else (16, 7, 1e-13)
    q, v = starts(points)
    h = 0.2 * 2.0 ** -np.arange(refinements)
    results = {
        name: embedding(PARTICLE, q, v, h=h, dependent=["z"], phases=40, **options) for name, (options, _, _) in MAPS.items()
    }
    for name, found in results.items():
        print(f"{name}\n  {found.describe()}")
    second = results[next(iter(MAPS))]
    print("declared as of order 3:", embedding(PARTICLE, q, v, h=h, dependent=["z"], phases=40, order=3).verdict)
    print(consistency(PARTICLE, q, v, h=h))
    steps = h[: refinements // 2 + 1]
    ends = distances(second, steps, q[0], v[0], tolerance)
    for name, values in ends.items():
        print(f"{name:32s}", " ".join(f"{x:9.2e}" for x in values))
    figure(results, ends, steps).savefig(folder / "perturbation.png", dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/perturbation"))
