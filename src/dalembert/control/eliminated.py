"""The form of Colombo, Martín de Diego and Zuccalli: controls eliminated by the equations of motion, section 2.1 and 4.3.

    L̃(q, q̇, q̈, t) = C(q, q̇, u, t),   u = (d/dt L_v - L_q - f) on what is actuated,   φ = the same on the rest = 0

and on three nodes, with windows of the plant's own discrete Lagrangian: u₁ = -(D₂L_d(q₀, q₁) + D₁L_d(q₁, q₂))/h.
Source: section 4.3; what is corrected of it: docs/papers/colombo-martin-de-diego-zuccalli.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.control.problem import OptimalControl, actuation, check_optimal_control, plant_scheme, with_plant_parameters
from dalembert.discretize import Interval, Scheme, incoming, outgoing
from dalembert.numbers import as_positive
from dalembert.systems import VariationalProblem, check_flat
from dalembert.systems.equations import euler_lagrange
from dalembert.systems.pickling import made


def eliminate(problem: OptimalControl, step: float | None = None, scheme: Scheme | None = None) -> VariationalProblem:
    """Write an optimal control problem as a variational problem without controls.

    min ∫ C(q, q̇, u(q, q̇, q̈)) dt under the equations of motion that contain no control: a variational problem of
    second order.

    Args:
        problem: an OptimalControl of a plant without constraints and without terminal cost. Its actuated coordinates
            are given by indices, or all are actuated, by a nonsingular B(q).
        step: h, for the paper's functions of three nodes on equal steps, which are solved with `Points()`. None for
            functions of (q, q̇, q̈), which are solved with any other window map; order 4 with `Hermite()`.
        scheme: the Scheme of the plant; only together with step.

    Returns:
        A VariationalProblem with derivatives = 2; its multipliers λ belong to the equations of motion that contain no
        control.

    Raises:
        ValueError: the plant has constraints, there is a terminal cost, or B(q) is not square.
        TypeError: an argument is of the wrong type.

    Source: Colombo, Martín de Diego, Zuccalli, sections 2.1 and 4.3.

    Example:
        >>> mass = da.System(lambda q, v: 0.5 * v @ v)
        >>> move = da.OptimalControl(mass, cost=lambda q, v, u: u @ u, actuated=0)
        >>> rest = [0.0]
        >>> ends = {"initial": ([0.0], rest), "final": ([1.0], rest)}
        >>> found = da.solve(da.control.eliminate(move), **ends, T=1.0, steps=4, scheme=da.Hermite())
        >>> round(float(found.action), 9)
        12.0
    """
    check_optimal_control(problem)
    check_flat(problem.system, "eliminate")
    if problem.system.constraints:
        raise ValueError(
            "problem: found a plant with constraints, whose forces the equations of motion contain besides the controls; "
            "the eliminated form is that of plants without. Use coordinates without constraints, or solve the problem itself"
        )
    if problem.terminal is not None:
        raise ValueError(
            "problem: found a terminal cost; a VariationalProblem has none. Write it as an integral in the cost"
        )
    system = problem.system
    if step is None and scheme is not None:
        raise TypeError("scheme: found without step; without a step the window map is given to solve. Leave scheme out")
    length = None if step is None else float(as_positive(step, "step"))
    plant = with_plant_parameters(problem, None), length, None if step is None else plant_scheme(scheme)
    return VariationalProblem(
        _cost(*plant), () if callable(problem.actuated) else (_balance_without_control(*plant),), derivatives=2,
        parameters=system.parameters, time_dependent=system.time_dependent, coordinates=system.coordinates,
    )  # fmt: skip


@made
def _cost(bare: OptimalControl, step: float | None, scheme: Scheme | None) -> Callable:
    """w C(q, v, u), w = h of nodes and 1 otherwise; bare: without its parameters."""

    def cost(*given):
        problem, q, v, t, force = _motion_state(bare, step, scheme, given)
        return (step or 1.0) * problem.system.call(problem.cost, q, v, t=t, u=_control(problem, q, force, t))

    return cost


@made
def _balance_without_control(bare: OptimalControl, step: float | None, scheme: Scheme | None) -> Callable:
    """w times the equations of motion without a control."""

    def balance_without_control(*given):
        force, actuated = _motion_state(bare, step, scheme, given)[-1], cast("tuple[int, ...]", bare.actuated)
        rest = [i for i in range(force.shape[0]) if i not in actuated]
        return (step or 1.0) * force[jnp.array(rest, dtype=int)]

    return balance_without_control


def _motion_state(bare: OptimalControl, step: float | None, scheme: Scheme | None, given: tuple) -> tuple:
    """The plant with the parameters of a call f(…[, t][, p]), q, v and t, and d/dt L_v - L_q - f there: at (q, q̇, q̈), or at
    the middle one of three nodes, the first of which is at t."""
    trailing, timed = given[3:], bare.system.time_dependent
    problem = with_plant_parameters(bare, trailing[-1] if len(trailing) > timed else None)
    system, t = problem.system, jnp.asarray(trailing[0] if timed else 0.0, dtype=float)
    if scheme is None:
        q, v, a = given[:3]
        return problem, q, v, t, euler_lagrange(system, q, v, a, t)
    (q0, q1, q2), h = given[:3], jnp.asarray(step)
    before, after = Interval(q0, q1 - q0, t, h), Interval(q1, q2 - q1, t + h, h)
    impulse = incoming(scheme, system, before) + outgoing(scheme, system, after)
    return problem, q1, (q2 - q0) / (2 * h), t + h, -impulse / h


def _control(problem: OptimalControl, q, force, t) -> Float[Array, "r"]:
    if not callable(problem.actuated):
        return force[jnp.array(problem.actuated)]
    columns = actuation(problem, q, t)
    if columns.shape[0] != columns.shape[1]:
        raise ValueError(
            f"actuated: found B(q) of shape {columns.shape}; the eliminated form takes indices of the actuated coordinates, "
            "Q = Q₁ × Q₂, or a square B(q)"
        )
    return jnp.linalg.solve(columns, force)
