"""Spaces: what the equations ask of a configuration space. `FLAT` is Rⁿ as it always was; a `Product` has named groups.

The unknowns are velocities ξ = g⁻¹ġ, a derivative at a node is that of η ↦ f(g·τ(η)) at 0, and an interval of a step is
walked in two halves, m = g₀τ(y) and g₁ = mτ(y), y = ½hV.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import value_and_jacobian
from dalembert.groups.given import Named, distance, join_parts, read_numbers
from dalembert.groups.group import SE2, SE3, SO2, SO3, Euclidean, Group, at_rows, trace_once
from dalembert.numbers import as_state, as_vector, described, is_traced, place_of, whole_number

Vector = Float[Array, "n"]

PROJECTIONS = 4  # of a defect d, each to its square
STILL = 1e-9  # of the size of positions: what moves less is at rest, but for rounding


class Space(abc.ABC):
    """A configuration space as the equations use it: the methods, with what they are in Rⁿ. A product of groups has its own.

    No module of equinox: of each method that is called it would make another one.
    """

    flat: ClassVar[bool]  # True in Rⁿ, where positions and velocities are numbers of one kind

    def stored_size(self, n: int) -> int:
        """How many numbers are stored of a position with n velocities."""
        return n

    def split_state(self, z: Any) -> tuple[Any, Any]:
        """(q, v) of states (…, ·) in one row each."""
        n = z.shape[-1] // 2
        return z[..., :n], z[..., n:]

    def nearest(self, q: Any) -> Any:
        """Elements beside points near the space, to the last digit where an interpolation has made them."""
        return q

    def read_state(self, q0: Any, v0: Any, names: Sequence[str] | None, kind: Callable[[Any, str], Any]) -> tuple[Any, Any]:
        """(q0, v0) as they are stored; errors that name what is wrong."""
        return as_state(q0, v0, names, kind)

    def read_named(self, q0: Any, v0: Any, names: tuple[str, str] = ("q0", "v0")) -> tuple[Any, Any]:
        """(q0, v0) as arrays where they are given by name; None stays. names: of both, for messages."""
        return q0, v0

    def read_point(self, q: Any, v: Any) -> tuple[Any, Any]:
        """The same of a point that is no beginning."""
        x = as_vector(q, "q")
        return x, as_vector(v, "v", x.shape[0])

    def show(self, arguments: tuple) -> tuple:
        """(q, v, a) as the functions of a user take them."""
        return arguments

    def array(self, result: Any) -> Array:
        """What such a function returned, as an array."""
        return jnp.asarray(result)

    def rate(self, q: Vector, v: Vector) -> Vector:
        """q̇."""
        return v

    def rates(self, q: Any, v: Any) -> Any:
        """q̇ of many states."""
        return v

    def gradient(self, function: Callable, q: Vector) -> Vector:
        """The derivative of a scalar function at q, a covector (n,)."""
        return jax.grad(function)(q)

    def gradients(self, function: Callable, q: Vector, *others: Any) -> tuple[Any, ...]:
        """The derivatives of a scalar function of (q, v), or (q, v, t)."""
        return jax.grad(function, tuple(range(1 + len(others))))(q, *others)

    def jacobian(self, function: Callable, q: Vector) -> Float[Array, "m n"]:
        """The derivative of a function at q."""
        return value_and_jacobian(function, q)[1]

    def balance(self, p_rate: Vector, v: Vector, p: Vector) -> Vector:
        """dp/dt - ad*_v p."""
        return p_rate

    def retract(self, q: Any, d: Any) -> Any:
        """q·τ(d): within one half of an interval."""
        return q + d

    def point(self, q: Any, d: Any) -> Any:
        """`retract` as the functions of a user take it."""
        return q + d

    def walk(self, q: Vector, y: Vector, z: Vector) -> Vector:
        """The increment of q along one half interval and the other, brought back into the group; NaN for one that turns by
        half a turn, since its ends do not tell which way it went."""
        return y + z

    def cross_interval(self, q: Vector, d: Vector) -> Vector:
        """The increment along a whole interval."""
        return d

    def between(self, a: Vector, b: Vector) -> Vector:
        """d for which `cross_interval` leads from a to b, the shorter way round."""
        return b - a

    def pull_back(self, y: Vector, covectors: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """Covectors at o·τ(y) as those of y."""
        return covectors

    def differences(self, a: Any, b: Any) -> Any:
        """The ways from positions a to positions b, (…, n)."""
        return b - a

    def along(self, q: Any, d: Any) -> Any:
        """`retract` of many positions and ways, (K, ·)."""
        return q + d

    def extent(self, q: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of positions along a path: their largest size and their way, along each velocity, (n,)."""
        return np.max(np.abs(q), axis=0), np.ptp(q, axis=0)

    def variation(self, v: Vector, d: Vector, rate: Vector) -> Vector:
        """The change of v where a motion is moved along d, and d changes at this rate: ḋ + ad_v d."""
        return rate

    def to_body(self, q: Vector, d: Vector) -> Vector:
        """Ad_{q⁻¹} d: the velocity of q along exp(sd)·q, a motion of space."""
        return d

    def origin(self, q: Any) -> tuple[Any, Any]:
        """(o, x) with q = o·τ(x): neighbours of q in coordinates."""
        return np.zeros_like(q), q

    def canonical(self, origin: Vector, q: Vector, *covectors: Vector) -> tuple[Vector, ...]:
        """q in coordinates around the origin, and covectors at q as those of the coordinates."""
        return q, *covectors

    def midway(self, q0: Vector, v0: Vector, q1: Vector, v1: Vector, h: Any) -> tuple[Vector, Vector]:
        """(q, v) in the middle of a step from one state to another, about on the cubic through both."""
        return 0.5 * (q0 + q1) + 0.125 * h * (v0 - v1), 1.5 / h * (q1 - q0) - 0.25 * (v0 + v1)

    def ends(self, weight: float, h: Any, v: Vector, by_q: Vector, by_v: Vector) -> tuple[Vector, Vector]:
        """(D₁L_d, D₂L_d) of h L(m, v) with these derivatives, m at the weight of the interval."""
        return ((1.0 - weight) * h) * by_q - by_v, (weight * h) * by_q + by_v

    def action_ends(self, weight: float, h: Any, q: Vector, way: Vector | None, v: Vector, action: Callable) -> tuple:
        """`ends` of h·action(m, v), m = q·τ(way), None: q."""
        return self.ends(weight, h, v, *self.gradients(action, self.show((q,))[0] if way is None else self.point(q, way), v))

    def impulse(self, h: Any, v: Vector, force: Vector, end: int) -> Vector:
        """Half of h·force at the middle of an interval, at its left (0) or right (-1) end."""
        return 0.5 * h * force


class Flat(Space):
    """Rⁿ: the coordinates that a user names, or does not name."""

    flat: ClassVar[bool] = True


FLAT = Flat()


@dataclasses.dataclass(frozen=True)
class Product(Space):
    """The product of named groups: of `coordinates={"R": SO3(), "x": 3}`."""

    names: tuple[str, ...]
    parts: tuple[Group, ...]

    flat: ClassVar[bool] = False

    @property
    def n(self) -> int:
        """Dimension."""
        return sum(g.n for g in self.parts)

    @property
    def size(self) -> int:
        """How many numbers are stored."""
        return sum(g.size for g in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the stored numbers: x.1, R.w."""
        return _labels(self.names, [g.columns for g in self.parts])

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the velocities."""
        return _labels(self.names, [g.axes for g in self.parts])

    def positions(self, q: Any) -> list[Any]:
        """The stored numbers (…, size) of each part."""
        return _split(q, [g.size for g in self.parts])

    def velocities(self, v: Any) -> list[Any]:
        """Those of a velocity or a covector (…, n)."""
        return _split(v, [g.n for g in self.parts])

    def stored_size(self, n):
        return self.size

    def split_state(self, z):
        return z[..., : self.size], z[..., self.size :]

    def read_state(self, q0, v0, names, kind):
        return _one_row(self.read_position(q0, "q0"), "q0"), _one_row(self.read_velocity(v0, "v0"), "v0")

    def read_named(self, q0, v0, names=("q0", "v0")):
        q = None if q0 is None else self.read_position(q0, names[0])
        return q, None if v0 is None else self.read_velocity(v0, names[1])

    def read_point(self, q, v):
        return jnp.asarray(self.read_position(q, "q")), jnp.asarray(self.read_velocity(v, "v"))

    def read_position(self, q0: Any, name: str) -> Any:
        """q as it is stored, from a mapping or from such numbers."""
        return self._store(self._parts_of(q0, name), name)

    def nearest_position(self, q0: Any, name: str) -> tuple[Any, float]:
        """The nearest position to what may be none, as it is stored, and the way to it."""
        given, moved = self._parts_of(q0, name), 0.0
        for x, g in zip(self.names, self.parts, strict=True):
            nearest = g.nearest(given[x], f"{name}[{x!r}]")
            moved = moved if nearest is given[x] else math.hypot(moved, distance(nearest, given[x]))
            given[x] = nearest
        return self._store(given, name), moved

    def _parts_of(self, q0: Any, name: str) -> dict[str, Any]:
        if isinstance(q0, Mapping):
            return self._by_name(q0, name, all_needed=True)
        flat = read_numbers(_check_given(q0, name, self.columns), name)
        if flat.ndim == 0 or flat.shape[-1] != self.size:
            raise ValueError(
                f"{name}: found shape {flat.shape}; give a mapping with {', '.join(self.names)}, or the {self.size} "
                f"stored numbers {', '.join(self.columns)}"
            )
        return dict(zip(self.names, self.positions(flat), strict=True))

    def _store(self, given: dict[str, Any], name: str) -> Any:
        return join_parts([g.store(given[x], f"{name}[{x!r}]") for x, g in zip(self.names, self.parts, strict=True)])

    def read_velocity(self, v0: Any, name: str) -> Any:
        """(n,) from a mapping, whose absent names are 0, or from such numbers."""
        if not isinstance(v0, Mapping):
            flat = read_numbers(_check_given(v0, name, self.axes), name)
            if flat.ndim == 0 or flat.shape[-1] != self.n:
                raise ValueError(
                    f"{name}: found shape {flat.shape}; give a mapping with {', '.join(self.names)}, or {self.n} numbers, "
                    f"{', '.join(self.axes)}"
                )
            return flat
        given, parts = self._by_name(v0, name, all_needed=False), []
        for x, g in zip(self.names, self.parts, strict=True):
            part = read_numbers(given.get(x, np.zeros(g.n)), f"{name}[{x!r}]")
            part = part[None] if part.ndim == 0 and g.n == 1 else part
            if part.shape[-1:] != (g.n,):
                raise ValueError(f"{name}[{x!r}]: found shape {part.shape}; give {g.n} numbers")
            parts.append(part)
        return join_parts(parts)

    def elements(self, name: str, q: Any) -> Any:
        """Elements of one group along a path, from (…, size) stored numbers."""
        place = place_of(name, self.names, "path")
        part, group, kept = self.positions(q)[place], self.parts[place], jnp.asarray if is_traced(q) else np.asarray
        shown = jax.vmap(group.show)(jnp.asarray(part).reshape(-1, group.size))
        return jax.tree.map(lambda x: kept(x).reshape(*part.shape[:-1], *x.shape[1:]), shown)

    def rates(self, q, v):
        return at_rows(self, "rate", q, v)

    def nearest(self, q):
        return at_rows(self, "project", q)

    def project(self, q: Any) -> Vector:
        """The same of one point, for what is traced."""
        for _ in range(PROJECTIONS):
            q = q + self._excess(q)
        return q

    def onto(self, q: Any, rate: Any) -> tuple[Any, Any]:
        """(q, v) of points (…, size) near the group with their rates, as an interpolation gives them."""

        def at_point(x, rate):
            x = x + self._excess(x)
            of_axes = jax.vmap(lambda w: self.rate(x, w))(jnp.eye(self.n)).T
            return x, jnp.linalg.lstsq(of_axes, rate)[0]

        flat = [jnp.asarray(x).reshape(-1, self.size) for x in (q, rate)]
        x, v = jax.vmap(at_point)(*flat)
        return x.reshape(jnp.shape(q)), v.reshape(*jnp.shape(q)[:-1], self.n)

    def _by_name(self, given: Mapping, name: str, all_needed: bool) -> dict[str, Any]:
        unknown = [str(x) for x in given if x not in self.names]
        missing = [x for x in self.names if x not in given] if all_needed else []
        if unknown or missing:
            what = f"found {', '.join(unknown)}" if unknown else f"{', '.join(missing)} is missing"
            raise ValueError(f"{name}: {what}; the coordinates are {', '.join(self.names)}")
        return dict(given)

    def show(self, arguments):
        return tuple(self.name_position(x) if i == 0 else self.name_velocity(x) for i, x in enumerate(arguments))

    def name_position(self, q: Any) -> Any:
        """A position as a user's function takes it."""
        if isinstance(q, Named):
            return q
        shown = (g.show(x) for g, x in zip(self.parts, self.positions(q), strict=True))
        return self.name_parts(shown, lambda: q)

    def name_parts(self, parts: Iterable[Any], flat: Callable[[], Any]) -> Named:
        return Named(dict(zip(self.names, parts, strict=True)), flat)

    def point(self, q, d, x=None):
        """x: further by A(-d)x, to first order."""
        shown, ways = self.name_position(q), [self.velocities(y) for y in (d, x) if y is not None]
        moved = [(g.show_moved if x is None else g.show_beside)(shown[name], *y)
                 for name, g, *y in zip(self.names, self.parts, *ways, strict=True)]  # fmt: skip
        move = self.retract if x is None else lambda q, d: self.retract(self.retract(q, d), self._each("portion", -d, x))
        return self.name_parts(moved, lambda: move(jnp.asarray(q), d))

    def name_velocity(self, v: Any) -> Any:
        """A velocity or an acceleration as a user's function takes it; a time stays."""
        own = isinstance(v, Named) or not jnp.ndim(v)
        return v if own else self.name_parts(self.velocities(v), lambda: v)

    def array(self, result):
        if isinstance(result, Mapping):
            given = self._by_name(result, "a covector", all_needed=False)
            parts = [jnp.asarray(given.get(x, jnp.zeros(g.n)), float) for x, g in zip(self.names, self.parts, strict=True)]
            front = jnp.broadcast_shapes(*(x.shape[:-1] for x in parts if x.ndim > 1), ())
            return jnp.concatenate([jnp.broadcast_to(x, (*front, *x.shape[-1:])) if x.ndim else x[None] for x in parts], -1)
        if isinstance(result, tuple | list) and any(isinstance(x, Mapping) for x in result):
            return jnp.stack([self.array(x) for x in result])
        return jnp.asarray(result)

    def rate(self, q, v):
        zero = jnp.zeros(())
        return jax.jvp(lambda s: self.retract(q, s * v), (zero,), (jnp.ones_like(zero),))[1]

    def gradient(self, function, q):
        return jax.grad(lambda y: function(self.retract(q, y)))(jnp.zeros(self.n))

    def gradients(self, function, q, *others):
        places, moved = tuple(range(1 + len(others))), self.point if isinstance(q, Named) else self.retract
        return jax.grad(lambda y, *x: function(moved(q, y), *x), places)(jnp.zeros(self.n), *others)

    def jacobian(self, function, q):
        return value_and_jacobian(lambda y: function(self.retract(q, y)), jnp.zeros(self.n))[1]

    def balance(self, p_rate, v, p):
        return p_rate - self._each("coadjoint", v, p)

    def retract(self, q, d):
        return q + self._of_parts("increment", "qv", q, d)

    def walk(self, q, y, z):
        way = self._of_parts("walk", "qvv", q, y, z)
        return jnp.where(self.tells_way(y) & self.tells_way(z), way, jnp.nan)

    def cross_interval(self, q, d):
        return jnp.where(self.tells_way(0.5 * d), self._of_parts("cross", "qv", q, 0.5 * d), jnp.nan)

    @functools.partial(jax.jit, static_argnums=(0, 1, 2))
    def _of_parts(self, method: str, kinds: str, *given: Any) -> Any:
        """A method of every group, at positions (q) and vectors (v)."""
        split = {"q": self.positions, "v": self.velocities}
        rows = zip(self.parts, *(split[kind](x) for kind, x in zip(kinds, given, strict=True)), strict=True)
        return jnp.concatenate([getattr(g, method)(*x) for g, *x in rows])

    def _each(self, method: str, *vectors: Any) -> Any:
        return self._of_parts(method, "v" * len(vectors), *vectors)

    def _excess(self, q):
        return self._of_parts("excess", "q", q)

    def move(self, q, d):
        """q·τ(d), in the group to the last digit."""
        end = self.retract(q, d)
        return end + self._excess(end)

    @property
    def identity(self) -> Float[np.ndarray, "size"]:
        """The unit element as it is stored."""
        return np.concatenate([g.identity for g in self.parts])

    def tells_way(self, half):
        """True if no part turns by half a turn in an interval with this half."""
        turns = [g.turn_square(y) for g, y in zip(self.parts, self.velocities(half), strict=True)]
        return functools.reduce(jnp.logical_and, [x < 1.0 for x in turns])

    def trivialise(self, y, x):
        """T(y)x = τ(y)⁻¹dτ(y)[x]."""
        return self._each("trivialise", y, x)

    def coordinates_around(self, origin: Any, q: Any) -> Any:
        """y with q = origin·τ(y), where they are less than half a turn apart."""
        return self._each("whole", self.between(origin, q))

    def differences(self, a, b):
        return at_rows(self, "between", a, b)

    def along(self, q, d):
        return at_rows(self, "move", q, d)

    def magnitudes(self, q: Any) -> Any:
        """The largest number that each part of a position, or of many, is stored by, along each velocity."""
        xp: Any = jnp if is_traced(q) else np
        parts = zip(self.parts, self.positions(q), strict=True)
        return xp.concatenate([xp.full(g.n, xp.max(xp.abs(x))) for g, x in parts])

    def extent(self, q):
        largest, moved = self.magnitudes(q), np.ptp(self.differences(q[:1], q), axis=0)
        return largest, np.where(moved > STILL * largest, moved, 0.0)

    def variation(self, v, d, rate):
        return rate + self._each("bracket", v, d)

    def to_body(self, q, d):
        return self._of_parts("to_body", "qv", q, d)

    def origin(self, q):
        return q, np.zeros(self.n)

    @trace_once
    def canonical(self, origin, q, *covectors):
        x, slope = value_and_jacobian(lambda y: self.between(origin, self.retract(q, y)), jnp.zeros(self.n))
        return x, *(jnp.linalg.solve(slope.T, p) for p in covectors)

    def midway(self, q0, v0, q1, v1, h):
        d = self.between(q0, q1)
        return self.retract(q0, 0.5 * d + 0.125 * h * (v0 - v1)), 1.5 / h * d - 0.25 * (v0 + v1)

    def ends(self, weight, h, v, by_q, by_v):
        y = 0.5 * h * v
        left = self._each("share", -y, h * by_q) - self._each("carry", -y, by_v)
        return left, self._each("carry", y, by_v) + self._each("share", y, h * by_q)

    def action_ends(self, weight, h, q, way, v, action):
        left, right = super().action_ends(weight, h, q, way, v, action)
        if way is not None:  # its part of ℓ_g, A(-y)ᵀℓ_g, is of lower degree in y than ℓ_g
            pulled, by_v = jax.grad(lambda x, w: action(self.point(q, way, x), w), (0, 1))(jnp.zeros(self.n), v)
            left = h * pulled - self._each("carry", -0.5 * h * v, by_v)
        return left, right

    def impulse(self, h, v, force, end):
        return self._each("share", (0.5 if end else -0.5) * h * v, h * force)

    def pull_back(self, y, covectors):
        return covectors @ jax.jacfwd(lambda w: self.trivialise(y, w))(jnp.zeros_like(y))

    def between(self, a, b):
        """x with τ(x/2)² = a⁻¹b in each part."""
        return self._of_parts("between", "qq", a, b)


def _labels(names: Sequence[str], suffixes: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(f"{x}.{s}" if s else x for x, own in zip(names, suffixes, strict=True) for s in own)


def _split(x: Any, lengths: Sequence[int]) -> list[Any]:
    ends = np.cumsum(lengths).tolist()
    return [x[..., end - length : end] for length, end in zip(lengths, ends, strict=True)]


def _one_row(found: Any, name: str) -> Any:
    if found.ndim != 1:
        raise ValueError(f"{name}: found {found.shape[0]} runs of {found.shape[-1]} numbers; give one, or call ensemble")
    return found


def _check_given(value: Any, name: str, columns: Sequence[str]) -> Any:
    if value is None:
        raise TypeError(f"{name}: is missing; give {', '.join(columns)}")
    return value


class Columns(tuple[str, ...]):
    """The names of the stored numbers, and the space that they belong to."""

    space: Product

    def __new__(cls, space: Product) -> Columns:
        made = super().__new__(cls, space.columns)
        made.space = space
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and self.space == other.space

    def __hash__(self) -> int:
        return hash((tuple(self), self.space))

    def __reduce__(self) -> tuple:
        return Columns, (self.space,)


def columns_of(coordinates: Mapping[str, Any]) -> Columns:
    """The columns of a mapping from names to groups, or to numbers n for Rⁿ; TypeError, ValueError naming what is wrong."""
    if not coordinates:
        raise ValueError("coordinates: found an empty mapping; give names with groups, such as {'R': SO3(), 'x': 3}")
    parts = []
    for name, given in coordinates.items():
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"coordinates: found the name {name!r}; give names such as 'R', by which q.R is read")
        if isinstance(given, type) and issubclass(given, Group) and hasattr(given, "columns"):
            given = given()
        if not isinstance(given, Group):
            if isinstance(given, bool) or not isinstance(given, int | np.integer):
                raise TypeError(f"coordinates[{name!r}]: found {described(given)}; give SO2, SO3, SE2, SE3, or n for Rⁿ")
            given = Euclidean(whole_number(given, f"coordinates[{name!r}]"))
        parts.append(given)
    return Columns(Product(tuple(coordinates), tuple(parts)))


_COLUMNS = {g.columns: g for g in (SO2(), SO3(), SE2(), SE3())}


def space_of_columns(columns: Sequence[str]) -> Product | None:
    """The space whose stored numbers have these names, as `Product.columns` writes them; None where they have others."""
    found: dict[str, list[str]] = {}
    for column in columns:
        name, _, suffix = column.partition(".")
        found.setdefault(name, []).append(suffix)
    parts = [_COLUMNS.get(tuple(own)) or _euclidean(own) for own in found.values()]
    if any(g is None for g in parts) or not any("." in column for column in columns):
        return None
    return Product(tuple(found), tuple(g for g in parts if g is not None))


def _euclidean(suffixes: Sequence[str]) -> Euclidean | None:
    own = Euclidean(len(suffixes))
    return own if tuple(suffixes) == own.columns else None
