"""The integrators as flows of a perturbed equation, Proposition 4.1: ż = f(z) + ε^p g(ε, t/ε, z) on D, for the particle."""

from __future__ import annotations

import numpy as np

from dalembert.measure import Embedding, embedding
from papers.drawing import Save, panels, step_ticks
from papers.jimenez_scheurle.integrators import COLOURS, COMPOSED, EXPLICIT, IMPLICIT, MARKERS, PARTICLE

STEPS = (0.2, 0.1, 0.05, 0.025)
METHODS = (EXPLICIT, IMPLICIT, COMPOSED[0])


def measure() -> dict[str, Embedding]:
    return {m.name: embedding(PARTICLE.system, *PARTICLE.start, h=STEPS, scheme=m.scheme) for m in METHODS}


def draw(save: Save, found: dict[str, Embedding]) -> None:
    """Left the size of the perturbation against ε, right sup|g| over the phase τ for the implicit integrator."""
    figure, axes = panels(1, 2, size=(8.8, 3.7))
    left, right = axes[0]
    for method in METHODS:
        result = found[method.name]
        look = {"color": COLOURS[method.name], "label": f"{method.label}: slope {result.exponent:.2f}", "markersize": 5}
        left.plot(result.h, result.size.error, MARKERS[method.name] + "-", **look)
    left.set(xscale="log", yscale="log", xlabel="$\\epsilon$", ylabel="$\\sup\\,|\\epsilon^p g|$", ylim=(1e-11, 10))
    left.legend(fontsize=8.5, loc="upper left")
    step_ticks(left, STEPS)
    implicit = found[IMPLICIT.name]
    for h, row, shade in zip(implicit.h, implicit.profile, np.linspace(0.35, 1.0, len(STEPS)), strict=True):
        right.plot(implicit.tau, row / h**2, color=COLOURS[IMPLICIT.name], alpha=shade, label=f"$\\epsilon = {h:g}$")
    right.set(xlabel="$\\tau = t/\\epsilon$", ylabel="$|g|$", title=f"{IMPLICIT.label}, $p = 2$")
    right.legend(fontsize=8.5)
    save("perturbation", figure)
