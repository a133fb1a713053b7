"""A variational problem with positions counted from an origin: L(o + x, v, …), so that x keeps its digits far from 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.solution import Solution
from dalembert.systems import Holonomic, Nonholonomic, SecondOrder, VariationalProblem

_KINDS: dict[int, Callable] = {1: Nonholonomic, 2: SecondOrder}


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
    k = problem.derivatives
    by_order = lambda order, f: _Moved(f, order + 1 if nodes else 1)  # noqa: E731
    constraints: list = [Holonomic(_Moved(f, 1)) for f in problem.holonomic]
    for order, f in problem.differential:
        function = by_order(order, f)
        constraints.append(function if order == k else _KINDS[order](function))
    own = {} if problem.parameters is None else {"given": problem.parameters}
    return VariationalProblem(
        by_order(k, problem.lagrangian), constraints, derivatives=k, coordinates=problem.coordinates,
        parameters={"origin": jnp.asarray(origin), **own}, time_dependent=problem.time_dependent,
    )  # fmt: skip


def moved_back(solution: Solution, origin: Float[np.ndarray, "n"], nodes: bool) -> Solution:
    """The solution in q = o + x."""
    if not np.any(origin):
        return solution
    jets = solution.jets.copy()
    jets[:, slice(None) if nodes else 0] += origin
    return dataclasses.replace(solution, q=solution.q + origin, jets=jets)
