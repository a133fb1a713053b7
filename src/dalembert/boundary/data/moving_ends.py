"""Ends of a variational problem that are not given: on a set ψ(q, q̇, …) = 0, or the same at both."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.boundary.data.boundary_data import EndData
from dalembert.boundary.data.end_sets import (
    EndFunction,
    EndSets,
    EndState,
    On,
    Periodic,
    check_rank,
    equations_of,
    onto_set,
)
from dalembert.discretize.higher import holonomic_derivatives
from dalembert.discretize.windows import Windows
from dalembert.systems.higher.variational import VariationalProblem, with_parameters

NAMES = "initial", "final"


def plain(end: Any) -> Any:
    """What is given at an end: nothing where it lies on a set."""
    return None if isinstance(end, On | Periodic) else end


def repeated(
    ends: tuple[EndData | None, EndData | None], final: Any, problem: VariationalProblem, n: int
) -> tuple[EndData | None, EndData | None]:
    """With Periodic what is given of the first end is given of the last one."""
    start = ends[0]
    if not isinstance(final, Periodic) or start is None:
        return ends
    values = start.values.copy()
    values[0] += final.of(n, problem.coordinates)
    return start, start._replace(values=values)


def sets_of(problem: VariationalProblem, ends: tuple[Any, Any], start: EndData | None, n: int) -> EndSets:
    """ends: as `solve` takes them; start: what is given of the first one."""
    k = problem.derivatives
    equations = [equations_of(end, name, problem, k, n) for name, end in zip(NAMES, ends, strict=True)]
    bare = with_parameters(problem, None)
    on = [EndFunction(bare, end.psi, _holonomic_rates) if isinstance(end, On) else None for end in ends]
    tied, shift, final = np.zeros((k, n), dtype=bool), np.zeros((k, n)), ends[1]
    if isinstance(final, Periodic):
        tied[:] = True
        if start is not None:
            tied[np.flatnonzero(start.given)] = False
        shift[0] = final.of(n, problem.coordinates)
        if any(0 < order < k for order, _ in problem.differential):
            raise ValueError(
                "final: found Periodic together with constraints of lower order than L, whose equations at one end repeat "
                "those at the other; give both ends"
            )
    return EndSets((on[0], on[1]), (equations[0], equations[1]), tied, shift)


def _holonomic_rates(problem: VariationalProblem, jet, t):
    """φ and its rates of the holonomic constraints at an end."""
    return holonomic_derivatives(problem, jnp.stack(jet), t).ravel() if problem.holonomic else jnp.zeros(0)


def end_slots(w: Windows, end: int) -> np.ndarray:
    """The slots of q, q̇, … of the first (0) or the last (-1) node."""
    slots = np.flatnonzero(w.owners == (0 if end == 0 else len(w.t) - 1))
    return slots[np.argsort(w.orders[slots])]


def state_of(
    w: Windows, values: Float[np.ndarray, "slots n"], fixed: np.ndarray, end: int, size: Float[np.ndarray, "n"]
) -> EndState:
    """What a path has at an end; size: of positions."""
    slots = end_slots(w, end)
    free = np.repeat(~fixed[slots][:, None], values.shape[1], axis=1)
    sizes = size / np.ptp(w.t) ** w.orders[slots].astype(float)[:, None]
    return EndState(NAMES[end], values[slots], free, sizes, float(w.t[end]))


class MovingEnds(NamedTuple):
    """The sets of a problem, and from where positions are counted."""

    sets: EndSets
    problem: VariationalProblem
    origin: Float[np.ndarray, "n"]


def begun_on(
    problem: VariationalProblem, w: Windows, sets: EndSets, fixed: np.ndarray, values: Float[np.ndarray, "slots n"]
) -> Float[np.ndarray, "slots n"]:
    """The first path with ends on their sets; what is free in between goes with them."""
    values = values.copy()
    extent = np.ptp(values[w.nodes], axis=0)
    size = np.where(extent > 0.0, extent, extent.max() or 1.0)
    for end, function in zip((0, -1), sets.on, strict=True):
        if function is None:
            continue
        at = state_of(w, values, fixed, end, size)
        found, slots = onto_set(function, problem, at), end_slots(w, end)
        share = np.abs(w.t - w.t[-1 - end]) / np.ptp(w.t)
        nodes = w.nodes[~fixed[w.nodes]]
        values[nodes] += (share[:, None] * (found - at.jet)[:1])[~fixed[w.nodes]]
        values[slots] = found
    return values


def check_ranks(ends: MovingEnds, w: Windows, fixed: np.ndarray, values: Float[np.ndarray, "slots n"]) -> None:
    """At the end of the iteration, see `check_rank`; values: counted from the origin."""
    problem, sets = ends.problem, ends.sets
    values = values + ends.origin * (w.orders == 0)[:, None]
    extent = np.ptp(values[w.nodes], axis=0)
    size = np.where(extent > 0.0, extent, extent.max() or 1.0)
    for end, function in zip((0, -1), sets.on, strict=True):
        if function is not None:
            check_rank(function, problem, state_of(w, values, fixed, end, size), "at the end of the iteration")
