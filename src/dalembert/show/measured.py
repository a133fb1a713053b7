"""Figures of measurements: errors over h with their slopes, the change of an invariant over time, the claims of a verdict.

Several measurements with names share a figure; a line is a measurement, and a diagram a quantity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.claims import Claim, Finding, Verdict
from dalembert.measure import Consistency, Convergence, DiscreteConsistency, Invariant, MomentumBalance, Order, Residual
from dalembert.show.panels import Panel, component_lines, draw_panel
from dalembert.show.style import Canvas, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS = (Convergence, Order, Consistency, DiscreteConsistency)
SERIES = (Invariant, Residual, MomentumBalance)
KINDS = (ERRORS, SERIES, (Verdict,))
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALLEST = 1e-12  # part of what is allowed, below which a measured number is drawn at the edge


def kind_of(results: Mapping[str, Any]) -> tuple[type, ...] | None:
    """The measurements that these results are, and that may share a figure; None for others and for a mixture."""
    groups = list(results.values()) if _are_nested(results) else [results]
    kinds = {next((kind for kind in KINDS if isinstance(one, kind)), None) for group in groups for one in group.values()}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if groups == [results] or kind is SERIES else None


def _are_nested(results: Mapping[str, Any]) -> bool:
    return all(isinstance(one, Mapping) for one in results.values())


def plot_measurements(given: Mapping[str, Any], canvas: Canvas) -> Figure:
    """The figure of named measurements of one kind. A single one may have the name ""."""
    kind = kind_of(given)
    if kind is ERRORS:
        content, draw, size = _quantities(given), _draw_errors, (4.6, 3.6)
    elif kind is SERIES:
        content, draw, size = dict(given) if _are_nested(given) else {"": given}, _draw_changes, (6.2, 2.6)
    else:
        content, draw, size = given, _draw_claims, (9.0, 0.9 + 0.3 * max(len(verdict.claims) for verdict in given.values()))
    with canvas.diagrams(len(content), size, beside=kind is ERRORS) as axes:
        for one, (label, measured) in zip(axes, content.items(), strict=True):
            draw(one, label, measured, canvas.theme, canvas.style)
        return axes[0].figure


def _quantities(given: Mapping[str, Any]) -> dict[str, dict[str, Convergence]]:
    """The errors of one measurement in one diagram, those of several in one for each quantity."""
    of = {name: {"": x} if isinstance(x, Convergence) else vars(x) for name, x in given.items()}
    found = {name: {q: x for q, x in fields.items() if isinstance(x, Convergence)} for name, fields in of.items()}
    if len(found) == 1:
        return {"": next(iter(found.values()))}
    quantities = dict.fromkeys(q for errors in found.values() for q in errors)
    return {q: {name: errors[q] for name, errors in found.items() if q in errors} for q in quantities}


def _draw_errors(ax: Any, label: str, lines: Mapping[str, Convergence], theme: Theme, style: Mapping[str, Any]) -> None:
    """Dots on lines, empty where an error is not in the fit; below them a dashed line for each order."""
    guides: dict[int, Convergence] = {}
    for i, (name, one) in enumerate(lines.items()):
        words = ", ".join(word for word in (name, f"slope {one.slope:.2f}") if word)
        look = {"color": theme.lines[i % len(theme.lines)], "marker": "os^Dv<>p"[i % 8], "markersize": 4, "label": words}
        error = np.where(one.error > 0, one.error, np.nan)
        (line,) = ax.loglog(one.h, error, **{**look, **style})
        (hollow,) = ax.loglog(one.h, np.where(one.fitted, np.nan, error))
        hollow.update_from(line)
        hollow.set(linestyle="", markerfacecolor=theme.page, label="_")
        if one.fitted.sum() > 1:
            guides.setdefault(round(one.slope), one)
    for order, one in guides.items():
        h, error = one.h[one.fitted], one.error[one.fitted]
        guide = 0.4 * error[0] * (h / h[0]) ** order
        ax.loglog(h, guide, color=theme.faint, linestyle="--", linewidth=0.8)
        ax.annotate(f"h{str(order).translate(POWERS)}", (h[0], guide[0]), (4, -2), textcoords="offset points")
    ticks = sorted({float(h) for one in lines.values() for h in one.h})
    ax.set_xticks(ticks, [f"{h:.3g}" for h in ticks], rotation=0 if len(ticks) < 7 else 60)
    ax.set_xticks([], minor=True)
    ax.set(xlabel="h", ylabel=f"error of {label}" if label else "error")
    ax.legend()


def _draw_changes(ax: Any, label: str, lines: Mapping[str, Any], theme: Theme, style: Mapping[str, Any]) -> None:
    """The change of invariants since their first time, for a balance with the work; residuals as they are."""
    for run, (name, one) in enumerate(lines.items()):
        if isinstance(one, Residual):
            words, found = label or "residual", component_lines("φ", np.asarray(one.values))
        elif isinstance(one, MomentumBalance):
            work = np.concatenate([[0.0], np.cumsum(one.work)])
            words, found = label or "change of momentum", [("J", one.momentum - one.momentum[0]), ("work", work)]
        else:
            words, found = f"change of {label}" if label else "change", [("", np.asarray(one.drift))]
        draw_panel(ax, Panel(words, np.asarray(one.t), found), theme, run, name, style)
    ax.set_xlabel("t")


def _draw_claims(ax: Any, label: str, verdict: Verdict, theme: Theme, style: Mapping[str, Any]) -> None:
    """What was measured of each claim, in parts of what is allowed: left of the line it holds."""
    for place, claim in enumerate(verdict.claims):
        holds = claim.finding is Finding.HOLDS
        if math.isnan(claim.measured):
            words = "errors are rounding" if holds else str(claim.finding)
            ax.annotate(words, (SMALLEST, place), (6, 0), textcoords="offset points", color=theme.faint, va="center")
        else:
            look = {"marker": "o", "color": theme.lines[0]} if holds else {"marker": "X", "color": theme.red}
            ax.plot(_part_of_allowed(claim, holds), place, **{**look, "markersize": 6, **style})
    ax.axvline(1.0, color=theme.faint, linewidth=0.9, linestyle="--")
    ax.set_yticks(range(len(verdict.claims)), [claim.claim for claim in verdict.claims])
    ax.set(
        xscale="log", xlabel="measured, in parts of what is allowed", ylabel=label, ylim=(len(verdict.claims) - 0.4, -0.6)
    )
    ax.set_xlim(SMALLEST, max(10.0, 3.0 * ax.get_xlim()[1]))


def _part_of_allowed(claim: Claim, holds: bool) -> float:
    """At most 1 where the claim holds. An order must not be smaller than its tolerance: 10 to the power of what it lacks."""
    measured, tolerance = claim.measured, claim.tolerance
    if (measured <= tolerance) is not holds:
        part = 10.0 ** (tolerance - measured)
    else:
        part = measured / tolerance if tolerance else math.inf
    return min(max(part, 1.5 * SMALLEST), 1e6)
