"""The kinds of constraint. Kinematic data (what must hold) and variational data (which forces act) are independent.

A kind answers for itself: its equations, its forces, the checks of what its functions return. A further kind is a subclass
of Constraint in any module.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import value_and_jacobian
from dalembert.numbers import as_function
from dalembert.systems.pickling import made, reduced
from dalembert.systems.shapes import output_shape, trace_output

Vector = Float[Array, "n"]
Rows = Float[Array, "m"]
Matrix = Float[Array, "m n"]
Law = Callable[[Any, Any, Any], Rows]

LOWER = {
    1: "a constraint on positions alone is Holonomic(phi) with phi(q)",
    2: "a constraint on positions and velocities is Nonholonomic(phi) with phi(q, v), one on positions Holonomic(phi)",
}


class Constraint(eqx.Module):
    """Base class of constraints with their forces.

    φ = 0 with forces Rᵀλ: the base class of Holonomic, Nonholonomic, SecondOrder and Lyapunov, and of a kind of your own.

    A subclass says its `order` and its `residual`, and `force_rows` where these are not Chetaev's. `system` gives what a
    residual may need, `system.call(function, q, v, t=t)` and `system.parameters`.

    Attributes:
        order: the highest derivative of q in the constraint, 0, 1 or 2.
        is_control: whether the multiplier is a control that the equation prescribes.

    Example:
        >>> da.Holonomic.order, da.Nonholonomic.order, da.SecondOrder.order, da.Lyapunov.order
        (0, 1, 2, 2)
        >>> class Level(da.Constraint):
        ...     order = 0
        ...     def residual(self, system, q, v, a, t):
        ...         return q[-1:]
        >>> flat = da.System(lambda q, v: 0.5 * v @ v - q[-1], Level())
        >>> da.simulate(flat, [0.0, 0.0], [1.0, 0.0], h=0.1, steps=10).q[-1].round(9).tolist()
        [1.0, 0.0]
    """

    order: ClassVar[int]
    is_control: ClassVar[bool] = False

    __reduce__ = reduced

    @abc.abstractmethod
    def residual(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Rows:
        """φ, (m,), a function of q and of its derivatives up to `order`."""

    def force_rows(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Matrix:
        """R, (m, n): rows that span the constraint forces; Chetaev's, ∂φ/∂(highest derivative)."""

        def residual_by_highest(x: Vector) -> Rows:
            point: list[Any] = [q, v, a]
            point[self.order] = x
            return self.residual(system, point[0], point[1], point[2], t)

        highest = (q, v, a)[self.order]
        if self.order == 0:
            return system.space.jacobian(residual_by_highest, highest)
        return value_and_jacobian(residual_by_highest, highest)[1]

    @property
    def kind(self) -> str:
        """The name of the class, for messages."""
        return type(self).__name__

    @property
    def chetaev(self) -> bool:
        """True if the forces are Chetaev's."""
        return type(self).force_rows is Constraint.force_rows

    def virtual_basis(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Float[Array, "n d"] | None:
        """The virtual displacements, where the user gave these and not the forces."""
        return None

    def law(self, system: Any) -> Law | None:
        """(q, v, t) → λ, where a step of this system solves λ = law in place of φ = 0."""
        return None

    def part(self, rows: Sequence[int], name: str) -> Constraint:
        """Some of its equations as a constraint; ValueError where they belong together."""
        raise ValueError(f"system: {name} cannot be divided, and only rows {', '.join(map(str, rows))} are needed")

    def check(self, system: Any, name: str, point: tuple[Vector, Vector, Vector], t) -> int:
        """The number m of equations; TypeError or ValueError where they, or the forces, cannot be used."""
        n, words = len(point[1]), "q, v, a, t"
        shape = output_shape(lambda: self.residual(system, *point, t), f"{name} residual", words)
        m = _number_of_equations(shape, f"{name} residual", n)
        found = output_shape(lambda: self.force_rows(system, *point, t), f"{name} force_rows", words)
        _check_vectors(found, [(m, n)], f"{name} force_rows", f"{m} rows of n = {n}")
        return m


def _number_of_equations(shape: tuple[int, ...], name: str, n: int) -> int:
    if len(shape) > 1:
        raise ValueError(f"{name}: returns shape {shape}; give a scalar or shape (m,)")
    m = shape[0] if shape else 1
    if not 0 < m <= n:
        raise ValueError(f"{name}: returns {m} equations for n = {n} coordinates; give 1 to {n}")
    return m


def _check_vectors(shape: tuple[int, ...], wanted: list[tuple[int, ...]], name: str, what: str) -> None:
    if shape not in wanted:
        raise ValueError(f"{name}: returns shape {shape}; {what}, shape {wanted[0]}, are needed")


class Kinematic(Constraint):
    """φ = 0 with forces from `reactions` (rows span F_V), or `virtual` (columns span C_V), or Chetaev's ∂φ/∂(highest).

    Args:
        phi: φ that returns () or (m,).
        reactions: returns (m, n), rows that span the constraint forces F_V.
        virtual: returns (n, n-m), columns that span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.
    """

    phi: Callable = eqx.field(static=True)
    reactions: Callable | None = eqx.field(static=True, default=None)
    virtual: Callable | None = eqx.field(static=True, default=None)

    def __init__(self, phi: Callable, *, reactions: Callable | None = None, virtual: Callable | None = None):
        self.phi = as_function(phi, "phi", "φ that returns () or (m,)")
        if reactions is not None and virtual is not None:
            raise ValueError("reactions, virtual: found both; give the constraint forces or the virtual displacements")
        self.reactions = None if reactions is None else as_function(reactions, "reactions", "that returns (m, n)")
        self.virtual = None if virtual is None else as_function(virtual, "virtual", "that returns (n, n-m)")

    def residual(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Rows:
        return jnp.atleast_1d(self._call(system, self.phi, (q, v, a), t))

    def force_rows(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Matrix:
        if self.reactions is not None:
            return jnp.atleast_2d(self._call(system, self.reactions, (q, v, a), t))
        basis = self.virtual_basis(system, q, v, a, t)
        return super().force_rows(system, q, v, a, t) if basis is None else annihilator(basis)

    @property
    def chetaev(self) -> bool:
        return self.reactions is None and self.virtual is None

    def virtual_basis(self, system: Any, q: Vector, v: Vector, a: Vector, t) -> Float[Array, "n d"] | None:
        if self.virtual is None:
            return None
        basis = jnp.asarray(self._call(system, self.virtual, (q, v, a), t))
        return basis[:, None] if basis.ndim == 1 else basis

    def _call(self, system: Any, function: Callable, point: tuple[Vector, Vector, Vector], t):
        return system.call(function, *point[: self.order + 1], t=t)

    def part(self, rows: Sequence[int], name: str) -> Self:
        if self.virtual is not None:
            raise ValueError(
                f"system: {name} has virtual=, which belongs to all of its rows, and rows {', '.join(map(str, rows))} are "
                "needed; give reactions=, or a constraint for each row"
            )
        forces = None if self.reactions is None else _some_rows(self.reactions, tuple(rows))
        return type(self)(_some_rows(self.phi, tuple(rows)), reactions=forces)

    def check(self, system: Any, name: str, point: tuple[Vector, Vector, Vector], t) -> int:
        n, words = len(point[1]), "q, v, a"[: 3 * self.order + 1] + system.trailing
        jaxpr, shape = trace_output(lambda: self._call(system, self.phi, point, t), f"{name} phi", words)
        m = _number_of_equations(shape, f"{name} phi", n)
        if self.order and not any(x is point[self.order] for x in jaxpr.consts):
            raise ValueError(f"{name} phi: does not read {'qva'[self.order]}; {LOWER[self.order]}")
        given, virtual = self.reactions, self.virtual
        if given is not None:
            shape = output_shape(lambda: self._call(system, given, point, t), f"{name} reactions", words)
            wanted = [(m, n), (n,)][: 2 if m == 1 else 1]
            _check_vectors(shape, wanted, f"{name} reactions", f"{m} rows of n = {n}")
        if virtual is not None:
            shape = output_shape(lambda: self._call(system, virtual, point, t), f"{name} virtual", words)
            wanted = [(n, n - m), (n,)][: 2 if n - m == 1 else 1]
            _check_vectors(shape, wanted, f"{name} virtual", f"n - m = {n - m} columns of n = {n}")
        return m


@made
def _some_rows(function: Callable, rows: tuple[int, ...]) -> Callable:
    """Some rows of what a function returns."""

    def chosen_rows(*arguments):
        return jnp.asarray(function(*arguments))[np.array(rows)]

    return chosen_rows


class Holonomic(Kinematic):
    """A constraint on positions.

    φ(q) = 0, with reactions ∂φ/∂q unless others are given.

    With other reactions it is a servo-constraint on positions: φ = 0 is enforced by actuators whose forces need not be
    perpendicular to it. This is possible where ∂φ/∂q M⁻¹ Rᵀ, with the mass matrix M, is nonsingular.

    Args:
        phi: (n,) → () or (m,); with a time-dependent system φ(q, t), with parameters φ(q, …, p).
        reactions: `reactions(q)`, (m, n), or (n,) if m = 1: rows span the constraint forces F_V.
        virtual: `virtual(q)`, (n, n-m), or (n,) if n - m = 1: columns span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.

    Example:
        >>> rod = da.Holonomic(lambda q: q @ q - 1.0)
        >>> da.System(lambda q, v: 0.5 * v @ v - q[2], rod).constraints == (rod,)
        True
        >>> pulled = da.Holonomic(lambda q: q[1] - jnp.sin(q[0]), reactions=lambda q: jnp.array([0.0, 1.0]))
        >>> rail = da.System(lambda q, v: 0.5 * v @ v, pulled)  # a force along y alone keeps the point on the rail
        >>> da.simulate(rail, [0.0, 0.0], [1.0, 1.0], h=0.1, steps=10).v[-1, 0].round(9).item()  # ẋ is free
        1.0
    """

    order: ClassVar[int] = 0


class Nonholonomic(Kinematic):
    """A constraint on positions and velocities.

    φ(q, v) = 0, linear, affine or nonlinear in v, with Chetaev's reactions ∂φ/∂v unless others are given.

    Args:
        phi: (n,), (n,) → () or (m,).
        reactions: `reactions(q, v)`, (m, n), or (n,) if m = 1: rows span the constraint forces F_V.
        virtual: `virtual(q, v)`, (n, n-m), or (n,) if n - m = 1: columns span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.

    Example:
        >>> blade = da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1])
        >>> knife = da.System(lambda q, v: 0.5 * v @ v, blade, coordinates=("x", "y", "θ"))
        >>> blade.order, float(blade.phi(jnp.zeros(3), jnp.array([1.0, 0.0, 0.5])))
        (1, 0.0)
    """

    order: ClassVar[int] = 1


class SecondOrder(Kinematic):
    """A constraint on positions, velocities and accelerations.

    φ(q, v, a) = 0, with Chetaev's reactions ∂φ/∂a unless others are given.

    Args:
        phi: (n,), (n,), (n,) → () or (m,).
        reactions: `reactions(q, v, a)`, (m, n), or (n,) if m = 1: rows span the constraint forces F_V.
        virtual: `virtual(q, v, a)`, (n, n-m), or (n,) if n - m = 1: columns span the virtual displacements C_V.

    Raises:
        TypeError: phi, reactions or virtual is not a function.
        ValueError: both reactions and virtual are given.

    Source: Borda, Fernández, Grillo, Definition 2.1.

    Example:
        >>> servo = da.SecondOrder(lambda q, v, a: a[0] + 2.0 * v[0] + q[0])  # the law of a closed loop
        >>> held = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), servo)
        >>> da.simulate(held, [0.5], [0.0], h=0.1, steps=10).multipliers.shape  # its torque
        (10, 1)
    """

    order: ClassVar[int] = 2


def annihilator(basis: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """Rows R with R B = 0, m = n - d.

    For m = 1 the generalised cross product, R_i = (-1)^(n+i) det(B without row i): smooth; (b_y, -b_x) for n = 2.
    For m > 1 the last rows of Qᵀ of a Householder factorization B = QU, the first of them with the sign that makes
    det [B Rᵀ] positive: orthonormal, of one orientation, but turned at once where a reflection changes sign. The force Rᵀλ
    is smooth in both cases; rely on it and not on λ when m > 1.
    """
    n, d = basis.shape
    if n - d == 1:
        minors = [jnp.linalg.det(jnp.delete(basis, i, axis=0)) if d else jnp.ones(()) for i in range(n)]
        signs = jnp.array([(-1.0) ** (n + i) for i in range(n)])
        return (signs * jnp.stack(minors))[None, :]
    q, work, sign = jnp.eye(n), basis, 1.0
    for k in range(d):
        x = work[k:, k]
        side = jnp.where(x[0] >= 0, 1.0, -1.0)
        sign = sign * side
        w = x.at[0].add(side * jnp.linalg.norm(x))
        w = jnp.concatenate([jnp.zeros(k), w / jnp.linalg.norm(w)])
        work = work - 2.0 * jnp.outer(w, w @ work)
        q = q - 2.0 * jnp.outer(q @ w, w)
    return q[:, d:].T.at[0].multiply(sign)
