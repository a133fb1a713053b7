"""A variational problem with positions counted from an origin: L(o + x, v, …), so that x keeps its digits far from 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.solution import Solution
from dalembert.systems import VariationalProblem
from dalembert.systems.higher.variational import with_fields


@dataclasses.dataclass(frozen=True)
class _Moved:
    """function(o + x, …, p) of (x, …, {"origin": o, "given": p}), p being there if the function takes it; positions: how
    many arguments are positions.

    Equal for equal functions, so that compiled code is shared.
    """

    function: Callable
    positions: int

    def __call__(self, *arguments):
        *given, parameters = arguments
        near = [x + parameters["origin"] for x in given[: self.positions]]
        last = (parameters["given"],) if "given" in parameters else ()
        return self.function(*near, *given[self.positions :], *last)


def moved(problem: VariationalProblem, origin: Float[np.ndarray, "n"], nodes: bool) -> VariationalProblem:
    """The problem of x = q - o. nodes: its functions read k+1 nodes, and not one position and its derivatives."""
    if not np.any(origin):
        return problem
    by_order = lambda order, f: _Moved(f, order + 1 if nodes else 1)  # noqa: E731
    own = {} if problem.parameters is None else {"given": problem.parameters}
    return with_fields(
        problem,
        lagrangian=by_order(problem.derivatives, problem.lagrangian),
        holonomic=tuple(_Moved(f, 1) for f in problem.holonomic),
        differential=tuple((order, by_order(order, f)) for order, f in problem.differential),
        parameters={"origin": jnp.asarray(origin), **own},
    )


def moved_back(solution: Solution, origin: Float[np.ndarray, "n"], nodes: bool) -> Solution:
    """The solution in q = o + x."""
    if not np.any(origin):
        return solution
    jets = solution.jets.copy()
    jets[:, slice(None) if nodes else 0] += origin
    bounds = dict(solution.bounds)
    if "q" in bounds:
        bounds["q"] = dataclasses.replace(bounds["q"], values=bounds["q"].values + origin)
    return dataclasses.replace(solution, q=solution.q + origin, jets=jets, bounds=bounds)
