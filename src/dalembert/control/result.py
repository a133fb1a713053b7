"""ControlSolution from the end of an iteration, and its singular arcs."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary import Iterate, KKTSystem, Termination
from dalembert.boundary.data.around import increments
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.interior.path import violation
from dalembert.boundary.kkt.multipliers import Sequence, by_parabolas
from dalembert.boundary.result import judge
from dalembert.control.problem import Lobatto, OptimalControl, check_optimal_control
from dalembert.control.terms import node_velocities
from dalembert.control.transcription import ControlData
from dalembert.groups import Product
from dalembert.numbers import described
from dalembert.solution import ControlSolution
from dalembert.tracing import over_rows

VIOLATED = 1e-6  # in the units of the path


def control_solution(data: ControlData, kkt: KKTSystem, it: Iterate, certify: bool, activity: Activity) -> ControlSolution:
    """certify: with the kind of the extremal and the condition of its equations."""
    remark, layout = "", data.layout
    if data.leaf and data.leaf.nodes and it.end is Termination.CONVERGED:
        remark = data.leaf.missed_by(it.z[1:-1, layout.part("state")] + data.origin, data.at(it.z).t)
        it.end = Termination.INFEASIBLE if remark else it.end
    found = judge(it, activity, data, partial(_sequences, data), certify)
    data = data.at(it.z)
    values = _values(data, it.z, kkt.raw_gradient(data.without_end_multipliers(it.z)))
    return ControlSolution.of(
        **values, **found.numbers(_violated_at(data, kkt, it)), cost=np.asarray(it.at.objective),
        scheme=data.scheme_name, coordinates=data.problem.system.coordinates or (),
        bounds=activity.bounds_of(data, it, values["q"], values["v"], values), remark=remark,
    )  # fmt: skip


def _violated_at(data: ControlData, kkt: KKTSystem, it: Iterate) -> float:
    """The time of the largest violation, where the iteration ended with one; equations of a node stand in the block after
    it."""
    if it.end not in (Termination.INFEASIBLE, Termination.NOT_CONVERGED) or not violation(kkt, it.at) > VIOLATED:
        return np.nan
    sizes = np.abs(it.at.gradient * kkt.units)[:, ~kkt.primal].max(axis=1)
    return float(data.t[np.clip(np.argmax(sizes) - 2, 0, len(data.t) - 1)])


def _values(data: ControlData, z: np.ndarray, gradient: np.ndarray) -> dict[str, Any]:
    """The arrays of a path z (blocks, b). gradient: of L̃ with respect to all components, also to those that are given."""
    layout, t = data.layout, data.t
    state = layout.part("state")
    x, h = z[1:-1, state], np.diff(t)[:, None]
    q = data.elements(z)
    d = increments(data.space, q) if isinstance(data.space, Product) else np.diff(x, axis=0)
    if isinstance(data.scheme, Lobatto):
        inner = node_velocities(t, x)[1:-1]
    else:
        inner = (d[:-1] * h[1:] / h[:-1] + d[1:] * h[:-1] / h[1:]) / (h[:-1] + h[1:])
    v = np.concatenate([z[:1, state], inner, z[-1:, state]])
    reactions = z[2:, layout.part("reactions")]
    smooth = by_parabolas(
        t[1:-1], reactions[1:-1], t
    )  # (h/2)ν of an end takes up the error of the first step: of order 1 in ν
    given = np.stack([end.given for end in data.ends]) | data.sets.mask
    costates = np.stack([gradient[[1, 0], state], gradient[[-2, -1], state]]) * given
    nu = data.end_multipliers(z)
    return {
        "end_multipliers_initial": nu[0], "end_multipliers_final": nu[1],
        "t": t.copy(), "q": q, "v": v, "u": z[1:-1, layout.part("controls")], "multipliers": reactions,
        "constraint_forces": data.constraint_forces(np.column_stack([q, v, smooth, t])) if layout.m else np.zeros(v.shape),
        "adjoints": z[2:, layout.part("adjoints")], "step_multipliers": z[2:-1, layout.part("steps")],
        "costates_initial": costates[0], "costates_final": costates[1],
    }  # fmt: skip


def _sequences(data: ControlData, z: np.ndarray) -> list[Sequence]:
    """Controls, reactions and adjoints inside."""
    part = data.layout.part
    values = z[2:-2, part("controls")], z[3:-1, part("reactions")], z[3:-1, part("adjoints")]
    return [Sequence(data.t[1:-1], np.concatenate(values, axis=1))]


SINGULAR = 1e-10  # smallest eigenvalue of ∂²C/∂u², its diagonal scaled to 1
ALONG = 0.1  # share of a control in a direction without curvature


def singular_arcs(problem: OptimalControl, solution: ControlSolution) -> list[Float[np.ndarray, "arcs 2"]]:
    """Find the times at which neither the cost nor a bound determines a control.

    ∂²C/∂u² w = 0 with w_a ≠ 0, and u_a between its bounds: the times at which neither the cost nor a bound
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
    check_optimal_control(problem)
    if not isinstance(solution, ControlSolution):
        raise TypeError(f"solution: found {described(solution)}; give a ControlSolution")
    q, v, u, t = (np.asarray(x) for x in (solution.q, solution.v, solution.u, solution.t))
    free = np.ones(u.shape, dtype=bool)
    if "u" in solution.bounds:
        free = np.asarray(solution.bounds["u"].active) == 0
    found = flat_controls(np.asarray(over_rows(_curvature, (q, v, u, t), problem))) & free
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


def _curvature(problem: OptimalControl, q, v, u, t):
    """∂²C/∂u²."""
    return jax.hessian(lambda x: problem.system.call(problem.cost, q, v, t=t, u=x))(u)
