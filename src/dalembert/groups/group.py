"""The groups: what is stored, and the maps of a step, in the left trivialisation ξ = g⁻¹ġ.

τ is Cayley's map of ad, τ(y) ≈ exp(y) to third order, with τ(-y) = τ(y)⁻¹ and without a trigonometric function; on SE(3) it
is that of SO(3) over dual numbers ω + εv. With T(y)δ = τ(y)⁻¹ dτ(y)[δ] and B = T⁻¹, A = (1 + Ad_{τ(-y)})⁻¹:

    A = ½(1 + ½ad),    B = 1 + ½ad + ¼P,    P = yyᵀ on SO(3).

Source: the Cayley map and its derivatives as in Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.8.
"""

import abc
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.groups.given import Pose, nearest_pose, nearest_turn, pose_of, read_numbers, rotation_of
from dalembert.numbers import is_traced

Stored = Float[Array, "size"]
Velocity = Float[Array, "n"]
Covector = Float[Array, "n"]


class Group(abc.ABC):
    """A configuration space with a multiplication: Rⁿ, SO(2), SO(3), SE(2), SE(3).

    Where a group commutes, τ is exp, and ad and P vanish: so are the methods here.

    Attributes:
        n: its dimension.
        columns: names of the numbers that are stored.
        axes: names of the velocities.
        retraction: τ, by which a step moves: 'cayley', on SO3 also 'exp'.
        space: the dimension of the space that it turns.
        unit: how many of the first stored numbers are of length 1 together.
        twofold: how many of them may change their sign together: those of a quaternion.
        commutes: True where motions of space and of the body are the same.

    Example:
        >>> da.groups.SO3().n, da.groups.SO3().columns
        (3, ('w', 'x', 'y', 'z'))
    """

    n: int
    columns: tuple[str, ...]
    axes: tuple[str, ...]
    retraction: str = "cayley"
    space: int = 3
    unit: int = 0
    twofold: int = 0
    commutes: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        return type(self), self.n, self.retraction

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def size(self) -> int:
        """How many numbers are stored."""
        return len(self.columns)

    @property
    def identity(self) -> Float[np.ndarray, "size"]:
        """The unit element as it is stored."""
        return np.eye(self.size)[0]

    @abc.abstractmethod
    def increment(self, q: Stored, y: Velocity, over: Any = 0.0) -> Stored:
        """q·τ(y) - q, without cancellation where y is small. over: the excess of |q|² over 1, which is taken back."""

    def walk(self, q: Stored, y: Velocity, z: Velocity) -> Stored:
        """q·τ(y)·τ(z) - q, brought back into the group."""
        way = self.increment(q, y)
        return way + self.increment(q + way, z, self._over(q + way))

    def cross(self, q: Stored, y: Velocity) -> Stored:
        """q·τ(y)² - q, brought back into the group."""
        return self.walk(q, y, y)

    def _over(self, q: Stored) -> Any:
        return q[: self.unit] @ q[: self.unit] - 1.0 if self.unit else 0.0

    def excess(self, q: Stored) -> Stored:
        """The change that brings q back into the group, to first order: what rounding left."""
        return jnp.concatenate([-0.5 * self._over(q) * q[: self.unit], jnp.zeros(self.size - self.unit)])

    def retract(self, q: Stored, y: Velocity) -> Stored:
        """q·τ(y)."""
        return q + self.increment(q, y)

    def coadjoint(self, y: Velocity, p: Covector) -> Covector:
        """ad*_y p = ad_yᵀ p."""
        return jnp.zeros_like(p)

    def bracket(self, y: Velocity, x: Velocity) -> Velocity:
        """ad_y x."""
        return jnp.zeros_like(x)

    def to_body(self, q: Stored, x: Velocity) -> Velocity:
        """Ad_{q⁻¹} x: the velocity of q along exp(sx)·q, a motion of space."""
        return x

    def quadratic(self, y: Velocity, p: Covector) -> Covector:
        """Pᵀp, the quadratic part of B."""
        return jnp.zeros_like(p)

    def portion(self, y: Velocity, x: Velocity) -> Velocity:
        """A(y)x, the transpose of `share`."""
        return jax.vjp(lambda p: self.share(y, p), x)[1](x)[0]

    def share(self, y: Velocity, p: Covector) -> Covector:
        """A(y)ᵀp."""
        return 0.5 * p + 0.25 * self.coadjoint(y, p)

    def carry(self, y: Velocity, p: Covector) -> Covector:
        """2A(y)ᵀB(y)ᵀp: a momentum from the middle of an interval to its end."""
        return self.share(y, 2.0 * p + self.coadjoint(y, p) + 0.5 * self.quadratic(y, p))

    def divide(self, y: Velocity, x: Velocity, sign: float = 1.0) -> Velocity:
        """x/(1 + sign·¼|y|²), on SE(3) of dual numbers."""
        return x

    def whole(self, x: Velocity) -> Velocity:
        """y with τ(y) = τ(x/2)²: below half a turn."""
        return self.divide(0.5 * x, x, -1.0)

    def trivialise(self, y: Velocity, x: Velocity) -> Velocity:
        """T(y)x = τ(y)⁻¹dτ(y)[x]."""
        return self.divide(y, x - 0.5 * self.bracket(y, x))

    @abc.abstractmethod
    def show(self, q: Stored) -> Any:
        """The element as the functions of a user take it."""

    @abc.abstractmethod
    def show_moved(self, shown: Any, y: Velocity) -> Any:
        """`show` of q·τ(y), from that of q: its derivatives by y have few operations."""

    def show_beside(self, shown: Any, y: Velocity, x: Velocity) -> Any:
        """`show` of q·τ(y)·τ(A(-y)x) to first order in x, from that of q."""
        return self.show_moved(self.show_moved(shown, y), self.portion(-y, x))

    def store(self, value: Any, name: str) -> Any:
        """The numbers that are stored of what a user gives; ValueError where it is no element."""
        return (pose_of if self.size > self.unit else rotation_of)(value, self.space, name)

    def nearest(self, value: Any, name: str) -> Any:
        """The nearest element to what a user gives, in the same form."""
        return (nearest_pose if self.size > self.unit else nearest_turn)(value, self.space, name)

    @abc.abstractmethod
    def between(self, a: Stored, b: Stored) -> Velocity:
        """x with τ(x/2)² = a⁻¹b, the shorter way round."""

    def turn_square(self, y: Velocity) -> Float[Array, ""]:
        """The square of how far τ(y)² turns: at 1, half a turn, its ends do not tell which way it went."""
        return jnp.zeros(())


# JAX keeps the traces of these functions and of their derivatives, which every program with a rotation needs many times;
# of the methods of a space too.
trace_once: Any = functools.partial(jax.jit, static_argnums=0)


@jax.jit
def cross(a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
    """a × b, of scalars: jnp.cross gathers columns."""
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@jax.jit
def multiply(p: Float[Array, "4"], q: Float[Array, "4"]) -> Float[Array, "4"]:
    """The product of two quaternions (w, x, y, z)."""
    first = p[0] * q[0] - (p[1] * q[1] + p[2] * q[2] + p[3] * q[3])
    return jnp.concatenate([first[None], p[0] * q[1:] + q[0] * p[1:] + cross(p[1:], q[1:])])


@jax.jit
def rotation(q: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """R of a unit quaternion (w, x, y, z), from the body's axes to those of space."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


@jax.jit
def _numerator(y: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """ŷ + ½ŷ², of which τ(y) - 1 is the quotient by 1 + ¼|y|²."""
    first = jnp.stack([cross(e, y) for e in np.eye(3)])
    return first + 0.5 * first @ first


@jax.jit
def _turn_rows(R: Float[Array, "3 3"], y: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """R·τ(y)."""
    return R + R @ _numerator(y) / (1.0 + 0.25 * (y @ y))


@jax.jit
def relative(a: Float[Array, "4"], b: Float[Array, "4"]) -> Float[Array, "4"]:
    """a⁻¹b of unit quaternions, the shorter way round."""
    f = multiply(conjugate(a), b)
    return jnp.where(f[0] < 0.0, -f, f)


def conjugate(q: Float[Array, "4"]) -> Float[Array, "4"]:
    """q⁻¹ of a unit quaternion."""
    return q * jnp.array([1.0, -1.0, -1.0, -1.0])


@jax.jit
def turn(q: Float[Array, "4"], x: Float[Array, "3"]) -> Float[Array, "3"]:
    """R(q) x."""
    double = 2.0 * cross(q[1:], x)
    return x + q[0] * double + cross(q[1:], double)


class Euclidean(Group):
    """Rⁿ, with τ(y) = y.

    Args:
        size: n.

    Example:
        >>> da.groups.Euclidean(2).retract(jnp.zeros(2), jnp.ones(2)).tolist()
        [1.0, 1.0]
    """

    commutes = True

    def __init__(self, size: int):
        self.n = size
        self.columns = self.axes = tuple(str(i + 1) for i in range(size)) if size > 1 else ("",)

    def __repr__(self) -> str:
        return f"Euclidean({self.n})"

    @property
    def identity(self):
        return np.zeros(self.n)

    def increment(self, q, y, over=0.0):
        return y

    def show(self, q):
        return q

    def show_moved(self, shown, y):
        return shown + y

    def store(self, value, name):
        found = read_numbers(value, name)
        found = found[..., None] if self.n == 1 and found.shape[-1:] != (1,) else found  # as path["x"] gives many
        if found.shape[-1:] != (self.n,):
            raise ValueError(f"{name}: found shape {found.shape}; give {self.n} numbers")
        return found

    def nearest(self, value, name):
        return value

    def between(self, a, b):
        return b - a


class SO3(Group):
    """Rotations of space: a unit quaternion is stored, functions are given the matrix R (3, 3), body to space, and ω (3,) in
    the body's axes.

    Args:
        retraction: τ, by which a step moves: 'cayley', with the fewest operations, or 'exp', with smaller errors.

    Raises:
        ValueError: the retraction is another.

    Example:
        >>> body = da.System(lambda q, v, p: 0.5 * v.R @ (p["I"] * v.R), coordinates={"R": da.groups.SO3()},
        ...                  parameters={"I": [1.0, 2.0, 3.0]})
        >>> path = da.simulate(body, {"R": np.eye(3)}, {"R": [0.1, 1.5, 0.3]}, h=0.05, steps=20)
        >>> path["R"].shape
        (21, 3, 3)
    """

    n = 3
    columns = ("w", "x", "y", "z")
    axes = ("1", "2", "3")
    unit = twofold = 4

    def __init__(self, retraction: str = "cayley"):
        if retraction not in ("cayley", "exp"):
            raise ValueError(f"retraction: found {retraction!r}; give 'cayley' or 'exp'")
        self.retraction = retraction

    def __repr__(self) -> str:
        return "SO3()" if self.retraction == "cayley" else "SO3('exp')"

    def increment(self, q, y, over=0.0):
        y = self._of_cayley(y)[0]
        s = 0.25 * (y @ y)
        s = s + over * (1.0 + s)
        root = jnp.sqrt(1.0 + s)
        return multiply(q, jnp.concatenate([(-s / (root * (1.0 + root)))[None], 0.5 * y / root]))

    def walk(self, q, y, z):
        y, z = self._of_cayley(y)[0], self._of_cayley(z)[0]
        turned = 0.5 * (y + z) + 0.25 * cross(y, z)
        square, over = (1.0 + 0.25 * (y @ y)) * (1.0 + 0.25 * (z @ z)), self._over(q)
        whole = square + over * square
        length = jnp.sqrt(whole)  # no quotient by it: it takes as long as 1/whole, at the same time
        less = (turned @ turned + over * square) / (whole + length * (1.0 - 0.25 * (y @ z)))  # below half a turn in each
        return multiply(q, jnp.concatenate([-less[None], turned * (length * (1.0 / whole))]))

    def cross(self, q, y):
        y = self._of_cayley(y)[0]
        s, over = 0.25 * (y @ y), 0.5 * self._over(q)
        return multiply(q, jnp.concatenate([-(2.0 * s + over * (1.0 - s))[None], (1.0 - over) * y]) / (1.0 + s))

    def _of_cayley(self, y):
        """c = κy with exp(y) = cay(c), κ, and 2dκ/d|y|², by the continued fraction of the tangent: to rounding below half a
        turn, without a branch at 0."""
        if self.retraction == "cayley":
            return y, 1.0, 0.0
        u = 0.25 * (y @ y)
        above = 2027025.0 + u * (-270270.0 + u * (6930.0 - 36.0 * u))
        below = 2027025.0 + u * (-945945.0 + u * (51975.0 + u * (-630.0 + u)))
        rates = (-270270.0 + u * (13860.0 - 108.0 * u)), (-945945.0 + u * (103950.0 + u * (-1890.0 + 4.0 * u)))
        k = above / below
        return k * y, k, 0.5 * (rates[0] - k * rates[1]) / below

    def coadjoint(self, y, p):
        return cross(p, y)

    def bracket(self, y, x):
        return cross(y, x)

    def to_body(self, q, x):
        return turn(conjugate(q), x)

    def share(self, y, p):
        return super().share(self._of_cayley(y)[0], p)

    def carry(self, y, p):
        c, k, slope = self._of_cayley(y)
        if self.retraction == "exp":  # (dc/dy)⁻ᵀ, dc/dy = κ + slope yyᵀ
            p = (p - (slope / (k + slope * (y @ y)) * (y @ p)) * y) / k
        return (1.0 - 0.25 * (c @ c)) * p + cross(p, c) + (0.5 * (c @ p)) * c

    def divide(self, y, x, sign=1.0):
        return x / (1.0 + sign * 0.25 * (y @ y))

    def whole(self, x):
        return super().whole(x) if self.retraction == "cayley" else x

    def trivialise(self, y, x):
        c, k, slope = self._of_cayley(y)
        return super().trivialise(c, k * x + (slope * (y @ x)) * y)

    def show(self, q):
        return rotation(q)

    def show_moved(self, shown, y):
        return _turn_rows(shown, self._of_cayley(y)[0])

    def show_beside(self, shown, y, x):
        """τ(y)A(-y)x^ is half the derivative of N along x less ½(y·x) of N/d, τ = 1 + N/d: of low degree in y."""
        y = self._of_cayley(y)[0]
        numerator, rate = jax.jvp(_numerator, (y,), (x,))
        way = shown @ numerator / (1.0 + 0.25 * (y @ y))
        return shown + way + 0.5 * (shown @ rate - 0.5 * (y @ x) * way)

    def between(self, a, b):
        f = relative(a, b)
        x = 4.0 * f[1:] / (1.0 + f[0])
        if self.retraction == "cayley":
            return x
        s = 0.0625 * (x @ x)  # tan² of a quarter of the angle
        small = s < 1e-4
        root = jnp.sqrt(jnp.where(small, 1.0, s))
        return jnp.where(small, 1.0 - s * (1.0 / 3.0 - s * (0.2 - s / 7.0)), jnp.arctan(root) / root) * x

    def turn_square(self, y):
        return (0.25 if self.retraction == "cayley" else (2.0 / np.pi) ** 2) * (y @ y)


class SE3(Group):
    """Rigid motions of space: a unit quaternion and the position are stored, functions are given a Pose with R (3, 3) and
    x (3,), and (ω, v) (6,), both in the body's axes.

    Example:
        >>> da.groups.SE3().show(jnp.array([1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0])).x.tolist()
        [1.0, 2.0, 3.0]
    """

    n = 6
    columns = ("w", "x", "y", "z", "x1", "x2", "x3")
    axes = ("ω1", "ω2", "ω3", "v1", "v2", "v3")
    unit = twofold = 4

    def increment(self, q, y, over=0.0):
        w, v = y[:3], y[3:]
        way = (v + 0.5 * cross(w, v)) / (1.0 + 0.25 * (w @ w))
        return jnp.concatenate([SO3().increment(q[:4], w, over), turn(q[:4], way)])

    def coadjoint(self, y, p):
        w, v = y[:3], y[3:]
        return jnp.concatenate([cross(p[:3], w) + cross(p[3:], v), cross(p[3:], w)])

    def bracket(self, y, x):
        return jnp.concatenate([cross(y[:3], x[:3]), cross(y[3:], x[:3]) + cross(y[:3], x[3:])])

    def to_body(self, q, x):
        back = conjugate(q[:4])
        return jnp.concatenate([turn(back, x[:3]), turn(back, x[3:] + cross(x[:3], q[4:]))])

    def quadratic(self, y, p):
        w, v = y[:3], y[3:]
        turned = w @ p[3:]
        return jnp.concatenate([(w @ p[:3] + v @ p[3:]) * w + turned * v, turned * w])

    def divide(self, y, x, sign=1.0):
        w, v = y[:3], y[3:]
        d = 1.0 + sign * 0.25 * (w @ w)
        return jnp.concatenate([x[:3] / d, x[3:] / d - (sign * 0.5 * (w @ v) / (d * d)) * x[:3]])

    def show(self, q):
        return Pose(rotation(q[:4]), q[4:])

    def show_moved(self, shown, y):
        w, v = y[:3], y[3:]
        return Pose(_turn_rows(shown.R, w), shown.x + shown.R @ ((v + 0.5 * cross(w, v)) / (1.0 + 0.25 * (w @ w))))

    def between(self, a, b):
        f = relative(a[:4], b[:4])
        d = turn(conjugate(a[:4]), b[4:] - a[4:])
        e = 0.5 * multiply(jnp.concatenate([jnp.zeros(1), d]), f)
        w = 4.0 * f[1:] / (1.0 + f[0])
        return jnp.concatenate([w, 4.0 * e[1:] / (1.0 + f[0]) - 4.0 * e[0] * f[1:] / (1.0 + f[0]) ** 2])

    def turn_square(self, y):
        return 0.25 * (y[:3] @ y[:3])


class SO2(Group):
    """Turns of the plane: (cos, sin) is stored, functions are given the matrix (2, 2) and ω (1,); τ(y) turns by y. It counts
    no turns: where they matter an angle is a coordinate of Rⁿ.

    Example:
        >>> da.groups.SO2().columns
        ('cos', 'sin')
    """

    commutes = True
    n = 1
    columns = ("cos", "sin")
    space = unit = 2
    axes = ("",)

    def increment(self, q, y, over=0.0):
        half = jnp.sin(0.5 * y[0])
        return _turn_plane(q, -2.0 * half * half, jnp.sin(y[0]), over)

    def show(self, q):
        return _plane_rotation(q)

    def show_moved(self, shown, y):
        return _plane_rotation(self.retract(shown[:, 0], y))

    def between(self, a, b):
        return jnp.arctan2(a[0] * b[1] - a[1] * b[0], a @ b)[None]

    def turn_square(self, y):
        return (y[0] / (0.5 * np.pi)) ** 2


class SE2(Group):
    """Rigid motions of the plane: (cos, sin, x, y) is stored, functions are given a Pose with R (2, 2) and x (2,), and
    (ω, v₁, v₂) in the body's axes. It counts no turns.

    Example:
        >>> da.groups.SE2().n
        3
    """

    n = 3
    columns = ("cos", "sin", "x1", "x2")
    space = unit = 2
    axes = ("ω", "v1", "v2")

    def increment(self, q, y, over=0.0):
        w, a, b = y[0], y[1], y[2]
        d = 1.0 + 0.25 * w * w
        way = (a - 0.5 * w * b) / d, (b + 0.5 * w * a) / d
        moved = jnp.stack([q[0] * way[0] - q[1] * way[1], q[1] * way[0] + q[0] * way[1]])
        return jnp.concatenate([_turn_plane(q, -0.5 * w * w / d, w / d, over), moved])  # the angle is 2 atan(w/2)

    def coadjoint(self, y, p):
        return jnp.stack([p[1] * y[2] - p[2] * y[1], p[2] * y[0], -p[1] * y[0]])

    def bracket(self, y, x):
        return jnp.stack([jnp.zeros_like(y[0]), y[2] * x[0] - y[0] * x[2], y[0] * x[1] - y[1] * x[0]])

    def to_body(self, q, x):
        a, b = x[1] - x[0] * q[3], x[2] + x[0] * q[2]
        return jnp.stack([x[0], q[0] * a + q[1] * b, q[0] * b - q[1] * a])

    def quadratic(self, y, p):
        return jnp.concatenate([(y[0] * (y @ p))[None], jnp.zeros(2)])

    def divide(self, y, x, sign=1.0):
        return x / (1.0 + sign * 0.25 * y[0] * y[0])

    def show(self, q):
        return Pose(_plane_rotation(q), q[2:])

    def show_moved(self, shown, y):
        return self.show(self.retract(jnp.concatenate([shown.R[:, 0], shown.x]), y))

    def between(self, a, b):
        cosine, sine = a[:2] @ b[:2], a[0] * b[1] - a[1] * b[0]
        first = jnp.sqrt(0.5 * (1.0 + cosine))  # cos and sin of half the angle
        last = 0.5 * sine / first
        x = b[2:] - a[2:]
        d0, d1 = a[0] * x[0] + a[1] * x[1], a[0] * x[1] - a[1] * x[0]
        return jnp.stack([4.0 * last, 2.0 * (first * d0 + last * d1), 2.0 * (first * d1 - last * d0)]) / (1.0 + first)

    def turn_square(self, y):
        return 0.25 * y[0] * y[0]


def _turn_plane(q: Float[Array, "..."], less: Any, sine: Any, over: Any) -> Float[Array, "2"]:
    """The change of (cos, sin) by an angle of which cos - 1 and sin are given."""
    less, sine = less - 0.5 * over * (1.0 + less), sine - 0.5 * over * sine
    return jnp.stack([q[0] * less - q[1] * sine, q[1] * less + q[0] * sine])


def _plane_rotation(q: Float[Array, "..."]) -> Float[Array, "2 2"]:
    return jnp.stack([jnp.stack([q[0], -q[1]]), jnp.stack([q[1], q[0]])])


def at_rows(space: Any, method: str, *given: Any) -> Any:
    """A method of single points at many, (…, ·) each: XLA compiles it for powers of two, not for every length of a path."""
    if is_traced(*given):
        signature = ",".join(f"(k{i})" for i in range(len(given)))
        return jnp.vectorize(getattr(space, method), signature=f"{signature}->(n)")(*given)
    shape = np.broadcast_shapes(*(np.shape(x)[:-1] for x in given))
    count = math.prod(shape)
    places = np.minimum(np.arange(1 << max(count - 1, 0).bit_length()), count - 1) if count else np.arange(0)
    rows = [np.broadcast_to(x, (*shape, np.shape(x)[-1])).reshape(count, np.shape(x)[-1])[places] for x in given]
    found = np.asarray(_of_rows(space, method, *rows))[:count]
    return found.reshape(*shape, found.shape[-1])


@functools.partial(jax.jit, static_argnums=(0, 1))
def _of_rows(space: Any, method: str, *rows: Any) -> Any:
    return jax.vmap(getattr(space, method))(*rows)
