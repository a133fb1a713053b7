"""OptimalControl: a plant, which forces act on it, and what they cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import Scheme
from dalembert.groups import Product
from dalembert.notebook import card
from dalembert.numbers import as_array, as_function, described, read_axis
from dalembert.outcome import Outcome
from dalembert.solution import ControlSolution
from dalembert.systems import System, check_shapes, check_system, output_shape, run_on_shapes
from dalembert.systems.pickling import reduced
from dalembert.systems.shapes import check_scalar
from dalembert.systems.system import texts_of


class OptimalControl(eqx.Module):
    """Find the forces of least cost that move a system between given states.

    min ∫ C(q, v, u) dt + Φ(q(T), v(T)) such that d/dt L_v - L_q = f + Rᵀν + B(q)u, and the constraints of the plant.

    If the system has parameters or depends on time, cost, terminal and actuated take the same trailing arguments, p or
    t and p, as its own functions.

    Args:
        system: the plant, a System without constraints or with Holonomic and Nonholonomic constraints.
        cost: `cost(q, v, u)`, (n,), (n,), (r,) → (); regular in u, as |u|² is: ∂²C/∂u² is nonsingular, except for
            controls with bounds on both sides.
        actuated: the name or the index of the actuated coordinate, or several of them, on groups of axes of the velocities,
            such as "R.1"; a constant matrix B (n, r); or `actuated(q)` that returns B (n, r).
        terminal: `terminal(q, v)`, (n,), (n,) → (), an additional cost of the final state; useful if the final end is
            free.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: the plant has constraints on accelerations, or an index is not that of a coordinate.

    Source: Colombo, Martín de Diego, Zuccalli, sections 2.1 and 4.3, with forces as unknowns.

    Example:
        >>> mass = da.System(lambda q, v: 0.5 * v @ v)
        >>> move = da.OptimalControl(mass, cost=lambda q, v, u: u @ u, actuated=0)
        >>> rest = [0.0]
        >>> solution = da.solve(move, initial=([0.0], rest), final=([1.0], rest), T=1.0, steps=100)
        >>> solution.kind, round(float(solution.cost), 2)
        ('minimum', 12.0)
    """

    system: System
    cost: Callable = eqx.field(static=True)
    actuated: tuple[int, ...] | Callable = eqx.field(static=True)
    terminal: Callable | None = eqx.field(static=True)

    __reduce__ = reduced

    def _repr_html_(self) -> str:
        """The parts of the problem, for a notebook."""
        own = self.system.texts()
        lines = [f"plant: {own['system']}", f"coordinates: {', '.join(own['coordinates']) or 'without names'}"]
        by = getattr(self.actuated, "__qualname__", self.actuated)
        return card(type(self).__name__, "\n".join([*lines, f"actuated: {by}"]))

    def __init__(
        self,
        system: System,
        *,
        cost: Callable,
        actuated: int | str | Sequence[int | str] | Float[np.ndarray, "n r"] | Callable,
        terminal: Callable | None = None,
    ):
        check_system(system)
        for i, constraint in enumerate(system.constraints):
            if constraint.order > 1:
                kind = "prescribes the control itself" if constraint.is_control else "acts on accelerations"
                raise ValueError(
                    f"system: constraints[{i}] is a {type(constraint).__name__}, which {kind}; a plant has Holonomic and "
                    "Nonholonomic constraints only. Simulate that system, or leave the constraint out"
                )
        self.system, self.cost = system, as_function(cost, "cost", "C(q, v, u)")
        self.actuated = read_actuated(actuated, system.velocities)
        self.terminal = None if terminal is None else as_function(terminal, "terminal", "Φ(q, v)")

    @property
    def solution_class(self) -> type[ControlSolution]:
        """The class of the solutions that `dalembert.solve` returns."""
        return ControlSolution

    @property
    def parameters(self) -> Any:
        """The parameters of the plant."""
        return self.system.parameters

    @property
    def coordinates(self) -> tuple[str, ...] | None:
        """The names of the plant's coordinates, None without any."""
        return self.system.coordinates

    def texts(self) -> dict[str, Any]:
        """The entries of a record: the functions of the plant and of the problem."""
        acting = self.actuated if callable(self.actuated) else None
        own = [f for f in (self.cost, acting, self.terminal) if f is not None]
        kinds = ["OptimalControl" if acting else f"OptimalControl by {self.actuated}", "System"]
        kinds += [type(part).__name__ for part in self.system.constraints]
        return texts_of([*self.system.functions, *own], kinds, self.coordinates)

    def replace(self, **values) -> OptimalControl:
        """The same problem with other parameter values; nothing is compiled again where shapes stay the same."""
        return eqx.tree_at(lambda c: c.system, self, self.system.replace(**values))


def with_plant_parameters(problem: OptimalControl, parameters: Any) -> OptimalControl:
    """The problem with other parameters of the same structure, or with none at all."""
    return eqx.tree_at(lambda c: c.system.parameters, problem, parameters, is_leaf=lambda x: x is None)


@dataclasses.dataclass(frozen=True)
class Lobatto:
    """q a parabola over every two steps, and all integrals by Simpson's rule: order 4, with forces as unknowns.

    A `scheme=` for optimal control with an even number of steps; the two steps of each pair have equal length.
    Positions, controls, costates and the cost have order 4 if the controls are smooth. If they have kinks, as at
    bounds, the order is 2, unless nodes lie at the kinks. For plants without constraints or with holonomic constraints;
    bounds on controls and positions are allowed.

    Attributes:
        name: "lobatto", the name under which a solution stores it.

    Source: Campos, Ober-Blöbaum, Trélat 2015 (Galerkin variational integrators; Lobatto IIIA-IIIB).

    Example:
        >>> move = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
        >>> ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
        >>> round(float(da.solve(move, **ends, T=1.0, steps=4, scheme=da.Lobatto()).cost), 9)  # a cubic path: exact
        12.0
    """

    name: ClassVar[str] = "lobatto"


def scheme_name(scheme: Scheme | Lobatto, system: Any) -> str:
    """The name under which a solution has the scheme."""
    return scheme.name if isinstance(scheme, Lobatto) else ", ".join(repr(one) for one in scheme.action_for(system))


def plant_scheme(scheme: Any) -> Scheme:
    """The maps of a plant's discrete equations; the default where none is given."""
    if scheme is None:
        return Scheme()
    if not isinstance(scheme, Scheme):
        raise TypeError(
            f"scheme: found {described(scheme)}; the equations of motion of a plant are those of a Scheme, and windows "
            "belong to a VariationalProblem"
        )
    if scheme.form == "discrete_gradient":
        raise ValueError("scheme: found the form 'discrete_gradient', which has no discrete Lagrangian; leave the form out")
    if scheme.order != 2:
        raise ValueError(f"scheme: found order {scheme.order}, a composition of steps; optimal control has order 2")
    return scheme


def actuation(problem: OptimalControl, q: Float[Array, "n"], t) -> Float[Array, "n r"]:
    """B(q)."""
    if not callable(problem.actuated):
        return jnp.asarray(np.eye(velocity_size(problem.system, q))[:, list(problem.actuated)])
    found = problem.system.call(problem.actuated, q, t=t)
    return found[:, None] if found.ndim == 1 else found


def velocity_size(system: System, q: Any) -> int:
    """n, the number of velocities of a position as it is stored."""
    return system.space.n if isinstance(system.space, Product) else q.shape[-1]


def count_equations(problem: OptimalControl, n: int) -> tuple[int, list[int]]:
    """The number r of controls, and that of the equations of every constraint; errors name the function that is wrong."""
    v, space = np.zeros(n), problem.system.space
    q = space.identity if isinstance(space, Product) else v
    equations = check_shapes(problem.system, q, v, np.zeros(()))
    return run_on_shapes(_check_functions, problem, q, v), equations


def check_optimal_control(problem: Any, right: str = "an OptimalControl") -> None:
    """TypeError for anything but an OptimalControl."""
    if not isinstance(problem, OptimalControl):
        raise TypeError(f"problem: found {described(problem)}; give {right}")


def check_solution_of(problem: Any, solution: Any) -> None:
    """TypeError or ValueError where the solution is none of the problem."""
    check_optimal_control(problem, "the OptimalControl that was solved")
    if not isinstance(solution, ControlSolution):
        raise TypeError(f"solution: found {described(solution)}; give the ControlSolution that solve returned")
    if solution.outcome is not Outcome.SUCCESS:
        raise ValueError(
            f"solution: found the outcome {solution.outcome.name}; give a solution with the outcome SUCCESS, an extremal"
        )
    n = solution.v.shape[1]
    r, equations = count_equations(problem, n)
    found, needed = (solution.u.shape[1], solution.multipliers.shape[1]), (r, sum(equations))
    if found != needed:
        raise ValueError(
            f"solution: found {found[0]} controls and {found[1]} constraints; the problem has {needed[0]} and {needed[1]}"
        )


def _check_functions(problem: OptimalControl, q, v) -> int:
    system, names, t = problem.system, problem.system.trailing, jnp.zeros(())
    actuated, n = problem.actuated, v.shape[0]
    if callable(actuated):
        shape = output_shape(lambda: system.call(actuated, q, t=t), "actuated", "q" + names)
        if shape != (n,) and (len(shape) != 2 or shape[0] != n or not shape[1]):
            raise ValueError(f"actuated: returns shape {shape}; a column for each control, shape ({n}, r), is needed")
        r = shape[1] if len(shape) == 2 else 1
    else:
        outside = [i for i in actuated if not 0 <= i < n]
        if outside:
            raise ValueError(f"actuated: found index {outside[0]}; the system has coordinates 0 to {n - 1}")
        r = len(actuated)
    u = jnp.zeros(r)
    check_scalar(lambda: system.call(problem.cost, q, v, t=t, u=u), "cost", "q, v, u" + names)
    if (terminal := problem.terminal) is not None:
        check_scalar(lambda: system.call(terminal, q, v, t=t), "terminal", "q, v" + names)
    return r


@dataclasses.dataclass(frozen=True)
class ConstantMatrix:
    """B where it does not depend on q."""

    rows: tuple[tuple[float, ...], ...]

    def __call__(self, q, *trailing):
        return jnp.array(self.rows)


def read_actuated(actuated: Any, coordinates: Sequence[str] | None) -> tuple[int, ...] | Callable:
    """The indices of the actuated coordinates, or B(q)."""
    if callable(actuated):
        return as_function(actuated, "actuated", "B(q)")
    actuated = np.asarray(actuated) if isinstance(actuated, jax.Array) else actuated
    several = isinstance(actuated, Sequence | np.ndarray) and not isinstance(actuated, str)
    given: list[Any] = list(actuated) if several else [actuated]
    if given and all(np.ndim(row) == 1 for row in given):
        return ConstantMatrix(tuple(map(tuple, as_array(actuated, "actuated").tolist())))
    others = "several of them, a constant matrix B (n, r), or a function B(q) that returns (n, r)"
    places = [read_axis(i, coordinates, "actuated", others) for i in given or [actuated]]
    if len(set(places)) < len(places):
        raise ValueError(f"actuated: found {tuple(given)}; every coordinate once")
    return tuple(places)
