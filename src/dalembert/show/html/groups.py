"""What the diagrams of a page show of one result: lines over time, each group in a diagram of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert import measure
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.show.panels import subscript
from dalembert.show.results import Shown
from dalembert.solution import ActiveBounds, ControlSolution, CriticalPoint, Solution
from dalembert.systems import Holonomic, System, VariationalProblem
from dalembert.systems import energy as energy_at
from dalembert.systems.equations import value
from dalembert.tracing import seldom

MOST_LINES = 4  # in one diagram
MOST_COORDINATES = 12  # that are drawn
Lines = list[tuple[str, np.ndarray]]


class LineGroup(NamedTuple):
    """Lines over one series of times. bounds: of each line (lower, upper) over `t_bounds`, or None; log: of |values|."""

    title: str
    t: np.ndarray
    lines: Lines
    log: bool = False
    note: str = ""
    bounds: ActiveBounds | None = None


def groups_of(shown: Shown) -> list[LineGroup]:
    """Positions and velocities, energy, constraints, multipliers, forces, controls: what the result has."""
    found = [*_positions(shown), *_own(shown)]
    for make in (_energy, _residuals):
        group = make(shown)
        if group is not None:
            found.append(group)
    return [part for group in found if group.t.size and group.lines for part in _split_group(group)]


def _split_group(group: LineGroup) -> list[LineGroup]:
    """As several where there are too many lines."""
    if len(group.lines) <= MOST_LINES or group.bounds is not None:
        return [group]
    return [group._replace(lines=group.lines[i : i + MOST_LINES]) for i in range(0, len(group.lines), MOST_LINES)]


def _positions(shown: Shown) -> list[LineGroup]:
    names, t, q = shown.names, shown.t, shown.q
    kept = min(len(names), MOST_COORDINATES)
    note = "" if kept == len(names) else f"the first {kept} of {len(names)} coordinates"
    size = 1 if kept <= 6 else 3
    bounds = getattr(shown.result, "bounds", {}).get("q")
    found = []
    for i in range(0, kept, size):
        places = range(i, min(i + size, kept))
        own = None if bounds is None else _columns(bounds, list(places))
        found.append(
            LineGroup(", ".join(names[j] for j in places), t, [(names[j], q[:, j]) for j in places], note=note, bounds=own)
        )
        note = ""
    result: Any = shown.result
    t_v = np.asarray(result.t_velocity if isinstance(result, Path) else result.t)
    lines = [(f"d{names[i]}/dt", np.asarray(result.v)[:, i]) for i in range(kept)]
    return [*found, LineGroup("velocities", t_v, lines)]


def _columns(bounds: ActiveBounds, places: list[int]) -> ActiveBounds | None:
    parts = {
        name: np.asarray(getattr(bounds, name))[:, places] for name in ("lower", "upper", "multipliers", "active", "values")
    }
    finite = np.isfinite(parts["lower"]).any() or np.isfinite(parts["upper"]).any()
    return ActiveBounds(**parts, t=bounds.t, margin=bounds.margin) if finite else None


def _own(shown: Shown) -> list[LineGroup]:
    """What belongs to one kind of result."""
    result = shown.result
    if isinstance(result, ControlSolution):
        return _of_control(shown, result)
    if isinstance(result, Solution):
        return _of_solution(shown, result)
    return _of_path(shown, result) if isinstance(result, Path) else []


def _of_path(shown: Shown, path: Path) -> list[LineGroup]:
    t, law = np.asarray(path.t_multipliers), _law(shown)
    found = [LineGroup(law or "multipliers λ", t, _component_lines("λ", np.asarray(path.multipliers)))]
    acting = [(f"on {name}", column) for name, column in zip(shown.names, np.asarray(path.constraint_forces).T, strict=True)
              if np.any(column != 0.0)]  # fmt: skip
    same = len(acting) == 1 == len(found[0].lines) and np.array_equal(np.abs(acting[0][1]), np.abs(found[0].lines[0][1]))
    found += [] if same else [LineGroup("constraint forces Rᵀλ", t, acting)]
    if path.feedback is not None and path.t_feedback is not None:
        held = [(f"on {name}", column) for name, column in zip(shown.names, np.asarray(path.feedback).T, strict=True)]
        found.append(LineGroup("sampled control", np.asarray(path.t_feedback), held))
    return found


def _law(shown: Shown) -> str:
    """Multipliers of a servo- or Lyapunov constraint are its control law."""
    constraints = getattr(shown.problem, "constraints", ())
    servo = any(getattr(c, "actuated", None) is not None or getattr(c, "reactions", None) is not None for c in constraints)
    return "control law λ" if servo else ""


def _of_control(shown: Shown, solution: ControlSolution) -> list[LineGroup]:
    t, bounds = np.asarray(solution.t), solution.bounds
    u = np.asarray(solution.u)
    found = [
        LineGroup(
            "control u",
            t,
            _component_lines("u", u),
            bounds=_columns(bounds["u"], list(range(u.shape[1]))) if "u" in bounds else None,
        )
    ]
    forces = [
        (f"on {name}", column) for name, column in zip(shown.names, np.asarray(solution.constraint_forces).T, strict=True)
    ]
    found += [LineGroup("constraint forces Rᵀν", t, forces)] if solution.multipliers.shape[1] else []
    return found + _inequalities(solution)


def _of_solution(shown: Shown, solution: Solution) -> list[LineGroup]:
    t, jets = np.asarray(solution.t_multipliers), np.asarray(solution.jets)
    found = []
    for j, word in ((2, "accelerations"), (3, "third derivatives"), (4, "fourth derivatives")):
        if j < jets.shape[1]:
            lines = [
                (f"d{subscript_up(j)}{name}/dt{subscript_up(j)}", jets[:, j, i])
                for i, name in enumerate(shown.names[:MOST_COORDINATES])
            ]
            found.append(LineGroup(word, t, lines))
    found.append(LineGroup("multipliers λ", t, _component_lines("λ", np.asarray(solution.multipliers))))
    held = np.asarray(solution.holonomic_multipliers)
    found.append(LineGroup("multipliers of φ(q)", shown.t, _component_lines("μ", np.where(held == 0.0, np.nan, held))))
    return found + _inequalities(solution)


def subscript_up(i: int) -> str:
    return "⁰¹²³⁴"[i]


def _inequalities(solution: CriticalPoint) -> list[LineGroup]:
    """g ≤ 0, where there are some."""
    found = solution.bounds.get("inequalities")
    if found is None:
        return []
    return [LineGroup("inequalities g ≤ 0", np.asarray(found.t), _component_lines("g", np.asarray(found.values)))]


def _component_lines(letter: str, values: np.ndarray) -> Lines:
    count = values.shape[1]
    return [(letter if count == 1 else f"{letter}{subscript(i + 1)}", values[:, i]) for i in range(count)]


def _energy(shown: Shown) -> LineGroup | None:
    """E - E₀, None where the problem is not known or has no energy."""
    result, problem = shown.result, shown.problem
    if isinstance(result, Path) and isinstance(problem, System | VariationalProblem):
        scheme: Any = shown.subject.scheme if isinstance(problem, VariationalProblem) else None
        found = _attempt(lambda: measure.energy(problem, result, scheme=scheme))
        t, values = (None, None) if found is None else (np.asarray(found.t), np.asarray(found.values))
    elif isinstance(result, ControlSolution) and isinstance(problem, System):
        t, values = shown.t, np.asarray(_energies(problem, shown.q, np.asarray(result.v), shown.t))
    else:
        return None
    if t is None or values is None or not values.size:
        return None
    first, values = float(values[0]), np.asarray(values)
    drift = float(np.nanmax(np.abs(values - first), initial=0.0))
    return LineGroup("energy E − E₀", t, [("E − E₀", values - first)], note=f"E₀ = {first:.6g}, largest change {drift:.2g}")


@seldom
def _energies(system: System, q, v, t):
    return jax.vmap(lambda x, w, s: energy_at(system, x, w, s))(q, v, t)


def _residuals(shown: Shown) -> LineGroup | None:
    """|φ| where the scheme promises φ = 0; None without constraints, or where it cannot be formed."""
    result, problem = shown.result, shown.problem
    if isinstance(result, Path) and isinstance(problem, System) and problem.constraints:
        found = _attempt(lambda: measure.constraint_residual(problem, result, scheme=shown.subject.scheme)) or ()
        kept = [r for r in found if np.asarray(r.values).size]
        if not kept or len({len(r.t) for r in kept}) > 1:
            kept = kept[:1]
        lines = [(_short(r.name), np.max(np.abs(np.asarray(r.values)), axis=1)) for r in kept]
        return LineGroup("constraint residuals |φ|", np.asarray(kept[0].t), lines, log=True) if kept else None
    holonomic = _holonomic(problem)
    if isinstance(result, CriticalPoint) and holonomic:
        values = np.asarray(_along(problem, holonomic, shown.q, shown.t))
        return LineGroup("constraint residuals |φ|", shown.t, [("φ(q)", np.max(np.abs(values), axis=1))], log=True)
    return None


def _holonomic(problem: Any) -> tuple[Any, ...]:
    if isinstance(problem, VariationalProblem):
        return problem.holonomic
    return tuple(c for c in getattr(problem, "constraints", ()) if isinstance(c, Holonomic))


@seldom
def _along(problem: Any, functions: tuple, q, t):
    def one(x, s):
        rest = jnp.zeros_like(x)
        found = [
            value(problem, f, x, rest, rest, s) if isinstance(f, Holonomic) else problem.call(f, x, t=s) for f in functions
        ]
        return jnp.concatenate([jnp.atleast_1d(y) for y in found])

    return jax.vmap(one)(q, t)


def _short(name: str) -> str:
    return name.replace("constraints", "φ", 1)


def _attempt(make: Callable[[], Any]) -> Any:
    """None where this path is not one that can be measured: thinned, or of another form."""
    try:
        return make()
    except (ValueError, TypeError):
        return None


def ended_at(shown: Shown) -> float | None:
    """The time of the step that could not be solved."""
    result = shown.result
    return float(result.statistics.failed_time) if isinstance(result, Path) and Outcome(int(result.code)).failed else None
