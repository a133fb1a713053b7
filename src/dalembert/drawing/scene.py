"""A drawing over time: each shape as points (frames, k, d), and how to draw them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.drawing.shapes import Drawn
from dalembert.numbers import described
from dalembert.tracing import seldom

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


def scene_of(problem: Any, t: Float[np.ndarray, "frames"], q: Float[np.ndarray, "frames n"]) -> Scene | None:
    """The drawing of a problem at states q; None where it has no `draw=`.

    ValueError where draw returns anything but shapes, or shapes in the plane beside shapes in space.
    """
    draw = getattr(problem, "draw", None)
    if draw is None:
        return None
    shapes = _shape_points(draw, problem, np.asarray(t, dtype=float), np.asarray(q, dtype=float))
    outlines = tuple(
        Outline(kind, _still(np.asarray(at)), face, trail)
        for (kind, face, trail), at in zip(shapes.what, shapes.points, strict=True)
    )
    return Scene(np.asarray(t, dtype=float), outlines)


class _Shapes(NamedTuple):
    """Shapes at all frames: the points of each, and what it is."""

    points: tuple
    what: tuple


@seldom
def _shape_points(draw: Callable, problem: Any, t: Any, q: Any) -> _Shapes:
    """Points of each shape over all frames; what each shape is stays behind as text."""
    kinds: list[Any] = []
    by_name = inspect.signature(draw).parameters.get("t")
    timed = by_name is not None and by_name.kind is inspect.Parameter.KEYWORD_ONLY

    def one(s, x) -> tuple:
        shapes = as_shapes(problem.called(functools.partial(draw, t=s) if timed else draw, x, t=s))
        kinds[:] = [(type(shape).__name__.lower(), shape.face, shape.leaves_trail) for shape in shapes]
        return tuple(shape.points() for shape in shapes)

    points = jax.vmap(one)(jnp.asarray(t), jnp.asarray(q))
    return _Shapes(points, tuple(kinds))


def as_shapes(found: Any) -> list[Drawn]:
    """What draw returned: one shape or several, all in the plane or all in space."""
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
