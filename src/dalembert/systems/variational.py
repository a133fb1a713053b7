"""VariationalProblem: a Lagrangian of order k and constraints that enter the action (vakonomic)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.systems.constraints import Holonomic, Kinematic, Lyapunov, WithForces
from dalembert.systems.pickling import reduced
from dalembert.systems.shapes import output_shape, traced
from dalembert.systems.system import as_arrays, call_function, names_of, replace_parameters

HIGHEST = 4  # derivatives; the windows of the discrete problem have one node more


class VariationalProblem(eqx.Module):
    """δ∫ L(q, q̇, …, q⁽ᵏ⁾) + λᵀφ(q, q̇, …, q⁽ᵏ⁾) dt = 0 and φ = 0: all variations are free, the λ enter the action.

    lagrangian(q, v, …): scalar function of q and its first k derivatives. derivatives: k, 1 to 4. constraints: one or
    several of Holonomic(φ(q)), Nonholonomic(φ(q, v)), SecondOrder(φ(q, v, a)) without reactions of their own, or plain
    functions φ(q, v, …) of all k derivatives; each () or (m,). With parameters every function takes a trailing p, with
    time_dependent=True a trailing t before it. Euler-Lagrange: Σⱼ (-1)ʲ dʲ/dtʲ ∂(L + λᵀφ)/∂q⁽ʲ⁾ = 0.

    For k = 1 and a constraint on velocities this is the vakonomic principle where `System` is d'Alembert's: the same
    arguments in both. A VariationalProblem is a pytree: functions are static, parameters are leaves.
    Errors: TypeError, ValueError naming the argument. Source: Colombo, Martín de Diego, Zuccalli, section 2.
    """

    lagrangian: Callable = eqx.field(static=True)
    holonomic: tuple[Callable, ...] = eqx.field(static=True)
    differential: tuple[tuple[int, Callable], ...] = eqx.field(static=True)
    derivatives: int = eqx.field(static=True)
    coordinates: tuple[str, ...] | None = eqx.field(static=True)
    parameters: Any
    time_dependent: bool = eqx.field(static=True)

    __reduce__ = reduced

    def __init__(
        self,
        lagrangian: Callable,
        constraints: Kinematic | Callable | Sequence[Kinematic | Callable] = (),
        *,
        derivatives: int = 1,
        coordinates: Sequence[str] | None = None,
        parameters: Any = None,
        time_dependent: bool = False,
    ):
        if not callable(lagrangian):
            raise TypeError(f"lagrangian: found {type(lagrangian).__name__}; give a function L(q, v, …)")
        if isinstance(derivatives, bool) or not isinstance(derivatives, int) or not 1 <= derivatives <= HIGHEST:
            raise ValueError(
                f"derivatives: found {derivatives!r}; L depends on q and its first k derivatives, k = 1 to {HIGHEST}"
            )
        given = (constraints,) if isinstance(constraints, Kinematic | Lyapunov) or callable(constraints) else constraints
        if not isinstance(given, Sequence):
            raise TypeError(
                f"constraints: found {type(constraints).__name__}; give functions φ(q, v, …), or Holonomic, Nonholonomic"
            )
        self.lagrangian, self.derivatives = lagrangian, derivatives
        self.holonomic = tuple(c.phi for c in given if isinstance(c, Holonomic))
        self.differential = tuple(
            _differential(c, i, derivatives) for i, c in enumerate(given) if not isinstance(c, Holonomic)
        )
        self.coordinates = None if coordinates is None else names_of(coordinates)
        self.parameters = None if parameters is None else as_arrays(parameters, "parameters")
        self.time_dependent = bool(time_dependent)

    def call(self, function: Callable, *arguments, t):
        """`function(*arguments[, t][, p])`."""
        return call_function(self, function, *arguments, t=t)

    def replace(self, **values) -> VariationalProblem:
        """The same problem with other parameter values; nothing is compiled again where shapes stay the same."""
        return replace_parameters(self, values)


def density(problem: VariationalProblem, jet: Sequence[Float[Array, "n"]], t) -> Float[Array, ""]:
    """L(q, q̇, …, q⁽ᵏ⁾, t) at jet = (q, q̇, …, q⁽ᵏ⁾)."""
    return problem.call(problem.lagrangian, *jet, t=t)


def differential_constraints(problem: VariationalProblem, jet: Sequence[Float[Array, "n"]], t) -> Float[Array, "m"]:
    """φ(q, q̇, …, q⁽ᵏ⁾, t), those that are not holonomic, stacked."""
    values = [jnp.atleast_1d(problem.call(f, *jet[: order + 1], t=t)) for order, f in problem.differential]
    return jnp.concatenate(values) if values else jnp.zeros(0)


def holonomic_constraints(problem: VariationalProblem, q: Float[Array, "n"], t) -> Float[Array, "m"]:
    """φ(q, t), the holonomic ones, stacked."""
    values = [jnp.atleast_1d(problem.call(f, q, t=t)) for f in problem.holonomic]
    return jnp.concatenate(values) if values else jnp.zeros(0)


def constraint_numbers(problem: VariationalProblem, n: int) -> tuple[int, int]:
    """Numbers of differential and of holonomic constraints; errors that name a function of the wrong shape."""
    return traced(_check_functions, problem, np.zeros(n))


def _check_functions(problem: VariationalProblem, q) -> tuple[int, int]:
    names = ", ".join(["q", "v", "a", "j", "s"][: problem.derivatives + 1]) + (", t" if problem.time_dependent else "")
    jet, t = [q] * (problem.derivatives + 1), jnp.zeros(())
    shape = output_shape(lambda: problem.call(problem.lagrangian, *jet, t=t), "lagrangian", names)
    if shape:
        raise ValueError(f"lagrangian: returns shape {shape}; a scalar is needed")
    numbers = []
    for group in (problem.differential, tuple((0, f) for f in problem.holonomic)):
        total = 0
        for i, (order, f) in enumerate(group):
            shape = output_shape(
                lambda f=f, order=order: problem.call(f, *jet[: order + 1], t=t), f"constraints: item {i}", names
            )
            if len(shape) > 1:
                raise ValueError(f"constraints: item {i} returns shape {shape}; give () or (m,)")
            total += shape[0] if shape else 1
        numbers.append(total)
    return numbers[0], numbers[1]


def _differential(constraint, i: int, k: int) -> tuple[int, Callable]:
    """(highest derivative it is given, φ) of a constraint that is not holonomic."""
    if isinstance(constraint, WithForces):
        if constraint.reactions is not None or constraint.virtual is not None:
            raise ValueError(
                f"constraints: item {i} brings reactions or virtual displacements; in a variational problem every "
                "constraint acts through the action. Leave them out, or use System, whose constraints act by forces"
            )
        if constraint.order > k:
            raise ValueError(f"constraints: item {i} reads {constraint.order} derivatives, the problem has derivatives={k}")
        return constraint.order, constraint.phi
    if isinstance(constraint, Kinematic | Lyapunov) or not callable(constraint):
        raise TypeError(
            f"constraints: item {i} is a {type(constraint).__name__}; give a function φ(q, v, …), Holonomic, "
            "Nonholonomic or SecondOrder"
        )
    return k, constraint
