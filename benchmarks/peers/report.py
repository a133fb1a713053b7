"""The tables: every run, and the times for given errors relative to the fastest."""

from __future__ import annotations

import numpy as np
from benchmarks.peers.measure import Result
from benchmarks.peers.problems import Problem

MIDDLE = 1e-5


def print_tables(problem: Problem, results: list[Result], agreement: float) -> None:
    for result in results:
        runs = "  ".join(f"{error:.1e} {1e3 * time:.3g}" for error, time in zip(result.errors, result.times, strict=True))
        print(f"    {result.method.name}: first use {result.first_use:.2f} s; error, ms: {runs}")
    for line in relative(problem, results, agreement):
        print(line, flush=True)


def ratio(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return "**1**" if value == 1 else f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def relative(problem: Problem, results: list[Result], agreement: float) -> list[str]:
    """Rows of a table in Markdown.

    The fastest is looked for among all but hand-written C, which is the same scheme, and in a problem with a constraint
    among the other packages only: what is below a half there is twice as fast as all of them. The last column is then the
    constraint at the end at an error of MIDDLE.
    """
    errors = [e for e in problem.errors if e > 3 * agreement]
    times = {r.method.name: np.array([r.time_at(e) for e in errors]) for r in results}
    rolling = problem.constraint is not None
    left_out = ("C", "dalembert") if rolling else ("C",)
    fastest = np.min([times[r.method.name] for r in results if r.method.family not in left_out], axis=0)
    names = ("the fastest other package", "constraint at T") if rolling else ("the fastest", "first use")
    lines = [
        "",
        f"| time ÷ that of {names[0]}, at error | " + " | ".join(f"{e:.0e}" for e in errors) + f" | {names[1]} |",
        "|---|" + "---|" * (len(errors) + 1),
    ]
    base = next((r.first_use for r in results if r.method.family == "dalembert"), np.nan)
    for r in results:
        cells = [ratio(x) for x in times[r.method.name] / fastest]
        cells.append(constraint(r.drift_at(MIDDLE)) if rolling else small(r.first_use / base))
        lines.append(f"| {r.method.name} | " + " | ".join(cells) + " |")
    return lines


def small(value: float) -> str:
    return "< 0.01" if value < 0.01 else f"{value:.2g}"


def constraint(value: float) -> str:
    return "–" if np.isnan(value) else "< 1e-15" if value < 1e-15 else f"{value:.0e}"
