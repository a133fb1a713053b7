"""Records that --json prints: plain dicts, lists, numbers and text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.gallery import ENTRIES, PROBLEMS, BoundaryEntry, Entry
from dalembert.measure import Order
from dalembert.outcome import Outcome
from dalembert.path import Path, Study
from dalembert.solution import ControlSolution, CriticalPoint


def gallery_record(entries: Mapping[str, Entry | BoundaryEntry] | None = None) -> dict[str, Any]:
    """Systems and boundary problems with formula, parameters and source; those of the gallery, if none are given."""
    known: Mapping[str, Any] = {**ENTRIES, **PROBLEMS} if entries is None else entries
    systems = [_gallery_row(name, x, x.system) for name, x in known.items() if isinstance(x, Entry)]
    problems = [_gallery_row(name, x, x.problem) for name, x in known.items() if isinstance(x, BoundaryEntry)]
    return {"systems": systems, "problems": problems}


def _gallery_row(name: str, entry: Any, problem: Any) -> dict[str, Any]:
    return {
        "name": name,
        **{field: getattr(entry, field) for field in ("title", "formula", "source")},
        "coordinates": list(problem.coordinates or ()),
        "parameters": {name: np.asarray(x).tolist() for name, x in sorted((problem.parameters or {}).items())},
    }


def run_record(path: Path, name: str, files: list[str]) -> dict[str, Any]:
    """The end of a run, its first and last state, and what the solver did."""
    failed = Outcome(int(path.code)).failed
    return {
        "name": name,
        **_outcome_record(path, failed),
        "h": float(path.h),
        "steps": int(path.steps_done),
        "coordinates": list(path.coordinates),
        "start": _state_row(path, 0),
        "end": _state_row(path, -1),
        "statistics": _statistics_numbers(path.statistics),
        "files": files,
    }


def solution_record(solution: CriticalPoint, entry: BoundaryEntry, changed: bool, files: list[str]) -> dict[str, Any]:
    """The end of a boundary problem. changed: it has other parameters than those whose solution is known."""
    (named, value), outcome = solution.value, solution.outcome
    refined = solution.refinement if isinstance(solution, ControlSolution) else None
    exact = None if changed or entry.exact is None else entry.exact(solution.t)
    return {
        "name": entry.name,
        **_outcome_record(solution, outcome is not Outcome.SUCCESS or not (refined is None or refined.reached)),
        "steps": len(solution.t) - 1,
        "T": float(solution.t[-1] - solution.t[0]),
        "value_of": named,
        "value": float(value if refined is None else refined.cost),
        "kind": solution.kind,
        "error": None if exact is None else float(np.abs(np.asarray(solution.q) - exact).max()),
        "cost_limit": None if changed else entry.cost,
        "coordinates": list(solution.coordinates),
        "statistics": _statistics_numbers(solution.statistics),
        "files": files,
    }


def study_record(study: Study, name: str, files: list[str]) -> dict[str, Any]:
    """The swept values, and the ends of the runs or problems."""
    codes, outcomes = study.data["code"].values, study.outcomes.values
    found, counts = np.unique(outcomes, return_counts=True)
    if study.of_runs:
        numbers = {"h": float(study.data["h"]), "steps_done": study.data["steps_done"].values.tolist()}
    else:
        value = "cost" if "cost" in study.data else "action"
        numbers = {"steps": study.data.sizes["time"] - 1, "value_of": value}
        numbers |= {"value": study.data[value].values.tolist(), "iterations": study.data["iterations"].values.tolist()}
    return {
        "name": name,
        "axes": list(study.axes),
        "values": {one.name: study.data[one.label].values.tolist() for one in study.swept.values()},
        "runs": len(study),
        "outcomes": dict(zip(found.tolist(), counts.tolist(), strict=True)),
        "map": outcomes.tolist(),
        "failed": all(Outcome(int(code)).failed for code in np.unique(codes)),
        **numbers,
        "coordinates": list(study.coordinates),
        "files": files,
    }


def order_record(result: Order, name: str) -> dict[str, Any]:
    """Errors, orders and slopes, quantity by quantity."""
    columns = ("h", "error", "orders", "slope", "use")
    return {
        "name": name,
        "time": float(result.time),
        "failed": any(Outcome(int(path.code)).failed for path in result.paths),
        "quantities": {
            quantity: {column: np.asarray(getattr(c, column)).tolist() for column in columns}
            for quantity, c in result.quantities.items()
        },
    }


def _outcome_record(result: Any, failed: bool) -> dict[str, Any]:
    outcome = Outcome(int(result.code))
    message = getattr(result, "messages", {}).get(outcome, outcome.message)
    return {"outcome": outcome.name.lower(), "message": message, "failed": failed}


def _state_row(path: Path, i: int) -> dict[str, Any]:
    return {"t": float(path.t[i]), "q": np.asarray(path.q[i]).tolist(), "v": np.asarray(path.v[i]).tolist()}


def _statistics_numbers(statistics: Any) -> dict[str, Any]:
    return {field.name: np.asarray(getattr(statistics, field.name)).item() for field in dataclasses.fields(statistics)}
