"""Elements of groups as users give and take them: matrices, unit quaternions, poses; what is none, and the nearest one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from dalembert.numbers import as_array, as_numbers, holds_tracer

DEFECT = 1e-9  # of a matrix or a quaternion that is taken for a rotation


class Pose(NamedTuple):
    """A rigid motion: the point X of the body is at R X + x.

    Attributes:
        R: the rotation, (2, 2) or (3, 3), from the body's axes to those of space.
        x: the position in space, (2,) or (3,).

    Example:
        >>> da.groups.Pose(np.eye(2), np.zeros(2)).x.tolist()
        [0.0, 0.0]
    """

    R: Any
    x: Any


class Named:
    """The parts of a position, a velocity or an acceleration by name: q.R, v.x. jnp.asarray(v) is flat, (n,)."""

    __slots__ = ("_flat", "_parts")

    def __init__(self, parts: Mapping[str, Any], flat: Callable[[], Any]):
        self._parts, self._flat = parts, flat

    def __getattr__(self, name: str) -> Any:
        try:
            return self._parts[name]
        except KeyError:
            raise AttributeError(f"{name}: is no coordinate; found {', '.join(self._parts)}") from None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __jax_array__(self) -> Any:
        return self._flat()

    def __repr__(self) -> str:
        return f"Named({', '.join(self._parts)})"


def nearest_rotation(matrix: Float[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
    """The rotation nearest to a matrix: its polar factor, of determinant 1.

    Args:
        matrix: (2, 2) or (3, 3), finite.

    Returns:
        R of the same shape.

    Raises:
        ValueError: several are equally near, as to the zero matrix or to a reflection.

    Example:
        >>> da.groups.nearest_rotation(2.0 * np.eye(3)).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return _polar_factor(np.asarray(matrix, dtype=float), "matrix")


def _polar_factor(matrix: np.ndarray, name: str) -> np.ndarray:
    u, sizes, w = np.linalg.svd(matrix)
    side = np.sign(np.linalg.det(u @ w))
    if not sizes[-2] + side * sizes[-1] > DEFECT * sizes[0]:
        raise ValueError(f"{name}: found a matrix of determinant {np.linalg.det(matrix):.3g} with no nearest rotation: "
                         "several are equally near")  # fmt: skip
    u[:, -1] *= side
    return u @ w


def rotation_of(value: Any, k: int, name: str) -> Any:
    """The unit quaternion, or (cos, sin), of a rotation matrix (…, k, k), or of itself; ValueError with its defect."""
    what = {2: "pair (cos, sin)", 3: "quaternion (w, x, y, z)"}[k]
    found = read_numbers(value, name)
    if found.shape[-2:] == (k, k):
        _check_rotation(found, name)
        return found[..., :, 0] if k == 2 else _quaternion(found)
    if found.shape[-1:] != (2 * k - 2,):
        raise ValueError(f"{name}: found shape {found.shape}; give a rotation matrix ({k}, {k}) or a unit {what}")
    return _as_unit(found, name, what.removesuffix(" (w, x, y, z)"))


def pose_of(value: Any, k: int, name: str) -> Any:
    """The stored numbers of a pair (R, x), or of themselves, flat."""
    if isinstance(value, tuple | list) and len(value) == 2:
        R, x = rotation_of(value[0], k, f"{name}.R"), read_numbers(value[1], f"{name}.x")
        if x.shape[-1:] != (k,):
            raise ValueError(f"{name}.x: found shape {x.shape}; give a position, shape ({k},)")
        return join_parts([R, x])
    m = 2 * k - 2
    found = read_numbers(value, name)
    if found.shape[-1:] != (m + k,):
        raise ValueError(f"{name}: found shape {found.shape}; give a pair (R, x), or the {m + k} stored numbers")
    return join_parts([rotation_of(found[..., :m], k, name), found[..., m:]])


def nearest_turn(value: Any, k: int, name: str) -> Any:
    found = as_numbers(value, name)
    if found.shape == (k, k):
        return _polar_factor(found, name)
    if not np.any(found):
        raise ValueError(f"{name}: found zeros, to which no rotation is the nearest")
    return found / np.linalg.norm(found)


def nearest_pose(value: Any, k: int, name: str) -> Any:
    if len(value) == 2:
        return nearest_turn(value[0], k, f"{name}.R"), value[1]
    return np.concatenate([nearest_turn(value[: 2 * k - 2], k, name), value[2 * k - 2 :]])


def distance(a: Any, b: Any) -> float:
    """|a - b| of elements as a user gives them, in the same form."""
    flat = [np.concatenate([np.ravel(part) for part in x]) for x in (a, b)]
    return float(np.linalg.norm(flat[0] - flat[1]))


def join_parts(parts: Sequence[Any]) -> Any:
    """The parts in one row, of NumPy where none is traced; each is repeated for the runs that others have."""
    xp: Any = jnp if any(isinstance(x, Tracer) for x in parts) else np
    front = np.broadcast_shapes(*(x.shape[:-1] for x in parts))
    return xp.concatenate([xp.broadcast_to(xp.asarray(x), (*front, x.shape[-1])) for x in parts], axis=-1)


def read_numbers(value: Any, name: str) -> Any:
    """An array of NumPy, or a traced one of JAX; TypeError, ValueError naming the argument."""
    return as_array(value, name) if holds_tracer(value) else as_numbers(value, name)


def _check_rotation(R: Any, name: str) -> None:
    if isinstance(R, Tracer):
        return
    defect = float(np.max(np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(R.shape[-1]))))
    if not defect <= DEFECT:
        raise ValueError(
            f"{name}: found a matrix that is no rotation, |RᵀR - 1| = {defect:.3g}; dalembert.project gives the nearest one"
        )
    if np.any(np.linalg.det(R) < 0.0):
        raise ValueError(f"{name}: found a reflection, det R = -1; a rotation has det R = 1")


def _as_unit(q: Any, name: str, what: str) -> Any:
    if isinstance(q, Tracer):
        return q
    length = np.linalg.norm(q, axis=-1, keepdims=True)
    if not np.max(np.abs(length - 1.0)) <= DEFECT:
        raise ValueError(
            f"{name}: found a {what} of length {float(np.ravel(length)[0]):.9g}; 1 is needed, and dalembert.project gives "
            "the nearest one"
        )
    return q / length


def _quaternion(R: Any) -> Any:
    """By the largest of w², x², y², z², so that nothing small is divided by; w ≥ 0."""
    xp: Any = jnp if isinstance(R, Tracer) else np
    a, b, c = (R[..., i, i] for i in range(3))
    x, y, z = R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]
    xy, xz, yz = (R[..., i, j] + R[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2)))
    rows = [
        [1.0 + a + b + c, x, y, z],
        [x, 1.0 + a - b - c, xy, xz],
        [y, xy, 1.0 - a + b - c, yz],
        [z, xz, yz, 1.0 - a - b + c],
    ]
    table = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)  # 4 q qᵀ
    largest = xp.argmax(xp.diagonal(table, axis1=-2, axis2=-1), axis=-1)
    row = xp.take_along_axis(table, largest[..., None, None], axis=-2)[..., 0, :]
    q = row / xp.sqrt(xp.sum(row * row, axis=-1, keepdims=True))
    return xp.where(q[..., :1] < 0.0, -q, q)
