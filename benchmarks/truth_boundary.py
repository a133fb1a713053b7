"""Rows of the truth table for boundary problems and optimal control: the orders that windows and transcriptions declare.

Each problem is solved with N, 2N, 4N and 8N steps, and the paths are compared at the nodes of the coarsest: the differences
of neighbours fall by 2^order.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import dalembert as da
from dalembert.gallery import PROBLEMS

STEPS, CONTROLLED = 20, 80  # of the coarsest path, and of that of an optimal control
HALVINGS = 4
SHORT = 0.3  # an order may be short by so much at steps that are not infinitely small
FLOOR = 1e-10  # of the extent of a path: differences below are what Newton's method leaves
WINDOWS: dict[str, Any] = {"Interpolated()": da.Interpolated(), "Averaged()": da.Averaged(), "Hermite()": da.Hermite()}
CONTROL: dict[str, Any] = {"Scheme()": None, "Lobatto()": da.Lobatto()}
NAMES = (
    "elastic_beam", "elastica", "minimum_acceleration", "minimum_jerk", "riemannian_cubic", "sphere_spline", "cart_pole",
    "two_rods", "rigid_body", "knife_edge",
)  # fmt: skip


def problems() -> dict[str, str]:
    """Names of the gallery by names of rows."""
    return {f"{name}, between its ends": name for name in NAMES}


def columns_of(name: str) -> dict[str, Any]:
    """The schemes of a problem of the gallery."""
    return CONTROL if isinstance(PROBLEMS[name].problem, da.OptimalControl) else WINDOWS


def orders_of(name: str, column: str) -> dict[str, Any]:
    """As a verdict: the orders of positions and of the action or cost, against what is declared."""
    entry, scheme = PROBLEMS[name], columns_of(name)[column]
    control = isinstance(entry.problem, da.OptimalControl)
    declared = (4 if scheme is not None else 2) if control else scheme.order(entry.problem.derivatives)
    counts = [(CONTROLLED if control else STEPS) * 2**k for k in range(HALVINGS)]
    T = float(entry.boundary["T"])
    h = T / counts[0]
    found: list[Any] = []
    for steps in counts:
        t = np.linspace(0.0, T, steps + 1)
        guess = found[-1] if found else None if entry.guess is None else entry.guess(t)
        found.append(da.solve(entry.problem, **entry.boundary, steps=steps, scheme=scheme, guess=guess, certify=False))
    path = lambda s, k: np.asarray(s.q)[:: 2**k]  # noqa: E731
    values = {"q": [path(s, k) for k, s in enumerate(found)], "the action or cost": [np.array([s.value[1]]) for s in found]}
    claims = [_judged(what, x, declared, column, h) for what, x in values.items()]
    return {
        "system": type(entry.problem).__name__, "scheme": column, "h": h, "steps": counts[0],
        "sampled": f"{', '.join(map(str, counts))} steps", "holds": all(c["finding"] == "holds" for c in claims),
        "claims": claims,
    }  # fmt: skip


def _judged(what: str, values: list[np.ndarray], declared: int, column: str, h: float) -> dict[str, Any]:
    apart = np.array([np.max(np.abs(a - b)) for a, b in itertools.pairwise(values)])
    size = max(float(np.max(np.abs(values[-1]))), 1e-300)
    above = apart > FLOOR * size
    used = [i for i in range(len(apart) - 1) if above[i] and above[i + 1]]
    if used:
        i = used[-1]
        order, why = float(np.log2(apart[i] / apart[i + 1])), f"between h = {h / 2**i:g} and {h / 2 ** (i + 2):g}"
    else:
        order, why = float(declared), "differences at the level of what Newton's method leaves"
    source = "transcription" if column in CONTROL else "WindowMap.order"
    return {
        "claim": f"{what} of order {declared}", "source": source, "hypothesis": "a smooth solution, steps that resolve it",
        "finding": "holds" if order >= declared - SHORT else "does not hold", "measured": order,
        "tolerance": declared - SHORT, "reason": why,
    }  # fmt: skip
