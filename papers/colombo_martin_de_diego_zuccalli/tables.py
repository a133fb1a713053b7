"""The tables of the report."""

from __future__ import annotations

import numpy as np

from papers.colombo_martin_de_diego_zuccalli.beam import LABELS, Orders
from papers.colombo_martin_de_diego_zuccalli.corrections import CORRECTIONS, MISPRINTS
from papers.colombo_martin_de_diego_zuccalli.free_steps import FreeSteps, signs
from papers.colombo_martin_de_diego_zuccalli.heisenberg import Heisenberg, discrete_action
from papers.colombo_martin_de_diego_zuccalli.prescribed_steps import Prescribed
from papers.tables import markdown

NAMES = {"uniform": "μ = ρ = 1", "tapered": "μ = 1+t, ρ = 1", "loaded": "μ = 1+t, ρ = cos 3t"}


def orders_table(results: list[Orders]) -> str:
    """Errors of q, one column per number of steps."""
    head = ["beam", "q̈ and q from", *(f"N = {n}" for n in results[0].steps), "order"]
    rows = [
        [
            NAMES[r.beam.name],
            LABELS[r.scheme.name],
            *(f"{e:.2e}" for e in r.error),
            "exact" if np.isnan(r.order) else f"{r.order:.2f}",
        ]
        for r in results
    ]
    return markdown(head, rows)


def free_table(results: list[FreeSteps]) -> str:
    head = [
        "beam", "N", "negative directions", "max E - min E", "the same, equal fixed steps", "law of the energy",
        "distance from h³g constant", "largest step / smallest", "error of q",
    ]  # fmt: skip
    rows = [
        [NAMES[r.beam.name], str(len(r.found) - 1), str(r.negative), f"{r.spread:.1e}", f"{r.equal_steps:.1e}",
         f"{r.law:.0e}", f"{r.moved:.3f} h", f"{np.diff(r.found).max() / np.diff(r.found).min():.3f}", f"{r.error:.1e}"]
        for r in results
    ]  # fmt: skip
    return markdown(head, rows)


def signs_table() -> str:
    rows = [
        [NAMES[beam.name], LABELS[name], f"{low:.5f} … {high:.5f}", "no" if low < 0 < high else "yes"]
        for beam, name, low, high in signs()
    ]
    return markdown(["beam", "q̈ and q from", "g", "fine meshes exist"], rows)


def prescribed_table(found: list[Prescribed]) -> str:
    head = [
        "N",
        "t_N",
        "q in the middle",
        "q equations alone, same times",
        "largest E_i - λⁱ, relative",
        "variation of E_i h(q_i), relative",
    ]
    rows = [
        [
            str(len(r.t) - 1),
            f"{r.t[-1]:.4f}",
            f"{r.q.min():.4f}",
            f"{r.alone.min():.4f}",
            f"{r.balance:.0e}",
            f"{r.product:.4f}",
        ]
        for r in found
    ]
    return markdown(head, rows)


def actions_table(found: Heisenberg) -> str:
    head = ["N", "action of the circle", "N tan(π/N) a/T", "error of q, arc"]
    rows = [
        [str(n), f"{a:.10f}", f"{discrete_action(n):.10f}", f"{e:.2e}"]
        for n, a, e in zip(found.steps, found.actions, found.error, strict=True)
    ]
    return markdown(head, rows)


def corrections_table() -> str:
    rows = [[c.equation, c.printed, c.correct, c.text] for c in CORRECTIONS]
    rows += [[*misprint, ""] for misprint in MISPRINTS]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return markdown(["place", "printed", "correct", "checked by"], escaped)
