"""Singular arcs: where neither the second derivatives of the cost nor a bound determines a control."""

from __future__ import annotations

import itertools

import jax
import numpy as np
from jaxtyping import Bool, Float

from dalembert.control.problem import OptimalControl
from dalembert.numbers import described
from dalembert.solution import ControlSolution
from dalembert.tracing import seldom

SINGULAR = 1e-10  # smallest eigenvalue of ∂²C/∂u², its diagonal scaled to 1
ALONG = 0.1  # share of a control in a direction without curvature


def singular_arcs(problem: OptimalControl, solution: ControlSolution) -> list[Float[np.ndarray, "arcs 2"]]:
    """∂²C/∂u² w = 0 with w_a ≠ 0, and u_a between its bounds: the times at which neither the cost nor a bound
    determines a control.

    Along a singular arc ∂H/∂u vanishes identically, and its time derivatives determine the control. There only the cost
    of the motion damps errors that alternate from node to node.

    Args:
        problem: the OptimalControl that was solved.
        solution: a ControlSolution, solved or not.

    Returns:
        For each control its arcs, (arcs, 2): the times of their first and last nodes.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: the solution has a different number of controls than the cost takes.

    Example:
        >>> mass = da.System(lambda q, v: 0.5 * v @ v)
        >>> settle = da.OptimalControl(mass, cost=lambda q, v, u: q @ q + v @ v, actuated=0)
        >>> ends = {"initial": ([1.0], [0.0]), "final": ([0.2], [-0.2])}
        >>> found = da.solve(settle, **ends, T=2.5, steps=50, bounds={"u": (-1.0, 1.0)})
        >>> arc = da.control.singular_arcs(settle, found)[0][-1]
        >>> inside = (found.t > arc[0] + 0.1) & (found.t < arc[1] - 0.1)
        >>> bool(np.abs(found.u[inside] - found.q[inside]).max() < 0.01)  # q̈ = q on it
        True
    """
    if not isinstance(problem, OptimalControl):
        raise TypeError(f"problem: found {described(problem)}; give an OptimalControl")
    if not isinstance(solution, ControlSolution):
        raise TypeError(f"solution: found {described(solution)}; give a ControlSolution")
    q, v, u, t = (np.asarray(x) for x in (solution.q, solution.v, solution.u, solution.t))
    free = np.ones(u.shape, dtype=bool)
    if "u" in solution.bounds:
        free = np.asarray(solution.bounds["u"].active) == 0
    found = flat_controls(np.asarray(_curvatures(problem, q, v, u, t))) & free
    return [_runs(column, t) for column in found.T]


def flat_controls(curvature: Float[np.ndarray, "K r r"]) -> Bool[np.ndarray, "K r"]:
    """Which controls stand in a direction in which ∂²C/∂u² vanishes."""
    diagonal = np.sqrt(np.abs(np.diagonal(curvature, axis1=1, axis2=2)))
    unit = np.where(diagonal > 0.0, diagonal, 1.0)
    values, vectors = np.linalg.eigh(np.nan_to_num(curvature) / unit[:, :, None] / unit[:, None, :])
    return np.any(np.abs(vectors) * (np.abs(values) < SINGULAR)[:, None, :] > ALONG, axis=2)


def _runs(inside: Bool[np.ndarray, "K"], t: Float[np.ndarray, "K"]) -> Float[np.ndarray, "arcs 2"]:
    """First and last times of the runs of two nodes and more."""
    runs = [list(group) for value, group in itertools.groupby(range(len(t)), key=lambda i: bool(inside[i])) if value]
    return np.array([(t[run[0]], t[run[-1]]) for run in runs if len(run) > 1]).reshape(-1, 2)


@seldom
def _curvatures(problem: OptimalControl, q, v, u, t):
    """∂²C/∂u² at the nodes."""

    def one(q, v, u, t):
        return jax.hessian(lambda x: problem.system.call(problem.cost, q, v, x, t=t))(u)

    return jax.vmap(one)(q, v, u, t)
