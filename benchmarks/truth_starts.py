"""Rows of the truth table for what begins a run on nodes, and for runs whose steps are unknowns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES

SHORT = 0.3  # an order may be short by so much at steps that are not infinitely small
KEPT = 1e-9  # of the size of what a run of free steps keeps: what tolerance and rounding leave
ORDERS = {"second_order": 2, "first_order": 1, "reference": 2}  # of a run on nodes, by its starter: `second_node`
STARTED = ("curvature_particle", "nonholonomic_particle", "spherical_pendulum")
STARTERS = {f"{name}, starters": name for name in STARTED}
FREE = {"oscillator in the plane, free steps": ("k = 1", "k = 2")}
STEPS = 100


def columns_of(name: str) -> tuple[str, ...]:
    """Starters, or orders of the Lagrangian."""
    return FREE[name] if name in FREE else tuple(ORDERS)


def verdict_of(name: str, column: str) -> dict[str, Any]:
    """As a verdict."""
    return _free(column) if name in FREE else _started(ENTRIES[STARTERS[name]], column)


def title_of(name: str) -> tuple[str, str]:
    """What stands above the row: its title and its equation."""
    if name in FREE:
        return "Oscillator in the plane, free steps", "L = ½|q̇|² - ¼|q|⁴; L = ½|q̈|² - 1.25|q̇|² + ½|q|² + 0.05|q|⁴"
    return f"{ENTRIES[STARTERS[name]].title}: starters of runs on nodes", ENTRIES[STARTERS[name]].formula


def _started(entry: Any, starter: Any) -> dict[str, Any]:
    h = [entry.h / 2**i for i in range(4)]
    found = da.measure.order(
        entry.system, entry.q0, entry.v0, time=20 * entry.h, h=h, scheme=da.Scheme("nodes"), start=da.Start(starter=starter)
    )
    declared, measured = ORDERS[starter], float(np.log2(found.q.error[-2] / found.q.error[-1]))
    claim = {
        "claim": f"q of order {declared}", "source": "Borda, Fernández, Grillo, section 4.1.2", "hypothesis": "none",
        "finding": "holds" if measured >= declared - SHORT else "does not hold", "measured": measured,
        "tolerance": declared - SHORT, "reason": f"between h = {h[-2]:g} and {h[-1]:g}",
    }  # fmt: skip
    return _row("System", starter, entry.h, 20, [claim])


def _free(column: str) -> dict[str, Any]:
    """The energy, and the momentum of the rotation, of windows of nodes."""
    if column == "k = 1":
        problem = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.25 * (q @ q) ** 2)
        path = da.step.simulate_free_steps(problem, [[1.0, 0.0], [0.99, 0.05]], [0.0, 0.05], steps=STEPS)
        values = {"the energy": da.energies(da.with_time(problem), np.column_stack([path.t, path.q]))}
        values["the momentum of the rotation"] = _momenta(problem, np.asarray(path.t), np.asarray(path.q))
    else:
        problem = da.VariationalProblem(
            lambda q, v, a: 0.5 * a @ a - 1.25 * v @ v + 0.5 * q @ q + 0.05 * (q @ q) ** 2, derivatives=2
        )
        jets = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
        second = da.systems.ostrogradsky(problem, jets, [0.0, 0.3]).jets[1, :2]
        path = da.step.simulate_free_steps(problem, [jets[:2], second], [0.0, 0.3], steps=14)
        nodes = np.column_stack([path.t, path.q, path.v])
        values = {"the energy": da.energies(da.with_time(problem, da.Hermite()), nodes)}
    changed = np.diff(np.asarray(path.t))
    return _row("VariationalProblem", column, float(changed[0]), path.steps, [
        _kept(what, np.asarray(x), f"steps from {changed.min():.3g} to {changed.max():.3g}") for what, x in values.items()
    ])  # fmt: skip


def _momenta(problem: da.VariationalProblem, t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """D₂L_d(q₀, q₁)·ξ(q₁) of every pair of nodes, ξ the rotation, L_d = h L at the middle."""

    def one(q0, q1, h):
        slope = jax.grad(lambda x: h * problem.lagrangian(0.5 * (q0 + x), (x - q0) / h))(q1)
        return slope @ jnp.stack([-q1[1], q1[0]])

    return np.asarray(jax.vmap(one)(q[:-1], q[1:], np.diff(t)))


def _kept(what: str, values: np.ndarray, why: str) -> dict[str, Any]:
    measured = float(np.ptp(values) / max(float(np.max(np.abs(values))), 1.0))
    return {
        "claim": f"{what} is kept", "source": "Colombo, Martín de Diego, Zuccalli, section 4.1", "hypothesis": "∂L/∂t = 0",
        "finding": "holds" if measured <= KEPT else "does not hold", "measured": measured, "tolerance": KEPT, "reason": why,
    }  # fmt: skip


def _row(system: str, scheme: str, h: float, steps: int, claims: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "system": system, "scheme": scheme, "h": h, "steps": steps, "sampled": f"{steps} steps and more",
        "holds": all(c["finding"] == "holds" for c in claims), "claims": claims,
    }  # fmt: skip
