"""Shapes of a system as data: those that `draw=` returns for one state, and a drawing of them over time.

A shape becomes points (k, d): those of an outline that does not move in the shape itself. Over a path they are one array
(frames, k, d), so that matplotlib, the page and a stored file need to know nothing else.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.numbers import as_array, as_flag, as_number, described
from dalembert.tracing import seldom

__all__ = ["Ball", "Body", "Dots", "Rod", "Wheel"]


class Depicted:
    """The problem of a path or a solution, as long as it lives; all subjects are equal, and
    equal to none, as they are no part of a result.

    Never stored or pickled: what is loaded has the drawing that the file keeps, and no problem.

    Attributes:
        problem: a System, a DiscreteSystem or a VariationalProblem, or None.
        parameters: those of each run of an ensemble, {name: (B, …)}, in the place of the problem's.
        scheme: as given to the call.
        scene: the drawing that a file kept, or None.
    """

    __slots__ = ("parameters", "problem", "scene", "scheme")

    def __init__(
        self, problem: Any = None, parameters: Mapping[str, Any] | None = None, scheme: Any = None, scene: Any = None
    ):
        self.problem, self.parameters, self.scheme, self.scene = problem, parameters, scheme, scene

    def under(self, scheme: Any, each: Mapping[str, Any] | None = None) -> Depicted:
        """The same with a scheme, and with the parameters of many runs."""
        return Depicted(self.problem, each, scheme, self.scene)

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Depicted)

    def __hash__(self) -> int:
        return hash(None)

    def __reduce__(self):
        return Depicted, (None, None, None, self.scene)

    def lane(self, i: int) -> Any:
        """The problem of the i-th run, None where it is not known."""
        if self.problem is None or not self.parameters:
            return self.problem
        return self.problem.replace(**{name: values[i] for name, values in self.parameters.items()})


Points = Float[Array, "k d"]


class Drawn(eqx.Module):
    """A shape: points (k, d) in the plane, d = 2, or in space, d = 3."""

    @abc.abstractmethod
    def points(self) -> Points:
        """The k points of the shape."""

    @property
    def face(self) -> int:
        """Points of one face, 0 of what has none."""
        return 0

    @property
    def leaves_trail(self) -> bool:
        """True if the way of its points is drawn too."""
        return False


class Dots(Drawn):
    """k points: masses, joints, or the tip of a pen.

    Args:
        at: (k, 2) or (k, 3), or one point (2,) or (3,).
        trail: draw the path of the points too.

    Raises:
        ValueError: an array has another shape.
        TypeError: at does not hold numbers.

    Example:
        >>> da.Dots([[0.0, 0.0], [1.0, 0.0]]).points().shape
        (2, 2)
    """

    at: Points
    trail: bool = eqx.field(static=True)

    def __init__(self, at: Any, trail: bool = False):
        self.at, self.trail = _points(at, "at", 1), as_flag(trail, "trail")

    def points(self) -> Points:
        return self.at

    @property
    def leaves_trail(self) -> bool:
        return self.trail


class Rod(Drawn):
    """A line through k points: a rod, a chain, a spring, the ground. A line that does not move is drawn in grey.

    Args:
        at: (k, 2) or (k, 3), k ≥ 2.

    Raises:
        ValueError: an array has another shape.
        TypeError: at does not hold numbers.

    Example:
        >>> swinging = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), coordinates=("θ",),
        ...                      draw=lambda q: [da.Rod([[0.0, 0.0], [jnp.sin(q[0]), -jnp.cos(q[0])]])])
    """

    at: Points

    def __init__(self, at: Any):
        self.at = _points(at, "at", 2)

    def points(self) -> Points:
        return self.at


class Body(Drawn):
    """A filled polygon, or several with the same number of corners: a plate, a car seen from above, the faces of a box.

    Args:
        corners: (k, 2) or (k, 3), k ≥ 3, in order around the polygon; (faces, k, 2) or (faces, k, 3) for several. With
            `x`, a rotation R, (2, 2) or (3, 3), from the body's axes to those of space.
        x: (2,) or (3,), where the middle of the body is; then its corners are x + R X.
        shape: X, corners in the body's axes, with `x`; a box of sides 1, 0.6 and 0.3 by default.

    Raises:
        ValueError: an array has another shape.
        TypeError: corners does not hold numbers.

    Example:
        >>> da.Body.box([0.0, 0.0], [2.0, 1.0], angle=0.3).points().shape
        (4, 2)
        >>> da.Body(np.eye(3), [0.0, 0.0, 1.0]).points().shape  # draw=lambda q: da.Body(q.R, q.x)
        (24, 3)
    """

    corners: Float[Array, "..."]

    def __init__(self, corners: Any, x: Any = None, *, shape: Any = None):
        found = as_array(corners, "corners")
        if x is not None:
            found = _turn_corners(found, as_array(x, "x"), shape)
        elif shape is not None:
            raise ValueError("shape: belongs to a rotation and a position, Body(R, x, shape=…)")
        faces = found.ndim == 3 and found.shape[2] in (2, 3) and found.shape[1] > 2
        self.corners = found if faces else _points(found, "corners", 3)

    @classmethod
    def box(cls, centre: Any, size: Any, *, angle: Any = 0.0, rotation: Any = None) -> Body:
        """A rectangle of this size around a centre, turned by an angle; in space a box, turned by a rotation matrix (3,
        3).

        Args:
            centre: (2,) or (3,).
            size: (2,) or (3,), the lengths of the sides.
            angle: by which it is turned, in the plane.
            rotation: (3, 3), in space; its columns are the axes of the box. None: the box is not turned.
        """
        middle, half = as_array(centre, "centre"), 0.5 * as_array(size, "size")
        if middle.shape not in ((2,), (3,)) or half.shape != middle.shape:
            raise ValueError(f"centre, size: found shapes {middle.shape}, {half.shape}; give both (2,), or both (3,)")
        if middle.shape == (3,):
            return cls(jnp.eye(3) if rotation is None else rotation, middle, shape=half * _CUBE)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return cls(jnp.array([[cos, -sin], [sin, cos]]), middle, shape=half * _SQUARE)

    def points(self) -> Points:
        return self.corners.reshape(-1, self.corners.shape[-1])

    @property
    def face(self) -> int:
        return self.corners.shape[-2]


def _turn_corners(R: Any, x: Any, shape: Any) -> Any:
    """x + R X of every corner."""
    k = x.shape[-1] if x.ndim == 1 else 0
    if k not in (2, 3) or R.shape != (k, k):
        raise ValueError(f"corners, x: found shapes {R.shape}, {x.shape}; give a rotation (3, 3) and a position (3,), or 2")
    body = (
        0.5 * jnp.array([1.0, 0.6, 0.3])[:k] * (_CUBE if k == 3 else _SQUARE) if shape is None else as_array(shape, "shape")
    )
    if body.ndim < 2 or body.shape[-1] != k:
        raise ValueError(f"shape: found shape {body.shape}; give corners of {k} numbers")
    return x + body @ R.T


class Wheel(Drawn):
    """A circle with a spoke that shows how far it has turned: a wheel seen from the side, a disk in space.

    Args:
        centre: (2,) or (3,).
        radius: the radius of the rim.
        angle: by which it has turned; in the plane, counterclockwise from the x axis.
        axle: (3,) in space, the direction of the axle.

    Raises:
        ValueError: an array has another shape, or the axle is missing in space.
        TypeError: an argument is not a number.

    Example:
        >>> da.Wheel([0.0, 1.0], 0.5, angle=0.0).points().tolist()  # centre, end of the spoke, a quarter further
        [[0.0, 1.0], [0.5, 1.0], [0.0, 1.5]]
    """

    centre: Float[Array, "d"]
    radius: Float[Array, ""]
    angle: Float[Array, ""]
    axle: Float[Array, "3"] | None

    def __init__(self, centre: Any, radius: Any, angle: Any = 0.0, axle: Any = None):
        self.centre = _points(centre, "centre", 1)[0]
        self.radius = jnp.asarray(as_number(radius, "radius", "the radius, a number"))
        self.angle = jnp.asarray(as_number(angle, "angle", "an angle, a number"))
        self.axle = None if axle is None else as_array(axle, "axle")
        if (self.axle is not None and self.axle.shape != (3,)) or (self.axle is None) != (self.centre.shape == (2,)):
            found = "none" if self.axle is None else f"shape {self.axle.shape}"
            raise ValueError(f"axle: found {found}; a wheel in space has an axle (3,), one in the plane has none")

    def points(self) -> Points:
        """The centre, the end of the spoke, and the point of the rim a quarter of a turn further."""
        cos, sin = self.radius * jnp.cos(self.angle), self.radius * jnp.sin(self.angle)
        if self.axle is None:
            return self.centre + jnp.stack([jnp.zeros(2), jnp.stack([cos, sin]), jnp.stack([-sin, cos])])
        n = self.axle / jnp.linalg.norm(self.axle)
        helper = jnp.where(jnp.abs(n[2]) < 0.9, jnp.array([0.0, 0.0, 1.0]), jnp.array([1.0, 0.0, 0.0]))
        first = jnp.cross(helper, n)
        first = first / jnp.linalg.norm(first)
        second = jnp.cross(n, first)
        spoke, next_one = cos * first + sin * second, cos * second - sin * first
        return self.centre + jnp.stack([jnp.zeros(3), spoke, next_one])


class Ball(Drawn):
    """A sphere in space, such as a globe on which something moves. It is drawn so that things behind it can be seen.

    Args:
        centre: (3,).
        radius: the radius of the sphere.

    Raises:
        ValueError: an array has another shape.
        TypeError: an argument is not a number.

    Example:
        >>> da.Ball([0.0, 0.0, 0.0], 1.0).points().shape
        (2, 3)
    """

    centre: Float[Array, "3"]
    radius: Float[Array, ""]

    def __init__(self, centre: Any, radius: Any):
        self.centre = as_array(centre, "centre")
        self.radius = jnp.asarray(as_number(radius, "radius", "the radius, a number"))
        if self.centre.shape != (3,):
            raise ValueError(f"centre: found shape {self.centre.shape}; a ball is in space, give (3,)")

    def points(self) -> Points:
        """The centre, and a point of the sphere."""
        return jnp.stack([self.centre, self.centre + self.radius * jnp.array([1.0, 0.0, 0.0])])


_SQUARE = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
_CUBE = np.array([
    [[-1.0, -1, -1], [-1, 1, -1], [-1, 1, 1], [-1, -1, 1]], [[1.0, -1, -1], [1, 1, -1], [1, 1, 1], [1, -1, 1]],
    [[-1.0, -1, -1], [1, -1, -1], [1, -1, 1], [-1, -1, 1]], [[-1.0, 1, -1], [1, 1, -1], [1, 1, 1], [-1, 1, 1]],
    [[-1.0, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1]], [[-1.0, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]],
])  # fmt: skip


def _points(value: Any, name: str, least: int) -> Points:
    """(k, 2) or (k, 3); of one point (1, d)."""
    found = as_array(value, name)
    found = found[None] if found.ndim == 1 and least == 1 else found
    if found.ndim != 2 or found.shape[1] not in (2, 3) or found.shape[0] < least:
        raise ValueError(f"{name}: found shape {found.shape}; give points (k, 2) or (k, 3), k at least {least}")
    return found


KINDS = ("dots", "rod", "body", "wheel", "ball")


class Outline(NamedTuple):
    """One shape over all frames.

    Attributes:
        kind: one of KINDS.
        at: (frames, k, d) points, see `Drawn.points`; (1, k, d) of what does not move.
        face: corners of one face of a body.
        trail: whether the way of the points is drawn.
    """

    kind: str
    at: Float[np.ndarray, "frames k d"]
    face: int = 0
    trail: bool = False

    @property
    def fixed(self) -> bool:
        return len(self.at) == 1


@dataclasses.dataclass(frozen=True)
class Scene:
    """A drawing at times t. Read-only arrays.

    Attributes:
        t: (frames,) times.
        outlines: the shapes.
        axes: names of what is along x, y and z, "" where there is no name.
        equal: whether one unit has the same length along all axes.
    """

    t: Float[np.ndarray, "frames"]
    outlines: tuple[Outline, ...]
    axes: tuple[str, ...] = ("x", "y", "z")
    equal: bool = True

    @property
    def dimension(self) -> int:
        return self.outlines[0].at.shape[2]

    @property
    def box(self) -> Float[np.ndarray, "2 d"]:
        """The least and the largest coordinates of everything in it."""
        lows, highs = zip(*(_extent(outline) for outline in self.outlines), strict=True)
        return np.stack([np.min(lows, axis=0), np.max(highs, axis=0)])


def common_box(scenes: Sequence[Scene]) -> tuple[np.ndarray, np.ndarray, bool]:
    """The least and the largest coordinates of several drawings, and whether one unit is as long along all axes."""
    boxes = np.stack([scene.box for scene in scenes])
    return boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0), all(scene.equal for scene in scenes)


def scene_of(problem: Any, t: Float[np.ndarray, "frames"], q: Float[np.ndarray, "frames n"]) -> Scene | None:
    """The drawing of a problem at states q; None where it has no `draw=`.

    ValueError where draw returns anything but shapes, or shapes in the plane beside shapes in space.
    """
    draw = getattr(problem, "draw", None)
    if draw is None:
        return None
    points, kinds = _shape_points(draw, problem, np.asarray(t, dtype=float), np.asarray(q, dtype=float))
    outlines = tuple(
        Outline(kind, _still(np.asarray(at)), face, trail) for (kind, face, trail), at in zip(kinds, points, strict=True)
    )
    return Scene(np.asarray(t, dtype=float), outlines)


@seldom
def _shape_points(draw: Callable, problem: Any, t: Any, q: Any) -> tuple[tuple, tuple]:
    """Points of each shape over all frames; what each shape is stays behind as text."""
    kinds: list[Any] = []
    by_name = inspect.signature(draw).parameters.get("t")
    timed = by_name is not None and by_name.kind is inspect.Parameter.KEYWORD_ONLY

    def points_at(s, x) -> tuple:
        shapes = as_shapes(problem.called(functools.partial(draw, t=s) if timed else draw, x, t=s))
        kinds[:] = [(type(shape).__name__.lower(), shape.face, shape.leaves_trail) for shape in shapes]
        return tuple(shape.points() for shape in shapes)

    points = jax.vmap(points_at)(jnp.asarray(t), jnp.asarray(q))
    return points, tuple(kinds)


def as_shapes(found: Any) -> list[Drawn]:
    """Shapes that draw returned, one or several, all in the plane or all in space."""
    shapes = [found] if isinstance(found, Drawn) else found
    if not isinstance(shapes, Sequence) or isinstance(shapes, str) or not shapes:
        raise TypeError(
            f"draw: returns {described(found)}; shapes are needed: Dots, Rod, Body, Wheel, Ball, or a list of them"
        )
    for i, shape in enumerate(shapes):
        if not isinstance(shape, Drawn):
            raise TypeError(f"draw: item {i} is {described(shape)}; give Dots, Rod, Body, Wheel or Ball")
    if len({shape.points().shape[1] for shape in shapes}) > 1:
        raise ValueError("draw: found shapes in the plane and shapes in space; give all points (x, y), or all (x, y, z)")
    return list(shapes)


def curve_scene(
    t: Float[np.ndarray, "frames"], at: Float[np.ndarray, "frames d"], axes: Sequence[str], equal: bool
) -> Scene:
    """A point with its trail: the drawing of what brings none."""
    return Scene(np.asarray(t, dtype=float), (Outline("dots", np.asarray(at)[:, None], trail=True),), tuple(axes), equal)


def _still(at: np.ndarray) -> np.ndarray:
    """One frame of what does not move."""
    moves = at.size and len(at) > 1 and bool(np.any(at != at[:1]))
    return at if moves else at[:1]


def _extent(outline: Outline) -> tuple[np.ndarray, np.ndarray]:
    at = outline.at
    if outline.kind in ("wheel", "ball"):
        centre = at[:, 0]
        radius = np.linalg.norm(at[:, 1] - centre, axis=1)[:, None]
        at = np.stack([centre - radius, centre + radius], axis=1)
    points = at.reshape(-1, at.shape[2])
    good = points[np.all(np.isfinite(points), axis=1)]
    if not len(good):
        return np.zeros(at.shape[2]), np.zeros(at.shape[2])
    return good.min(axis=0), good.max(axis=0)
