"""System: a Lagrangian, its constraints and forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from dalembert.lazy import front_door
from dalembert.numbers import as_flag, as_function, described
from dalembert.systems.constraints import Constraint
from dalembert.systems.problem import Problem, as_arrays, names_of
from dalembert.systems.shapes import check_scalar, output_shape
from dalembert.tracing import UNREAD, OnShapes, Walk, refilled, split, taken_apart

WIDEST = 800  # characters of LaTeX in one line: more are wider than a page; `equations` has them


class System(Problem):
    """d/dt L_v - L_q = f + Rᵀλ and the constraints φ = 0: a mechanical system.

    If there are parameters, every function takes a trailing p; with time_dependent=True it takes t before p: L(q, v, t,
    p). A System is a pytree: functions are static, parameters are leaves, so that it can be passed through jit, vmap
    and grad.

    Args:
        lagrangian: `lagrangian(q, v)`, (n,), (n,) → (), written with jax.numpy.
        constraints: one of Holonomic, Nonholonomic, SecondOrder, Lyapunov, another Constraint, or a sequence of them.
        forces: `forces(q, v)`, (n,), (n,) → (n,), external and dissipative generalised forces.
        coordinates: the names of q.
        parameters: a mapping (or any pytree) of real, finite numbers and arrays, which become float64. Booleans, and
            arrays of them, are kept as flags, for jnp.where.
        time_dependent: whether the functions take t.
        draw: `draw(q)`, the picture of one state: Dots, Rod, Body, Wheel, Ball, or a list of them, written with
            jax.numpy. It is called only for pictures, never by a run. `draw(q, *, t)` is given the time too.

    Raises:
        TypeError: an argument is of the wrong type; the message names it.
        ValueError: two coordinates have the same name, or a parameter is not finite.

    Source: Borda, Fernández, Grillo, Definitions 2.1 and 2.2, with m reactions instead of the subspace C_V.

    Example:
        >>> hanging = da.System(lambda q, v, p: 0.5 * v @ v - p["g"] * q[1], da.Holonomic(lambda q, p: q @ q - 1.0),
        ...                     coordinates=("x", "y"), parameters={"g": 9.81})
        >>> on_the_moon = hanging.replace(g=1.62)  # nothing is compiled again
        >>> float(on_the_moon.parameters["g"])
        1.62
    """

    lagrangian: Callable = eqx.field(static=True)
    constraints: tuple[Constraint, ...]
    forces: Callable | None = eqx.field(static=True)
    coordinates: tuple[str, ...] | None = eqx.field(static=True)
    parameters: Any
    time_dependent: bool = eqx.field(static=True)
    draw: Callable | None = eqx.field(static=True, metadata=UNREAD)
    from_state: ClassVar[bool] = True

    def __init__(
        self,
        lagrangian: Callable,
        constraints: Constraint | Sequence[Constraint] = (),
        *,
        forces: Callable | None = None,
        coordinates: Sequence[str] | None = None,
        parameters: Any = None,
        time_dependent: bool = False,
        draw: Callable | None = None,
    ):
        as_function(lagrangian, "lagrangian", "L(q, v)")
        if forces is not None:
            as_function(forces, "forces", "f(q, v) that returns (n,)")
        if isinstance(constraints, Constraint):
            constraints = (constraints,)
        elif not isinstance(constraints, Sequence):
            raise TypeError(
                f"constraints: found {type(constraints).__name__}; give one or several of Holonomic(φ), Nonholonomic(φ), "
                "SecondOrder(φ, …), Lyapunov(V, F, actuated)"
            )
        given = tuple(constraints)
        for i, constraint in enumerate(given):
            if not isinstance(constraint, Constraint):
                raise TypeError(
                    f"constraints: item {i} is {described(constraint)}; give Holonomic, Nonholonomic, SecondOrder "
                    "or Lyapunov"
                )
        self.lagrangian, self.constraints, self.forces = lagrangian, given, forces
        self.coordinates = None if coordinates is None else names_of(coordinates)
        self.parameters = None if parameters is None else as_arrays(parameters, "parameters")
        self.time_dependent = as_flag(time_dependent, "time_dependent")
        self.draw = None if draw is None else as_function(draw, "draw", "of q that returns shapes")

    def equations(self, n: int | None = None) -> Any:
        """The equations as formulas, for small systems, by `dalembert.symbolic_equations`. n: number of coordinates, if
        they have no names."""
        return front_door("symbolic_equations")(self, n)

    def _repr_latex_(self) -> str | None:
        """A notebook shows the equations, typeset, where there are formulas; else what the system is made of."""
        try:
            text = self.equations()._repr_latex_()
        except (ImportError, TypeError, ValueError):
            return None
        return text if max(map(len, text.split(r"\\"))) < WIDEST else None

    @property
    def functions(self) -> tuple[Callable, ...]:
        """The functions that define the mechanics; draw is not one of them."""
        parts = (self, *self.constraints)
        return tuple(value for part in parts for name, value in vars(part).items() if callable(value) and name != "draw")


def check_system(system: Any, right: str = "give a System") -> None:
    """TypeError for anything but a System."""
    if not isinstance(system, System):
        raise TypeError(f"system: found {described(system)}; {right}")


@OnShapes
def check_shapes(system: System, q, v, t) -> list[int]:
    """Shapes of everything the user's functions return; the number m of equations of each constraint."""
    n, names, forces = q.shape[0], system.trailing, system.forces
    if system.coordinates is not None and len(system.coordinates) != n:
        raise ValueError(f"q0: found {n} numbers; the system names {len(system.coordinates)} coordinates")
    check_scalar(lambda: system.call(system.lagrangian, q, v, t=t), "lagrangian", "q, v" + names)
    if forces is not None:
        shape = output_shape(lambda: system.call(forces, q, v, t=t), "forces", "q, v" + names)
        if shape != (n,):
            raise ValueError(f"forces: returns shape {shape}; shape ({n},) is needed")
    point = q, v, jnp.zeros_like(q)
    return [c.check(system, label(i, c), point, t) for i, c in enumerate(system.constraints)]


def label(i: int, constraint: Constraint) -> str:
    """The i-th constraint, for messages."""
    return f"constraints[{i}] ({type(constraint).__name__})"


Rebuilt = Callable[[Sequence[Any]], Any]  # a problem of the same kind


class SystemParts(NamedTuple):
    """leaves: the arrays. rebuilt: the system with others in their place. key: what else it is, None if unknown."""

    leaves: list
    rebuilt: Rebuilt
    key: Any


def parts_of(system: Problem) -> SystemParts:
    """The parts of a system, or of another problem."""
    (tree, leaves), walk = taken_apart(system), Walk()
    key = split(walk, system, [])
    return SystemParts(leaves, refilled(tree, leaves), key if walk.lasting else None)
