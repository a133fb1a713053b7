"""The tables of the report, in Markdown."""

from __future__ import annotations

import numpy as np

from dalembert.measure import Embedding
from papers.jimenez_scheurle.consistency import Pair
from papers.jimenez_scheurle.corrections import CORRECTIONS
from papers.jimenez_scheurle.integrators import ORIGINAL
from papers.jimenez_scheurle.long_runs import ConstraintDrift, LongRuns
from papers.jimenez_scheurle.orders import QUANTITIES, Errors
from papers.jimenez_scheurle.perturbations import METHODS
from papers.jimenez_scheurle.work import Work
from papers.tables import markdown, number


def orders_table(results: list[Errors]) -> str:
    head = ["system", "integrator", "q", "v", "λ, own time", "λ, end of step", "λ(q, v)"]
    return markdown(head, [[r.case.label, r.method.label, *(number(r.order(x)) for x in QUANTITIES)] for r in results])


def pairs_table(pairs: list[Pair]) -> str:
    head = [
        "system",
        "integrator",
        "data on",
        "p",
        "s",
        "r + 1",
        "l + 1",
        "s + 1",
        "λ, own time",
        "λ(q, v)",
        "first λ / true",
    ]
    rows = []
    for x in pairs:
        exponents = [number(x.exponent(name)) for name in ("q", "v", "end", "own", "recomputed")]
        least, most = x.ratio[-1].min(), x.ratio[-1].max()
        ratio = f"{least:.3f}" if f"{least:.3f}" == f"{most:.3f}" else f"{least:.3f} … {most:.3f}"
        data = "D_ε" if x.deformed else "D"
        rows.append([x.case.label, x.method.label, data, number(x.p), number(x.s), *exponents, ratio])
    return markdown(head, rows)


def constraint_table(runs: list[ConstraintDrift]) -> str:
    head = ["system", "integrator", "ε", "largest", "least … most", "mean", "changes of sign", "left side of (98)"]
    rows = []
    for r in runs:
        seen = r.largest > 1e-12
        rows.append([
            r.case.label, r.method.label, f"{r.h:g}", f"{r.largest:.2e}",
            f"{r.on_d.min():.4f} … {r.on_d.max():.4f}" if seen else "rounding", f"{r.mean:.1e}" if seen else "–",
            str(r.changes) if seen else "–", f"{np.abs(r.deformed).max():.1e}" if r.method is ORIGINAL else "–",
        ])  # fmt: skip
    return markdown(head, rows)


def work_table(results: list[Work]) -> str:
    wanted = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
    head = ["integrator", "slope", *(f"stages for {x:.0e}" for x in wanted)]
    rows = []
    for r in results:
        stages = [r.stages_for(x) for x in wanted]
        rows.append([r.method.label, f"{r.order:.2f}", *("–" if np.isnan(x) else f"{x:.0f}" for x in stages)])
    return markdown(head, rows)


def energy_table(runs: LongRuns) -> str:
    rows = []
    for r in runs.energies:
        tenth = max(1, len(r.t) // 10)
        bands = [f"{r.change[part].min():.2e} … {r.change[part].max():.2e}" for part in (slice(tenth), slice(-tenth, None))]
        rows.append([r.method.label, f"{r.t[-1]:g}", *bands])
    return markdown(["integrator", "time", "relative change, first tenth", "last tenth"], rows)


def rates_table(runs: LongRuns) -> str:
    rows = [
        [r.method.label, f"{r.h:g}", f"{r.rate:.2e}", f"{r.rate / r.h:.3f}", f"{r.predicted / r.h:.3f}"] for r in runs.parts
    ]
    return markdown(["integrator", "ε", "rate", "rate / ε", "predicted"], rows)


def perturbation_table(found: dict[str, Embedding]) -> str:
    labels = {method.name: method.label for method in METHODS}
    first = next(iter(found.values()))
    head = ["integrator", "p", "exponent", *(f"sup of g, ε = {h:g}" for h in first.h)]
    rows = [[labels[k], str(e.order), f"{e.exponent:.3f}", *(f"{x:.3g}" for x in e.sup_g)] for k, e in found.items()]
    return markdown(head, rows)


def corrections_table() -> str:
    rows = [[c.equation, c.printed, c.correct, c.text] for c in CORRECTIONS]
    return markdown(
        ["equation", "printed", "correct", "how it was checked"], [[x.replace("|", "\\|") for x in r] for r in rows]
    )
