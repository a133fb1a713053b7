"""Problem: what a Lagrangian, its constraints and its parameters have in common, whatever principle they obey."""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from dalembert.drawing import Depicted
from dalembert.groups import FLAT, Columns, Product, Space, columns_of
from dalembert.lazy import front_door, with_fields, with_state
from dalembert.notebook import card
from dalembert.numbers import as_array, as_flag, as_function, described
from dalembert.systems.constraints import Constraint, Law, Matrix, Rows, Vector
from dalembert.systems.pickling import reduced
from dalembert.systems.shapes import check_scalar, output_shape
from dalembert.tracing import UNREAD, OnShapes, Walk, reading, rebuilder, source, split, taken_apart


class Problem(eqx.Module):
    """A Lagrangian with constraints, and how the functions that the user wrote of it are called: f(…[, t][, p]).

    A pytree: functions are static, parameters are leaves, so that it passes through jit, vmap and grad.
    """

    lagrangian: Callable = eqx.field(static=True)
    coordinates: tuple[str, ...] | None = eqx.field(static=True)
    parameters: Any
    time_dependent: bool = eqx.field(static=True)
    from_state: ClassVar[bool] = False  # whether its runs start from (q, v) that satisfy the constraints
    h_scales: ClassVar[bool] = False  # whether the step of a run only scales time and multipliers
    takes_force: ClassVar[bool] = True  # whether a generalised force acts besides its own
    why_equal_steps: ClassVar[str] = ""  # why its steps have one length, where they must

    def read_arguments(self, lagrangian: Callable, coordinates: Any, parameters: Any, time_dependent: Any) -> None:
        """The fields that all problems have, where one is made."""
        self.lagrangian, self.coordinates = lagrangian, coordinates
        self.parameters = None if parameters is None else as_arrays(parameters, "parameters")
        self.time_dependent = as_flag(time_dependent, "time_dependent")

    @property
    def space(self) -> Space:
        """The configuration space."""
        return self.coordinates.space if isinstance(self.coordinates, Columns) else FLAT

    __reduce__ = reduced

    @property
    @abc.abstractmethod
    def functions(self) -> tuple[Callable, ...]:
        """Those that the user wrote."""

    @property
    def trailing(self) -> str:
        """The names of the trailing arguments of every function, for a message."""
        return (", t" if self.time_dependent else "") + (", p" if self.parameters is not None else "")

    def texts(self) -> dict[str, Any]:
        """The metadata of the problem alone: its functions by name, their sources with a hash, and its coordinates."""
        kinds = [type(part).__name__ for part in (self, *getattr(self, "constraints", ()))]
        return texts_of(self.functions, kinds, self.coordinates)

    def _repr_latex_(self) -> str | None:
        """Formulas, where there are some."""
        return None

    def _repr_html_(self) -> str | None:
        """The functions and numbers that it is made of, for a notebook; None where formulas say more."""
        if self._repr_latex_() is not None:
            return None
        own = self.texts()
        lines = [f"functions: {own['system']}"]
        if self.coordinates:
            lines.append(f"coordinates: {', '.join(self.coordinates)}")
        if isinstance(self.parameters, Mapping):
            lines.append(f"parameters: {', '.join(f'{name} = {_short(x)}' for name, x in self.parameters.items())}")
        return card(type(self).__name__, "\n".join(lines))

    @property
    def velocities(self) -> tuple[str, ...] | None:
        """The names of the velocities: of the coordinates, or on a group of the axes."""
        return self.coordinates.space.axes if isinstance(self.coordinates, Columns) else self.coordinates

    @property
    def subject(self) -> Depicted:
        """The subject of results: this problem."""
        return Depicted(self)

    def magnitudes(self, q: Any) -> Any:
        """Numbers as large as those that are stored of a position, along each velocity: q itself."""
        return q

    def call(self, function: Callable, *arguments, t=None, u=None):
        """`function(*arguments[, u][, t][, p])`, as an array."""
        return self.space.array(self.called(function, *arguments, t=t, u=u))  # so that tuples and lists of numbers will do

    def called(self, function: Callable, *arguments, t=None, u=None):
        """The same as it is: the one place that knows which trailing arguments a user's function takes."""
        arguments = self.space.show(arguments) if u is None else (*self.space.show(arguments), u)
        if self.time_dependent:
            arguments = (*arguments, t)
        if self.parameters is not None:
            arguments = (*arguments, self.parameters)
        with reading(function):
            try:
                return function(*arguments)
            except KeyError as error:
                if isinstance(self.parameters, Mapping):
                    error.add_note(f"the parameters are {', '.join(map(str, self.parameters))}")
                raise

    def replace(self, **values) -> Self:
        """The same with other parameter values; nothing is compiled again where shapes stay the same."""
        if not isinstance(self.parameters, Mapping):
            raise TypeError("replace: this system has no mapping of parameters; build it with parameters={...}")
        unknown = sorted(set(values) - set(self.parameters))
        if unknown:
            raise ValueError(
                f"replace: found {', '.join(unknown)}; the parameters are {', '.join(map(str, self.parameters))}"
            )
        new = dict(self.parameters)
        for name, value in as_arrays(values, "replace").items():
            before, after = (jax.tree.map(lambda x: (jnp.shape(x), is_flag(x)), y) for y in (new[name], value))
            if before != after:
                raise ValueError(f"replace[{name!r}]: found {_kinds(value)}; the system was built with {_kinds(new[name])}")
            new[name] = value
        return eqx.tree_at(lambda s: s.parameters, self, new)


def texts_of(functions: Sequence[Callable], kinds: Sequence[str], coordinates: tuple[str, ...] | None) -> dict[str, Any]:
    """The metadata of a problem: its functions by name, their sources with a hash, and its coordinates."""
    own = list({id(f): f for f in functions}.values())
    text = "\n".join([f"# {', '.join(kinds)}", *(source(f) for f in own)])
    return {
        "system": ", ".join(f"{f.__module__}:{f.__qualname__}" if hasattr(f, "__qualname__") else repr(f) for f in own),
        "source": text,
        "source_hash": hashlib.sha256(text.encode()).hexdigest(),
        "coordinates": coordinates or (),
    }


def _short(x: Any) -> str:
    """A number, or of what is larger its type and shape."""
    return f"{x:.6g}" if isinstance(x, jax.Array) and not isinstance(x, Tracer) and x.shape == () else described(x)


def as_arrays(tree: Any, name: str) -> Any:
    """A tree of parameters as float arrays, mappings as plain dicts; lists and tuples of numbers are arrays.

    Booleans stay: a flag chooses between formulas, and 1.0 in its place would be another type to `~` and `&`.
    """
    mapped = dict(tree) if isinstance(tree, Mapping) else tree
    leaf = lambda path, x: as_parameter(x, f"{name}{jax.tree_util.keystr(path)}")  # noqa: E731
    if not _is_finite(mapped):  # JAX would recurse, and leaves Python's count of recursions wrong for ever after
        raise TypeError(f"{name}: found a list or a mapping that contains itself; give real numbers and arrays")
    return jax.tree_util.tree_map_with_path(leaf, mapped, is_leaf=_is_leaf)


def as_parameter(x: Any, name: str) -> jax.Array:
    """One array of numbers, or of flags."""
    if callable(x):
        raise TypeError(f"{name}: found {described(x)}; functions belong in the Lagrangian and the constraints")
    return jnp.array(x) if is_flag(x) else as_array(x, name)


def is_flag(x: Any) -> bool:
    """True or False, or an array or nested lists of them."""
    if isinstance(x, list | tuple):
        return bool(x) and all(map(is_flag, x))
    return isinstance(x, bool) or (isinstance(x, np.ndarray | np.generic | jax.Array | Tracer) and x.dtype == bool)


def _is_leaf(x: Any) -> bool:
    """A list or tuple of plain numbers, nested or not, is one array; None is a mistake and not an empty tree."""
    if isinstance(x, list | tuple):
        return not hasattr(x, "_fields") and all(_is_leaf(y) and y is not None for y in x)
    return x is None or isinstance(x, str | int | float | complex)


DEEPEST = 100  # lists and mappings in each other


def _is_finite(tree: Any, depth: int = 0) -> bool:
    """True if no list or mapping contains itself, as far as that shows in its depth."""
    inner = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list | tuple) else ()
    return depth < DEEPEST and all(_is_finite(x, depth + 1) for x in inner if isinstance(x, Mapping | list | tuple))


def _kinds(tree: Any) -> str:
    """Shapes of a parameter's arrays, and which of them are flags, for a message."""
    leaves = jax.tree.leaves(tree)
    flags = (" of true and false" if is_flag(x) else "" for x in leaves)
    return ", ".join(f"shape {jnp.shape(x)}{flag}" for x, flag in zip(leaves, flags, strict=True)) or "nothing"


def read_coordinates(coordinates: Sequence[str] | Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """Names, or the columns of groups by name; None stays."""
    if isinstance(coordinates, Columns | None):
        return coordinates
    return columns_of(coordinates) if isinstance(coordinates, Mapping) else names_of(coordinates)


def names_of(coordinates: Sequence[str]) -> tuple[str, ...]:
    """The names of the coordinates: texts, each different."""
    if isinstance(coordinates, Mapping | Columns):
        raise TypeError(
            f"coordinates: found {described(coordinates)}; groups by name belong to a System or a VariationalProblem, here "
            "give names"
        )
    if isinstance(coordinates, str) or not isinstance(coordinates, Sequence):
        raise TypeError(f"coordinates: found {coordinates!r}; give a sequence of names, such as ('x', 'y')")
    names = tuple(coordinates)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"coordinates: found {names}; the names are texts, each different")
    return names


WIDEST = 800  # characters of LaTeX in one line: more are wider than a page; `equations` has them


class System(Problem):
    """A mechanical system: a Lagrangian with constraints, forces and parameters.

    d/dt L_v - L_q = f + Rᵀλ and the constraints φ = 0: a mechanical system.

    If there are parameters, every function takes a trailing p; with time_dependent=True it takes t before p: L(q, v, t,
    p). A System is a pytree: functions are static, parameters are leaves, so that it can be passed through jit, vmap
    and grad.

    Args:
        lagrangian: `lagrangian(q, v)`, (n,), (n,) → (), written with jax.numpy.
        constraints: one of Holonomic, Nonholonomic, SecondOrder, Lyapunov, another Constraint, or a sequence of them.
        forces: `forces(q, v)`, (n,), (n,) → (n,), external and dissipative generalised forces.
        coordinates: the names of q; or a mapping from names to groups, SO2, SO3, SE2, SE3, or n for Rⁿ: then every function
            takes q, v, a by these names, q.R and v.R, and velocities are those of ġ = gξ, in the body's axes.
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

    constraints: tuple[Constraint, ...]
    forces: Callable | None = eqx.field(static=True)
    draw: Callable | None = eqx.field(static=True, metadata=UNREAD)
    from_state: ClassVar[bool] = True

    def __init__(
        self,
        lagrangian: Callable,
        constraints: Constraint | Sequence[Constraint] = (),
        *,
        forces: Callable | None = None,
        coordinates: Sequence[str] | Mapping[str, Any] | None = None,
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
        self.read_arguments(lagrangian, read_coordinates(coordinates), parameters, time_dependent)
        self.constraints, self.forces = given, forces
        self.draw = None if draw is None else as_function(draw, "draw", "of q that returns shapes")

    def with_constraints(self, kept: Sequence[Constraint]) -> Self:
        """The same with other constraints."""
        return with_fields(self, constraints=tuple(kept))

    def equations(self, n: int | None = None) -> Any:
        """The equations as formulas, for small systems, by `dalembert.symbolic_equations`. n: number of coordinates, if
        they have no names."""
        return front_door("symbolic.symbolic_equations")(self, n)

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


def group_space(system: Any) -> Product | None:
    """The groups on which a system lives; None for one on Rⁿ."""
    space = getattr(system, "space", None)
    return space if isinstance(space, Product) else None


def check_flat(system: Any, what: str) -> None:
    """ValueError for a system on groups, where `what` is not available."""
    if group_space(system) is not None:
        raise ValueError(
            f"system: found one on groups, {', '.join(system.coordinates or ())}; {what} is there for systems on Rⁿ: write "
            "a rotation as a unit quaternion with the constraint q @ q - 1"
        )


def check_system(system: Any, right: str = "give a System") -> None:
    """TypeError for anything but a System."""
    if not isinstance(system, System):
        raise TypeError(f"system: found {described(system)}; {right}")


@OnShapes
def check_shapes(system: System, q, v, t) -> list[int]:
    """Shapes of everything the user's functions return; the number m of equations of each constraint."""
    n, names, forces = v.shape[0], system.trailing, system.forces
    if system.coordinates is not None and len(system.coordinates) != len(q):
        raise ValueError(f"q0: found {len(q)} numbers; the system names {len(system.coordinates)} coordinates")
    check_scalar(lambda: system.call(system.lagrangian, q, v, t=t), "lagrangian", "q, v" + names)
    if forces is not None:
        shape = output_shape(lambda: system.call(forces, q, v, t=t), "forces", "q, v" + names)
        if shape != (n,):
            raise ValueError(f"forces: returns shape {shape}; shape ({n},) is needed")
    point = q, v, jnp.zeros_like(v)
    return [c.check(system, label(i, c), point, t) for i, c in enumerate(system.constraints)]


def label(i: int, constraint: Constraint) -> str:
    """The i-th constraint, for messages."""
    return f"constraints[{i}] ({constraint.kind})"


def equation_names(system: System, sizes: Sequence[int]) -> list[str]:
    """The name of every equation of the constraints, in the user's order."""
    pairs = enumerate(zip(system.constraints, sizes, strict=True))
    return [label(i, c) + (f" row {j}" if m > 1 else "") for i, (c, m) in pairs for j in range(m)]


# A system on groups in coordinates y of g = g₀τ(y), for whatever looks at one point alone. At y = 0 its velocities,
# accelerations, multipliers and forces are those of the group: dτ₀ = 1, and the rate of T(y)ẏ there is ÿ, because
# τ(-y) = τ(y)⁻¹ makes the second derivative of τ along itself vanish.


class LocalSystem(System):
    """The same mechanics in coordinates around `origin`, (size,): with the functions of the user, called on the group."""

    origin: Float[Array, "size"]
    around: Product = eqx.field(static=True)

    def __init__(self, system: System, origin: Vector):
        space = system.space
        assert isinstance(space, Product)
        self.around, self.origin = space, origin
        self.lagrangian, self.forces, self.parameters = system.lagrangian, system.forces, system.parameters
        self.constraints = tuple(LocalConstraint(c) for c in system.constraints)
        self.coordinates, self.time_dependent, self.draw = space.axes, system.time_dependent, None

    def called(self, function: Callable, *arguments, t=None, u=None):
        own = self.around.show(self.on_group(*arguments))
        return super().called(function, *own, t=t, u=u)

    def call(self, function: Callable, *arguments, t=None, u=None):
        found = self.around.array(self.called(function, *arguments, t=t, u=u))
        return self.pull_back(arguments[0], found) if function is self.forces else found

    def magnitudes(self, q):
        return abs(q) + self.around.magnitudes(self.origin)

    def on_group(self, y: Vector, *motion: Vector) -> tuple[Any, ...]:
        """(g), (g, ξ) or (g, ξ, dξ/dt) from y, ẏ and ÿ."""
        q, to_velocity = self.around.retract(self.origin, y), self.around.trivialise
        if len(motion) < 2:
            return (q, *(to_velocity(y, w) for w in motion))
        return (q, *jax.jvp(to_velocity, (y, motion[0]), motion))

    def group_motion(self, y: Vector, w: Vector, b: Vector) -> tuple[Vector, Vector, Vector]:
        """(g, ξ, dξ/dt)."""
        q, v, a = self.on_group(y, w, b)
        return q, v, a

    def from_group(self, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        """y and ẏ from g and ξ."""
        y = self.around.coordinates_around(self.origin, q)
        return y, jnp.linalg.solve(self.to_velocity(y), v)

    def to_velocity(self, y: Vector) -> Float[Array, "n n"]:
        """T(y)."""
        return jax.jacfwd(lambda w: self.around.trivialise(y, w))(jnp.zeros_like(y))

    def pull_back(self, y: Vector, covectors: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """Covectors on the group as those of y."""
        return self.around.pull_back(y, covectors)

    @property
    def original(self) -> System:
        """The system on the group."""
        own = {name: x for name, x in vars(self).items() if name not in ("origin", "around")}
        on_group = tuple(c.base for c in self.constraints if isinstance(c, LocalConstraint))
        return with_state(System, own | {"constraints": on_group, "coordinates": Columns(self.around)})


def at_origin(system: Any, q0: Any, v0: Any) -> tuple[Any, Any, Any]:
    """(system, q0, v0) for what looks at one point: on a group in coordinates around it, with q0 = 0; else as they are."""
    space = group_space(system)
    if space is None:
        return system, q0, v0
    q, v = space.read_state(q0, v0, None, as_array)
    return LocalSystem(system, jnp.asarray(q)), np.zeros(space.n), v


class LocalConstraint(Constraint):
    """A constraint on the group, of whatever kind, in coordinates."""

    base: Constraint

    order: ClassVar[Any] = property(operator.attrgetter("base.order"))
    is_control: ClassVar[Any] = property(operator.attrgetter("base.is_control"))
    kind: ClassVar[Any] = property(operator.attrgetter("base.kind"))
    chetaev: ClassVar[Any] = property(operator.attrgetter("base.chetaev"))

    def residual(self, system: LocalSystem, q: Vector, v: Vector, a: Vector, t) -> Rows:
        return self.base.residual(system.original, *system.group_motion(q, v, a), t)

    def force_rows(self, system: LocalSystem, q: Vector, v: Vector, a: Vector, t) -> Matrix:
        return system.pull_back(q, self.base.force_rows(system.original, *system.group_motion(q, v, a), t))

    def virtual_basis(self, system: LocalSystem, q: Vector, v: Vector, a: Vector, t) -> Float[Array, "n d"] | None:
        found = self.base.virtual_basis(system.original, *system.group_motion(q, v, a), t)
        return None if found is None else jnp.linalg.solve(system.to_velocity(q), found)

    def law(self, system: LocalSystem) -> Law | None:
        own = self.base.law(system.original)
        return None if own is None else lambda q, v, t: own(*system.group_motion(q, v, v)[:2], t)

    def check(self, system: LocalSystem, name: str, point: tuple[Vector, Vector, Vector], t) -> int:
        return self.base.check(system.original, name, (system.origin, point[1], point[2]), t)


Rebuilt = Callable[[Sequence[Any]], Any]  # a problem of the same kind


class SystemParts(NamedTuple):
    """leaves: the arrays. rebuilt: the system with others in their place. key: what else it is, None if unknown."""

    leaves: list
    rebuilt: Rebuilt
    key: Any


def parts_of(system: Any) -> SystemParts:
    """The parts of a problem, or of another tree of arrays and functions, such as a step."""
    (tree, leaves), walk = taken_apart(system), Walk()
    key = split(walk, system, [])
    return SystemParts(leaves, rebuilder(tree, leaves), key if walk.lasting else None)


def name_role(reason: Any, system: Any, others: Mapping[str, Any] | None = None) -> None:
    """Say in which of a system's functions, or of others by name, stands what machine code does not support.

    reason: an Unsupported. system: anything whose fields are functions and constraints. others: None where there is none.
    """
    if reason.place is not None:
        named = (*_functions(system), *(others or {}).items())
        reason.role = next((name for name, x in named if x is not None and _code(x) in reason.place.codes), "")


def _functions(value: Any, name: str = "") -> Iterator[tuple[str, Callable]]:
    """Functions in the fields of a system and of its constraints, with the names they have there."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            kind = f" ({type(item).__name__})" if isinstance(item, Constraint) else ""
            yield from _functions(item, f"{name}[{i}]{kind}")
    elif callable(value):
        yield name, value
    elif isinstance(value, eqx.Module):
        for field in dataclasses.fields(value):
            yield from _functions(getattr(value, field.name), f"{name} {field.name}".strip())


def _code(function: Any) -> CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):
        function = getattr(function, "__func__", getattr(function, "__call__", None))  # noqa: B004
    return getattr(getattr(function, "__func__", function), "__code__", None)
