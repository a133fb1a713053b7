"""Section 4.3: optimal control with the controls eliminated, of a cart with a pole on a platform that moves up and down.

The section has no example; this one is underactuated and depends on time, as the section wants it. The value of ∫u² is that
of Pontryagin's equations.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from dalembert import measure as measured
from dalembert.boundary import Nodes, solve
from dalembert.control import OptimalControl, eliminate
from dalembert.discretize import Hermite, Interpolated, Points
from dalembert.gallery.moving_support import entry, moving_support
from dalembert.solution import Solution
from dalembert.step import simulate
from dalembert.systems import System, VariationalProblem
from papers.tables import markdown

STEPS = (40, 80, 160)
TIME = 2.0
EFFORT = 39.398017254
AT = 10  # where the flow is looked at
WAYS = ("forces as unknowns", "eliminated, `Interpolated()`", "eliminated, `Hermite()`")


@dataclasses.dataclass(frozen=True)
class Control:
    """errors: of ∫u², (ways, steps), see `WAYS`. same: largest distance of the paths with forces as unknowns and on three
    nodes, between the same two nodes at each end, on the coarsest mesh. symplectic: Υ_d*Ω - Ω over Ω. rank, smallest: of
    the matrix of Proposition 3.2; wanted: its size.
    """

    steps: tuple[int, ...]
    errors: Float[np.ndarray, "ways steps"]
    same: float
    symplectic: float
    rank: int
    wanted: int
    smallest: float

    @property
    def orders(self) -> Float[np.ndarray, "ways"]:
        """Between the two finest meshes."""
        return np.log2(self.errors[:, -2] / self.errors[:, -1])


def between_nodes(problem: OptimalControl, first, last, steps: int, guess) -> tuple[VariationalProblem, Solution]:
    """The paper's discrete problem and its ends."""
    discrete = eliminate(problem, step=TIME / steps)
    ends: dict[str, Any] = {"initial": Nodes(first), "final": Nodes(last), "T": TIME, "steps": steps}
    return discrete, solve(discrete, **ends, scheme=Points(), guess=guess)


def measure(fast: bool = False) -> Control:
    steps, problem, ends = STEPS[:2] if fast else STEPS, moving_support(), {**entry.boundary}
    jets, costs, forced = eliminate(problem), [], []
    for number in steps:
        forced.append(solve(problem, **ends, steps=number))
        found = [solve(jets, **ends, steps=number, scheme=scheme) for scheme in (Interpolated(), Hermite())]
        costs.append([float(forced[-1].cost), *(float(s.action) for s in found)])
    q, errors = forced[0].q, np.array(costs).T - EFFORT
    discrete, path = between_nodes(problem, q[:2], q[-2:], steps[0], q)
    return Control(steps, errors, float(np.abs(path.q - q).max()), **_flow(discrete, path, TIME / steps[0]))


def _flow(problem: VariationalProblem, found: Solution, h: float) -> dict[str, Any]:
    given: dict[str, Any] = {
        "nodes": found.q[AT : AT + 4], "multipliers": found.multipliers[AT : AT + 2], "h": h, "t0": float(found.t[AT]),
    }  # fmt: skip
    defect = measured.symplectic_defect(problem, **given, scheme=Points())
    regular = measured.regularity(problem, simulate(problem, **given, steps=8, scheme=Points()), scheme=Points())
    assert isinstance(regular, measured.FlowRegularity)
    matrix = regular.matrix
    return {
        "symplectic": float(defect.relative), "rank": int(matrix.ranks.min()), "wanted": int(matrix.wanted),
        "smallest": float(matrix.smallest.min()),
    }  # fmt: skip


def table(found: Control) -> str:
    head = ["∫u², error", *(f"N = {n}" for n in found.steps), "order"]
    rows = zip(WAYS, found.errors, found.orders, strict=True)
    return markdown(head, [[name, *(f"{e:.1e}" for e in errors), f"{order:.2f}"] for name, errors, order in rows])


MASS = OptimalControl(System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)


def printed_control(h: float = 0.1) -> dict[str, float]:
    """q = t², u = q̈ = 2: (t_i - t_{i-1}) D₄L_d + (t_{i+1} - t_i) D₂L_d of L_d = ½((q₁-q₀)/h)²."""
    q = (h * np.arange(3)) ** 2
    d = np.diff(q) / h
    return {"printed": float(d[0] - d[1]), "u": 2.0, "-hu": -2.0 * h}


def controls_and_windows(steps: int = 7) -> dict[str, float]:
    """u_0 … u_{N-1} in the cost, and three nodes for u_1 … u_{N-1}."""
    windows = [(i, i + 1, i + 2) for i in range(steps - 1)]
    return {"controls": float(steps), "windows": float(len(windows)), "first": float(windows[0][1])}


def ends_by_nodes() -> dict[str, float]:
    """The double integrator from rest at 0 to rest at 1, whose ∫u² is 12: the error over h, and over h² with
    (q, v) given."""
    ends: dict[str, Any] = {"initial": Nodes([[0.0]] * 2), "final": Nodes([[1.0]] * 2), "T": 1.0, "steps": 80}
    found = solve(eliminate(MASS, step=1 / 80), **ends, scheme=Points())
    given = solve(MASS, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=40)
    return {"nodes": (float(found.action) - 12.0) * 80, "given": (float(given.cost) - 12.0) * 1600}
