"""The tables: every run, and the times for given errors relative to the fastest."""

from __future__ import annotations

import numpy as np
from benchmarks.peers.measure import Result

ERRORS = (1e-2, 1e-4, 1e-6, 1e-8)


def print_tables(results: list[Result], agreement: float) -> None:
    for result in results:
        runs = "  ".join(f"{error:.1e} {1e3 * time:.3g}" for error, time in zip(result.errors, result.times, strict=True))
        print(f"    {result.method.name}: first use {result.first_use:.2f} s; error, ms: {runs}")
    for line in relative(results, agreement):
        print(line, flush=True)


def ratio(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return "**1**" if value == 1 else f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def relative(results: list[Result], agreement: float) -> list[str]:
    """Rows of a table in Markdown. The fastest is looked for among all but hand-written C, which is the same scheme."""
    errors = [e for e in ERRORS if e > 3 * agreement]
    times = {r.method.name: np.array([r.time_at(e) for e in errors]) for r in results}
    others = [times[r.method.name] for r in results if r.method.family != "C"]
    fastest = np.min(others, axis=0)
    lines = [
        "",
        "| time ÷ that of the fastest, at error | " + " | ".join(f"{e:.0e}" for e in errors) + " | first use |",
        "|---|" + "---|" * (len(errors) + 1),
    ]
    base = next((r.first_use for r in results if r.method.family == "dalembert"), np.nan)
    for r in results:
        cells = [ratio(x) for x in times[r.method.name] / fastest]
        first = r.first_use / base
        lines.append(f"| {r.method.name} | " + " | ".join(cells) + f" | {'< 0.01' if first < 0.01 else f'{first:.2g}'} |")
    return lines
